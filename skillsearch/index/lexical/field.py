"""BM25 over one field of a corpus: the scores of BM25Okapi, and the best documents by them.

A corpus is one segment, or a large one and a small one of what changed since. Scores are those of
all living documents together: their number, how many have a term, and their mean length count,
whatever the segments are.

The best documents are found without reading all postings (MaxScore: Turtle and Flood, 1995): once
the terms still to come could not lift any other document among the best, they are looked up for the
few that are left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.lexical.okapi import K1, damping, idf, saturation
from skillsearch.index.lexical.postings import LexicalSegment, LexicalStatistics, TermTally
from skillsearch.index.lexical.top_documents import lowest_of_best, top_documents
from skillsearch.index.storage.numbering import locate, numbered, within
from skillsearch.text.tokenizer import is_bigram, term_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

SATURATION_LIMIT = K1 + 1
"""The most that one occurrence's idf can be multiplied by."""
UNKNOWN_BIGRAM_WEIGHT = 0.3
"""An unknown word says that the corpus lacks a topic; an unknown bigram, a piece of a word, says
it with this share of the weight. Chosen on `eval` with foreign queries: AUROC .866 to .880."""
_WORTH_PRUNING = 32_768
"""Postings still to be read from which on it is worth to look whether they need be; in a large
corpus, where looking takes longer, more."""
_LOOKUP_COST = 16
"""To look one document up among postings costs about as much as to read so many of them."""
_SAFETY = 1e-4
"""Share by which bounds are widened, so that rounding never cuts off a document."""


