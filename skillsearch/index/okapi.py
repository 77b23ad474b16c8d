"""BM25Okapi's own statistics for a corpus that is already counted; the only importer of rank_bm25.

`rank_bm25.BM25Okapi` keeps a dictionary a document and scores by walking all of them. Here it
gives what makes its scores its own, the idf with its floor; `impacts` then writes the score that
each posting would add into one array, which `lexical` sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rank_bm25 import BM25Okapi

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1 = 1.5
B = 0.75
EPSILON = 0.25
"""BM25Okapi's defaults: saturation, length normalisation, and the floor of the idf as a share of
its mean."""
NO_MEAN = 1e-9
"""A mean idf up to here is zero but for the rounding of its sum."""


class _CountedOkapi(BM25Okapi):  # type: ignore[misc]
    """BM25Okapi over document frequencies instead of texts."""

    def __init__(self, document_frequencies: dict[int, int], documents: int) -> None:
        self._document_frequencies = document_frequencies
        self._documents = documents
        super().__init__([], k1=K1, b=B, epsilon=EPSILON)

    def _initialize(self, corpus: object) -> dict[int, int]:
        """Hand BM25 the counts that it would have made from the corpus."""
        self.corpus_size = self._documents
        return self._document_frequencies


def inverse_document_frequencies(
    document_frequencies: NDArray[np.int64], documents: int
) -> NDArray[np.float64]:
    """Return the idf that BM25Okapi gives each term.

    A corpus of one or two documents has no positive mean idf, and BM25Okapi would score every
    match zero or below it; there each term weighs 1 instead.

    Args:
        document_frequencies: Number of documents of each term, int64, shape (terms,), each >= 1.
        documents: Number of documents in the corpus.

    Returns:
        One weight a term, in the same order, float64, none negative.
    """
    if not len(document_frequencies):
        return np.zeros(0, np.float64)
    counts = dict(enumerate(document_frequencies.tolist()))
    okapi = _CountedOkapi(counts, documents)
    if okapi.average_idf <= NO_MEAN:
        return np.ones(len(counts), np.float64)
    return np.fromiter(okapi.idf.values(), np.float64, len(counts))


def impacts(
    frequencies: NDArray[np.uint16],
    idf: NDArray[np.float64],
    lengths: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Return what each posting adds to its document's BM25Okapi score.

    Args:
        frequencies: Occurrences of the term in the document, one a posting.
        idf: The term's idf, one a posting.
        lengths: The document's length as a share of the mean length, one a posting.

    Returns:
        ``idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length))``, float32, in the same order.
    """
    tf = frequencies.astype(np.float64)
    saturated = tf * (K1 + 1) / (tf + K1 * (1 - B + B * lengths))
    return (idf * saturated).astype(np.float32)
