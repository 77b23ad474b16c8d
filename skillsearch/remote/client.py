"""The connection to a Milvus server.

pymilvus, an extra, is imported with the first connection: that takes a second and 130 MB. Every
failure becomes a `RemoteError` that names the server without the secrets of its address.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import urlsplit

from skillsearch.environ import Variables
from skillsearch.errors import ConfigError, MissingDependencyError, RemoteError
from skillsearch.roots.sources import shown
from skillsearch.text.safe_text import one_line

Row = dict[str, Any]
"""The fields of one entity by name."""
Answer = TypeVar("Answer")
Item = TypeVar("Item")

COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
"""Names that Milvus accepts, even with our suffixes."""
_SCHEMES = ("http", "https", "tcp")
_STRONG = "Strong"
"""Consistency of reads: each sees all earlier writes."""
_MISSING = 100
"""Milvus's error code for a missing collection."""
_RELEASED = 101
"""Milvus's error code for a collection that is not loaded: it was released, or milvus-lite, which
forgets, was restarted."""
_CONNECT_SECONDS = 10.0
_KEEPALIVE_MS = 300_000
"""By default, a server disconnects clients that ping more often, and pymilvus does."""
_READ_SECONDS = 60.0
_WRITE_SECONDS = 300.0
_MAX_MESSAGE = 400


class CollectionMissingError(RemoteError):
    """A collection or alias does not exist, or no longer does."""


