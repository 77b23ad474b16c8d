"""The terms of a generation in Milvus: how many documents have each, at the version that holds.

A row keeps two numbers, that of its own version and that before. While a writer makes the next
version, readers of the one that holds find theirs in either; and a run that was cut off can be
taken up, or undone, by its numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.remote.client import MilvusServer, Row
from skillsearch.remote.head import note_row, term_row
from skillsearch.remote.packing import unpack
from skillsearch.remote.schema import RECORD, TERM, Generation
from skillsearch.remote.tally import Histograms, TermTallies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

FIELDS = ("version", "metadata", "full", "metadata_before", "full_before")
_BATCH = 2_000
"""Terms read or written at a time."""
Item = TypeVar("Item")


def term_id(term: int) -> str:
    """Return the id of a term's row, by its hash."""
    return f"{term:016x}"


def frequencies_at(row: Row, version: int) -> tuple[int, int] | None:
    """Return how many documents have a term at a version.

    Args:
        row: Its row.
        version: A version.

    Returns:
        The numbers of both lexical fields; None where the row has forgotten that version.
    """
    if row["version"] <= version:
        return int(row["metadata"]), int(row["full"])
    if row["version"] == version + 1:
        return int(row["metadata_before"]), int(row["full_before"])
    return None


def read_histograms(server: MilvusServer, generation: Generation, version: int) -> Histograms:
    """Read the histograms of a version.

    Args:
        server: The server.
        generation: The generation.
        version: The version; 0 has no terms.

    Returns:
        The histograms.

    Raises:
        CacheError: When they are missing or damaged.
        RemoteError: When the server does not answer.
    """
    if version == 0:
        return Histograms()
    rows = server.get(generation.terms, [_histograms_id(version)], ["note"])
    if not rows:
        raise CacheError("the statistics of the collection are missing")
    return Histograms.from_bytes(unpack(rows[_histograms_id(version)]["note"]))


def write_changes(
    server: MilvusServer, generation: Generation, version: int, tallies: TermTallies
) -> Histograms:
    """Write the terms of the version after one.

    Args:
        server: The server.
        generation: The generation.
        version: The version that holds.
        tallies: What the next one changes.

    Returns:
        The histograms of the next version, which are written too.

    Raises:
        CacheError: When the numbers cannot be.
        RemoteError: When the server does not answer.
    """
    hashes, changes = tallies.total()
    histograms = read_histograms(server, generation, version)
    is_untouched = not _undo_others(server, generation, version, hashes) and version == 0
    for begin in range(0, len(hashes), _BATCH):
        part = slice(begin, begin + _BATCH)
        ids = list(map(term_id, hashes[part].tolist()))
        rows = {} if is_untouched else server.get(generation.terms, ids, FIELDS)
        before = np.zeros((len(ids), 2), np.int64)
        for place, key in enumerate(ids):
            if key in rows:
                before[place] = frequencies_at(rows[key], version) or _forgotten(key)
        after = before + changes[part]
        histograms.change(before, after)
        written = [
            term_row(key, version + 1, (now[0], now[1]), (then[0], then[1]))
            for key, now, then in zip(ids, after.tolist(), before.tolist(), strict=True)
        ]
        server.insert(generation.terms, [row for row in written if row["id"] not in rows])
        server.upsert(generation.terms, [row for row in written if row["id"] in rows])
    note = note_row(_histograms_id(version + 1), RECORD, version + 1, histograms.to_bytes())
    server.upsert(generation.terms, [note])
    return histograms


def forget_before(server: MilvusServer, generation: Generation, version: int) -> None:
    """Remove what only versions before one had: their histograms, and terms that none has.

    Args:
        server: The server.
        generation: The generation.
        version: The oldest version that somebody may still read.

    Raises:
        RemoteError: When the server does not answer.
    """
    dead = f"kind == {TERM} and version <= {version} and metadata == 0 and full == 0"
    old = f'kind == {RECORD} and version < {version} and id != "head"'
    for condition in (dead, old):
        rows = [
            row["id"]
            for page in server.iterate(generation.terms, condition, ["id"], _BATCH)
            for row in page
        ]
        for ids in batches(rows, _BATCH):
            server.delete(generation.terms, ids)


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Divide items into lists of at most so many."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _undo_others(
    server: MilvusServer, generation: Generation, version: int, hashes: NDArray[np.uint64]
) -> bool:
    """Give terms that a run cut off had changed, and this does not, back theirs; tell if any."""
    condition = f"kind == {TERM} and version > {version}"
    pages = list(server.iterate(generation.terms, condition, ["id", *FIELDS], _BATCH))
    for page in pages:
        found = np.array([int(row["id"], 16) for row in page], np.uint64)
        others: Sequence[Row] = [
            row
            for row, is_ours in zip(page, np.isin(found, hashes).tolist(), strict=True)
            if not is_ours
        ]
        restored = []
        for row in others:
            numbers = frequencies_at(row, version) or _forgotten(row["id"])
            restored.append(term_row(row["id"], version, numbers, numbers))
        server.upsert(generation.terms, restored)
    return bool(pages)


def _forgotten(key: str) -> tuple[int, int]:
    """Fail: only two writers at once can have brought a row so far."""
    raise CacheError(f"the term {key} of the collection belongs to a version that is not there yet")


def _histograms_id(version: int) -> str:
    """Return the id of the row of a version's histograms."""
    return f"histograms-{version}"
