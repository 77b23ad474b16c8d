"""Fit the calibrated score on judged collections and write its coefficients into the package.

Usage: python scripts/fit_fusion.py COLLECTION... [--work DIR] [--output FILE] [--keep-second]

First everything is fitted on indexes with one dense channel. Then, on indexes with two, what tells
the language of a query, and the numbers of the second channel; the first's are held, so that
a query in English has the score that it would have without the second. This part also asks the
queries of ``scripts/cross_language``: our own, in 17 languages, over documents of the collections,
and three small collections in Spanish, Russian and Chinese. ``--keep-second`` leaves the numbers of
the second channel, and what tells the language of a query, as they are in the output: for a new
first embedder whose cosines are spread like the old one's.

Ranking weights are found by coordinate ascent on nDCG@10 (Metzler and Croft, 2007), the confidence
by logistic regression with signs held, the lag by the calibration of the hits. What is printed was
predicted for each collection by coefficients fitted without it and without its family, so it says
what a new collection can expect; the coefficients written are fitted on all.

Three kinds of query teach the confidence: judged ones, the same with the right skills hidden
(dropped gold), and queries of foreign collections. So that neither the length nor the number of
skills matters, every collection also takes part in variants: one line a skill, few skills.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fusion_samples import VARIANTS, Sample, Sampler, cross_language, family, pooled
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from skillsearch.evaluation.assess import auroc, expected_calibration_error
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.types import Collection, JudgedQuery
from skillsearch.index.search.calibration import (
    DENSE_FEATURES,
    EVIDENCE,
    FEATURES,
    LANGUAGE_FEATURES,
    LEXICAL_FEATURES,
    OPPOSING,
    PACKAGED,
    SUPPORTING,
    Calibration,
    load_calibration,
)
from skillsearch.index.search.query import language_features
from skillsearch.index.search.ranker import best_first, find_evidence
from skillsearch.text.languages import language_of

Matrix = NDArray[np.float64]

HITS = 5
"""Hits of an answer."""
MIX = {"judged": 0.48, "dropped": 0.2, "foreign": 0.32, "named": 0.05}
"""Weights of the kinds of query in the fit, the same for each collection: a threshold of 0.3 then
answers one foreign query in ten."""
HIT_ERROR = 0.06
"""Expected calibration error of the hits, mean over collections, that the lag aims at; on
collections left out of the fit it is then below 0.08."""
LAGS = tuple(step / 20 for step in range(1, 41))
"""Lags that are tried, smallest first."""
FALSE_ANSWERS = 0.10
"""Share of foreign queries that the default threshold may answer."""
START = {
    "bm25_metadata": 8.0,
    "bm25_full": 12.0,
    "bm25_metadata_alone": 30.0,
    "name": 4.0,
    "cosine_metadata": 10.0,
    "bm25_metadata_multilingual": 3.0,
    "bm25_full_multilingual": 10.0,
    "cosine_metadata_multilingual": 30.0,
    "cosine_body_multilingual": 10.0,
}
"""Where the ascent begins; for the second channel, the best of six that were tried, whose
ends differ by less than 0.004 in what is ascended."""
LEAST_QUERIES = 20
"""Judged queries, in which the second channel has a say, that make a collection count for it."""
SECOND = frozenset(name for name in (*START, *EVIDENCE) if name.endswith("multilingual"))
"""Ranking features and evidence of the second dense channel."""
CROSS_LANGUAGE = Path(__file__).with_name("cross_language")
_NO_HIT = 1e9
_CONSTANT = 1e-6
"""Evidence that deviates less tells nothing."""
DISCOUNTS = 1.0 / np.log2(np.arange(2, 12))


class RankingData:
    """The judged samples of one collection as one block of numbers."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        """Pad the candidates of all samples to one length."""
        width = max(len(sample.relevant) for sample in samples)
        self.features = np.zeros((len(samples), width, len(FEATURES)))
        self.gains = np.zeros((len(samples), width))
        self.missing = np.ones((len(samples), width), bool)
        for row, sample in enumerate(samples):
            size = len(sample.relevant)
            self.features[row, :size] = sample.candidates.features
            self.gains[row, :size] = sample.relevant
            self.missing[row, :size] = False
        best = np.cumsum(DISCOUNTS)
        self.ideal = np.array([best[min(max(s.judged, 1), 10) - 1] for s in samples])

    def ndcg(self, weights: Matrix) -> float:
        """Return the mean nDCG@10 of an order by weighted sum."""
        sums = self.features @ weights
        sums[self.missing] = -np.inf
        order = np.argsort(-sums, axis=1, kind="stable")[:, :10]
        gains = np.take_along_axis(self.gains, order, axis=1)
        return float(((gains * DISCOUNTS[: gains.shape[1]]).sum(axis=1) / self.ideal).mean())


def channel(weights: Matrix, names: Iterable[str]) -> Matrix:
    """Return the weights with all other features set to 0."""
    return np.array([w if f in names else 0.0 for f, w in zip(FEATURES, weights, strict=True)])


def goodness(data: Sequence[RankingData], weights: Matrix) -> float:
    """Return the mean nDCG@10 over collections, less what any loses against its better channel."""
    total = 0.0
    for block in data:
        value = block.ndcg(weights)
        single = max(
            block.ndcg(channel(weights, LEXICAL_FEATURES)),
            block.ndcg(channel(weights, DENSE_FEATURES)),
        )
        total += value - max(single - value, 0.0)
    return total / len(data)


def fit_ranking(
    data: Sequence[RankingData], fixed: Iterable[str] = (), first: Calibration | None = None
) -> Matrix:
    """Find ranking weights by coordinate ascent.

    Args:
        data: One block a collection; each counts the same.
        fixed: Features whose weight stays 0.
        first: The fit of the first channel, if the second is to be fitted.

    Returns:
        One weight per feature, none negative; the metadata cosine keeps its first weight.
    """
    held = {"cosine_metadata"} if first is None else set(FEATURES) - SECOND
    start = START if first is None else {**START, **{n: first.weights[n] for n in held}}
    held.update(fixed)
    weights = np.array([0.0 if name in fixed else start[name] for name in FEATURES])
    best, step = goodness(data, weights), 1.5
    while step > 1.05:
        moved = False
        for place, name in enumerate(FEATURES):
            for factor in (step, 1 / step, 0.0):
                tried = weights.copy()
                tried[place] *= factor
                if name in held or (value := goodness(data, tried)) <= best + 1e-5:
                    continue
                best, weights, moved = value, tried, True
        if not moved:
            step = 1 + (step - 1) / 2
    return weights


@dataclass(frozen=True, slots=True)
class Answers:
    """All samples under one set of ranking weights, one row each.

    Attributes:
        evidence: Evidence for the best candidate, columns as in `EVIDENCE`.
        gaps: How far the sums of the first `HITS` hits lie behind the best; `_NO_HIT` without one.
        relevant: Which of these hits are relevant.
    """

    evidence: Matrix
    gaps: Matrix
    relevant: NDArray[np.bool_]

    @classmethod
    def of(cls, samples: Sequence[Sample], weights: Matrix) -> Answers:
        """Rank the candidates of every sample."""
        answers = cls(
            np.zeros((len(samples), len(EVIDENCE))),
            np.full((len(samples), HITS), _NO_HIT),
            np.zeros((len(samples), HITS), bool),
        )
        for row, sample in enumerate(samples):
            found = sample.candidates
            sums = found.features @ weights
            order = best_first(sums, found.documents)[:HITS]
            best = int(order[0])
            values = find_evidence(
                sample.corpus, sample.query, int(found.documents[best]), found.features[best]
            )
            answers.evidence[row] = [values[name] for name in EVIDENCE]
            answers.gaps[row, : len(order)] = sums[best] - sums[order]
            answers.relevant[row, : len(order)] = sample.relevant[order]
        return answers


def sample_weights(samples: Sequence[Sample]) -> Matrix:
    """Weigh samples so that collections, and in each the kinds, count as `MIX` and `VARIANTS`."""
    counts: dict[tuple[str, str, str], int] = {}
    for sample in samples:
        key = (sample.collection, sample.variant, sample.kind)
        counts[key] = counts.get(key, 0) + 1
    weights = [
        MIX[s.kind] * VARIANTS[s.variant].weight / counts[s.collection, s.variant, s.kind]
        for s in samples
    ]
    return np.array(weights) / sum(weights) * 2000.0


def fit_logistic(
    rows: Matrix,
    outcomes: Matrix,
    weights: Matrix,
    left_out: Iterable[str] = (),
    first: Calibration | None = None,
) -> tuple[Matrix, float]:
    """Fit log-odds as a sum of evidence with the signs that `Calibration` asks for.

    Args:
        rows: Evidence, columns as in `EVIDENCE`.
        outcomes: 1 if the best candidate is relevant, else 0.
        weights: Weight of each row.
        left_out: Evidence that must not be used.
        first: The fit of the first channel, if the second is to be fitted.

    Returns:
        A coefficient for each column, and the intercept. Columns are held to unit deviation under
        a light ridge.
    """
    deviation = np.where(rows.std(axis=0) > _CONSTANT, rows.std(axis=0), 1.0)
    scaled = np.c_[rows / deviation, np.ones(len(rows))]

    def loss(values: Matrix) -> tuple[float, Matrix]:
        odds = scaled @ values
        probability = expit(odds)
        ridge = np.r_[values[:-1], 0.0]
        likelihood = np.logaddexp(0.0, odds) - outcomes * odds
        gradient = scaled.T @ (weights * (probability - outcomes)) + ridge
        return float((weights * likelihood).sum() + (ridge**2).sum() / 2), gradient

    bounds: list[tuple[float | None, float | None]] = []
    for name, scale in zip(EVIDENCE, deviation.tolist(), strict=True):
        low = 0.0 if name in SUPPORTING else None
        bound = (low, 0.0 if name in OPPOSING else None)
        if first is not None and name not in SECOND:
            bound = (first.evidence[name] * scale,) * 2
        bounds.append((0.0, 0.0) if name in left_out else bound)
    bounds.append((None, None) if first is None else (first.intercept, first.intercept))
    start = np.array([low or 0.0 for low, _ in bounds])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return found.x[:-1] / deviation, float(found.x[-1])


@dataclass(frozen=True, slots=True)
class Confidence:
    """The second step: coefficients of `EVIDENCE`, intercept and lag."""

    coefficients: Matrix
    intercept: float
    lag: float

    def scores(self, answers: Answers) -> Matrix:
        """Score the first hits of all samples; 0 for a sample without one."""
        odds = answers.evidence @ self.coefficients + self.intercept
        scores = expit(odds[:, np.newaxis] - self.lag * answers.gaps)
        hits: Matrix = np.where(answers.gaps < _NO_HIT, scores, 0.0)
        return hits


def fit_confidence(
    samples: Sequence[Sample],
    answers: Answers,
    known: NDArray[np.bool_],
    left_out: Iterable[str] = (),
    first: Calibration | None = None,
) -> Confidence:
    """Fit the second step on the known samples."""
    places = np.flatnonzero(known)
    weights = sample_weights([samples[place] for place in places.tolist()])
    outcomes = answers.relevant[places, 0].astype(float)
    fitted = fit_logistic(answers.evidence[places], outcomes, weights, left_out, first)
    return choose_lag(Confidence(*fitted, lag=0.0), samples, answers, known)


def choose_lag(
    confidence: Confidence,
    samples: Sequence[Sample],
    answers: Answers,
    known: NDArray[np.bool_],
) -> Confidence:
    """Set the smallest lag at which the hits are calibrated to `HIT_ERROR`, or else the best one.

    The likeliest lag would be larger: most siblings of a right skill are unjudged and count as
    wrong. A smaller one keeps more right skills that are not the first hit above the threshold.
    """
    names = [s.collection if _is(s, "judged") else "" for s in samples]
    groups = [
        known & np.array([found == name for found in names]) for name in sorted({*names} - {""})
    ]
    errors = {}
    for lag in LAGS:
        scores = replace(confidence, lag=lag).scores(answers)
        errors[lag] = statistics.mean(
            hit_error(scores[group], answers.relevant[group]) for group in groups if group.any()
        )
    least = max(min(errors.values()), HIT_ERROR)
    return replace(confidence, lag=next(lag for lag in LAGS if errors[lag] <= least))


def hit_error(scores: Matrix, relevant: NDArray[np.bool_]) -> float:
    """Return the expected calibration error over all first hits of some answers."""
    is_hit = scores > 0
    outcomes = relevant[is_hit].astype(float).tolist()
    return expected_calibration_error(scores[is_hit].tolist(), outcomes)[0]


def _is(sample: Sample, kind: str) -> bool:
    """Return whether a sample is of a kind, in a whole collection."""
    return sample.kind == kind and sample.variant == "whole"


def blocks(samples: Sequence[Sample], known: NDArray[np.bool_]) -> dict[str, RankingData]:
    """Gather the known judged samples of whole collections, by collection."""
    groups: dict[str, list[Sample]] = {}
    for sample, is_known in zip(samples, known, strict=True):
        if is_known and _is(sample, "judged"):
            groups.setdefault(sample.collection, []).append(sample)
    return {name: RankingData(group) for name, group in groups.items()}


@dataclass(frozen=True, slots=True)
class Fold:
    """One family of collections, and a ranking that was fitted without it.

    Attributes:
        held: Which samples belong to its whole collections.
        known: Which samples have nothing to do with it.
        data: Its judged samples, by collection.
        weights: Ranking weights fitted on the known samples.
        answers: All samples under these weights.
    """

    held: NDArray[np.bool_]
    known: NDArray[np.bool_]
    data: Mapping[str, RankingData]
    weights: Matrix
    answers: Answers


def make_folds(samples: Sequence[Sample], first: Calibration | None = None) -> list[Fold]:
    """Fit a ranking without each family in turn."""
    folds = []
    for name in sorted({family(sample.collection) for sample in samples}):
        known = np.array([name not in (family(s.collection), family(s.source)) for s in samples])
        held = np.array([family(s.collection) == name and s.variant == "whole" for s in samples])
        weights = fit_ranking(list(blocks(samples, known).values()), (), first)
        answers = Answers.of(samples, weights)
        folds.append(Fold(held, known, blocks(samples, held), weights, answers))
    return folds


def predict(
    samples: Sequence[Sample],
    folds: Sequence[Fold],
    left_out: Iterable[str] = (),
    first: Calibration | None = None,
) -> tuple[Matrix, NDArray[np.bool_]]:
    """Score the whole collections, each by a confidence that saw nothing of its family.

    Returns:
        Scores of the first hits, and which are relevant; rows of other samples are empty.
    """
    scores = np.zeros((len(samples), HITS))
    relevant = np.zeros((len(samples), HITS), bool)
    for fold in folds:
        confidence = fit_confidence(samples, fold.answers, fold.known, left_out, first)
        scores[fold.held] = confidence.scores(fold.answers)[fold.held]
        relevant[fold.held] = fold.answers.relevant[fold.held]
    return scores, relevant


def ranking_measures(data: RankingData, weights: Matrix) -> dict[str, float | None]:
    """Measure the ranking of one collection against its channels, nDCG@10."""
    return {
        "hybrid": data.ndcg(weights),
        "bm25": data.ndcg(channel(weights, LEXICAL_FEATURES)),
        "dense": data.ndcg(channel(weights, DENSE_FEATURES)),
    }


def confidence_measures(
    samples: Sequence[Sample],
    scores: Matrix,
    relevant: NDArray[np.bool_],
    name: str,
    threshold: float,
) -> dict[str, float | None]:
    """Measure the scores of one collection."""
    rows = {
        kind: np.array([_is(s, kind) and s.collection == name for s in samples])
        for kind in ("judged", "foreign", "dropped")
    }
    tops = {kind: scores[mask][:, 0].tolist() for kind, mask in rows.items()}
    hits, right = scores[rows["judged"]], relevant[rows["judged"]]
    found = np.where(right, hits, 0.0).max(axis=1)[right.any(axis=1)]
    foreign = np.array(tops["foreign"])
    return {
        "auroc foreign": auroc(tops["judged"], tops["foreign"]) if len(foreign) else None,
        "auroc dropped": auroc(tops["judged"], tops["dropped"]),
        "ece first": expected_calibration_error(tops["judged"], right[:, 0].tolist())[0],
        "ece hits": hit_error(hits, right),
        "foreign answered": float((foreign >= threshold).mean()) if len(foreign) else None,
        "kept": float((found >= threshold).mean()) if len(found) else None,
        "dropped answered": float((np.array(tops["dropped"]) >= threshold).mean()),
    }


Table = dict[str, dict[str, float | None]]


def measure(
    samples: Sequence[Sample],
    weights: Mapping[str, tuple[RankingData, Matrix]],
    scores: Matrix,
    relevant: NDArray[np.bool_],
    threshold: float,
) -> Table:
    """Measure every collection."""
    return {
        name: ranking_measures(data, used)
        | confidence_measures(samples, scores, relevant, name, threshold)
        for name, (data, used) in weights.items()
    }


def false_answers(samples: Sequence[Sample], scores: Matrix, threshold: float) -> float:
    """Return the share of foreign queries answered, mean over collections."""
    tops: dict[str, list[bool]] = {}
    for sample, row in zip(samples, scores, strict=True):
        if _is(sample, "foreign"):
            tops.setdefault(sample.collection, []).append(bool(row[0] >= threshold))
    return statistics.mean(map(statistics.mean, tops.values()))


def choose_threshold(samples: Sequence[Sample], scores: Matrix) -> float:
    """Return the lowest threshold, in steps of 0.05, with at most `FALSE_ANSWERS`."""
    steps = (step / 20 for step in range(1, 20))
    fits = (t for t in steps if false_answers(samples, scores, t) <= FALSE_ANSWERS)
    return next(fits, 0.95)


def means(table: Mapping[str, Mapping[str, float | None]]) -> dict[str, float]:
    """Return the mean of each measure over the collections that have it."""
    names = next(iter(table.values()))
    return {
        name: statistics.mean(v for row in table.values() if (v := row[name]) is not None)
        for name in names
    }


def print_table(title: str, table: Table) -> None:
    """Print one line a collection, then the means."""
    rows: Mapping[str, Mapping[str, float | None]] = {**table, "mean": {**means(table)}}
    names = list(rows["mean"])
    print(f"\n{title:24}", *(f"{name:>16}" for name in names))
    for label, row in rows.items():
        cells = (f"{'-':>16}" if row[name] is None else f"{row[name]:16.3f}" for name in names)
        print(f"{label:24}", *cells, flush=True)


def print_ablation(
    samples: Sequence[Sample],
    folds: Sequence[Fold],
    weights: Mapping[str, tuple[RankingData, Matrix]],
    whole: Mapping[str, float],
    threshold: float,
) -> None:
    """Print what leaving out each piece of evidence, and each ranking feature, changes."""
    names = [name for name in whole if name not in ("hybrid", "bm25", "dense")]
    print(f"\n{'without the evidence':24}", *(f"{name:>16}" for name in names))
    for name in EVIDENCE:
        scored = predict(samples, folds, (name,))
        found = means(measure(samples, weights, *scored, threshold))
        print(f"{name:24}", *(f"{found[n] - whole[n]:+16.3f}" for n in names), flush=True)
    print(f"\n{'without the feature':24} {'nDCG@10':>16}")
    for feature in FEATURES:
        values = []
        for fold in folds:
            used = fit_ranking(list(blocks(samples, fold.known).values()), (feature,))
            values += [data.ndcg(used) for data in fold.data.values()]
        print(f"{feature:24} {statistics.mean(values) - whole['hybrid']:+16.3f}", flush=True)


def fit_all(
    samples: Sequence[Sample],
    threshold: float,
    clues: Mapping[str, float],
    first: Calibration | None = None,
) -> tuple[Calibration, Table]:
    """Fit both steps on everything, and measure the result on what it was fitted on."""
    every = np.ones(len(samples), bool)
    data = blocks(samples, every)
    weights = fit_ranking(list(data.values()), (), first).round(2)
    answers = Answers.of(samples, weights)
    confidence = fit_confidence(samples, answers, every, (), first)
    lags = {"lag": confidence.lag, "lag_multilingual": confidence.lag}
    calibration = Calibration(
        dict(zip(FEATURES, weights.tolist(), strict=True)),
        dict(zip(EVIDENCE, confidence.coefficients.round(3).tolist(), strict=True)),
        round(confidence.intercept, 3),
        threshold=threshold,
        clues=clues,
        **(lags if first is None else {**lags, "lag": first.lag}),
    )
    used = {name: (block, weights) for name, block in data.items()}
    scores = confidence.scores(answers)
    return calibration, measure(samples, used, scores, answers.relevant, threshold)


def fit_clues(found: Iterable[tuple[JudgedQuery, float]]) -> dict[str, float]:
    """Fit what tells that a query is in English, English and other queries weighing the same.

    Args:
        found: Queries of a known language, and how much of each its corpus knows.

    Returns:
        Log-odds of each of `LANGUAGE_FEATURES` and of the intercept, by logistic regression under
        a light ridge.
    """
    pairs = list(found)
    clues = [language_features(q.text, language_of(q.text), overlap) for q, overlap in pairs]
    rows = np.array([[one[name] for name in LANGUAGE_FEATURES] + [1.0] for one in clues])
    english = np.array([q.language.split("-")[0] == "en" for q, _ in pairs], float)
    share = english.mean() if len(english) else 0.0
    if share in (0.0, 1.0):
        raise SystemExit("Give collections with queries whose lang is en, and with others.")
    weights = np.where(english > 0, 0.5 / share, 0.5 / (1 - share))

    def loss(values: Matrix) -> tuple[float, Matrix]:
        odds = rows @ values
        ridge = np.r_[values[:-1], 0.0] / 10
        likelihood = weights * (np.logaddexp(0.0, odds) - english * odds)
        gradient = rows.T @ (weights * (expit(odds) - english)) + ridge
        return float(likelihood.sum() + 5 * (ridge**2).sum()), gradient

    values = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x
    wrong = ((rows @ values > 0) != (english > 0)).mean()
    print(f"\nof {len(pairs)} queries, {wrong:.1%} are taken for English wrongly, or for other")
    return dict(zip((*LANGUAGE_FEATURES, "intercept"), values.round(2).tolist(), strict=True))


def frequent(samples: Sequence[Sample]) -> list[Sample]:
    """Keep the samples of collections with at least `LEAST_QUERIES` judged queries among them."""
    counts = Counter(sample.collection for sample in samples if _is(sample, "judged"))
    return [sample for sample in samples if counts[sample.collection] >= LEAST_QUERIES]


@dataclass(frozen=True, slots=True)
class Fitted:
    """One part of the fit: what came out, and what it predicts of collections left out of it."""

    calibration: Calibration
    left_out: Table


def fit_part(
    samples: Sequence[Sample],
    clues: Mapping[str, float],
    first: Calibration | None = None,
    *,
    ablation: bool = False,
) -> Fitted:
    """Fit one channel on all samples, print what it predicts of each family of collections.

    Args:
        samples: Searches of indexes with one channel; with two channels if `first` is given.
        clues: What tells the language of a query.
        first: The fit of the first channel, if the second is to be fitted.
        ablation: Also print what each part is worth.

    Returns:
        The calibration and its measures.
    """
    folds = make_folds(samples, first)
    scored = predict(samples, folds, (), first)
    threshold = choose_threshold(samples, scored[0]) if first is None else first.threshold
    weights = {name: (data, fold.weights) for fold in folds for name, data in fold.data.items()}
    table = measure(samples, weights, *scored, threshold)
    title = "first channel" if first is None else "second channel"
    print_table(f"{title}, left out", table)
    calibration, seen = fit_all(samples, threshold, clues, first)
    print_table(f"{title}, fitted", seen)
    if ablation and first is None:
        print_ablation(samples, folds, weights, means(table), threshold)
    return Fitted(calibration, table)


def main() -> None:
    """Fit on the collections given on the command line."""
    parser = argparse.ArgumentParser(description="Fit the calibrated score on judged collections.")
    parser.add_argument("collections", nargs="+", type=Path)
    parser.add_argument("--work", type=Path, default=Path("build/fit"), help="folder of indexes")
    parser.add_argument("--output", type=Path, default=PACKAGED)
    parser.add_argument(
        "--cross-language", type=Path, default=CROSS_LANGUAGE, help="queries in other languages"
    )
    parser.add_argument("--ablation", action="store_true", help="also fit without each part")
    parser.add_argument("--keep-second", action="store_true", help="fit the first channel alone")
    args = parser.parse_args()
    collections = [load_collection(path) for path in args.collections]
    if args.keep_second:
        fit_first(collections, args)
    else:
        fit_both(collections, args)


def fit_first(collections: Sequence[Collection], args: argparse.Namespace) -> None:
    """Fit the first channel, and take all else from the calibration in place."""
    before = load_calibration(args.output)
    provenance = json.loads(args.output.read_text(encoding="utf-8"))["provenance"]
    samples = Sampler(collections, args.work, "english").samples()
    fitted = fit_part(samples, before.clues, ablation=args.ablation)
    first = fitted.calibration
    calibration = replace(
        first,
        weights={n: (before if n in SECOND else first).weights[n] for n in FEATURES},
        evidence={n: (before if n in SECOND else first).evidence[n] for n in EVIDENCE},
        lag_multilingual=before.lag_multilingual,
    )
    provenance["first channel"] = today()
    left_out = {name: round(value, 4) for name, value in means(fitted.left_out).items()}
    provenance["left_out_of_the_fit"]["first channel"] = left_out
    save(calibration, provenance, args.output)


def fit_both(collections: Sequence[Collection], args: argparse.Namespace) -> None:
    """Fit both channels, the second beside the first."""
    others = cross_language(args.cross_language, collections)
    samples = Sampler(collections, args.work, "english").samples()
    clues = fit_clues(Sampler([*collections, *others], args.work, "english").overlaps())
    first = fit_part(samples, clues, ablation=args.ablation)
    asked = [*collections, *others, *pooled([*collections, *others])]
    both = Sampler(asked, args.work, "all", first.calibration).samples()
    voted = frequent([sample for sample in both if sample.query.views[1].trust > 0])
    second = fit_part(voted, clues, first.calibration)
    provenance = {
        "date": today(),
        "collections": {
            c.name: {"documents": len(c.documents), "queries": len(c.queries)}
            for c in [*collections, *others]
        },
        "left_out_of_the_fit": {
            "first channel": {name: round(v, 4) for name, v in means(first.left_out).items()},
            "second channel": {name: round(v, 4) for name, v in means(second.left_out).items()},
        },
    }
    save(second.calibration, provenance, args.output)


def today() -> str:
    """Return the date."""
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


def save(calibration: Calibration, provenance: Mapping[str, object], output: Path) -> None:
    """Write a calibration with its provenance."""
    record = {**calibration.to_dict(), "provenance": provenance}
    output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"\nthreshold {calibration.threshold}; written to {output}")


if __name__ == "__main__":
    main()
