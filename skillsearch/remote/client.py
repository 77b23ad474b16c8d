"""The connection to a Milvus server; a failure is a `RemoteError` without the address's secrets.

pymilvus, an extra, is imported with the first connection: that takes a second and 130 MB.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
)
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
    "id", "root", "key", "state", "skill", "examples", "since", "until", "name_key",
    "hidden", "shadowed", "record", "counts", "chunks", "content",
    "terms_metadata", "terms_full", "dense_metadata", "dense_examples",
    # of a term
    "kind", "version", "metadata", "full", "metadata_before", "full_before", "note", "nothing",
]  # fmt: skip
MilvusRow = dict[Field, Any]
"""The fields of one entity by name."""
_Answer = TypeVar("_Answer")
Item = TypeVar("Item")
_P = ParamSpec("_P")

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


class _Pages(Protocol):
    """What reads rows batch by batch."""

    def next(self) -> list[MilvusRow]: ...
    def close(self) -> None: ...


class _Returned(TypedDict):
    """Which fields a read returns, and how long it may take."""

    output_fields: list[Field]
    timeout: float


class _Filtered(_Returned):
    """The same for a read of the rows that meet a condition."""

    filter: str


class _Client(Protocol):
    """What we call of `pymilvus.MilvusClient`, which would take any misspelt keyword."""

    def close(self) -> None: ...
    def list_collections(self, *, timeout: float) -> list[str]: ...
    def has_collection(self, collection_name: str, *, timeout: float) -> bool: ...
    def describe_alias(self, alias: str, *, timeout: float) -> dict[str, str]: ...
    def create_alias(self, collection_name: str, alias: str, *, timeout: float) -> None: ...
    def alter_alias(self, collection_name: str, alias: str, *, timeout: float) -> None: ...
    def load_collection(self, collection_name: str, *, timeout: float) -> None: ...
    def drop_collection(self, collection_name: str, *, timeout: float) -> None: ...
    def flush(self, collection_name: str, *, timeout: float) -> None: ...
    def insert(self, collection_name: str, data: list[MilvusRow], *, timeout: float) -> object: ...
    def delete(self, collection_name: str, *, ids: list[str], timeout: float) -> object: ...
    def upsert(
        self, collection_name: str, data: list[MilvusRow], *, partial_update: bool, timeout: float
    ) -> object: ...
    def create_collection(
        self, name: str, /, *, schema: CollectionSchema, consistency_level: str, timeout: float
    ) -> None: ...
    def create_index(
        self, name: str, index_params: IndexParams, /, *, sync: bool, timeout: float
    ) -> None: ...
    def get(self, name: str, /, *, ids: list[str], **how: Unpack[_Returned]) -> list[MilvusRow]: ...
    def query(self, name: str, /, *, limit: int, **how: Unpack[_Filtered]) -> list[MilvusRow]: ...
    def query_iterator(
        self, name: str, /, *, batch_size: int, **how: Unpack[_Filtered]
    ) -> _Pages: ...
    def hybrid_search(
        self, name: str, reqs: list[Any], ranker: Any, /, *, limit: int, **how: Unpack[_Returned]
    ) -> list[list[dict[str, Any]]]: ...


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
        self._client = self._ask("connect", self._connected, uri, token)

    def _connected(self, uri: str, token: str) -> _Client:
        pings = {"grpc.keepalive_time_ms": _KEEPALIVE_MS}
        options = {"timeout": _CONNECT_SECONDS, "dedicated": True, "grpc_options": pings}
        client: _Client = self.library.MilvusClient(uri, token=token, **options)
        return client

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def collections(self) -> list[str]:
        """Return the names of all collections, without aliases."""
        return self._ask("list collections", self._client.list_collections, timeout=_READ_SECONDS)

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
        self._ask("switch the alias", call, collection, alias, timeout=_WRITE_SECONDS)

    def create(self, name: str, schema: CollectionSchema, indexes: IndexParams) -> None:
        """Create a collection and load it."""
        self._ask(f"create the collection {name!r}", self._create, name, schema, indexes)

    def _create(self, name: str, schema: CollectionSchema, indexes: IndexParams) -> None:
        client, seconds = self._client, _WRITE_SECONDS
        client.create_collection(name, schema=schema, consistency_level=_STRONG, timeout=seconds)
        # The index of an empty collection is ready at once and need not be waited for.
        client.create_index(name, indexes, sync=False, timeout=seconds)
        client.load_collection(name, timeout=seconds)

    def drop(self, name: str) -> None:
        """Remove a collection."""
        drop = self._client.drop_collection
        self._ask(f"drop the collection {name!r}", drop, name, timeout=_WRITE_SECONDS)

    def flush(self, name: str) -> None:
        """Have the server index the written rows, which makes them faster to search."""
        self._ask("flush", self._client.flush, name, timeout=_WRITE_SECONDS)

    def insert(self, name: str, rows: Sequence[MilvusRow]) -> None:
        """Add rows whose ids are new."""
        if rows:
            self._ask("insert", self._client.insert, name, list(rows), timeout=_WRITE_SECONDS)

    def upsert(self, name: str, rows: Sequence[MilvusRow], *, partial: bool = False) -> None:
        """Replace rows by id, each atomically; with `partial` only the given fields."""
        call, seconds = self._client.upsert, _WRITE_SECONDS
        if rows:
            self._ask("upsert", call, name, list(rows), partial_update=partial, timeout=seconds)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove rows by id."""
        if ids:
            self._ask("delete", self._client.delete, name, ids=list(ids), timeout=_WRITE_SECONDS)

    def get(self, name: str, ids: Sequence[str], fields: Sequence[Field]) -> dict[str, MilvusRow]:
        """Read rows of a collection or alias by id, all as of one moment, without missing ones."""
        if not ids:
            return {}
        rows = self._read("read", self._client.get, name, ids=list(ids), **_returned(fields))
        return {str(row["id"]): dict(row) for row in rows}

    def query(
        self, name: str, condition: str, fields: Sequence[Field], limit: int
    ) -> list[MilvusRow]:
        """Read rows that meet a condition, in no order."""
        how: _Filtered = {**_returned(fields), "filter": condition}
        return list(map(dict, self._read("read", self._client.query, name, limit=limit, **how)))

    def iterate(
        self, name: str, condition: str, fields: Sequence[Field], batch: int
    ) -> Iterator[list[MilvusRow]]:
        """Read all rows that meet a condition, in batches."""
        how: _Filtered = {**_returned(fields), "filter": condition}
        pages = self._read("read", self._client.query_iterator, name, batch_size=batch, **how)
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
    ) -> list[MilvusRow]:
        """Return the rows nearest to a query in any of some vector fields, each row once.

        `queries` gives the metric and the vector, or the text, by field; the `limit` is for each.
        """
        requests = [
            self.library.AnnSearchRequest([data], field, {"metric_type": metric}, limit, condition)
            for field, (metric, data) in queries.items()
        ]
        call, how, most = self._client.hybrid_search, _returned(fields), limit * len(requests)
        ranker = self.library.RRFRanker()
        results = self._read("search", call, name, requests, ranker, limit=most, **how)
        return [{"id": hit["id"], **hit["entity"]} for hit in results[0]]

    def _read(
        self,
        doing: str,
        call: Callable[Concatenate[str, _P], _Answer],
        name: str,
        *args: _P.args,
        **options: _P.kwargs,
    ) -> _Answer:
        """Read from a collection, after loading it if necessary."""
        try:
            return self._ask(doing, call, name, *args, **options)
        except RemoteError as exc:
            if getattr(exc.__cause__, "code", None) != _RELEASED:
                raise
        self._ask("load", self._client.load_collection, name, timeout=_WRITE_SECONDS)
        return self._ask(doing, call, name, *args, **options)

    def _ask(
        self, doing: str, call: Callable[_P, _Answer], *args: _P.args, **options: _P.kwargs
    ) -> _Answer:
        """Make a request, and turn every failure into a `RemoteError`."""
        # pymilvus lets through grpc's errors, its own and Python's.
        with translated(partial(self._failure, doing)):
            return call(*args, **options)

    def _failure(self, doing: str, error: Exception) -> RemoteError:
        reason = one_line(str(getattr(error, "message", "") or error), _MAX_MESSAGE)
        for secret in self._secrets:
            reason = reason.replace(secret, "***")
        problem = f"Milvus at {self.shown} could not {doing}: {reason}."
        if getattr(error, "code", None) == _MISSING:
            hint = "To create it: run `skillsearch index --backend milvus`."
            return CollectionMissingError(f"{problem} {hint}")
        return RemoteError(f"{problem} Check that the server is running, and --uri.")


def _returned(fields: Sequence[Field]) -> _Returned:
    return {"output_fields": list(fields), "timeout": _READ_SECONDS}


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Divide items into lists of at most `size`: the messages of Milvus are limited."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def import_pymilvus() -> Any:
    """Import pymilvus, quietly and without the .env file of a surrounding project."""
    without_file = Variables({"PYTHON_DOTENV_DISABLED": "1"})
    with importing("pymilvus", "milvus", "An index in Milvus"), without_file:
        import pymilvus
    for name in ("pymilvus", "pymilvus.milvus_client"):
        # It logs every error with its traceback, even those that we expect and handle.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus
