"""The highest of many scores, most of them 0, without sorting them; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MANY = 1 << 16
_LARGE_BLOCK, _SMALL_BLOCK = 512, 32


def lowest_of_best(scores: NDArray[np.float32], k: int) -> float:
    """Return a lower bound of the k-th highest score, and the score itself where they are few.

    It is the k-th highest among the maxima of blocks: most scores are 0, on which a partition of
    the whole would be slow (measured at a million documents: 1.7 ms against 70 ms).

    Args:
        scores: One score a document, float32.
        k: Which place is asked for, from 1.

    Returns:
        The bound; 0 where fewer than k scores are above it.
    """
    block = _LARGE_BLOCK if len(scores) >= _MANY else _SMALL_BLOCK
    whole = len(scores) // block * block
    if whole // block > k:
        # Neighbours go to different blocks: so the maxima are taken of whole rows at once.
        scores = scores[:whole].reshape(block, -1).max(axis=0)
    if len(scores) < k:
        return 0.0
    return max(float(np.partition(scores, -k)[-k]), 0.0)


def top_documents(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the documents with the k highest scores above 0, in ascending order of number.

    Args:
        scores: One score a document, float32.
        k: How many to return; more come back only with ties at the lowest score kept.

    Returns:
        Document numbers, at least the k best where so many are above 0.
    """
    bound = lowest_of_best(scores, k)
    found = np.flatnonzero(scores >= bound) if bound > 0 else np.flatnonzero(scores > 0)
    if len(found) <= k:
        return found
    lowest = np.partition(scores[found], -k)[-k]
    best: NDArray[np.int64] = found[scores[found] >= lowest]
    return best