@dataclass(frozen=True, slots=True)
class TermWeights:
    """The distinct terms of a query, weighed; all in the order of the query.

    Attributes:
        terms: The terms.
        hashes: Their hashes, uint64.
        repeats: How often each occurs in the query, float64.
        document_frequencies: How many documents have each, int64.
        idf: Weight of each term that some document has, 0 for others, float64.
        rows: Where each segment has the terms, -1 where it has not, int64.
    """

    terms: tuple[str, ...]
    hashes: NDArray[np.uint64]
    repeats: NDArray[np.float64]
    document_frequencies: NDArray[np.int64]
    idf: NDArray[np.float64]
    rows: tuple[NDArray[np.int64], ...]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which terms some document has."""
        return self.document_frequencies > 0


@dataclass(frozen=True, eq=False)
class LexicalField:
    """One field of a corpus, ready to be scored.

    Documents are numbered through all segments.

    Attributes:
        segments: The segments, at least one.
        statistics: Of the living documents of all segments.
        corrections: What is to be added to the number of documents that the segments show for a
            term: less than 0 where some of them are gone.
    """

    segments: tuple[LexicalSegment, ...]
    statistics: LexicalStatistics
    corrections: TermTally
    _weighed: dict[tuple[tuple[str, int], ...], TermWeights] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def of(cls, segment: LexicalSegment) -> LexicalField:
        """Return the field of a corpus of one segment."""
        return cls((segment,), segment.own_statistics(), TermTally.empty())

    @property
    def size(self) -> int:
        """Number of documents in all segments, those that are gone included."""
        return sum(segment.size for segment in self.segments)

    @cached_property
    def dampings(self) -> tuple[NDArray[np.float32], ...]:
        """What each document damps the repeats of a term by, float32, one array a segment."""
        mean_length = self.statistics.mean_length
        return tuple(damping(segment.lengths, mean_length) for segment in self.segments)

    @property
    def rarest_idf(self) -> float:
        """The weight of a term that no document has."""
        return math.log((self.statistics.documents + 0.5) / 0.5)

    def weigh(self, query: Counter[str]) -> TermWeights:
        """Weigh the terms of a query.

        Args:
            query: Its terms and how often each occurs in it.

        Returns:
            The terms with what the corpus knows of them.
        """
        asked = tuple(query.items())
        # One search asks for the weights of one query several times over.
        found = self._weighed.get(asked)
        if found is None:
            found = self._weigh(query)
            self._weighed.clear()
            self._weighed[asked] = found
        return found

    def _weigh(self, query: Counter[str]) -> TermWeights:
        """Look the terms of a query up."""
        hashes = np.fromiter(map(term_hash, query), np.uint64, len(query))
        rows = tuple(segment.rows(hashes) for segment in self.segments)
        frequencies = self.segments[0].document_frequencies(rows[0])
        if len(self.corrections.hashes):
            frequencies = frequencies + self.corrections.of(hashes)
        for segment, places in zip(self.segments[1:], rows[1:], strict=True):
            frequencies = frequencies + segment.document_frequencies(places)
        count, mean = self.statistics.documents, self.statistics.average_idf
        weights = [idf(df, count, mean) if df > 0 else 0.0 for df in frequencies.tolist()]
        repeats = np.fromiter(query.values(), np.float64, len(query))
        return TermWeights(tuple(query), hashes, repeats, frequencies, np.array(weights), rows)

    def idf_of(self, terms: Iterable[str]) -> dict[str, float]:
        """Return the weight of each term that some document has, in the order given."""
        weights = self.weigh(Counter(dict.fromkeys(terms, 1)))
        pairs = zip(weights.terms, weights.idf.tolist(), weights.known.tolist(), strict=True)
        return {term: weight for term, weight, is_known in pairs if is_known}

    def scores(self, query: TermWeights) -> NDArray[np.float32]:
        """Score every document as BM25Okapi does.

        Args:
            query: Its terms, weighed by this field.

        Returns:
            One score a document, float32; 0 where no term matches.
        """
        parts = [SegmentScores(self, number, query) for number in range(len(self.segments))]
        return np.concatenate([part.all() for part in parts])

    def best(self, query: TermWeights, k: int, excluded: NDArray[np.int64]) -> LexicalMatches:
        """Find the documents with the k highest scores above 0.

        Args:
            query: Its terms, weighed by this field.
            k: How many; more are found only with ties at the lowest score kept.
            excluded: Numbers of documents that must not be among them.

        Returns:
            The documents, at least the k best where so many are above 0, and the way to the
            scores of all but those excluded.
        """
        parts = tuple(SegmentScores(self, number, query) for number in range(len(self.segments)))
        found = [
            part.best(k, excluded[within(excluded, first, part)] - first) + first
            for first, part in numbered(parts)
        ]
        if len(found) == 1:
            return LexicalMatches(parts, found[0])
        documents = np.concatenate(found)
        scores = LexicalMatches(parts, documents).scores_of(documents)
        return LexicalMatches(parts, documents[top_documents(scores, k)])

    def attainable(self, query: TermWeights) -> float:
        """Return the score that a document saturated with every term of the query would have.

        A term that the corpus lacks counts too, as if it were the rarest: a query that is mostly
        unknown to the corpus cannot attain a high share of this.

        Args:
            query: Its terms, weighed by this field.

        Returns:
            A score above 0, or 0 where the query has no terms.
        """
        known, unknown = self.attainable_parts(query)
        return known + unknown

    def attainable_parts(self, query: TermWeights) -> tuple[float, float]:
        """Return the part of `attainable` due to terms in the corpus, and that due to others."""
        known = float(query.idf @ query.repeats)
        pairs = zip(query.terms, query.repeats.tolist(), query.known.tolist(), strict=True)
        unknown = sum(
            repeats * (UNKNOWN_BIGRAM_WEIGHT if is_bigram(term) else 1.0)
            for term, repeats, is_known in pairs
            if not is_known
        )
        return SATURATION_LIMIT * known, SATURATION_LIMIT * self.rarest_idf * unknown

    def overlap(self, query: TermWeights) -> float:
        """Return the share of the weight of a query's terms that the corpus knows, 0 to 1."""
        known, unknown = self.attainable_parts(query)
        return known / (known + unknown) if known > 0 else 0.0

    def rarest_held(self, query: TermWeights, document: int) -> float:
        """Return the highest weight among the terms of a query that a document has.

        Args:
            query: Its terms, weighed by this field.
            document: Number of the document.

        Returns:
            The weight, 0 where it has none of them.
        """
        number, place = locate(self.segments, document)
        weights = zip(query.idf.tolist(), query.rows[number].tolist(), strict=True)
        held = (
            weight
            for weight, row in sorted(weights, reverse=True)
            if row >= 0 and self.segments[number].has(row, place)
        )
        return next(held, 0.0)

    def holds(self, term: str, document: int) -> bool:
        """Tell whether a term occurs in a document, by its postings and never by a score."""
        if document >= self.size:
            return False
        number, place = locate(self.segments, document)
        segment = self.segments[number]
        row = int(segment.rows(np.array([term_hash(term)], np.uint64))[0])
        return row >= 0 and segment.has(row, place)


