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
from skillsearch.remote import schema
from skillsearch.remote.client import MilvusServer, Row, batches
from skillsearch.remote.rows import CountedTerms, checked, pack, unpack
from skillsearch.remote.schema import Generation

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BATCH = 2_000
_COMPACT_AT = 1 << 21
"""Entries above which equal terms are added up, so that memory follows the vocabulary."""


class TermTallies:
    """Adds up by how many documents each term's frequency changes, by lexical field."""

    def __init__(self, compact_at: int = _COMPACT_AT) -> None:
        """Start empty."""
        self._hashes = [np.zeros(0, np.uint64)]
        self._changes = [np.zeros((0, 2), np.int64)]
        self._held = 0
        self._compact_at = self._limit = compact_at

    def add(self, counted: CountedTerms, sign: int) -> None:
        """Count a document that is added (sign 1) or removed (sign -1)."""
        self._hashes.append(counted.hashes)
        self._changes.append((counted.frequencies > 0).T * np.int64(sign))
        self._held += len(counted.hashes)
        if self._held > self._limit:
            self.total()
            self._limit = max(self._compact_at, 2 * self._held)

    def total(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the terms, ascending, and their changes, int64, shape (terms, 2)."""
        changes = np.concatenate(self._changes)
        hashes, places = np.unique(np.concatenate(self._hashes), return_inverse=True)
        sums = [np.bincount(places, column, len(hashes)) for column in changes.T]
        total = np.stack(sums, axis=1).astype(np.int64)
        self._hashes, self._changes, self._held = [hashes], [total], len(hashes)
        return hashes, total


class Histograms:
    """How many terms have each document frequency, by lexical field.

    The mean idf follows exactly from them, however many documents there are by now.
    """

    def __init__(self, counts: dict[str, Counter[int]] | None = None) -> None:
        """Take counts; by default there are no terms."""
        self._counts = counts or {field: Counter() for field in schema.LEXICAL}

    def change(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> None:
        """Change frequencies, both of shape (terms, 2); raise `CacheError` if any gets negative."""
        if (after < 0).any():
            raise CacheError("the collection counts fewer documents of a term than it holds")
        for place, field in enumerate(schema.LEXICAL):
            counts = self._counts[field]
            counts.update(after[:, place].tolist())
            counts.subtract(before[:, place].tolist())
            kept = {number: terms for number, terms in counts.items() if number and terms}
            self._counts[field] = Counter(kept)

    def average_idf(self, field: str, documents: int) -> float:
        """Return BM25Okapi's mean idf over the distinct terms of a field."""
        if not (counts := self._counts[field]):
            return 0.0
        numbers, terms = np.array(sorted(counts.items()), np.float64).T
        idf = np.log(documents - numbers + 0.5) - np.log(numbers + 0.5)
        return float(terms @ idf / terms.sum())

    def to_bytes(self) -> bytes:
        """Return the form that a row holds."""
        tables = {name: sorted(self._counts[name].items()) for name in schema.LEXICAL}
        return json.dumps(tables).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Histograms:
        """Read the result of `to_bytes`; raise `CacheError` if it is damaged."""
        with checked("the statistics row of the collection"):
            tables = json.loads(data)
            counts = {
                field: Counter({int(number): int(terms) for number, terms in tables[field]})
                for field in schema.LEXICAL
            }
        return cls(counts)


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
    """Write the terms and the histograms of the version after the current one, and return these.

    Raises `CacheError` if the numbers are impossible.
    """
    hashes, changes = tallies.total()
    histograms = _read_histograms(server, generation, version)
    is_untouched = not _undo_others(server, generation, version, hashes) and version == 0
    for begin in range(0, len(hashes), _BATCH):
        part = slice(begin, begin + _BATCH)
        ids = list(map(term_id, hashes[part].tolist()))
        rows = {} if is_untouched else server.get(generation.terms, ids, schema.FREQUENCIES)
        before = np.array(
            [_known_frequencies(rows[key], version) if key in rows else (0, 0) for key in ids]
        )
        after = before + changes[part]
        histograms.change(before, after)
        written = [
            schema.term_row(key, version + 1, now, then)
            for key, now, then in zip(ids, after.tolist(), before.tolist(), strict=True)
        ]
        server.insert(generation.terms, [row for row in written if row["id"] not in rows])
        server.upsert(generation.terms, [row for row in written if row["id"] in rows])
    note = pack(histograms.to_bytes())
    key = f"histograms-{version + 1}"
    server.upsert(generation.terms, [schema.note_row(key, schema.RECORD, version + 1, note)])
    return histograms


def forget_before(server: MilvusServer, generation: Generation, version: int) -> None:
    """Remove the histograms and terms that only versions before this one need."""
    dead = f"kind == {schema.TERM} and version <= {version} and metadata == 0 and full == 0"
    old = f'kind == {schema.RECORD} and version < {version} and id != "{schema.HEAD}"'
    for condition in (dead, old):
        pages = list(server.iterate(generation.terms, condition, ["id"], _BATCH))
        for ids in batches((row["id"] for page in pages for row in page), _BATCH):
            server.delete(generation.terms, ids)


def _read_histograms(server: MilvusServer, generation: Generation, version: int) -> Histograms:
    if version == 0:
        return Histograms()
    key = f"histograms-{version}"
    rows = server.get(generation.terms, [key], ["note"])
    if not rows:
        raise CacheError("the statistics of the collection are missing")
    return Histograms.from_bytes(unpack(rows[key]["note"]))


def _undo_others(
    server: MilvusServer, generation: Generation, version: int, hashes: NDArray[np.uint64]
) -> bool:
    """Restore terms that an interrupted run changed and this one does not; return if any."""
    condition = f"kind == {schema.TERM} and version > {version}"
    pages = list(server.iterate(generation.terms, condition, ["id", *schema.FREQUENCIES], _BATCH))
    for page in pages:
        is_ours = np.isin(np.array([int(row["id"], 16) for row in page], np.uint64), hashes)
        others = [row for row, ours in zip(page, is_ours.tolist(), strict=True) if not ours]
        restored = []
        for row in others:
            now = _known_frequencies(row, version)
            restored.append(schema.term_row(row["id"], version, now, now))
        server.upsert(generation.terms, restored)
    return bool(pages)


def _known_frequencies(row: Row, version: int) -> tuple[int, int]:
    """Return the frequencies at a version; only concurrent writers can have made it forget."""
    numbers = frequencies_at(row, version)
    if numbers is None:
        raise CacheError(f"the term {row['id']} of the collection has a version from the future")
    return numbers