class MilvusServer:
    """One connection, and the few requests that we make.

    All methods raise `RemoteError` if the server does not answer or refuses.
    """

    def __init__(self, uri: str, token: str = "") -> None:
        """Connect.

        Args:
            uri: Address of the server, such as ``http://127.0.0.1:19530``; it may contain a user
                and password, and the name of a database as its path.
            token: ``user:password`` or an API key; empty to use the address alone.

        Raises:
            ConfigError: When the address is invalid.
            MissingDependencyError: When pymilvus is not installed.
            RemoteError: When no server answers.
        """
        user, password = _credentials(uri)
        self.shown = shown(uri)
        self._secrets = [one for one in (token, *token.split(":", 1)[1:], password) if one]
        self._secrets += [user] if user and not password else []
        self.library = _library()
        self._client = self._ask(
            "connect",
            self.library.MilvusClient,
            uri=uri,
            token=token,
            timeout=_CONNECT_SECONDS,
            dedicated=True,
            grpc_options={"grpc.keepalive_time_ms": _KEEPALIVE_MS},
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def collections(self) -> list[str]:
        """Return the names of all collections, without aliases."""
        call = self._client.list_collections
        return list(self._ask("list collections", call, timeout=_READ_SECONDS))

    def target(self, alias: str) -> str | None:
        """Return the collection that an alias points to; None if there is no such alias."""
        has_it, describe = self._client.has_collection, self._client.describe_alias
        if not self._ask("look for the alias", has_it, alias, timeout=_READ_SECONDS):
            return None
        found = self._ask("read the alias", describe, alias, timeout=_READ_SECONDS)
        return str(found["collection_name"])

    def point(self, alias: str, collection: str, *, is_new: bool) -> None:
        """Point an alias to a collection, for every reader at once."""
        call = self._client.create_alias if is_new else self._client.alter_alias
        self._ask("switch the alias", call, collection, alias, timeout=_WRITE_SECONDS)

    def create(self, name: str, schema: Any, indexes: Any) -> None:
        """Create a collection and load it."""
        client, doing = self._client, f"create the collection {name!r}"
        options = {"schema": schema, "consistency_level": _STRONG, "timeout": _WRITE_SECONDS}
        self._ask(doing, client.create_collection, name, **options)
        # The index of an empty collection is ready at once and need not be waited for.
        self._ask(doing, client.create_index, name, indexes, sync=False, timeout=_WRITE_SECONDS)
        self._ask(doing, client.load_collection, name, timeout=_WRITE_SECONDS)

    def drop(self, name: str) -> None:
        """Remove a collection."""
        call = self._client.drop_collection
        self._ask(f"drop the collection {name!r}", call, name, timeout=_WRITE_SECONDS)

    def flush(self, name: str) -> None:
        """Have the server index what was written, which makes it faster to search."""
        self._ask("flush", self._client.flush, name, timeout=_WRITE_SECONDS)

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Add rows whose ids are new."""
        if rows:
            self._ask("insert", self._client.insert, name, list(rows), timeout=_WRITE_SECONDS)

    def upsert(self, name: str, rows: Sequence[Row], *, partial: bool = False) -> None:
        """Replace rows by id, each atomically; with `partial` only the given fields."""
        if rows:
            options = {"partial_update": partial, "timeout": _WRITE_SECONDS}
            self._ask("upsert", self._client.upsert, name, list(rows), **options)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove rows by id."""
        if ids:
            self._ask("delete", self._client.delete, name, ids=list(ids), timeout=_WRITE_SECONDS)

    def get(self, name: str, ids: Sequence[str], fields: Sequence[str]) -> dict[str, Row]:
        """Read rows of a collection or alias by id, all as of one moment, without missing ones."""
        if not ids:
            return {}
        call = self._client.get
        rows = self._read("read", name, call, ids=list(ids), output_fields=list(fields))
        return {str(row["id"]): dict(row) for row in rows}

    def query(self, name: str, condition: str, fields: Sequence[str], limit: int) -> list[Row]:
        """Read rows that meet a condition, in no order."""
        options = {"filter": condition, "output_fields": list(fields), "limit": limit}
        return [dict(row) for row in self._read("read", name, self._client.query, **options)]

    def iterate(
        self, name: str, condition: str, fields: Sequence[str], batch: int
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
        fields: Sequence[str],
    ) -> list[Row]:
        """Return the union of the rows nearest to a query in each of some vector fields.

        Args:
            name: The collection.
            queries: By field, the metric and the vector, or the text for a BM25 field.
            condition: A filter for all rows.
            limit: Rows for each field.
            fields: Names of the fields to read.

        Returns:
            The rows, each once, in no order.
        """
        requests = [
            self.library.AnnSearchRequest(
                data=[data],
                anns_field=field,
                param={"metric_type": metric},
                limit=limit,
                expr=condition,
            )
            for field, (metric, data) in queries.items()
        ]
        found = self._read(
            "search",
            name,
            self._client.hybrid_search,
            reqs=requests,
            ranker=self.library.RRFRanker(),
            limit=limit * len(requests),
            output_fields=list(fields),
        )
        return [{"id": hit["id"], **hit["entity"]} for hit in found[0]]

    def _read(
        self, doing: str, name: str, call: Callable[..., Answer], **options: object
    ) -> Answer:
        """Read from a collection, after loading it if necessary."""
        try:
            return self._ask(doing, call, name, timeout=_READ_SECONDS, **options)
        except RemoteError as exc:
            if getattr(exc.__cause__, "code", None) != _RELEASED:
                raise
        self._ask("load", self._client.load_collection, name, timeout=_WRITE_SECONDS)
        return self._ask(doing, call, name, timeout=_READ_SECONDS, **options)

    def _ask(
        self, doing: str, call: Callable[..., Answer], *args: object, **options: object
    ) -> Answer:
        """Make a request, and turn every failure into a `RemoteError`."""
        try:
            return call(*args, **options)
        except Exception as exc:  # pymilvus lets through grpc's errors, its own and Python's
            reason = one_line(str(getattr(exc, "message", "") or exc), _MAX_MESSAGE)
            for secret in self._secrets:
                reason = reason.replace(secret, "***")
            kind, hint = RemoteError, "Check that the server is running, and --uri."
            if getattr(exc, "code", None) == _MISSING:
                kind = CollectionMissingError
                hint = "To create it: run `skillsearch index --backend milvus`."
            raise kind(f"Milvus at {self.shown} could not {doing}: {reason}. {hint}") from exc


def check_collection(name: str) -> None:
    """Raise `ConfigError` unless Milvus could have an index of this name."""
    if not COLLECTION.fullmatch(name):
        raise ConfigError(
            f"The collection name {one_line(name, 80)!r} is invalid; use at most 200 letters, "
            "digits and underscores, and do not start with a digit."
        )


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Divide items into lists of at most `size`: the messages of Milvus are limited."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _credentials(uri: str) -> tuple[str, str]:
    """Return user and password of an address, empty if it has none."""
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
    return parts.username or "", parts.password or ""


def _library() -> Any:
    """Import pymilvus, quietly and without the .env file of a surrounding project."""
    try:
        with Variables(PYTHON_DOTENV_DISABLED="1"):
            import pymilvus
    except ImportError as exc:
        raise MissingDependencyError("pymilvus", "milvus", "An index in Milvus") from exc
    for name in ("pymilvus", "pymilvus.milvus_client"):
        # It logs every error with its traceback, even those that we expect and handle.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus
