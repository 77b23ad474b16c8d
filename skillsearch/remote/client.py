"""The connection to a Milvus server; pymilvus is imported when the first one is made.

It takes a second and 130 MB, and is an extra. Whatever goes wrong behind this module is a
`RemoteError` that names the server without the secrets of its address.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from skillsearch.environ import Variables
from skillsearch.errors import MissingDependencyError, RemoteError
from skillsearch.remote.address import secrets_of
from skillsearch.roots.sources import shown
from skillsearch.text.safe_text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]
"""The fields of one entity by name."""
Answer = TypeVar("Answer")

STRONG = "Strong"
"""Consistency of every read: it sees all that was written before it."""
_MISSING = 100
"""Milvus's code for a collection that is not there."""
_RELEASED = 101
"""Milvus's code for a collection that is not loaded: somebody released it, or milvus-lite, which
forgets it, was started anew."""
_CONNECT_SECONDS = 10.0
_KEEPALIVE_MS = 300_000
"""A server that was not told otherwise hangs up on who pings it more often, as pymilvus does."""
_READ_SECONDS = 60.0
_WRITE_SECONDS = 300.0
_MAX_MESSAGE = 400


class CollectionMissingError(RemoteError):
    """A collection or alias is not there, or not there any more."""


class MilvusServer:
    """One connection, and the few things that are asked of it."""

    def __init__(self, uri: str, token: str = "") -> None:
        """Connect.

        Args:
            uri: Address of the server, such as ``http://127.0.0.1:19530``; it may hold a user and
                password, and the name of a database as its path.
            token: ``user:password`` or an API key; empty for that of the address, or none.

        Raises:
            ConfigError: When the address cannot be one.
            MissingDependencyError: When pymilvus is not installed.
            RemoteError: When no server answers there.
        """
        user, password = secrets_of(uri)
        self.shown = shown(uri)
        self._secrets = [one for one in (token, *token.split(":", 1)[1:], password) if one]
        self._secrets += [user] if user and not password else []
        self.library = _library()
        self._client = self._ask(
            "connect",
            lambda: self.library.MilvusClient(
                uri=uri,
                token=token,
                timeout=_CONNECT_SECONDS,
                dedicated=True,
                grpc_options={"grpc.keepalive_time_ms": _KEEPALIVE_MS},
            ),
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def collections(self) -> list[str]:
        """Return the names of all collections, aliases left out."""
        found = self._ask(
            "list collections", lambda: self._client.list_collections(timeout=_READ_SECONDS)
        )
        return list(found)

    def target(self, alias: str) -> str | None:
        """Return the collection that an alias stands for, None where there is no such alias."""
        is_there = self._ask(
            "look for the alias",
            lambda: self._client.has_collection(alias, timeout=_READ_SECONDS),
        )
        if not is_there:
            return None
        found = self._ask(
            "read the alias", lambda: self._client.describe_alias(alias, timeout=_READ_SECONDS)
        )
        return str(found["collection_name"])

    def point(self, alias: str, collection: str, *, is_new: bool) -> None:
        """Have an alias stand for a collection from now on, for every reader at once."""
        call = self._client.create_alias if is_new else self._client.alter_alias
        self._ask("switch the alias", lambda: call(collection, alias, timeout=_WRITE_SECONDS))

    def create(self, name: str, schema: Any, indexes: Any) -> None:
        """Create a collection and load it."""
        client = self._client

        def call() -> None:
            """Create it; an index of nothing is ready at once, and need not be waited for."""
            client.create_collection(
                name, schema=schema, consistency_level=STRONG, timeout=_WRITE_SECONDS
            )
            client.create_index(name, indexes, sync=False, timeout=_WRITE_SECONDS)
            client.load_collection(name, timeout=_WRITE_SECONDS)

        self._ask(f"create the collection {name!r}", call)

    def drop(self, name: str) -> None:
        """Remove a collection."""
        self._ask(
            f"drop the collection {name!r}",
            lambda: self._client.drop_collection(name, timeout=_WRITE_SECONDS),
        )

    def flush(self, name: str) -> None:
        """Have the server index what was written, which makes it faster to search."""
        self._ask("flush", lambda: self._client.flush(name, timeout=_WRITE_SECONDS))

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Add rows whose ids are new."""
        if rows:
            self._ask(
                "insert", lambda: self._client.insert(name, list(rows), timeout=_WRITE_SECONDS)
            )

    def upsert(self, name: str, rows: Sequence[Row], *, partial: bool = False) -> None:
        """Replace rows by id, each at once; with `partial` only the fields that are given."""
        if not rows:
            return
        self._ask(
            "upsert",
            lambda: self._client.upsert(
                name, list(rows), partial_update=partial, timeout=_WRITE_SECONDS
            ),
        )

    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove rows by id."""
        if ids:
            self._ask(
                "delete",
                lambda: self._client.delete(name, ids=list(ids), timeout=_WRITE_SECONDS),
            )

    def get(self, name: str, ids: Sequence[str], fields: Sequence[str]) -> dict[str, Row]:
        """Read rows by id, all as they were at one moment; those that are not there are left out.

        Args:
            name: A collection or alias.
            ids: Their ids.
            fields: Names of the fields to read.

        Returns:
            The rows by id.
        """
        if not ids:
            return {}
        rows = self._read(
            name,
            "read",
            lambda: self._client.get(
                name, ids=list(ids), output_fields=list(fields), timeout=_READ_SECONDS
            ),
        )
        return {str(row["id"]): dict(row) for row in rows}

    def query(self, name: str, condition: str, fields: Sequence[str], limit: int) -> list[Row]:
        """Read rows that fit a condition, in no order."""
        rows = self._read(
            name,
            "read",
            lambda: self._client.query(
                name,
                filter=condition,
                output_fields=list(fields),
                limit=limit,
                timeout=_READ_SECONDS,
            ),
        )
        return [dict(row) for row in rows]

    def iterate(
        self, name: str, condition: str, fields: Sequence[str], batch: int
    ) -> Iterator[list[Row]]:
        """Read all rows that fit a condition, batch by batch."""
        pages = self._read(
            name,
            "read",
            lambda: self._client.query_iterator(
                name,
                batch_size=batch,
                filter=condition,
                output_fields=list(fields),
                timeout=_READ_SECONDS,
            ),
        )
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
        """Return the union of what is nearest to a query in each of some vector fields.

        Args:
            name: The collection.
            queries: For each field, the metric and the vector, or the text of a BM25 field.
            condition: A filter that all rows fit.
            limit: How many rows of each field.
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
            name,
            "search",
            lambda: self._client.hybrid_search(
                name,
                reqs=requests,
                ranker=self.library.RRFRanker(),
                limit=limit * len(requests),
                output_fields=list(fields),
                timeout=_READ_SECONDS,
            ),
        )
        return [{"id": hit["id"], **hit["entity"]} for hit in found[0]]

    def _read(self, name: str, doing: str, call: Callable[[], Answer]) -> Answer:
        """Read from a collection, which is loaded first where it is not."""
        try:
            return self._ask(doing, call)
        except RemoteError as exc:
            if getattr(exc.__cause__, "code", None) != _RELEASED:
                raise
        self._ask("load", lambda: self._client.load_collection(name, timeout=_WRITE_SECONDS))
        return self._ask(doing, call)

    def _ask(self, doing: str, call: Callable[[], Answer]) -> Answer:
        """Do something on the server and put every fault of it into our words."""
        try:
            return call()
        except Exception as exc:  # pymilvus lets through grpc's errors, its own and Python's
            reason = one_line(str(getattr(exc, "message", "") or exc), _MAX_MESSAGE)
            for secret in self._secrets:
                reason = reason.replace(secret, "***")
            kind = RemoteError
            hint = "Check that the server runs, and --uri."
            if getattr(exc, "code", None) == _MISSING:
                kind, hint = CollectionMissingError, "Make it: skillsearch index --backend milvus."
            raise kind(f"Milvus at {self.shown} did not {doing}: {reason}. {hint}") from exc


def _library() -> Any:
    """Import pymilvus, quietly and without the .env file of a project that it is installed in."""
    try:
        with Variables(PYTHON_DOTENV_DISABLED="1"):
            import pymilvus
    except ImportError as exc:
        raise MissingDependencyError("pymilvus", "milvus", "An index in Milvus") from exc
    for name in ("pymilvus", "pymilvus.milvus_client"):
        # It logs every error with its traceback, also those that we expect and answer.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus
