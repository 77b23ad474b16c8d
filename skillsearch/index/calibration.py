"""Ranking features → the probability that a skill is relevant; pure.

The log-odds are a sum of non-negative weights times features, each feature 0 to 1. The weights
were chosen on the ten development collections of `scripts/measure_quality.py` for the mean
nDCG@10 over collections, with a penalty where a collection lost against one channel alone. Slope
and midpoint were set so that the default threshold of 0.3 keeps nine in ten answerable queries on
collections of skills with bodies, and answers about one in ten queries of foreign domains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_THRESHOLD = 0.3
"""Lowest score that is a hit, unless the caller says otherwise."""

REFERENCE_SIZE = 343
"""The corpus size that `Calibration.midpoint` holds for: that of the `nvidia` collection."""
SIZE_RANGE = (16, 1024)
"""Corpus sizes between which the midpoint moves: those that it was observed on."""

LEXICAL_FEATURES = (
    "bm25_metadata",
    "bm25_full",
    "bm25_metadata_alone",
    "name",
)
DENSE_FEATURES = ("cosine_metadata", "cosine_body")
FEATURES = LEXICAL_FEATURES + DENSE_FEATURES
"""Order of the columns of every feature matrix.

bm25_metadata, bm25_full: BM25 of the metadata, and of metadata and body together, as the share of
    the query's attainable score, times the trust in the embedder.
bm25_metadata_alone: the same of the metadata, times the distrust: all that speaks for a skill in
    a script that the embedder cannot read.
name: 1 where the query is the skill's name, less for a near spelling of it.
cosine_metadata, cosine_body: cosine similarity to the metadata and to the head of the body, times
    the trust in the embedder; negative ones count as 0.
"""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Weights of the features and the logistic curve over their sum.

    Attributes:
        weights: Weight of each feature, none negative.
        slope: Log-odds a unit of weighted sum.
        midpoint: Weighted sum at which the score is one half, in a corpus of `REFERENCE_SIZE`.
        midpoint_per_doubling: How much higher the midpoint is in a corpus of twice the size: the
            best of more skills that do not fit comes closer by chance.
    """

    weights: Mapping[str, float]
    slope: float
    midpoint: float
    midpoint_per_doubling: float

    def offset(self, size: int) -> float:
        """Return the log-odds that the contributions of a hit have to make up for.

        Args:
            size: Number of documents in the corpus.

        Returns:
            The slope times the midpoint at that size, which counts only within `SIZE_RANGE`.
        """
        smallest, largest = SIZE_RANGE
        doublings = math.log2(min(max(size, smallest), largest) / REFERENCE_SIZE)
        return self.slope * (self.midpoint + self.midpoint_per_doubling * doublings)

    def contributions(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what each feature adds to the log-odds, shaped as the features."""
        weights = np.array([self.weights[name] for name in FEATURES])
        parts: NDArray[np.float64] = self.slope * features * weights
        return parts

    def scores(self, features: NDArray[np.float64], size: int) -> NDArray[np.float64]:
        """Return the probability of relevance of each candidate.

        Args:
            features: One row a candidate, columns as in `FEATURES`, float64.
            size: Number of documents in the corpus.

        Returns:
            Scores between 0 and 1, float64, higher for better.
        """
        log_odds = self.contributions(features).sum(axis=1) - self.offset(size)
        probabilities: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-log_odds))
        return probabilities

    def channel_scores(
        self, features: NDArray[np.float64], channel: tuple[str, ...]
    ) -> NDArray[np.float64]:
        """Return the weighted mean of one channel's features, an uncalibrated score of 0 to 1."""
        weights = np.array([self.weights[name] if name in channel else 0.0 for name in FEATURES])
        means: NDArray[np.float64] = features @ weights / weights.sum()
        return means


CALIBRATION = Calibration(
    weights=MappingProxyType(
        {
            "bm25_metadata": 10.0,
            "bm25_full": 14.0,
            "bm25_metadata_alone": 40.0,
            "name": 8.0,
            "cosine_metadata": 10.0,
            "cosine_body": 1.5,
        }
    ),
    slope=0.33,
    midpoint=11.0,
    midpoint_per_doubling=0.5,
)
"""The calibration in use, by hand, of 2026-11."""
