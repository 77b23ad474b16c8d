"""The postings of one field of a segment of a corpus: which document has which term how often.

Terms are known by a 64-bit hash, so that looking one up is a binary search in a memory-mapped
array and no dictionary is ever loaded. What a posting adds to a score is computed where it is
read: it needs the length of the document alone, and so a document that comes or goes changes no
other posting.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.files.arrays import map_array, save_array

if TYPE_CHECKING:
    from numpy.typing import NDArray


_BLOCK = 1 << 22
"""Postings that are looked through at a time."""


@dataclass(frozen=True, slots=True)
class LexicalStatistics:
    """What BM25Okapi has to know of a whole corpus.

    Attributes:
        documents: Number of documents, those without any term included.
        mean_length: Mean number of terms of a document.
        average_idf: Mean idf of the distinct terms, as `okapi.average_idf` gives it.
    """

    documents: int
    mean_length: float
    average_idf: float


@dataclass(frozen=True, slots=True)
class LexicalSegment:
    """One field of a segment; the arrays may be memory-mapped.

    Attributes:
        hashes: Hash of each term, uint64, ascending, shape (terms,).
        starts: Where each term's postings begin, int64, shape (terms + 1,).
        documents: Document of each posting, int32, ascending within a term.
        frequencies: Occurrences behind each posting, uint16.
        peaks: The highest saturation among each term's postings, float32, shape (terms,).
        lengths: Terms of each document, int32, shape (documents,).
        statistics: Mean length and mean idf of the segment by itself, float64, shape (2,).
    """

    hashes: NDArray[np.uint64]
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    frequencies: NDArray[np.uint16]
    peaks: NDArray[np.float32]
    lengths: NDArray[np.int32]
    statistics: NDArray[np.float64]

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.lengths)

    def rows(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of each term, -1 where no document has it."""
        if not len(self.hashes):
            return np.full(len(hashes), -1, np.int64)
        places = np.minimum(self.hashes.searchsorted(hashes), len(self.hashes) - 1)
        return np.where(self.hashes[places] == hashes, places, -1)

    def document_frequencies(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of documents of each row, 0 for the row -1."""
        counts = self.starts[rows + 1] - self.starts[rows]
        return np.where(rows >= 0, counts, 0)

    def own_statistics(self) -> LexicalStatistics:
        """Return the statistics of the segment by itself."""
        mean_length, mean_idf = self.statistics.tolist()
        return LexicalStatistics(self.size, mean_length, mean_idf)

    def find(
        self, row: int, documents: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Find documents among the postings of a row.

        Args:
            row: A row that there is.
            documents: Numbers of documents.

        Returns:
            Where the posting of each would stand among all postings, and whether it is there.
        """
        begin, end = int(self.starts[row]), int(self.starts[row + 1])
        postings = self.documents[begin:end]
        # Numbers of another type would have all postings converted.
        wanted = documents.astype(np.int32)
        places = np.minimum(postings.searchsorted(wanted), len(postings) - 1)
        return places + begin, postings[places] == wanted

    def has(self, row: int, document: int) -> bool:
        """Tell whether a document is among the postings of a row that there is."""
        begin, end = int(self.starts[row]), int(self.starts[row + 1])
        place = bisect_left(self.documents, document, begin, end)
        return place < end and int(self.documents[place]) == document

    def tally(self, signs: NDArray[np.int8]) -> TermTally:
        """Add up the signs of the documents that have a term, for each term that one has.

        Args:
            signs: One a document; 0 for the documents that do not count.

        Returns:
            The sums.
        """
        found = [
            begin + np.flatnonzero(signs[self.documents[begin : begin + _BLOCK]])
            for begin in range(0, len(self.documents), _BLOCK)
        ]
        postings = np.concatenate([np.zeros(0, np.int64), *found])
        rows = np.searchsorted(self.starts, postings, "right") - 1
        counts = signs[self.documents[postings]].astype(np.int64)
        return TermTally.total([TermTally(self.hashes[rows], counts)])

    def save(self, folder: Path, name: str) -> None:
        """Write the arrays as ``NAME-ARRAY.npy`` files.

        Args:
            folder: Where to write.
            name: First part of the file names.

        Raises:
            OSError: When a file cannot be written whole.
        """
        for field in fields(self):
            save_array(folder / f"{name}-{field.name}.npy", getattr(self, field.name))

    @classmethod
    def load(cls, folder: Path, name: str) -> LexicalSegment:
        """Map the arrays that `save` wrote.

        Args:
            folder: Where they were written.
            name: First part of the file names.

        Returns:
            The segment.

        Raises:
            CacheError: When an array is missing or does not fit the others.
        """
        arrays = [map_array(folder / f"{name}-{field.name}.npy") for field in fields(cls)]
        segment = cls(*arrays)
        if not segment._is_consistent():
            raise CacheError(f"the arrays of the lexical field {name!r} do not fit each other")
        return segment

    def _is_consistent(self) -> bool:
        """Tell whether types and shapes are what the searches rely on."""
        types = (np.uint64, np.int64, np.int32, np.uint16, np.float32, np.int32, np.float64)
        arrays = [getattr(self, field.name) for field in fields(self)]
        return (
            all(a.dtype == t and a.ndim == 1 for a, t in zip(arrays, types, strict=True))
            and len(self.peaks) == len(self.hashes) == len(self.starts) - 1
            and len(self.documents) == len(self.frequencies) == int(self.starts[-1])
            and len(self.statistics) == len(("mean length", "mean idf"))
        )


@dataclass(frozen=True, slots=True)
class TermTally:
    """A number for each of some terms, such as how many documents that are gone had it.

    Attributes:
        hashes: Hash of each term, uint64, ascending.
        counts: Its number, int64.
    """

    hashes: NDArray[np.uint64]
    counts: NDArray[np.int64]

    @classmethod
    def empty(cls) -> TermTally:
        """Return a tally of no terms."""
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.int64))

    @classmethod
    def total(cls, tallies: Sequence[TermTally]) -> TermTally:
        """Add tallies up; a term may occur several times in each, and none is left with 0."""
        hashes = np.concatenate([tally.hashes for tally in tallies])
        distinct, places = np.unique(hashes, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, places, np.concatenate([tally.counts for tally in tallies]))
        return cls(distinct[sums != 0], sums[sums != 0])

    def of(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of each term, 0 if it has none."""
        if not len(self.hashes):
            return np.zeros(len(hashes), np.int64)
        places = np.minimum(self.hashes.searchsorted(hashes), len(self.hashes) - 1)
        return np.where(self.hashes[places] == hashes, self.counts[places], 0)
