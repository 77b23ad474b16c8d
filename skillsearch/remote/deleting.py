"""Documents out of an index in Milvus, without a look at any disk."""

from __future__ import annotations

from collections.abc import Collection

from skillsearch.errors import IndexNotFoundError
from skillsearch.remote.claims import Claim
from skillsearch.remote.client import MilvusServer
from skillsearch.remote.generations import find_current, read_head
from skillsearch.remote.row_writer import RowWriter
from skillsearch.remote.rows import key_of
from skillsearch.remote.vocabulary import batches

_BATCH = 500


def delete(server: MilvusServer, alias: str, doc_ids: Collection[str]) -> int:
    """Remove documents.

    Args:
        server: The server.
        alias: The name of the index.
        doc_ids: Ids of documents; unknown ones are left out.

    Returns:
        How many were removed.

    Raises:
        IndexNotFoundError: When there is no index that can be used.
        LockTimeoutError: When another process is writing.
        RemoteError: When the server does not answer.
    """
    current = find_current(server, alias)
    missing = IndexNotFoundError(f"There is no usable index {alias!r} in Milvus at {server.shown}.")
    if current is None:
        raise missing
    generation = current.generation
    with Claim(server, generation) as claim:
        head = read_head(server, generation)
        if head is None or find_current(server, alias) is None:
            raise missing
        writer = RowWriter(server, generation, head, (), claim)
        ending = f"until == {head.version + 1}"
        for condition, act in (
            (f"since > {head.version}", writer.discard),
            (ending, writer.restore),
            (f"until < {head.version}", writer.discard),
        ):
            for page in list(server.iterate(generation.documents, condition, ["id"], _BATCH)):
                act([row["id"] for row in page])
        found: list[str] = []
        for keys in batches(sorted(set(map(key_of, doc_ids))), _BATCH):
            wanted = ", ".join(f'"{key}"' for key in keys)
            condition = f"key in [{wanted}] and {head.condition}"
            rows = server.query(generation.documents, condition, ["id"], len(keys))
            found += [row["id"] for row in rows]
        if found:
            writer.retire(found)
            writer.finish(head.settings, head.skipped)
        return len(found)
