"""The postings of one field in a segment, and BM25Okapi's formulas over them.

Terms are 64-bit hashes, looked up by binary search in a mapped array. What a posting adds to a
score is computed when it is read, so a document that comes or goes changes no other posting. This
is the only importer of rank_bm25.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import field
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.storage.array_table import ArrayTable
from skillsearch.index.storage.numbering import Floats, Hashes, Mask, Numbers, find_sorted

# BM25Okapi's defaults: saturation, length normalisation, and the idf floor as a share of the mean.
K1, B, EPSILON = 1.5, 0.75, 0.25
# A mean idf up to here is zero except for rounding.
NO_MEAN = 1e-9
_WEIGHT_OF_ONE = np.float32(K1 + 1)
# Letters of a word that may begin others.
LEAST_PREFIX = 3
# Postings that are scanned at a time.
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class LexicalStatistics:
    """Corpus statistics of BM25Okapi; documents without terms count too."""

    documents: int
    mean_length: float
    average_idf: float


@dataclass(frozen=True, slots=True)
class Postings(ArrayTable):
    """Postings by term: hashes ascending, documents ascending within a term."""

    hashes: NDArray[np.uint64]
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    frequencies: NDArray[np.uint16]

    def is_consistent(self) -> bool:
        """Return whether there are as many postings as their starts say."""
        return len(self.documents) == len(self.frequencies) == int(self.starts[-1])


@dataclass(frozen=True, slots=True)
class LexicalSegment(Postings):
    """One field of a segment.

    `peaks` are the highest saturation among each term's postings, `lengths` the number of terms of
    each document, `statistics` mean length and mean idf of this segment by itself. Of some fields
    the longer terms themselves are kept too, sorted: `words`, of which each ends at `word_ends`.
    """

    peaks: NDArray[np.float32]
    lengths: NDArray[np.int32]
    statistics: NDArray[np.float64]
    words: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    word_ends: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.lengths)

    def rows(self, hashes: Hashes) -> Numbers:
        """Return the row of each term, -1 if no document has it."""
        return find_sorted(self.hashes, hashes)

    def document_frequencies(self, rows: Numbers) -> Numbers:
        """Return the number of documents of each row, 0 for the row -1."""
        return np.where(rows >= 0, self.starts[rows + 1] - self.starts[rows], 0)

    def find(self, row: int, documents: Numbers) -> tuple[Numbers, Mask]:
        """Return where each document would stand among all postings, and whether the row has it."""
        begin, end = self.starts[row : row + 2].tolist()
        postings = self.documents[begin:end]
        # Numbers of another type would have all postings converted.
        wanted = documents.astype(np.int32)
        places = np.minimum(postings.searchsorted(wanted), len(postings) - 1)
        return places + begin, postings[places] == wanted

    def has(self, row: int, document: int) -> bool:
        """Return whether a document is among the postings of a row; no document is in row -1."""
        return row >= 0 and bool(self.find(row, np.array([document]))[1][0])

    def tally(self, signs: NDArray[np.int8]) -> TermTally:
        """Add up the signs (one a document, 0 if it does not count) by term."""
        begins = range(0, len(self.documents), _BLOCK)
        parts = [at + np.flatnonzero(signs[self.documents[at : at + _BLOCK]]) for at in begins]
        postings = np.concatenate([np.zeros(0, np.int64), *parts])
        rows = np.searchsorted(self.starts, postings, "right") - 1
        counts = signs[self.documents[postings]].astype(np.int64)
        return TermTally.total([TermTally(self.hashes[rows], counts)])

    def word(self, number: int) -> str:
        """Return one of the words."""
        begin = int(self.word_ends[number - 1]) if number else 0
        return self.words[begin : int(self.word_ends[number])].tobytes().decode()

    def words_with(self, prefix: str, most: int) -> list[str]:
        """Return the first words that begin with a prefix."""
        numbers = range(len(self.word_ends))
        begin = bisect_left(numbers, prefix, key=self.word)
        words = map(self.word, numbers[begin : begin + most])
        return list(takewhile(lambda word: word.startswith(prefix), words))

    def is_consistent(self) -> bool:
        """Return whether there are as many of everything as of its terms, postings, documents."""
        return (
            Postings.is_consistent(self)
            and len(self.peaks) == len(self.hashes) == len(self.starts) - 1
            and len(self.statistics) == len(("mean length", "mean idf"))
            and len(self.words) == int(np.append(0, self.word_ends)[-1])
        )


@dataclass(frozen=True, slots=True)
class TermTally:
    """A count for each of some terms, whose hashes are ascending."""

    hashes: Hashes
    counts: Numbers

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

    def of(self, hashes: Hashes) -> Numbers:
        """Return the count of each term, 0 if it has none."""
        # A count behind all others, for the terms without one.
        return np.append(self.counts, 0)[find_sorted(self.hashes, hashes)]


def average_idf(frequencies: Numbers, documents: int, terms: Numbers | None = None) -> float:
    """Return BM25Okapi's mean idf over the distinct terms of a corpus, 0 without terms.

    Each of the document frequencies is one term's, unless `terms` says how many terms have it.
    """
    if not len(frequencies):
        return 0.0
    from rank_bm25 import BM25Okapi  # A search gets by with the formulas below.

    if terms is None:
        frequencies, terms = np.unique(frequencies, return_counts=True)
    rarer = np.minimum(frequencies, documents - frequencies).tolist()

    class CountedOkapi(BM25Okapi):  # type: ignore[misc]
        """BM25Okapi over document frequencies instead of texts."""

        def _initialize(self, corpus: object) -> dict[int, int]:
            self.corpus_size = documents
            return {frequency: frequency for frequency in rarer}

    # The statistics of every corpus come from rank_bm25 itself, so that scores are BM25Okapi's;
    # only its loops over terms and documents are replaced. It cuts negative weights, so a common
    # term gets the weight of its absence with the other sign: the same number.
    weights = CountedOkapi([], k1=K1, b=B, epsilon=EPSILON).idf
    signs = np.where(frequencies > rarer, -1.0, 1.0)
    total = math.fsum(terms * signs * [weights[frequency] for frequency in rarer])
    return total / int(terms.sum())


def idf(document_frequency: int, documents: int, mean: float) -> float:
    """Return BM25Okapi's weight of a term; 1 without a positive mean, as with two documents."""
    if mean <= NO_MEAN:
        return 1.0
    weight = math.log(documents - document_frequency + 0.5) - math.log(document_frequency + 0.5)
    return weight if weight >= 0 else EPSILON * mean


def length_norms(lengths: NDArray[np.int32], mean_length: float) -> Floats:
    """Return the length normalisation of each document: ``k1 * (1 - b + b * length / mean)``."""
    share = np.float32(K1 * B / max(mean_length, NO_MEAN))
    return lengths.astype(np.float32) * share + np.float32(K1 * (1 - B))


def saturation(
    frequencies: NDArray[np.uint16], norms: Floats, weights: np.float32 | Floats = _WEIGHT_OF_ONE
) -> Floats:
    """Return the share of each posting in its document's score: ``weight * tf / (tf + norm)``.

    The weight is the term's idf times its repeats in the query times ``k1 + 1``.
    """
    tf = frequencies.astype(np.float32)
    divisors = norms + tf
    tf *= weights
    tf /= divisors
    return tf