@dataclass(frozen=True, slots=True, eq=False)
class LexicalMatches:
    """What a query found in a field.

    Attributes:
        segments: The query at work on each segment.
        documents: The best documents, ascending by number.
    """

    segments: tuple[SegmentScores, ...]
    documents: NDArray[np.int64]

    def scores_of(self, documents: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the scores of any documents, given ascending, float32."""
        if len(self.segments) == 1:
            return self.segments[0].scores_of(documents)
        total = np.zeros(len(documents), np.float32)
        for first, segment in numbered(self.segments):
            here = within(documents, first, segment)
            total[here] = segment.scores_of(documents[here] - first)
        return total


class SegmentScores:
    """A query at work on one segment.

    Its terms are added up from the heaviest to the lightest, whatever the segments: the same
    document has the same score, to the last bit. The first of them are read for all documents, the
    others looked up for those that are asked for.

    Attributes:
        size: Number of documents in the segment.
    """

    def __init__(self, field: LexicalField, number: int, query: TermWeights) -> None:
        """Take a segment of a field.

        Args:
            field: The field.
            number: Which of its segments.
            query: The terms, weighed by the field.
        """
        segment, rows = field.segments[number], query.rows[number]
        weights = query.idf * query.repeats
        order = np.argsort(-weights, kind="stable")
        order = order[rows[order] >= 0]
        self.size = segment.size
        self._segment = segment
        self._dampings = field.dampings[number]
        self._rows: list[int] = rows[order].tolist()
        self._lifts = (weights[order] * SATURATION_LIMIT).astype(np.float32)
        self._counts: list[int] = segment.document_frequencies(rows[order]).tolist()
        # A longer mean length than that of the segment itself lifts every saturation, by no more
        # than the ratio of the two.
        ratio = max(1.0, field.statistics.mean_length / max(float(segment.statistics[0]), 1e-9))
        peaks = segment.peaks[rows[order]].astype(np.float64) * (ratio * (1 + _SAFETY))
        self._bounds: list[float] = (weights[order] * peaks).tolist()
        self._total: NDArray[np.float32] | None = None
        self._read = 0

    def all(self) -> NDArray[np.float32]:
        """Return the scores of all documents, float32."""
        total = np.zeros(self.size, np.float32)
        for place in range(len(self._rows)):
            self._add(range(place, place + 1), total)
        return total

    def scores_of(self, documents: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the scores of some documents, float32, in their order."""
        if self._total is None:
            total = np.zeros(len(documents), np.float32)
        else:
            total = self._total[documents]
        for place in range(self._read, len(self._rows)):
            self._look_up(place, documents, total)
        return total

    def best(self, k: int, excluded: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the documents with the k highest scores, ties at the lowest included.

        Args:
            k: How many.
            excluded: Numbers of documents that must not be among them, and are scored no more.

        Returns:
            Their numbers, ascending.
        """
        total = self._total = np.zeros(self.size, np.float32)
        total[excluded] = -np.inf
        unread, possible, reached = sum(self._counts), sum(self._bounds), 0.0
        worth = _WORTH_PRUNING + self.size // 16
        while unread:
            first, read = self._read, 0
            # What can be left unread is known only once the terms to come are the lesser part.
            while self._read < len(self._rows) and (
                unread - read < worth or read < worth // 4 or possible >= reached
            ):
                read += self._counts[self._read]
                possible -= self._bounds[self._read]
                reached += self._bounds[self._read]
                self._read += 1
            self._add(range(first, self._read), total)
            unread -= read
            left = _still_possible(total, k, possible) if unread else None
            if left is None:
                continue
            if len(left) * _LOOKUP_COST * (len(self._rows) - self._read) < unread:
                return left[top_documents(self.scores_of(left), k)]
        return top_documents(total, k)

    def _add(self, places: range, total: NDArray[np.float32]) -> None:
        """Add some terms to the scores of all documents that have them.

        All at once: the arrays of a term are short, and each call of NumPy costs a microsecond.
        """
        segment = self._segment
        rows = [self._rows[place] for place in places]
        bounds = [(int(segment.starts[row]), int(segment.starts[row + 1])) for row in rows]
        postings = [slice(*one) for one in bounds]
        documents = np.concatenate([segment.documents[one] for one in postings], dtype=np.intp)
        frequencies = np.concatenate([segment.frequencies[one] for one in postings])
        lifts = self._lifts[places.start : places.stop].repeat([b - a for a, b in bounds])
        # No posting lies outside; to have NumPy make sure takes half as long again.
        dampings = self._dampings.take(documents, mode="wrap")
        np.add.at(total, documents, saturation(frequencies, dampings, lifts))

    def _look_up(
        self, place: int, documents: NDArray[np.int64], total: NDArray[np.float32]
    ) -> None:
        """Add a term to the scores of some documents."""
        segment = self._segment
        postings, has = segment.find(self._rows[place], documents)
        frequencies, dampings = segment.frequencies[postings[has]], self._dampings[documents[has]]
        total[has] += saturation(frequencies, dampings, self._lifts[place])


def _still_possible(total: NDArray[np.float32], k: int, rest: float) -> NDArray[np.int64] | None:
    """Return the documents that can still be among the k best, None where that may be any.

    Args:
        total: Score of each document by the terms read so far.
        k: How many are wanted.
        rest: The most that the terms to come can add.

    Returns:
        Document numbers, ascending.
    """
    lowest = lowest_of_best(total, k)
    if lowest <= rest * (1 + _SAFETY):
        return None
    return np.flatnonzero(total >= np.float32((lowest - rest) * (1 - _SAFETY)))
