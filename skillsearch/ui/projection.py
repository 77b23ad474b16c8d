"""Skills as points on a plane, near each other if their vectors are; pure.

Neighbours attract each other and a sample of all others repels, as in UMAP (McInnes, Healy and
Melville, 2018) with the kernel of t-SNE. All edges count the same: weights change little (Damrich
and Hamprecht, NeurIPS 2021). One step takes one neighbour of every point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skillsearch.index.dense.vectors import DenseIndex
    from skillsearch.index.storage.numbering import Floats, Numbers

    Points = NDArray[np.complex64]

NEIGHBOURS = 15
PAIRS = 2_000
"""Pairs that are joined at most."""
_SHARE = 8  # of few skills, one in eight attracts each; if all did, none would be near
_ROUNDS = 100  # so often each pair of neighbours attracts
# Others that repel a point for each neighbour that attracts it, and how much each counts.
_REPELLED, _PUSH = 5, 8.0
_GRAVITY = 0.003  # to the middle, so that islands do not drift away
_LONGEST, _STRONGEST = 4.0, 10.0  # step, and repulsion for each unit of distance
_WIDTH = 30.0  # standard deviation of the first axis at the start
_BLOCK, _PRODUCTS = 512, 1 << 16  # vectors, and pairs, at a time


@dataclass(frozen=True, eq=False)
class Projection:
    """Points in the unit square, in the order of the vectors, and the closest pairs of them.

    Both come as two columns: `xy` of float32, `pairs` of int32, the closest first.
    """

    xy: Floats
    pairs: NDArray[np.int32]


def project(vectors: Floats, near: Numbers, families: Numbers, least: float) -> Projection:
    """Lay out unit vectors whose `neighbours` are known; equal input gives equal points.

    Joined are neighbours of two `families` whose cosine is at least so high.
    """
    chance = np.random.default_rng(0)
    points = _start(vectors, chance)
    if near.shape[1]:
        _attract(points, near[:, : max(1, len(near) // _SHARE)], chance)
    return Projection(_in_unit_square(points), _pairs(vectors, near, families, least))


def neighbours(dense: DenseIndex, numbers: Numbers, vectors: Floats, deleted: Numbers) -> Numbers:
    """Return for each document the places, among all that are not deleted, of its neighbours."""
    count = max(0, min(NEIGHBOURS, len(numbers) - 1))
    nearest = np.empty((len(numbers), count), np.int64)
    number_of = np.empty(len(numbers) + len(deleted), np.int64)
    number_of[numbers] = np.arange(len(numbers))
    for begin in range(0, len(numbers) if count else 0, _BLOCK):
        block = vectors[begin : begin + _BLOCK]
        for number, near in enumerate(dense.nearest_to_each(block, count + 1, deleted), begin):
            others = number_of[near]
            nearest[number] = others[np.argsort(others == number, kind="stable")][:count]
    return nearest


def _start(vectors: Floats, chance: np.random.Generator) -> Points:
    """Return the two principal components of vectors, with noise that parts equal ones."""
    centred = vectors - vectors.sum(axis=0) / max(len(vectors), 1)
    _, axes = np.linalg.eigh(centred.T @ centred)
    xy = centred @ axes[:, :-3:-1]
    xy *= _WIDTH / max(float(np.sqrt((xy[:, 0] ** 2).sum() / max(len(xy), 1))), 1e-3)
    xy += chance.normal(0, 1e-3 * _WIDTH, xy.shape)
    return np.asarray(xy[:, 0] + 1j * xy[:, 1], np.complex64)


def _attract(points: Points, near: Numbers, chance: np.random.Generator) -> None:
    """Move points step by step to where neighbours are close and others are not."""
    size, count = near.shape
    steps = _ROUNDS * count
    for step in range(steps):
        rate = np.float32(1 - step / steps)
        tails = near[:, step % count]
        pull = points[tails] - points
        pull *= 2 / (1 + _squares(pull))
        back = [np.bincount(tails, part, size) for part in (pull.real, pull.imag)]
        move = pull - (back[0] + 1j * back[1]) - _GRAVITY * points
        for _ in range(_REPELLED):
            push = points - points[chance.integers(0, size, size)]
            squares = _squares(push)
            move += push * np.minimum(2 * _PUSH / ((squares + 1e-3) * (1 + squares)), _STRONGEST)
        limit = rate * np.minimum(1, _LONGEST / np.maximum(np.abs(move), 1e-9))
        points += (move * limit).astype(np.complex64)


def _in_unit_square(points: Points) -> Floats:
    xy = np.stack([points.real, points.imag], axis=1)
    if not len(xy):
        return xy
    low, high = xy.min(axis=0), xy.max(axis=0)
    scale = max(float(np.max(high - low)), 1e-6)
    unit: Floats = np.clip((xy - (low + high) / 2) / scale + np.float32(0.5), 0, 1)
    return unit


def _squares(points: Points) -> Floats:
    squares: Floats = points.real**2 + points.imag**2
    return squares


def _pairs(vectors: Floats, near: Numbers, families: Numbers, least: float) -> NDArray[np.int32]:
    heads = np.repeat(np.arange(len(near)), near.shape[1])
    both = np.sort(np.stack([heads, near.ravel()], axis=1), axis=1)
    both = np.unique(both[families[both[:, 0]] != families[both[:, 1]]], axis=0)
    parts = np.array_split(both, len(both) // _PRODUCTS + 1)
    products = [np.einsum("ij,ij->i", *(vectors[side] for side in part.T)) for part in parts]
    cosines = np.concatenate(products)
    order = np.argsort(-cosines, kind="stable")[: int((cosines >= least).sum())]
    return both[order[:PAIRS]].astype(np.int32)
