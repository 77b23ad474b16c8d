"""BM25Okapi's own statistics for a corpus that is already counted; the only importer of rank_bm25.

`rank_bm25.BM25Okapi` keeps a dictionary a document and scores by walking all of them. Here it
gives what makes its scores its own: the mean idf, of which its floor is a share. The rest is its
formula over arrays.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1 = 1.5
B = 0.75
EPSILON = 0.25
"""BM25Okapi's defaults: saturation, length normalisation, and the floor of the idf as a share of
its mean."""
NO_MEAN = 1e-9
"""A mean idf up to here is zero but for the rounding of its sum."""
_LIFT_OF_ONE = np.float32(K1 + 1)
_OWN_LIMIT = 20_000
"""Distinct terms from which on the mean is taken over an array; BM25Okapi walks a dictionary."""


def average_idf(document_frequencies: NDArray[np.int64], documents: int) -> float:
    """Return BM25Okapi's mean idf over the distinct terms of a corpus.

    Args:
        document_frequencies: Number of documents of each term, int64, shape (terms,), each >= 1.
        documents: Number of documents in the corpus.

    Returns:
        The mean, which common terms may make negative; 0 without any term. The order of the terms
        makes no difference.
    """
    if not len(document_frequencies):
        return 0.0
    in_order = np.sort(document_frequencies)
    if len(in_order) <= _OWN_LIMIT:
        return _okapi_mean(in_order, documents)
    frequencies = in_order.astype(np.float64)
    return float(np.mean(np.log(documents - frequencies + 0.5) - np.log(frequencies + 0.5)))


def idf(document_frequency: int, documents: int, mean: float) -> float:
    """Return the weight of a term as BM25Okapi has it.

    A corpus of one or two documents has no positive mean idf, and BM25Okapi would score every
    match zero or below it; there each term weighs 1 instead.

    Args:
        document_frequency: Number of documents that have the term.
        documents: Number of documents in the corpus.
        mean: The mean idf of the corpus, as `average_idf` gives it.

    Returns:
        The weight, never negative.
    """
    if mean <= NO_MEAN:
        return 1.0
    weight = math.log(documents - document_frequency + 0.5) - math.log(document_frequency + 0.5)
    return weight if weight >= 0 else EPSILON * mean


def damping(lengths: NDArray[np.int32], mean_length: float) -> NDArray[np.float32]:
    """Return what each document damps the repeats of a term by.

    Args:
        lengths: Terms of each document.
        mean_length: Mean number of terms of a document.

    Returns:
        ``k1 * (1 - b + b * length / mean)``, float32, in the same order.
    """
    damped = lengths.astype(np.float32)
    damped *= np.float32(K1 * B / max(mean_length, NO_MEAN))
    damped += np.float32(K1 * (1 - B))
    return damped


def saturation(
    frequencies: NDArray[np.uint16],
    dampings: NDArray[np.float32],
    lifts: np.float32 | NDArray[np.float32] = _LIFT_OF_ONE,
) -> NDArray[np.float32]:
    """Return what each posting adds to its document's BM25Okapi score.

    Args:
        frequencies: Occurrences of the term in the document, one a posting.
        dampings: `damping` of the document, one a posting.
        lifts: The idf of the term, times its repeats in the query, times ``k1 + 1``; one for all,
            or one a posting.

    Returns:
        ``lift * tf / (tf + damping)``, float32, in the same order.
    """
    tf = frequencies.astype(np.float32)
    divisors = dampings + tf
    tf *= lifts
    tf /= divisors
    return tf


def _okapi_mean(document_frequencies: NDArray[np.int64], documents: int) -> float:
    """Have BM25Okapi itself take the mean."""
    # A search needs no more than the formulas above.
    from rank_bm25 import BM25Okapi

    class CountedOkapi(BM25Okapi):  # type: ignore[misc]
        """BM25Okapi over document frequencies instead of texts."""

        def _initialize(self, corpus: object) -> dict[int, int]:
            """Hand BM25 the counts that it would have made from the corpus."""
            self.corpus_size = documents
            return dict(enumerate(document_frequencies.tolist()))

    return float(CountedOkapi([], k1=K1, b=B, epsilon=EPSILON).average_idf)
