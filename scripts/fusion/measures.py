"""What scores are worth, by collection and by kind of request, and the threshold."""

from __future__ import annotations

import math
import statistics
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusion.answers import HITS
from fusion.ranking import DENSE_FEATURES, LEXICAL_FEATURES, Matrix, RankingData, channel, ndcg_of
from fusion.samples import Sample
from skillsearch.evaluation.assess import auroc, expected_calibration_error, means
from skillsearch.evaluation.style import FEWEST, style_auroc
from skillsearch.evaluation.types import JudgedQuery
from skillsearch.text.states import BOUNDS, count_shown

FALSE_ANSWERS = {"foreign": 0.04, "twin": 0.08}
"""Share of the queries of a kind that the default threshold may answer, mean over collections."""
UNANSWERABLE = ("dropped", "twin", "nothing", "foreign")
Table = dict[str, dict[str, float | None]]


@dataclass(frozen=True, slots=True)
class Predicted:
    """Scores of the first hits, which are relevant, and the nDCG@10; a row for each sample."""

    scores: Matrix
    relevant: NDArray[np.bool_]
    ndcg: Matrix

    @classmethod
    def empty(cls, size: int) -> Predicted:
        """Return room for so many samples."""
        return cls(np.zeros((size, HITS)), np.zeros((size, HITS), bool), np.zeros(size))

    @classmethod
    def of(
        cls, samples: Sequence[Sample], scores: Matrix, relevant: NDArray[np.bool_]
    ) -> Predicted:
        """Take the scores of all samples, in the order of their answers."""
        return cls(scores, relevant, ndcg_of(samples, relevant))

    def put(self, rows: NDArray[np.bool_], other: Predicted) -> None:
        """Take some rows of another."""
        self.scores[rows], self.relevant[rows] = other.scores[rows], other.relevant[rows]
        self.ndcg[rows] = other.ndcg[rows]


def hit_error(scores: Matrix, relevant: NDArray[np.bool_]) -> float:
    """Return the expected calibration error over all first hits of some answers."""
    is_hit = scores > 0
    outcomes = relevant[is_hit].astype(float).tolist()
    return expected_calibration_error(scores[is_hit].tolist(), outcomes)[0]


def ranking_measures(data: RankingData, weights: Matrix) -> dict[str, float | None]:
    """Measure the ranking of one collection against words and vectors alone, nDCG@10."""
    return {
        "hybrid": data.ndcg(weights),
        "bm25": data.ndcg(channel(weights, LEXICAL_FEATURES)),
        "dense": data.ndcg(channel(weights, DENSE_FEATURES)),
    }


def score_measures(
    samples: Sequence[Sample], predicted: Predicted, name: str, threshold: float
) -> dict[str, float | None]:
    """Measure the scores of one collection: the order, the calibration, what is shown and told."""
    rows = {
        kind: np.array([s.is_whole(kind) and s.collection == name for s in samples])
        for kind in ("judged", *UNANSWERABLE)
    }
    tops = {kind: predicted.scores[mask][:, 0] for kind, mask in rows.items()}
    hits, right = predicted.scores[rows["judged"]], predicted.relevant[rows["judged"]]
    values: dict[str, float | None] = {
        "read": float(predicted.ndcg[rows["judged"]].mean()),
        "ece first": expected_calibration_error(tops["judged"], right[:, 0].tolist())[0],
        "ece hits": hit_error(hits, right),
        "recall": float(is_kept(predicted, threshold)[rows["judged"]].mean()),
    }
    for face, bound in BOUNDS.items():
        values[f"shown {face}"] = mean_of(right_shown(hits, right, threshold, bound))
        values[f"none {face}"] = mean_of(tops["foreign"] < bound)
    for kind in UNANSWERABLE:
        wrong = tops[kind]
        values[f"auroc {kind}"] = auroc(tops["judged"], wrong) if len(wrong) else None
        values[f"{kind} answered"] = mean_of(wrong >= threshold)
    return values


def right_shown(
    scores: Matrix, relevant: NDArray[np.bool_], threshold: float, bound: float
) -> list[bool]:
    """Return whether a face with a bound shows a right skill, of answers that have one."""
    return [
        bool(is_right[: count_shown(row, threshold, bound)[1]].any())
        for row, is_right in zip(scores.tolist(), relevant, strict=True)
        if is_right.any()
    ]


def mean_of(values: Sequence[bool] | NDArray[np.bool_]) -> float | None:
    """Return the share of the true values, None if there are no values."""
    return float(np.mean(values)) if len(values) else None


def is_kept(predicted: Predicted, threshold: float) -> Matrix:
    """Return 1 for each sample of which a right skill fits, and 0 for the others."""
    best = np.where(predicted.relevant, predicted.scores, 0.0).max(axis=1)
    is_right: Matrix = (best >= threshold).astype(float)
    return is_right


def of_each(predicted: Predicted, threshold: float) -> dict[str, Matrix]:
    """Return the nDCG@10 of each sample, and whether it `is_kept`, by the names of the measures."""
    return {"read": predicted.ndcg, "recall": is_kept(predicted, threshold)}


