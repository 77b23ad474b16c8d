"""Several rankings → one by their ranks alone; pure.

Kept for comparison: it knows no scores, so it can neither tell a strong channel from a weak one
nor say that nothing fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RRF_K = 60
"""The constant of Cormack, Clarke and Büttcher, SIGIR 2009."""


def reciprocal_rank_fusion(
    channels: Sequence[NDArray[np.float64]], rrf_k: int = RRF_K
) -> NDArray[np.float64]:
    """Fuse the scores of several channels by reciprocal rank.

    A candidate that a channel scores 0 or less is not in that channel's ranking. Equal scores
    share the better rank, so that the order of the candidates has no influence.

    Args:
        channels: One array of scores a channel, all over the same candidates.
        rrf_k: Damps the lead of the first ranks.

    Returns:
        Fused scores between 0 and 1: the share of what the first place in all channels gives.
    """
    total = np.zeros_like(channels[0], dtype=np.float64)
    for scores in channels:
        ascending = np.sort(scores)
        ranks = len(scores) - np.searchsorted(ascending, scores, side="right") + 1
        total += np.where(scores > 0, 1.0 / (rrf_k + ranks), 0.0)
    return total * (rrf_k + 1) / len(channels)
