"""How many documents have each term, as documents come and go; pure."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.remote.counted import CountedTerms

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIELDS = ("metadata", "full")
_COMPACT_AT = 1 << 21
"""Entries from which on equal terms are added up, so that memory follows the vocabulary."""


class TermTallies:
    """Adds up in how many documents more, or fewer, each term occurs, by lexical field."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._hashes: list[NDArray[np.uint64]] = []
        self._changes: list[NDArray[np.int64]] = []
        self._held = 0
        self._limit = _COMPACT_AT

    def add(self, counted: CountedTerms, sign: int) -> None:
        """Count a document that comes (sign 1) or goes (sign -1)."""
        occurs = np.stack([counted.metadata > 0, counted.full > 0], axis=1)
        self._hashes.append(counted.hashes)
        self._changes.append(occurs * np.int64(sign))
        self._held += len(counted.hashes)
        if self._held > self._limit:
            self.total()
            self._limit = max(_COMPACT_AT, 2 * self._held)

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
    """How many terms occur in just so many documents, by lexical field.

    From it the mean idf follows exactly, whatever the number of documents has become.
    """

    def __init__(self, counts: dict[str, Counter[int]] | None = None) -> None:
        """Take counts; by default there are no terms."""
        self._counts = counts or {field: Counter() for field in FIELDS}

    def change(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> None:
        """Note that terms which occurred in so many documents now occur in others.

        Args:
            before: Documents that had each term, shape (terms, 2).
            after: Documents that have it.

        Raises:
            CacheError: When a term would be in fewer than no document.
        """
        if (after < 0).any():
            raise CacheError("the collection counts fewer documents of a term than it holds")
        for place, field in enumerate(FIELDS):
            counts = self._counts[field]
            counts.update(after[:, place].tolist())
            counts.subtract(before[:, place].tolist())
            del counts[0]
            for number in [number for number, terms in counts.items() if terms == 0]:
                del counts[number]

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
        """Return the form that is kept in a row."""
        return json.dumps({field: sorted(self._counts[field].items()) for field in FIELDS}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Histograms:
        """Read what `to_bytes` gave.

        Args:
            data: The bytes.

        Returns:
            The histograms.

        Raises:
            CacheError: When they are damaged.
        """
        try:
            tables = json.loads(data)
            return cls(
                {
                    field: Counter({int(number): int(terms) for number, terms in tables[field]})
                    for field in FIELDS
                }
            )
        except (KeyError, TypeError, ValueError, RecursionError) as exc:
            raise CacheError(f"the statistics of the collection are damaged: {exc}") from exc
