"""BM25Okapi's formulas over arrays, and its own statistics; the only importer of rank_bm25."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# BM25Okapi's defaults: saturation, length normalisation, and the idf floor as a share of the mean.
K1, B, EPSILON = 1.5, 0.75, 0.25
# A mean idf up to here is zero except for rounding.
NO_MEAN = 1e-9
_WEIGHT_OF_ONE = np.float32(K1 + 1)


def average_idf(document_frequencies: NDArray[np.int64], documents: int) -> float:
    """Return BM25Okapi's mean idf over the distinct terms of a corpus, 0 without terms."""
    if not len(document_frequencies):
        return 0.0
    from rank_bm25 import BM25Okapi  # A search gets by with the formulas below.

    class CountedOkapi(BM25Okapi):  # type: ignore[misc]
        """BM25Okapi over document frequencies instead of texts."""

        def _initialize(self, corpus: object) -> dict[int, int]:
            self.corpus_size = documents
            return dict(enumerate(np.sort(document_frequencies).tolist()))

    # The statistics of every corpus come from rank_bm25 itself, so that scores are BM25Okapi's;
    # only its per-document scoring loop is replaced.
    return float(CountedOkapi([], k1=K1, b=B, epsilon=EPSILON).average_idf)


def idf(document_frequency: int, documents: int, mean: float) -> float:
    """Return BM25Okapi's weight of a term; 1 without a positive mean, as with two documents."""
    if mean <= NO_MEAN:
        return 1.0
    weight = math.log(documents - document_frequency + 0.5) - math.log(document_frequency + 0.5)
    return weight if weight >= 0 else EPSILON * mean


def length_norms(lengths: NDArray[np.int32], mean_length: float) -> NDArray[np.float32]:
    """Return the length normalisation of each document: ``k1 * (1 - b + b * length / mean)``."""
    norms = lengths.astype(np.float32)
    norms *= np.float32(K1 * B / max(mean_length, NO_MEAN))
    norms += np.float32(K1 * (1 - B))
    return norms


def saturation(
    frequencies: NDArray[np.uint16],
    norms: NDArray[np.float32],
    weights: np.float32 | NDArray[np.float32] = _WEIGHT_OF_ONE,
) -> NDArray[np.float32]:
    """Return what each posting adds to its document's score: ``weight * tf / (tf + norm)``.

    The weight is the term's idf times its repeats in the query times ``k1 + 1``.
    """
    tf = frequencies.astype(np.float32)
    divisors = norms + tf
    tf *= weights
    tf /= divisors
    return tf
