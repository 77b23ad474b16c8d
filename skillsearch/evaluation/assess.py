"""Measure systems on a judged collection, also by kind and language of its queries; pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.comparison import TIE, compare, interval
from skillsearch.evaluation.languages import languages_of, query_languages
from skillsearch.evaluation.measures import answerable_qrels, measure
from skillsearch.evaluation.reporting.report import MAIN_MEASURE
from skillsearch.evaluation.states import DEPTH, assess_states
from skillsearch.evaluation.types import (
    ANSWERABLE,
    Abstention,
    Collection,
    OperatingPoint,
    PerQuery,
    Qrels,
    QueryExample,
    RankedDocument,
    ReliabilityBin,
    Report,
    SystemAnswers,
    SystemReport,
)
from skillsearch.text.languages import UNKNOWN

FEW = 10
"""Systems are compared on the queries of a language from this number on; below, chance decides."""
SAME, CROSS = "same language", "cross-language"
BINS = 10  # bins of the calibration error
SHARES = (0.9, 0.95)  # shares of the answerable queries to keep by a threshold
FEW_FALSE = 0.05  # share of unanswerable queries that may get an answer

_SHOWN = 3  # documents shown of an answer
_BODY_CHARS = 2_000  # of a body, read to tell the language of a document
_GRID = tuple(step / 50 for step in range(51))
_NONE = -math.inf  # the score of a missing hit: below every threshold


def assess(
    collection: Collection,
    systems: Sequence[SystemAnswers],
    *,
    examples: int = 5,
    notes: Sequence[str] = (),
) -> Report:
    """Measure systems on a collection and compare them with the first of them.

    At most `examples` of their worst and best queries are shown; `notes` follow the collection's.
    An EvaluationError if no query has a relevant document.
    """
    ids = [query.query_id for query in collection.queries]
    qrels = answerable_qrels({query_id: collection.qrels.get(query_id, {}) for query_id in ids})
    if not qrels:
        raise EvaluationError(
            f"No query of the collection {collection.name!r} has a relevant document, so there "
            "is nothing to measure; judge at least one document above 0 in its qrels.tsv."
        )
    values: dict[str, dict[str, dict[str, float]]] = {}
    query_ids: dict[str, set[str]] = {}
    for system in systems:
        values[system.name] = measure(qrels, system.answers)
        for source, answers in system.unanswerable.items():
            query_ids.setdefault(source, set()).update(answers)
    return Report(
        collection=collection.name,
        documents=len(collection.documents),
        queries=len(qrels),
        unanswerable={source: len(queries) for source, queries in query_ids.items() if queries},
        systems=tuple(_report(collection, qrels, system, values, examples) for system in systems),
        comparisons=compare(list(values.items())),
        notes=(*collection.notes, *notes),
    )


def _report(
    collection: Collection,
    qrels: Qrels,
    system: SystemAnswers,
    values: Mapping[str, Mapping[str, PerQuery]],
    examples: int,
) -> SystemReport:
    """Report on a system; its best queries are furthest above the worst other system, or 0."""
    own = values[system.name]
    others = [per_query[MAIN_MEASURE] for name, per_query in values.items() if name != system.name]
    names = {document.doc_id: document.name for document in collection.documents}
    texts = {query.query_id: query.text for query in collection.queries}
    shown, gains = {}, {}
    for query, grades in qrels.items():
        value = own[MAIN_MEASURE][query]
        gains[query] = value - min((other[query] for other in others), default=0.0)
        relevant = tuple(document for document, grade in grades.items() if grade > 0)
        top = tuple(
            RankedDocument(document, names.get(document, document), score, document in relevant)
            for document, score in system.answers.get(query, ())[:_SHOWN]
        )
        shown[query] = QueryExample(query, texts[query], value, relevant, top)
    best = sorted((query for query in gains if gains[query] > TIE), key=lambda q: -gains[q])
    return SystemReport(
        name=system.name,
        settings=system.settings,
        means={name: fmean(per_query.values()) for name, per_query in own.items()},
        intervals={name: interval(list(per_query.values())) for name, per_query in own.items()},
        per_query=own,
        worst=tuple(sorted(shown.values(), key=lambda example: example.value)[:examples]),
        best=tuple(shown[query] for query in best[:examples]),
        abstention=assess_abstention(system, qrels, collection.kinds),
        milliseconds=system.milliseconds,
    )


def _assess_parts(
    collection: Collection,
    systems: Sequence[SystemAnswers],
    part_of: Mapping[str, str],
    parts: Iterable[str],
    *,
    examples: int = 5,
) -> dict[str, Report]:
    """Measure systems on each part of the queries, which are given by id, without the notes."""
    reports = {}
    for part in parts:
        queries = tuple(q for q in collection.queries if part_of.get(q.query_id) == part)
        name = part or UNKNOWN
        chosen = replace(collection, name=f"{collection.name}: {name}", queries=queries, notes=())
        reports[name] = assess(chosen, systems, examples=examples)
    return reports


def assess_kinds(collection: Collection, systems: Sequence[SystemAnswers]) -> dict[str, Report]:
    """Return a report for each kind of query, in their order; none if all are of one kind."""
    kinds = collection.kinds
    names = dict.fromkeys(kinds.values())
    return _assess_parts(collection, systems, kinds, names) if len(names) > 1 else {}


def with_languages(
    report: Report, collection: Collection, systems: Sequence[SystemAnswers]
) -> Report:
    """Add to a report of a collection how good the answers are by the language of the queries.

    Systems are compared on at least `FEW` queries; Holm's correction is within each language. The
    report stays as it is if all queries and their documents are in one language, as far as known.
    """
    qrels = answerable_qrels(collection.qrels)
    spoken = query_languages(query for query in collection.queries if query.query_id in qrels)
    pairs = _pairs(collection, qrels, spoken)
    if len({*spoken.values()} - {""}) < 2 and CROSS not in pairs.values():
        return report
    # Unanswerable queries are not divided by language.
    plain = [replace(system, unanswerable={}) for system in systems]

    def measured(group: Mapping[str, str], names: Iterable[str]) -> dict[str, Report]:
        parts = _assess_parts(collection, plain, group, names, examples=0)
        few = {
            name: replace(part, comparisons=())
            for name, part in parts.items()
            if part.queries < FEW
        }
        return parts | few

    counts = Counter(spoken.values())
    names = sorted(counts, key=lambda name: (not name, -counts[name], name))
    crossing = [name for name in (SAME, CROSS) if name in pairs.values()]
    return replace(report, languages=measured(spoken, names), crossing=measured(pairs, crossing))


def _pairs(collection: Collection, qrels: Qrels, languages: Mapping[str, str]) -> dict[str, str]:
    """Return for each query, given with its language, whether it crosses; empty if unknown."""
    relevant = {key: [doc for doc, grade in qrels[key].items() if grade > 0] for key in languages}
    needed = set().union(*relevant.values())
    written = languages_of(
        {
            doc.doc_id: (doc.language, f"{doc.description}\n{doc.body[:_BODY_CHARS]}")
            for doc in collection.documents
            if doc.doc_id in needed
        }
    )
    pairs = {}
    for query_id, language in languages.items():
        answers = {written.get(doc_id, "") for doc_id in relevant[query_id]}
        crossing = "" if not language or "" in answers else CROSS
        pairs[query_id] = SAME if language and language in answers else crossing
    return pairs


def assess_abstention(
    system: SystemAnswers, qrels: Qrels, kinds: Mapping[str, str] = {}
) -> Abstention:
    """Measure how well a system separates answerable queries from those that nothing answers.

    A query is answered if it has a hit that scores at least the threshold. The system's answers
    must be without a threshold applied; queries without a relevant document are left out.
    """
    seen = _Observed.of(system, qrels)
    highest = np.sort(seen.kept_up_to[seen.kept_up_to > _NONE])[::-1]
    # 0.9 of 10 is 9, and not 10 for the last bit of a product.
    needed = {share: math.ceil(share * len(highest) - 1e-9) for share in SHARES if len(highest)}
    thresholds: Sequence[float] = _GRID
    errors: dict[str, float] = {}
    reliability: tuple[ReliabilityBin, ...] = ()
    if system.is_calibrated:
        errors, reliability = seen.calibration()
    else:
        scores = np.concatenate([seen.top, seen.pooled])
        scores = scores[scores > _NONE]
        steps = np.linspace(0, 1, len(_GRID))
        quantiles = np.quantile(scores, steps, method="inverted_cdf") if len(scores) else scores
        thresholds = np.unique(quantiles).tolist()
    tops = {ANSWERABLE: seen.top, **seen.unanswerable}
    precision = None if system.threshold is None else seen.point(system.threshold).precision
    return Abstention(
        auroc={
            source: auroc(seen.top, scores)
            for source, scores in seen.unanswerable.items()
            if len(seen.top)
        },
        curve=tuple(map(seen.point, thresholds)),
        default=assess_states(system, qrels, kinds, precision=precision),
        keeping={share: seen.point(highest[count - 1]) for share, count in needed.items()},
        recall_at_few_false={
            source: recall_at_false(seen.kept_up_to, scores)
            for source, scores in seen.unanswerable.items()
            if len(seen.kept_up_to)
        },
        calibration_error=errors,
        reliability=reliability,
        top_scores={
            source: tuple(np.where(at == _NONE, 0.0, at).tolist()) for source, at in tops.items()
        },
    )


class _Observed(NamedTuple):
    """Scores that decide on abstention; a query without the hit has `_NONE`.

    For each answerable query these are the score of the first hit, whether that is relevant, and
    the best score of a relevant document in the answer. For the unanswerable ones they are the
    scores of the first hits by source, and pooled.
    """

    top: NDArray[np.float64]
    is_right: NDArray[np.bool_]
    kept_up_to: NDArray[np.float64]
    unanswerable: Mapping[str, NDArray[np.float64]]
    pooled: NDArray[np.float64]

    @classmethod
    def of(cls, system: SystemAnswers, qrels: Qrels) -> _Observed:
        """Gather the scores of a system; sources without a query are left out."""
        top, is_right, kept_up_to = [], [], []
        for query, grades in answerable_qrels(qrels).items():
            ranking = system.answers.get(query, ())[:DEPTH]
            relevant = [grades.get(document, 0) > 0 for document, _ in ranking]
            scores = [score for _, score in ranking]
            top.append(scores[0] if scores else _NONE)
            is_right.append(any(relevant[:1]))
            kept_up_to.append(max(compress(scores, relevant), default=_NONE))
        unanswerable = {
            source: np.array([ranking[0][1] if ranking else _NONE for ranking in answers.values()])
            for source, answers in system.unanswerable.items()
            if answers
        }
        pooled = np.concatenate([np.empty(0), *unanswerable.values()])
        right = np.array(is_right, dtype=np.bool_)
        return cls(np.array(top), right, np.array(kept_up_to), unanswerable, pooled)

    def point(self, threshold: float) -> OperatingPoint:
        """Return the effect of a threshold."""
        answered = self.top >= threshold
        total = int(answered.sum()) + int((self.pooled >= threshold).sum())
        recalled = self.kept_up_to >= threshold
        false = {
            source: float((top >= threshold).mean()) for source, top in self.unanswerable.items()
        }
        precision = int((answered & self.is_right).sum()) / total if total else None
        share = float(recalled.mean()) if len(recalled) else 0.0
        return OperatingPoint(float(threshold), share, false, precision)

    def calibration(self) -> tuple[dict[str, float], tuple[ReliabilityBin, ...]]:
        """Compare the scores of first hits with their relevance.

        Over all queries the answerable and the unanswerable ones weigh the same, however many they
        are: else the error would reflect how many of the other sort were asked.
        """
        has_hit = self.top > _NONE
        scores, outcomes = self.top[has_hit], self.is_right[has_hit]
        false = self.pooled[self.pooled > _NONE]
        errors: dict[str, float] = {}
        bins: tuple[ReliabilityBin, ...] = ()
        if len(scores):
            errors[ANSWERABLE], bins = expected_calibration_error(scores, outcomes)
        if len(false):
            counts = len(scores), len(false)
            weights = np.repeat([1 / max(counts[0], 1), 1 / counts[1]], counts)
            scores = np.concatenate([scores, false])
            outcomes = np.concatenate([outcomes, np.zeros(len(false))])
            errors["all"], bins = expected_calibration_error(scores, outcomes, weights=weights)
        return errors, bins


def auroc(answerable: ArrayLike, unanswerable: ArrayLike) -> float:
    """Return how often an answerable query scores above another (Mann and Whitney), ties half."""
    upper, lower = np.asarray(answerable), np.sort(np.asarray(unanswerable, dtype=np.float64))
    below = np.searchsorted(lower, upper, side="left").sum()
    not_above = np.searchsorted(lower, upper, side="right").sum()
    return float(below + not_above) / (2 * len(upper) * len(lower))


def means(rows: Iterable[Mapping[str, float | None]]) -> dict[str, float]:
    """Return the mean of each measure over the rows that have it, if any has."""
    values: dict[str, list[float]] = {}
    for name, value in (item for row in rows for item in row.items()):
        values.setdefault(name, []).extend(() if value is None else (value,))
    return {name: statistics.mean(each) for name, each in values.items() if each}


def recall_at_false(
    answerable: ArrayLike, unanswerable: ArrayLike, share: float = FEW_FALSE
) -> float:
    """Return how many right answers score above all but a share of the unanswerable queries."""
    lowest_first = np.sort(np.asarray(unanswerable, dtype=np.float64))
    allowed = int(share * len(lowest_first))
    return float((np.asarray(answerable) > lowest_first[-1 - allowed]).mean())


def expected_calibration_error(
    scores: ArrayLike, outcomes: ArrayLike, *, bins: int = BINS, weights: ArrayLike | None = None
) -> tuple[float, tuple[ReliabilityBin, ...]]:
    """Return how far predicted probabilities are from the share of cases that come true.

    Guo et al., ICML 2017: the gap between mean score and share in bins of equal width, averaged by
    the weight in them. A score on an edge lies in the bin above, 1 in the last. Only the counts of
    the bins, which hold a case each and ascend, are not weighted.
    """
    score = np.asarray(scores, dtype=np.float64)
    came_true = np.asarray(outcomes, dtype=np.float64)
    weight = np.ones_like(score) if weights is None else np.asarray(weights, dtype=np.float64)
    edges = np.arange(bins + 1) / bins
    bin_of_score = np.searchsorted(edges[1:-1], score, side="right")
    error, filled = 0.0, []
    for number in np.unique(bin_of_score):
        inside = bin_of_score == number
        mean = float(np.average(score[inside], weights=weight[inside]))
        share = float(np.average(came_true[inside], weights=weight[inside]))
        error += abs(mean - share) * float(weight[inside].sum() / weight.sum())
        low, high = float(edges[number]), float(edges[number + 1])
        filled.append(ReliabilityBin(low, high, int(inside.sum()), mean, share))
    return error, tuple(filled)
