"""Document frequencies of the terms of a generation, exact at the current version.

The row of a term has two numbers for each lexical field, at its version and at the one before.
While a writer makes the next version, readers of the current one find theirs in either; and an
interrupted run can be resumed, or undone, from the numbers alone.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.remote.client import MilvusServer, Row, batches
from skillsearch.remote.rows import CountedTerms, checked, pack, unpack
from skillsearch.remote.schema import HEAD, LEXICAL, RECORD, TERM, Generation, note_row, term_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

FREQUENCIES = ("version", "metadata", "full", "metadata_before", "full_before")
"""The fields of a row that `frequencies_at` needs."""
_BATCH = 2_000
_COMPACT_AT = 1 << 21
"""Entries above which equal terms are added up, so that memory follows the vocabulary."""


class TermTallies:
    """Adds up by how many documents each term's frequency changes, by lexical field."""

    def __init__(self, compact_at: int = _COMPACT_AT) -> None:
        """Start empty."""
        self._hashes: list[NDArray[np.uint64]] = []
        self._changes: list[NDArray[np.int64]] = []
        self._held = 0
        self._compact_at = self._limit = compact_at

    def add(self, counted: CountedTerms, sign: int) -> None:
        """Count a document that is added (sign 1) or removed (sign -1)."""
        occurs = np.stack([counted.metadata > 0, counted.full > 0], axis=1)
        self._hashes.append(counted.hashes)
        self._changes.append(occurs * np.int64(sign))
        self._held += len(counted.hashes)
        if self._held > self._limit:
            self.total()
            self._limit = max(self._compact_at, 2 * self._held)

    def total(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the terms, ascending, and their changes, int64, shape (terms, 2)."""
        if not self._hashes:
            return np.zeros(0, np.uint64), np.zeros((0, 2), np.int64)
        changes = np.concatenate(self._changes)
        hashes, places = np.unique(np.concatenate(self._hashes), return_inverse=True)
        total = np.stack(
            [np.bincount(places, changes[:, field], len(hashes)) for field in (0, 1)], axis=1
        ).astype(np.int64)
        self._hashes, self._changes, self._held = [hashes], [total], len(hashes)
        return hashes, total


class Histograms:
    """How many terms have each document frequency, by lexical field.

    The mean idf follows exactly from them, however many documents there are by now.
    """

    def __init__(self, counts: dict[str, Counter[int]] | None = None) -> None:
        """Take counts; by default there are no terms."""
        self._counts = counts or {field: Counter() for field in LEXICAL}

    def change(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> None:
        """Change frequencies, both of shape (terms, 2); raise `CacheError` if any gets negative."""
        if (after < 0).any():
            raise CacheError("the collection counts fewer documents of a term than it holds")
        for place, field in enumerate(LEXICAL):
            counts = self._counts[field]
            counts.update(after[:, place].tolist())
            counts.subtract(before[:, place].tolist())
            del counts[0]
            kept = {number: terms for number, terms in counts.items() if terms}
            self._counts[field] = Counter(kept)

    def average_idf(self, field: str, documents: int) -> float:
        """Return BM25Okapi's mean idf over the distinct terms of a field."""
        counts = self._counts[field]
        if not counts:
            return 0.0
        numbers = np.array(sorted(counts), np.float64)
        terms = np.array([counts[int(number)] for number in numbers], np.float64)
        idf = np.log(documents - numbers + 0.5) - np.log(numbers + 0.5)
        return float(terms @ idf / terms.sum())

    def to_bytes(self) -> bytes:
        """Return the form that a row holds."""
        return json.dumps({name: sorted(self._counts[name].items()) for name in LEXICAL}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Histograms:
        """Read the result of `to_bytes`; raise `CacheError` if it is damaged."""
        with checked("the statistics row of the collection"):
            tables = json.loads(data)
            return cls(
                {
                    field: Counter({int(number): int(terms) for number, terms in tables[field]})
                    for field in LEXICAL
                }
            )


def term_id(term: int) -> str:
    """Return the id of the row of a term, by its hash."""
    return f"{term:016x}"


def frequencies_at(row: Row, version: int) -> tuple[int, int] | None:
    """Return both document frequencies of a term at a version; None if the row forgot it."""
    if row["version"] <= version:
        return int(row["metadata"]), int(row["full"])
    if row["version"] == version + 1:
        return int(row["metadata_before"]), int(row["full_before"])
    return None


def write_changes(
    server: MilvusServer, generation: Generation, version: int, tallies: TermTallies
) -> Histograms:
    """Write the terms and the histograms of the version after the current one.

    Args:
        server: The server.
        generation: The generation.
        version: The current version.
        tallies: Changes of the next one.

    Returns:
        The histograms of the next version.

    Raises:
        CacheError: When the numbers are impossible.
        RemoteError: When the server does not answer.
    """
    hashes, changes = tallies.total()
    histograms = _read_histograms(server, generation, version)
    is_untouched = not _undo_others(server, generation, version, hashes) and version == 0
    for begin in range(0, len(hashes), _BATCH):
        part = slice(begin, begin + _BATCH)
        ids = list(map(term_id, hashes[part].tolist()))
        rows = {} if is_untouched else server.get(generation.terms, ids, FREQUENCIES)
        before = np.zeros((len(ids), 2), np.int64)
        for place, key in enumerate(ids):
            if key in rows:
                before[place] = _known_frequencies(rows[key], version, key)
        after = before + changes[part]
        histograms.change(before, after)
        written = [
            term_row(key, version + 1, (now[0], now[1]), (then[0], then[1]))
            for key, now, then in zip(ids, after.tolist(), before.tolist(), strict=True)
        ]
        server.insert(generation.terms, [row for row in written if row["id"] not in rows])
        server.upsert(generation.terms, [row for row in written if row["id"] in rows])
    note = pack(histograms.to_bytes())
    row = note_row(_histograms_id(version + 1), RECORD, version + 1, note)
    server.upsert(generation.terms, [row])
    return histograms


def forget_before(server: MilvusServer, generation: Generation, version: int) -> None:
    """Remove the histograms and terms that only versions before this one need."""
    dead = f"kind == {TERM} and version <= {version} and metadata == 0 and full == 0"
    old = f'kind == {RECORD} and version < {version} and id != "{HEAD}"'
    for condition in (dead, old):
        pages = list(server.iterate(generation.terms, condition, ["id"], _BATCH))
        for ids in batches((row["id"] for page in pages for row in page), _BATCH):
            server.delete(generation.terms, ids)


def _read_histograms(server: MilvusServer, generation: Generation, version: int) -> Histograms:
    if version == 0:
        return Histograms()
    key = _histograms_id(version)
    rows = server.get(generation.terms, [key], ["note"])
    if not rows:
        raise CacheError("the statistics of the collection are missing")
    return Histograms.from_bytes(unpack(rows[key]["note"]))


def _undo_others(
    server: MilvusServer, generation: Generation, version: int, hashes: NDArray[np.uint64]
) -> bool:
    """Restore terms that an interrupted run changed and this one does not; return if any."""
    condition = f"kind == {TERM} and version > {version}"
    pages = list(server.iterate(generation.terms, condition, ["id", *FREQUENCIES], _BATCH))
    for page in pages:
        is_ours = np.isin(np.array([int(row["id"], 16) for row in page], np.uint64), hashes)
        restored = []
        for row in (page[place] for place in np.flatnonzero(~is_ours).tolist()):
            numbers = _known_frequencies(row, version, row["id"])
            restored.append(term_row(row["id"], version, numbers, numbers))
        server.upsert(generation.terms, restored)
    return bool(pages)


def _known_frequencies(row: Row, version: int, key: str) -> tuple[int, int]:
    """Return the frequencies at a version; only concurrent writers can have made it forget."""
    numbers = frequencies_at(row, version)
    if numbers is None:
        raise CacheError(f"the term {key} of the collection has a version from the future")
    return numbers


def _histograms_id(version: int) -> str:
    return f"histograms-{version}"
