"""The ranking weights that are best on judged queries, by coordinate ascent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fusion.samples import Sample
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.features import FEATURES, features_of

Matrix = NDArray[np.float64]
AGAINST = tuple(name for name, row in FEATURES.items() if row.sign < 0)
LEXICAL_FEATURES, DENSE_FEATURES = features_of("words"), features_of("dense")
START = {name: row.sign * row.start for name, row in FEATURES.items()}
"""Where the ascent begins."""
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
        self.ideal = ideal_gains(samples)

    def ndcg(self, weights: Matrix) -> float:
        """Return the mean nDCG@10 of an order by weighted sum."""
        return float(self.ndcg_of_each(weights).mean())

    def ndcg_of_each(self, weights: Matrix) -> Matrix:
        """Return the nDCG@10 of each sample in an order by weighted sum."""
        sums = self.features @ weights
        sums[self.missing] = -np.inf
        order = np.argsort(-sums, axis=1, kind="stable")[:, :10]
        gains = np.take_along_axis(self.gains, order, axis=1)
        values: Matrix = (gains * DISCOUNTS[: gains.shape[1]]).sum(axis=1) / self.ideal
        return values


def channel(weights: Matrix, names: Iterable[str]) -> Matrix:
    """Return the weights with all other features set to 0."""
    return np.where([feature in names for feature in FEATURES], weights, 0.0)


def goodness(data: Sequence[RankingData], weights: Matrix) -> float:
    """Return the mean nDCG@10 over collections, less what any loses against its better half."""
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
    data: Sequence[RankingData],
    fixed: Iterable[str] = (),
    first: Calibration | None = None,
    free: Sequence[str] = (),
) -> Matrix:
    """Find ranking weights by coordinate ascent.

    Args:
        data: One block a collection; each counts the same.
        fixed: Features whose weight stays 0.
        first: A fit of which only the `free` features are to be fitted anew.

    Returns:
        One weight per feature; those of metadata, names, examples and what opposes stay the first.
    """
    held = (
        {"bm25_metadata", "name", "cosine_metadata", "cosine_examples", *AGAINST}
        if first is None
        else set(FEATURES) - {*free}
    )
    start = START if first is None else {**START, **{name: first.weights[name] for name in held}}
    held.update(fixed)
    weights = np.array([0.0 if name in fixed else start[name] for name in FEATURES])
    best, step = goodness(data, weights), 1.5
    while step > 1.05:
        moved = False
        for column, name in enumerate(FEATURES):
            # A weight that fell to 0 may come back.
            for weight in (weights[column] * step, weights[column] / step, 0.0, start[name]):
                tried = weights.copy()
                tried[column] = weight
                if name in held or (value := goodness(data, tried)) <= best + 1e-5:
                    continue
                best, weights, moved = value, tried, True
        if not moved:
            step = 1 + (step - 1) / 2
    return weights


def blocks(samples: Sequence[Sample], seen: NDArray[np.bool_]) -> dict[str, RankingData]:
    """Gather the seen judged samples of whole collections, by collection."""
    groups: dict[str, list[Sample]] = {}
    for sample, is_seen in zip(samples, seen, strict=True):
        if is_seen and sample.is_whole("judged"):
            groups.setdefault(sample.collection, []).append(sample)
    return {name: RankingData(group) for name, group in groups.items()}


def ndcg_of(samples: Sequence[Sample], relevant: NDArray[np.bool_]) -> Matrix:
    """Return the nDCG@10 of the first hits of samples, by which of them are relevant."""
    values: Matrix = relevant @ DISCOUNTS / ideal_gains(samples)
    return values


def ideal_gains(samples: Sequence[Sample]) -> Matrix:
    """Return the discounted gain of the best order of each sample, of ten hits."""
    best: Matrix = np.cumsum(DISCOUNTS)
    return best[[min(max(sample.judged, 1), 10) - 1 for sample in samples]]
