"""BM25 over one field of a corpus: BM25Okapi's scores, and the best documents by them.

Scores use the statistics of all living documents, however they are split into segments. The best
documents are found without reading all postings (MaxScore: Turtle and Flood, 1995): once the
remaining terms could not lift another document among the best, they are looked up only for the few
that are left.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping
from functools import cached_property, reduce

import numpy as np

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.lexical.postings import (
    K1,
    LexicalSegment,
    LexicalStatistics,
    TermTally,
    idf,
    length_norms,
    saturation,
)
from skillsearch.index.storage.numbering import (
    NOTHING,
    Floats,
    Hashes,
    Numbers,
    Values,
    divided,
    locate,
    numbered,
)
from skillsearch.text.tokenizer import is_bigram, term_hash

# The most that one occurrence's idf can be multiplied by.
SATURATION_LIMIT = K1 + 1
# An unknown word says that the corpus lacks a topic; an unknown bigram, a piece of a word, says it
# with this share of the weight. Chosen on `eval` with foreign queries: AUROC .866 to .880.
UNKNOWN_BIGRAM_WEIGHT = 0.3
# Pruning is tried from this many unread postings on; in a large corpus, in which it takes longer,
# from more.
WORTH_PRUNING = 32_768
# Looking one document up among postings costs about as much as reading this many of them.
_LOOKUP_COST = 16
# Share by which bounds are widened, so that rounding never cuts off a document.
_SAFETY = 1e-4
_MANY = 1 << 16
_LARGE_BLOCK, _SMALL_BLOCK = 512, 32
# Words that a part of a word stands for, at most.
MOST_BEGUN = 8


@dataclass(frozen=True, slots=True)
class TermWeights:
    """The distinct terms of a query, weighed by a field, in the order of the query.

    The `idf` is 0 for terms that no document has; `rows` has the row of each term in each segment,
    -1 if it lacks the term. `known_score` is the most that known terms can contribute to a score,
    `unknown_score` what terms that no document has would contribute as the rarest of all.
    """

    terms: tuple[str, ...]
    hashes: Hashes
    repeats: Values
    document_frequencies: Numbers
    idf: Values
    rows: tuple[Numbers, ...]
    known_score: float
    unknown_score: float

    @property
    def max_score(self) -> float:
        """The score of a document saturated with every term of the query, unknown ones included."""
        return self.known_score + self.unknown_score

    def known_idf(self) -> dict[str, float]:
        """Return the weight of each term that some document has."""
        rows = zip(self.terms, self.idf.tolist(), self.document_frequencies.tolist(), strict=True)
        return {term: weight for term, weight, count in rows if count > 0}


@dataclass(frozen=True, eq=False)
class LexicalField:
    """One field of a corpus, ready to be scored; documents are numbered through all segments.

    `corrections` adjust document frequencies; pruning is tried from `worth_pruning` postings on.
    """

    segments: tuple[LexicalSegment, ...]
    statistics: LexicalStatistics
    corrections: TermTally
    worth_pruning: int = WORTH_PRUNING

    @classmethod
    def of(cls, segment: LexicalSegment) -> LexicalField:
        """Return the field of a corpus of one segment."""
        statistics = LexicalStatistics(segment.size, *segment.statistics.tolist())
        return cls((segment,), statistics, TermTally.empty())

    @cached_property
    def norms(self) -> tuple[Floats, ...]:
        """Length normalisation of each document, one array a segment."""
        mean_length = self.statistics.mean_length
        return tuple(length_norms(segment.lengths, mean_length) for segment in self.segments)

    @property
    def rarest_idf(self) -> float:
        """The weight of a term that no document has."""
        return math.log((self.statistics.documents + 0.5) / 0.5)

    def begun_by(self, prefix: str) -> list[str]:
        """Return the first `MOST_BEGUN` words of each segment that begin with a prefix, if kept."""
        words = (segment.words_with(prefix, MOST_BEGUN) for segment in self.segments)
        return sorted(set().union(*words))

    def weigh(self, query: Mapping[str, float]) -> TermWeights:
        """Look the terms of a query up and weigh them."""
        hashes = np.fromiter(map(term_hash, query), np.uint64, len(query))
        rows = tuple(segment.rows(hashes) for segment in self.segments)
        frequencies = self.corrections.of(hashes)
        for segment, places in zip(self.segments, rows, strict=True):
            frequencies += segment.document_frequencies(places)
        count, mean = self.statistics.documents, self.statistics.average_idf
        counts = frequencies.tolist()
        weights = np.array([idf(df, count, mean) if df > 0 else 0.0 for df in counts])
        repeats = np.fromiter(query.values(), np.float64, len(query))
        unknown = sum(
            times * (UNKNOWN_BIGRAM_WEIGHT if is_bigram(term) else 1.0)
            for term, times, df in zip(query, repeats.tolist(), counts, strict=True)
            if df <= 0
        )
        known_score = SATURATION_LIMIT * float(weights @ repeats)
        unknown *= SATURATION_LIMIT * self.rarest_idf
        terms = tuple(query)
        return TermWeights(terms, hashes, repeats, frequencies, weights, rows, known_score, unknown)

    def best(self, query: TermWeights, k: int, excluded: Numbers) -> LexicalMatches:
        """Find the documents with the k highest scores above 0; more only if the last ones tie."""
        parts = tuple(SegmentScores(self, number, query) for number in range(len(self.segments)))
        pools = [part.best(k, own) + first for first, part, own in divided(excluded, parts)]
        matches = LexicalMatches(parts, np.concatenate(pools))
        if len(parts) == 1:
            return matches
        best = top_documents(matches.scores_of(matches.documents), k)
        return LexicalMatches(parts, matches.documents[best])

    def holding(self, terms: Collection[str]) -> Numbers:
        """Return the documents that have all of some terms; none without a term."""
        documents = [NOTHING]
        hashes = np.array([*map(term_hash, terms)], np.uint64)
        for first, segment in numbered(self.segments):
            rows = segment.rows(hashes).tolist()
            if min(rows, default=-1) < 0:
                continue
            bounds = (segment.starts[row : row + 2].tolist() for row in rows)
            postings = [segment.documents[begin:end] for begin, end in bounds]
            held = reduce(np.intersect1d, sorted(postings, key=len))
            documents.append(held.astype(np.int64) + first)
        return np.concatenate(documents)

    def held_terms(
        self, query: TermWeights, document: int, among: Container[str] | None = None
    ) -> dict[str, float]:
        """Return the query terms that a document has, told by its postings, with their weights.

        Only terms `among` some are looked up, if these are given.
        """
        number, local = locate(self.segments, document)
        segment = self.segments[number]
        rows = zip(query.terms, query.idf.tolist(), query.rows[number].tolist(), strict=True)
        wanted = (row for row in rows if among is None or row[0] in among)
        return {term: weight for term, weight, row in wanted if segment.has(row, local)}

    def rarest_held(self, query: TermWeights, documents: Numbers) -> Values:
        """Return the weight of the rarest query term that each document has, 0 without any."""
        weights = np.zeros(len(documents))
        order = np.argsort(-query.idf, kind="stable")
        for number, (first, segment) in enumerate(numbered(self.segments)):
            candidates = np.flatnonzero((documents >= first) & (documents < first + segment.size))
            rows = query.rows[number][order]
            for row, weight in zip(rows.tolist(), query.idf[order].tolist(), strict=True):
                if row >= 0 and len(candidates):
                    _, has = segment.find(row, documents[candidates] - first)
                    weights[candidates[has]] = weight
                    candidates = candidates[~has]
        return weights


@dataclass(frozen=True, slots=True, eq=False)
class LexicalMatches:
    """The best documents for a query, ascending, and its scorer in each segment."""

    segments: tuple[SegmentScores, ...]
    documents: Numbers

    def scores_of(self, documents: Numbers) -> Floats:
        """Return the scores of any documents, given ascending."""
        parts = divided(documents, self.segments)
        return np.concatenate([segment.scores_of(own) for _, segment, own in parts])


class SegmentScores:
    """A query being scored in one segment of a field.

    Terms are added from the heaviest to the lightest, whatever the segments, so that a document has
    the same score to the last bit. The first terms are read for all documents, the others looked up
    for those that are asked for.
    """

    def __init__(self, field: LexicalField, number: int, query: TermWeights) -> None:
        """Take the segment of this number; the query must be weighed by the field."""
        segment, rows = field.segments[number], query.rows[number]
        weights = query.idf * query.repeats
        order = np.argsort(-weights, kind="stable")
        order = order[rows[order] >= 0]
        self.size = segment.size
        self._segment = segment
        self._norms = field.norms[number]
        self._worth = field.worth_pruning + self.size // 16
        self._rows: list[int] = rows[order].tolist()
        self._weights = (weights[order] * SATURATION_LIMIT).astype(np.float32)
        self._counts: list[int] = segment.document_frequencies(rows[order]).tolist()
        # A longer mean length than the segment's own lifts every saturation, by no more than the
        # ratio of the two.
        ratio = max(1.0, field.statistics.mean_length / max(float(segment.statistics[0]), 1e-9))
        peaks = segment.peaks[rows[order]].astype(np.float64) * (ratio * (1 + _SAFETY))
        self._bounds: list[float] = (weights[order] * peaks).tolist()
        # By the terms that were read for all documents.
        self._total = np.zeros(self.size, np.float32)
        self._read = 0

    def scores_of(self, documents: Numbers) -> Floats:
        """Return the scores of some documents."""
        total = self._total[documents]
        if len(excluded := np.flatnonzero(np.isneginf(total))):
            nothing = np.zeros(len(excluded), np.float32)
            total[excluded] = self._with(nothing, documents[excluded], slice(self._read))
        return self._with(total, documents, slice(self._read, None))

    def _with(self, total: Floats, documents: Numbers, terms: slice) -> Floats:
        """Return the scores of some documents with some further terms, looked up."""
        segment = self._segment
        for row, weight in zip(self._rows[terms], self._weights[terms], strict=True):
            postings, has = segment.find(row, documents)
            frequencies, norms = segment.frequencies[postings[has]], self._norms[documents[has]]
            total[has] += saturation(frequencies, norms, weight)
        return total

    def best(self, k: int, excluded: Numbers) -> Numbers:
        """Return the documents with the k highest scores and ties; excluded ones lose theirs."""
        total = self._total
        total[excluded] = -np.inf
        unread, possible, reached = sum(self._counts), sum(self._bounds), 0.0
        while unread:
            first, read = self._read, 0
            # What can stay unread is known only once the remaining terms are the lesser part.
            while self._read < len(self._rows) and (
                unread - read < self._worth or read < self._worth // 4 or possible >= reached
            ):
                read += self._counts[self._read]
                possible -= self._bounds[self._read]
                reached += self._bounds[self._read]
                self._read += 1
            self._add(slice(first, self._read))
            unread -= read
            lowest = lowest_of_best(total, k) if unread else -math.inf
            # The remaining terms can add `possible` to the scores so far.
            if lowest > possible * (1 + _SAFETY):
                bound = np.float32((lowest - possible) * (1 - _SAFETY))
                candidates = np.flatnonzero(total >= bound)
                if len(candidates) * _LOOKUP_COST * (len(self._rows) - self._read) < unread:
                    return candidates[top_documents(self.scores_of(candidates), k)]
        return top_documents(total, k)

    def _add(self, places: slice) -> None:
        """Add some terms to the scores of all documents that have them, with few calls of NumPy."""
        segment = self._segment
        postings = [slice(*segment.starts[row : row + 2].tolist()) for row in self._rows[places]]
        documents = np.concatenate([segment.documents[rows] for rows in postings], dtype=np.intp)
        frequencies = np.concatenate([segment.frequencies[rows] for rows in postings])
        weights = self._weights[places].repeat(self._counts[places])
        # No posting is out of bounds; NumPy's check would take half as long again.
        norms = self._norms.take(documents, mode="wrap")
        np.add.at(self._total, documents, saturation(frequencies, norms, weights))


def lowest_of_best(scores: Floats, k: int) -> float:
    """Return a lower bound of the k-th highest score, and the score itself if there are few."""
    # The k-th highest maximum of a block: a partition of a million scores takes 70 ms, this 1.7 ms.
    block = _LARGE_BLOCK if len(scores) >= _MANY else _SMALL_BLOCK
    whole = len(scores) // block * block
    if whole // block > k:
        # Neighbours go to different blocks, so that the maxima are taken of whole rows at once.
        scores = scores[:whole].reshape(block, -1).max(axis=0)
    if len(scores) < k:
        return 0.0
    return max(float(np.partition(scores, -k)[-k]), 0.0)


def top_documents(scores: Floats, k: int) -> Numbers:
    """Return the documents with the k highest scores above 0, ascending; more only if they tie."""
    bound = lowest_of_best(scores, k)
    documents = np.flatnonzero(scores >= bound) if bound > 0 else np.flatnonzero(scores > 0)
    if len(documents) <= k:
        return documents
    best: Numbers = documents[scores[documents] >= np.partition(scores[documents], -k)[-k]]
    return best
