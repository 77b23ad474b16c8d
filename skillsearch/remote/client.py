"""The connection to a Milvus server; a failure is a `RemoteError` without the address's secrets.

pymilvus, an extra, is imported with the first connection: that takes a second and 130 MB.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from skillsearch.errors import (
    CollectionMissingError,
    ConfigError,
    RemoteError,
    importing,
    translated,
)
from skillsearch.roots.sources import shown
from skillsearch.settings.environ import Variables
from skillsearch.text.safe_text import one_line

if TYPE_CHECKING:
    from pymilvus import CollectionSchema as CollectionSchema
    from pymilvus import DataType as DataType
    from pymilvus.milvus_client import IndexParams as IndexParams

Field = Literal[
    # of a document
    "id",
    "root",
    "key",
    "state",
    "skill",
    "examples",
    "since",
    "until",
    "name_key",
    "hidden",
    "shadowed",
    "record",
    "counts",
    "chunks",
    "content",
    "terms_metadata",
    "terms_full",
    "dense_metadata",
    "dense_examples",
    # of a term
    "kind",
    "version",
    "metadata",
    "full",
    "metadata_before",
    "full_before",
    "note",
    "nothing",
]
Row = dict[Field, Any]
"""The fields of one entity by name."""
Answer = TypeVar("Answer")
Item = TypeVar("Item")

_SCHEMES = ("http", "https", "tcp")
_STRONG = "Strong"  # consistency of reads: each sees all earlier writes
_MISSING = 100  # Milvus's error code for a missing collection
_RELEASED = 101  # and for one that is not loaded, as after a restart of milvus-lite, which forgets
_CONNECT_SECONDS = 10.0
_KEEPALIVE_MS = 300_000
"""By default, a server disconnects clients that ping more often, and pymilvus does."""
_READ_SECONDS = 60.0
_WRITE_SECONDS = 300.0
_MAX_MESSAGE = 400


class MilvusServer:
    """One connection, and the few requests that we make; they raise `RemoteError` if they fail."""

    def __init__(self, uri: str, token: str = "") -> None:
        """Connect to an address; it may contain a user and password, and a database as its path.

        The token is ``user:password`` or an API key, or empty. A bad address is a ConfigError.
        """
        try:
            parts = urlsplit(uri)
            is_valid = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid:
            raise ConfigError(
                "The address of Milvus is invalid; write it like --uri http://127.0.0.1:19530 "
                "(http, https or tcp)."
            )
        user, password = parts.username or "", parts.password or ""
        self.shown = shown(uri)
        self._secrets = [secret for secret in (token, *token.split(":", 1)[1:], password) if secret]
        self._secrets += [user] if user and not password else []
        self.library = import_pymilvus()
        options = {"uri": uri, "token": token, "timeout": _CONNECT_SECONDS, "dedicated": True}
        pings = {"grpc.keepalive_time_ms": _KEEPALIVE_MS}
        connect = self.library.MilvusClient
        self._client = self._ask("connect", connect, grpc_options=pings, **options)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def collections(self) -> list[str]:
        """Return the names of all collections, without aliases."""
        names = self._ask("list collections", self._client.list_collections, timeout=_READ_SECONDS)
        return list(names)

    def target(self, alias: str) -> str | None:
        """Return the collection that an alias points to; None if there is no such alias."""
        has_it, describe = self._client.has_collection, self._client.describe_alias
        if not self._ask("look for the alias", has_it, alias, timeout=_READ_SECONDS):
            return None
        description = self._ask("read the alias", describe, alias, timeout=_READ_SECONDS)
        return str(description["collection_name"])

    def point(self, alias: str, collection: str, *, is_new: bool) -> None:
        """Point an alias to a collection, for every reader at once."""
        call = self._client.create_alias if is_new else self._client.alter_alias
        self._write("switch the alias", call, collection, alias)

    def create(self, name: str, schema: CollectionSchema, indexes: IndexParams) -> None:
        """Create a collection and load it."""
        client, doing = self._client, f"create the collection {name!r}"
        self._write(doing, client.create_collection, name, schema=schema, consistency_level=_STRONG)
        # The index of an empty collection is ready at once and need not be waited for.
        self._write(doing, client.create_index, name, indexes, sync=False)
        self._write(doing, client.load_collection, name)

    def drop(self, name: str) -> None:
        """Remove a collection."""
        self._write(f"drop the collection {name!r}", self._client.drop_collection, name)

    def flush(self, name: str) -> None:
        """Have the server index what was written, which makes it faster to search."""
        self._write("flush", self._client.flush, name)

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Add rows whose ids are new."""
        if rows:
            self._write("insert", self._client.insert, name, list(rows))

    def upsert(self, name: str, rows: Sequence[Row], *, partial: bool = False) -> None:
        """Replace rows by id, each atomically; with `partial` only the given fields."""
        if rows:
            self._write("upsert", self._client.upsert, name, list(rows), partial_update=partial)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove rows by id."""
        if ids:
            self._write("delete", self._client.delete, name, ids=list(ids))

    def get(self, name: str, ids: Sequence[str], fields: Sequence[Field]) -> dict[str, Row]:
        """Read rows of a collection or alias by id, all as of one moment, without missing ones."""
        if not ids:
            return {}
        call = self._client.get
        rows = self._read("read", name, call, ids=list(ids), output_fields=list(fields))
        return {str(row["id"]): dict(row) for row in rows}

    def query(self, name: str, condition: str, fields: Sequence[Field], limit: int) -> list[Row]:
        """Read rows that meet a condition, in no order."""
        options = {"filter": condition, "output_fields": list(fields), "limit": limit}
        return [dict(row) for row in self._read("read", name, self._client.query, **options)]

    def iterate(
        self, name: str, condition: str, fields: Sequence[Field], batch: int
    ) -> Iterator[list[Row]]:
        """Read all rows that meet a condition, in batches."""
        options = {"filter": condition, "output_fields": list(fields), "batch_size": batch}
        pages = self._read("read", name, self._client.query_iterator, **options)
        try:
            while page := self._ask("read", pages.next):
                yield [dict(row) for row in page]
        finally:
            pages.close()

    def nearest(
        self,
        name: str,
        queries: Mapping[str, tuple[str, object]],
        condition: str,
        limit: int,
        fields: Sequence[Field],
    ) -> list[Row]:
        """Return the rows nearest to a query in any of some vector fields, each row once.

        `queries` gives the metric and the vector, or the text, by field; the `limit` is for each.
        """
        requests = [
            self.library.AnnSearchRequest([data], field, {"metric_type": metric}, limit, condition)
            for field, (metric, data) in queries.items()
        ]
        options = {"ranker": self.library.RRFRanker(), "limit": limit * len(requests)}
        search, wanted = self._client.hybrid_search, list(fields)
        results = self._read("search", name, search, reqs=requests, output_fields=wanted, **options)
        return [{"id": hit["id"], **hit["entity"]} for hit in results[0]]

    def _read(
        self, doing: str, name: str, call: Callable[..., Answer], **options: object
    ) -> Answer:
        """Read from a collection, after loading it if necessary."""
        try:
            return self._ask(doing, call, name, timeout=_READ_SECONDS, **options)
        except RemoteError as exc:
            if getattr(exc.__cause__, "code", None) != _RELEASED:
                raise
        self._write("load", self._client.load_collection, name)
        return self._ask(doing, call, name, timeout=_READ_SECONDS, **options)

    def _write(
        self, doing: str, call: Callable[..., object], *args: object, **options: object
    ) -> None:
        self._ask(doing, call, *args, timeout=_WRITE_SECONDS, **options)

    def _ask(
        self, doing: str, call: Callable[..., Answer], *args: object, **options: object
    ) -> Answer:
        """Make a request, and turn every failure into a `RemoteError`."""
        # pymilvus lets through grpc's errors, its own and Python's.
        with translated(partial(self._failure, doing)):
            return call(*args, **options)

    def _failure(self, doing: str, error: Exception) -> RemoteError:
        reason = one_line(str(getattr(error, "message", "") or error), _MAX_MESSAGE)
        for secret in self._secrets:
            reason = reason.replace(secret, "***")
        kind, hint = RemoteError, "Check that the server is running, and --uri."
        if getattr(error, "code", None) == _MISSING:
            kind = CollectionMissingError
            hint = "To create it: run `skillsearch index --backend milvus`."
        return kind(f"Milvus at {self.shown} could not {doing}: {reason}. {hint}")


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Divide items into lists of at most `size`: the messages of Milvus are limited."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def import_pymilvus() -> Any:
    """Import pymilvus, quietly and without the .env file of a surrounding project."""
    without_file = Variables(PYTHON_DOTENV_DISABLED="1")
    with importing("pymilvus", "milvus", "An index in Milvus"), without_file:
        import pymilvus
    for name in ("pymilvus", "pymilvus.milvus_client"):
        # It logs every error with its traceback, even those that we expect and handle.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus
