"""Does a system know when nothing fits? The effect of thresholds, and calibration; pure.

A query is answered if it has a hit that scores at least the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.evaluation.runs import answerable_qrels
from skillsearch.evaluation.types import (
    Abstention,
    OperatingPoint,
    Qrels,
    Ranking,
    ReliabilityBin,
    SystemAnswers,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

DEPTH = 5
"""Hits of an answer: no threshold keeps a relevant document below them."""
BINS = 10
"""Bins of the calibration error."""
SHARES = (0.9, 0.95)
"""Shares of the answerable queries to keep by a threshold."""

_GRID = tuple(step / 50 for step in range(51))
_NONE = -math.inf
"""The score of a missing hit: below every threshold."""


@dataclass(frozen=True, slots=True)
class _Observed:
    """Scores that decide on abstention; a query without the hit has `_NONE`.

    Attributes:
        top: Score of the first hit of each answerable query.
        is_right: Whether that hit is relevant.
        kept_up_to: Best score of a relevant document in the answer to each.
    """

    top: NDArray[np.float64]
    is_right: NDArray[np.bool_]
    kept_up_to: NDArray[np.float64]
    unanswerable: Mapping[str, NDArray[np.float64]]

    @property
    def pooled(self) -> NDArray[np.float64]:
        """Scores of the first hits of all unanswerable queries."""
        return np.concatenate([np.empty(0), *self.unanswerable.values()])


def auroc(answerable: Sequence[float], unanswerable: Sequence[float]) -> float:
    """Return the chance that an answerable query scores above an unanswerable one.

    The area under the ROC curve, as the statistic of Mann and Whitney: ties count half.
    """
    lower = np.sort(np.asarray(unanswerable, dtype=np.float64))
    below = np.searchsorted(lower, answerable, side="left").sum()
    not_above = np.searchsorted(lower, answerable, side="right").sum()
    return float(below + not_above) / (2 * len(answerable) * len(lower))


def expected_calibration_error(
    scores: ArrayLike, outcomes: ArrayLike, *, bins: int = BINS, weights: ArrayLike | None = None
) -> tuple[float, tuple[ReliabilityBin, ...]]:
    """Return how far predicted probabilities are from the share of cases that come true.

    Guo et al., ICML 2017: the gap between mean score and share in bins of equal width, averaged by
    the weight in them. A score on an edge lies in the bin above, 1 in the last. Returns the error,
    0 to 1, and the bins that hold a case, by ascending score. Their means and shares are weighted,
    their counts are not.
    """
    score = np.asarray(scores, dtype=np.float64)
    came_true = np.asarray(outcomes, dtype=np.float64)
    weight = np.ones_like(score) if weights is None else np.asarray(weights, dtype=np.float64)
    edges = np.arange(bins + 1) / bins
    place = np.searchsorted(edges[1:-1], score, side="right")
    error, found = 0.0, []
    for number in np.unique(place):
        inside = place == number
        mean = float(np.average(score[inside], weights=weight[inside]))
        share = float(np.average(came_true[inside], weights=weight[inside]))
        error += abs(mean - share) * float(weight[inside].sum() / weight.sum())
        low, high = float(edges[number]), float(edges[number + 1])
        found.append(ReliabilityBin(low, high, int(inside.sum()), mean, share))
    return error, tuple(found)


def assess_abstention(system: SystemAnswers, qrels: Qrels) -> Abstention:
    """Measure how well a system separates answerable queries from those that nothing answers.

    Its answers must be without a threshold applied; queries without a relevant document are left
    out.
    """
    seen = _observe(system, qrels)
    default = None if system.threshold is None else _point(seen, system.threshold)
    errors, reliability = _calibration(seen) if system.is_calibrated else ({}, ())
    tops = {"answerable": seen.top, **seen.unanswerable}
    return Abstention(
        auroc={
            source: auroc(seen.top.tolist(), scores.tolist())
            for source, scores in seen.unanswerable.items()
            if len(seen.top)
        },
        curve=tuple(_point(seen, threshold) for threshold in _thresholds(system, seen)),
        default=default,
        keeping=_keeping(seen),
        calibration_error=errors,
        reliability=reliability,
        top_scores={
            source: tuple(np.where(scores == _NONE, 0.0, scores).tolist())
            for source, scores in tops.items()
        },
    )


def _observe(system: SystemAnswers, qrels: Qrels) -> _Observed:
    """Gather the scores that decide; sources without a query are left out."""
    top, is_right, kept_up_to = [], [], []
    for query, grades in answerable_qrels(qrels).items():
        relevant = {document for document, grade in grades.items() if grade > 0}
        ranking = system.answers.get(query, ())
        top.append(_top(ranking))
        is_right.append(any(document in relevant for document, _ in ranking[:1]))
        hits = (score for document, score in ranking[:DEPTH] if document in relevant)
        kept_up_to.append(max(hits, default=_NONE))
    return _Observed(
        np.array(top),
        np.array(is_right, dtype=np.bool_),
        np.array(kept_up_to),
        {
            source: np.array([_top(ranking) for ranking in answers.values()])
            for source, answers in system.unanswerable.items()
            if answers
        },
    )


def _top(ranking: Ranking) -> float:
    return ranking[0][1] if ranking else _NONE


def _point(seen: _Observed, threshold: float) -> OperatingPoint:
    answered = seen.top >= threshold
    total = int(answered.sum()) + int((seen.pooled >= threshold).sum())
    right = int((answered & seen.is_right).sum())
    return OperatingPoint(
        threshold=float(threshold),
        kept=_share(seen.kept_up_to >= threshold),
        false_answers={
            source: _share(scores >= threshold) for source, scores in seen.unanswerable.items()
        },
        precision=right / total if total else None,
    )


def _share(flags: NDArray[np.bool_]) -> float:
    """Return the share that is true, 0 of nothing."""
    return float(flags.mean()) if len(flags) else 0.0


def _thresholds(system: SystemAnswers, seen: _Observed) -> Sequence[float]:
    """Return a fixed grid for probabilities, else quantiles of the first hits."""
    if system.is_calibrated:
        return _GRID
    scores = np.concatenate([seen.top, seen.pooled])
    scores = scores[scores > _NONE]
    if not len(scores):
        return ()
    quantiles = np.quantile(scores, np.linspace(0, 1, len(_GRID)), method="inverted_cdf")
    return [float(score) for score in np.unique(quantiles)]


def _keeping(seen: _Observed) -> dict[float, OperatingPoint]:
    """Find the highest threshold that keeps each share of what can be kept at all."""
    scores = np.sort(seen.kept_up_to[seen.kept_up_to > _NONE])[::-1]
    if not len(scores):
        return {}
    # 0.9 of 10 is 9, and not 10 for the last bit of a product.
    needed = {share: math.ceil(share * len(scores) - 1e-9) for share in SHARES}
    return {share: _point(seen, scores[count - 1]) for share, count in needed.items()}


def _calibration(seen: _Observed) -> tuple[dict[str, float], tuple[ReliabilityBin, ...]]:
    """Compare the scores of first hits with what is relevant.

    Over all queries the answerable and the unanswerable ones weigh the same, however many they are:
    else the error would reflect how many of the other sort were asked.
    """
    has_hit = seen.top > _NONE
    scores, outcomes = seen.top[has_hit], seen.is_right[has_hit]
    false = seen.pooled[seen.pooled > _NONE]
    errors: dict[str, float] = {}
    reliability: tuple[ReliabilityBin, ...] = ()
    if len(scores):
        errors["answerable"], reliability = expected_calibration_error(scores, outcomes)
    if len(false):
        weights = np.repeat([1 / max(len(scores), 1), 1 / len(false)], [len(scores), len(false)])
        errors["all"], reliability = expected_calibration_error(
            np.concatenate([scores, false]),
            np.concatenate([outcomes, np.zeros(len(false))]),
            weights=weights,
        )
    return errors, reliability