def margin(groups: Iterable[Matrix]) -> float:
    """Return half of the 95 % interval of the mean over groups of the mean of each.

    It is that of requests drawn anew, the groups held; the values may be differences.
    """
    errors = [values.var(ddof=1) / len(values) for values in groups if len(values) > 1]
    return 1.96 * math.sqrt(sum(errors)) / max(len(errors), 1)


def margins(
    samples: Sequence[Sample], predicted: Predicted, threshold: float
) -> dict[str, dict[str, float]]:
    """Return the `margin` of the nDCG@10 and of the recall of each collection."""
    rows: dict[str, dict[str, float]] = {}
    for key, values in of_each(predicted, threshold).items():
        for name, group in by_collection(samples, values, "judged").items():
            rows.setdefault(name, {})[key] = margin([group])
    return rows


def measure(
    samples: Sequence[Sample],
    weights: Mapping[str, tuple[RankingData, Matrix]],
    predicted: Predicted,
    threshold: float,
) -> Table:
    """Measure every collection."""
    return {
        name: ranking_measures(data, used) | score_measures(samples, predicted, name, threshold)
        for name, (data, used) in weights.items()
    }


def by_collection(
    samples: Sequence[Sample],
    values: NDArray[Any],
    kind: str,
    among: Container[str] | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the rows of the samples of a kind, by collection.

    `among` are the collections that count, by default all.
    """
    names = np.array([s.collection if s.is_whole(kind) else "" for s in samples])
    wanted = sorted(name for name in {*names.tolist()} - {""} if among is None or name in among)
    return {name: values[names == name] for name in wanted}


def choose_threshold(
    samples: Sequence[Sample], predicted: Predicted, among: Container[str] | None = None
) -> float:
    """Return the lowest threshold, in steps of 0.01, with at most `FALSE_ANSWERS`.

    Twins that differ in a version or a direction alone do not count: they were all written to be as
    hard as can be, and people ask few like them.
    """
    is_counted = [
        s.judged_query is None or (s.kind, s.judged_query.kind) != ("twin", "contrast")
        for s in samples
    ]
    counted = [s for s, counts in zip(samples, is_counted, strict=True) if counts]
    scores = predicted.scores[is_counted, 0]
    tops = {kind: by_collection(counted, scores, kind, among) for kind in FALSE_ANSWERS}

    def is_enough(threshold: float) -> bool:
        return all(
            statistics.mean(float((top >= threshold).mean()) for top in tops[kind].values()) <= most
            for kind, most in FALSE_ANSWERS.items()
            if tops[kind]
        )

    return next((step / 100 for step in range(1, 100) if is_enough(step / 100)), 0.99)


def measure_kinds(samples: Sequence[Sample], predicted: Predicted) -> dict[str, dict[str, float]]:
    """Return the AUROC of each kind of request with twins, and that of style alone.

    Means over the collections that have enough of the kind.
    """
    tops = tops_by_kind(samples, predicted)
    values: dict[str, dict[str, list[float]]] = {}
    for (kind, collection, source), wrong in sorted(tops.items()):
        judged = tops.get((kind, collection, "judged"), [])
        if source == "judged" or min(len(wrong), len(judged)) < FEWEST:
            continue
        row = values.setdefault(kind, {})
        scores = (np.array([score for _, score in group]) for group in (judged, wrong))
        row.setdefault(f"auroc {source}", []).append(auroc(*scores))
        if source == "twin":
            queries = ([query for query, _ in group] for group in (judged, wrong))
            row.setdefault("style twin", []).append(style_auroc(*queries))
    return {
        kind: {measure: statistics.mean(shares) for measure, shares in row.items()}
        for kind, row in values.items()
    }


def tops_by_kind(
    samples: Sequence[Sample], predicted: Predicted
) -> dict[tuple[str, str, str], list[tuple[JudgedQuery, float]]]:
    """Return queries with their best score, of whole collections that have twins.

    They are by the kind of request, the collection, and the kind of the sample.
    """
    with_twins = {sample.collection for sample in samples if sample.kind == "twin"}
    tops: dict[tuple[str, str, str], list[tuple[JudgedQuery, float]]] = {}
    for sample, score in zip(samples, predicted.scores[:, 0].tolist(), strict=True):
        if sample.judged_query and sample.variant == "whole" and sample.collection in with_twins:
            key = (sample.judged_query.kind, sample.collection, sample.kind)
            tops.setdefault(key, []).append((sample.judged_query, score))
    return tops


def print_table(title: str, table: Table) -> None:
    """Print one line a collection, then the means."""
    rows: Mapping[str, Mapping[str, float | None]] = {**table, "mean": {**means(table.values())}}
    names = list(rows["mean"])
    print(f"\n{title:24}", *(f"{name:>16}" for name in names))
    for label, row in rows.items():
        cells = (f"{'-':>16}" if row[name] is None else f"{row[name]:16.3f}" for name in names)
        print(f"{label:24}", *cells, flush=True)


def print_kinds(kinds: Mapping[str, Mapping[str, float]]) -> None:
    """Print one line a kind of request."""
    names = sorted({name for row in kinds.values() for name in row})
    print(f"\n{'kind of request':24}", *(f"{name:>16}" for name in names))
    for kind, row in kinds.items():
        cells = (f"{row[name]:16.3f}" if name in row else f"{'-':>16}" for name in names)
        print(f"{kind:24}", *cells, flush=True)
