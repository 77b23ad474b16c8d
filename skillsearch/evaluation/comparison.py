"""Is one system better than another, or was it luck? Intervals and paired tests; pure.

numpy only: scipy.stats costs 0.9 s to import, and its permutation test takes forty times ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillsearch.evaluation.types import Comparison, PerQuery

RESAMPLES = 2_000  # bootstrap samples behind an interval
FLIPS = 10_000  # random sign flips behind a p-value
EXACT_UP_TO = 12  # differing queries up to which all sign flips are counted instead
TIE = 1e-9  # a smaller difference is rounding
NOT_COMPARED = frozenset({"Judged@10"})  # measures for which more is not better

_TAILS = (0.025, 0.975)
_BLOCK = 1 << 18  # random numbers held at a time
_ROUNDING = 1e-12  # sums of the same size differ by up to this share of their terms


def interval(values: ArrayLike, *, seed: int = 0, block: int = _BLOCK) -> tuple[float, float]:
    """Return the 95 % interval of a mean by percentile bootstrap (Efron 1979), block by block."""
    sample = np.asarray(values, dtype=np.float64)
    if sample.min() == sample.max():
        return float(sample[0]), float(sample[0])
    size = len(sample)
    rng = np.random.default_rng(seed)
    blocks = _blocks(RESAMPLES, size, block)
    means = [sample[rng.integers(size, size=(rows, size))].mean(axis=1) for rows in blocks]
    low, high = np.quantile(np.concatenate(means), _TAILS)
    return float(low), float(high)


def share_interval(share: float, size: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of `size` cases (Wilson 1927)."""
    square = 1.959964**2 / size
    middle, half = share + square / 2, math.sqrt(square * (share * (1 - share) + square / 4))
    return max((middle - half) / (1 + square), 0.0), min((middle + half) / (1 + square), 1.0)


def randomisation_test(differences: ArrayLike) -> float:
    """Return the two-sided p-value of a mean difference by Fisher's paired randomisation test.

    If the systems were equal, each difference could as well have the other sign (Smucker, Allan and
    Carterette, CIKM 2007). Exact if few queries differ; else over random flips, of which the
    observed one counts as one, so that it is never 0. It is 1 if no query differs.
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[values != 0]
    size = len(values)
    if size <= EXACT_UP_TO:
        flips = (np.arange(1 << size)[:, np.newaxis] >> np.arange(size)) & 1
        return _as_far(values, flips) / len(flips)
    rng = np.random.default_rng(0)
    blocks = _blocks(FLIPS, size, _BLOCK)
    flipped = (rng.integers(2, size=(rows, size), dtype=np.int8) for rows in blocks)
    beyond = sum(_as_far(values, flips) for flips in flipped)
    return (beyond + 1) / (FLIPS + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number by Holm's step-down method (1979), in the order given."""
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(value) for value in corrected]


def compare(systems: Sequence[tuple[str, Mapping[str, PerQuery]]]) -> tuple[Comparison, ...]:
    """Compare every other system, a name and its measures, with the first, but on Judged@10."""
    comparisons: list[Comparison] = []
    for name, values in systems[1:]:
        baseline, reference = systems[0]
        for measure in (name for name in reference if name not in NOT_COMPARED):
            news = values[measure]
            differences = np.array([news[query] - old for query, old in reference[measure].items()])
            differences[abs(differences) < TIE] = 0.0
            p_value = randomisation_test(differences)
            signs = np.sign(differences)
            wins, ties, losses = (int((signs == sign).sum()) for sign in (1, 0, -1))
            mean, ends = float(differences.mean()), interval(differences)
            comparisons.append(
                Comparison(
                    name, baseline, measure, mean, ends, p_value, p_value, wins, ties, losses
                )
            )
    corrected = holm([comparison.p_value for comparison in comparisons])
    return tuple(
        replace(comparison, p_holm=p) for comparison, p in zip(comparisons, corrected, strict=True)
    )


def _as_far(values: NDArray[np.float64], flips: NDArray[np.integer]) -> int:
    """Count the flips, one a row, whose sum is as far from zero as the sum of the values."""
    total = values.sum()
    flipped = total - 2 * (flips @ values)
    slack = _ROUNDING * abs(values).sum()
    return int((abs(flipped) >= abs(total) - slack).sum())


def _blocks(rows: int, width: int, block: int) -> Iterator[int]:
    """Split rows of `width` numbers into blocks that fit into memory."""
    step = max(1, block // width)
    for start in range(0, rows, step):
        yield min(step, rows - start)
