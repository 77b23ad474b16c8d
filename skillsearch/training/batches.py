"""Which skills are trained side by side: near ones, hard negatives of each other; pure.

The negatives of a pair are the documents of the other pairs in its batch. Taken by chance they are
so foreign that nothing is learned from them; so a batch is made of small clusters of neighbours.
Skills that are the same in other words (copies, forks, versions) are no negatives of each other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SAME = 0.86
"""Cosine of the metadata, by the embedder that is tuned, from which on skills count as the same."""
CLUSTER = 8
"""Neighbours that share a batch."""
_NEIGHBOURS = 48
_ROWS = 1_024


def neighbours(vectors: NDArray[np.float32]) -> NDArray[np.int32]:
    """Find the nearest other skills of each.

    Args:
        vectors: Unit vectors of the skills' metadata, float32, (skills, dimensions).

    Returns:
        Rows of the nearest, best first, those that count as the same left out (-1 at the end),
        int32, (skills, up to 48).
    """
    count = min(_NEIGHBOURS, len(vectors) - 1)
    found = np.full((len(vectors), count), -1, np.int32)
    for begin in range(0, len(vectors), _ROWS):
        block = vectors[begin : begin + _ROWS] @ vectors.T
        block[block >= SAME] = -2.0
        best = np.argpartition(-block, count - 1, axis=1)[:, :count]
        values = np.take_along_axis(block, best, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        best = np.take_along_axis(best, order, axis=1).astype(np.int32)
        best[np.take_along_axis(values, order, axis=1) < -1.0] = -1
        found[begin : begin + _ROWS] = best
    return found


def batches(near: NDArray[np.int32], size: int, chance: random.Random) -> Iterator[list[int]]:
    """Deal all skills into batches, once each, again and again without end.

    Args:
        near: As `neighbours` returns it.
        size: Skills of a batch.
        chance: Decides; the same state gives the same batches.

    Yields:
        Rows of skills, `CLUSTER` neighbours beside each other where there are as many.
    """
    while True:
        free = np.ones(len(near), np.bool_)
        order = list(range(len(near)))
        chance.shuffle(order)
        clusters = []
        for seed in order:
            if not free[seed]:
                continue
            free[seed] = False
            mates = [row for row in near[seed] if row >= 0 and free[row]][: 2 * CLUSTER]
            mates = chance.sample(mates, min(len(mates), CLUSTER - 1))
            free[mates] = False
            clusters.append([seed, *map(int, mates)])
        chance.shuffle(clusters)
        rows = [row for cluster in clusters for row in cluster]
        for begin in range(0, len(rows) - size + 1, size):
            yield rows[begin : begin + size]
