"""The postings of one field in a segment: which document has which term how often.

Terms are 64-bit hashes, looked up by binary search in a mapped array. What a posting adds to a
score is computed when it is read, so a document that comes or goes changes no other posting.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from skillsearch.index.storage.array_table import ArrayTable
from skillsearch.index.storage.numbering import find_sorted

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Postings that are scanned at a time.
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class LexicalStatistics:
    """Corpus statistics of BM25Okapi; documents without terms count too."""

    documents: int
    mean_length: float
    average_idf: float


@dataclass(frozen=True, slots=True)
class LexicalSegment(ArrayTable):
    """One field of a segment: postings by term, hashes and documents ascending.

    `peaks` are the highest saturation among each term's postings, `lengths` the number of terms of
    each document, `statistics` mean length and mean idf of this segment by itself.
    """

    hashes: NDArray[np.uint64]
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    frequencies: NDArray[np.uint16]
    peaks: NDArray[np.float32]
    lengths: NDArray[np.int32]
    statistics: NDArray[np.float64]

    TYPES: ClassVar[tuple[type, ...]] = (
        *(np.uint64, np.int64, np.int32, np.uint16),
        *(np.float32, np.int32, np.float64),
    )

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.lengths)

    def rows(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of each term, -1 if no document has it."""
        return find_sorted(self.hashes, hashes)

    def document_frequencies(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of documents of each row, 0 for the row -1."""
        return np.where(rows >= 0, self.starts[rows + 1] - self.starts[rows], 0)

    def find(
        self, row: int, documents: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return where each document would stand among all postings, and whether the row has it."""
        begin, end = self.starts[row : row + 2].tolist()
        postings = self.documents[begin:end]
        # Numbers of another type would have all postings converted.
        wanted = documents.astype(np.int32)
        places = np.minimum(postings.searchsorted(wanted), len(postings) - 1)
        return places + begin, postings[places] == wanted

    def has(self, row: int, document: int) -> bool:
        """Return whether a document is among the postings of a row; no document is in row -1."""
        if row < 0:
            return False
        begin, end = self.starts[row : row + 2].tolist()
        place = bisect_left(self.documents, document, begin, end)
        return place < end and int(self.documents[place]) == document

    def tally(self, signs: NDArray[np.int8]) -> TermTally:
        """Add up the signs (one a document, 0 if it does not count) by term."""
        found = [
            begin + np.flatnonzero(signs[self.documents[begin : begin + _BLOCK]])
            for begin in range(0, len(self.documents), _BLOCK)
        ]
        postings = np.concatenate([np.zeros(0, np.int64), *found])
        rows = np.searchsorted(self.starts, postings, "right") - 1
        counts = signs[self.documents[postings]].astype(np.int64)
        return TermTally.total([TermTally(self.hashes[rows], counts)])

    def fits(self) -> bool:
        """Return whether there are as many of everything as of its terms, postings, documents."""
        return (
            len(self.peaks) == len(self.hashes) == len(self.starts) - 1
            and len(self.documents) == len(self.frequencies) == int(self.starts[-1])
            and len(self.statistics) == len(("mean length", "mean idf"))
        )


@dataclass(frozen=True, slots=True)
class TermTally:
    """A count for each of some terms, whose hashes are ascending."""

    hashes: NDArray[np.uint64]
    counts: NDArray[np.int64]

    @classmethod
    def empty(cls) -> TermTally:
        """Return a tally of no terms."""
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.int64))

    @classmethod
    def total(cls, tallies: Sequence[TermTally]) -> TermTally:
        """Add tallies up; a term may occur several times in each, and zeros are dropped."""
        hashes = np.concatenate([tally.hashes for tally in tallies])
        distinct, places = np.unique(hashes, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, places, np.concatenate([tally.counts for tally in tallies]))
        return cls(distinct[sums != 0], sums[sums != 0])

    def of(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the count of each term, 0 if it has none."""
        places = find_sorted(self.hashes, hashes)
        # A count behind all others, for the terms without one.
        return np.append(self.counts, 0)[places]
