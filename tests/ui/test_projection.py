"""Points on a plane: near each other where the vectors are, always the same, and never broken."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillsearch.index.dense.vectors import DenseFields, DenseIndex, DenseWriter
from skillsearch.ui.projection import NEIGHBOURS, PAIRS, neighbours, project


def unit(rows):
    """Return rows of unit length; those of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths, lengths, 1)).astype(np.float32)


def clusters(count, size, dimensions=32, seed=0):
    chance = np.random.default_rng(seed)
    middles = unit(chance.normal(size=(count, dimensions)))
    return unit(
        np.repeat(middles, size, axis=0) + chance.normal(0, 0.1, (count * size, dimensions))
    )


def laid_out(vectors, families=None, least=0.9):
    numbers = np.arange(len(vectors))
    dense = DenseIndex((DenseFields((vectors,)),))
    near = neighbours(dense, numbers, vectors, numbers[:0])
    return project(vectors, near, numbers if families is None else families, least)


def ranks(distances):
    """Return how near each is to each, by its rank; of itself 0."""
    np.fill_diagonal(distances, -np.inf)
    return distances.argsort(axis=1).argsort(axis=1)


def trustworthiness(vectors, xy, near=12):
    """Tell whether neighbours on a plane are neighbours before (Venna and Kaski, 2001)."""
    before = ranks(-vectors @ vectors.T)
    after = ranks(np.linalg.norm(xy[:, None] - xy[None], axis=2))
    missed = (before - near)[(after > 0) & (after <= near) & (before > near)].sum()
    count = len(xy)
    return 1 - 2 * missed / (count * near * (2 * count - 3 * near - 1))


def test_neighbours_on_the_plane_are_neighbours_among_the_vectors():
    """More trustworthy than the two principal components by far."""
    vectors = clusters(40, 15)
    left, sizes, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    components = left[:, :2] * sizes[:2]
    ours, theirs = (trustworthiness(vectors, xy) for xy in (laid_out(vectors).xy, components))
    assert ours > 0.95
    assert 1 - ours < (1 - theirs) / 3


@pytest.mark.parametrize(("count", "size"), [(3, 2), (3, 5), (7, 2)])
def test_of_a_few_skills_those_that_are_alike_lie_together(count, size):
    """Each is a neighbour of each other one, yet those of its cluster are nearer than the rest."""
    xy = laid_out(clusters(count, size)).xy
    nearest = np.linalg.norm(xy[:, None] - xy[None], axis=2).argsort(axis=1)[:, :size]
    assert (nearest // size == np.arange(count * size)[:, None] // size).mean() > 0.8


def test_equal_vectors_give_equal_points_every_time():
    vectors = np.repeat(clusters(5, 4), 9, axis=0)
    first, second = laid_out(vectors), laid_out(vectors.copy())
    assert np.array_equal(first.xy, second.xy)
    assert np.array_equal(first.pairs, second.pairs)
    assert len(np.unique(first.xy, axis=0)) == len(vectors)


@settings(max_examples=15)
@given(st.integers(0, 40), st.integers(0, 3), st.integers(0, 5))
@pytest.mark.slow
def test_any_few_vectors_are_laid_out_in_the_unit_square(count, kinds, seed):
    chance = np.random.default_rng(seed)
    some = np.vstack([np.zeros((1, 8)), chance.normal(size=(3, 8))])
    layout = laid_out(unit(some[chance.integers(0, kinds + 1, count)]))
    assert layout.xy.shape == (count, 2)
    assert layout.xy.dtype == np.float32
    assert ((layout.xy >= 0) & (layout.xy <= 1)).all()
    assert layout.pairs.shape[1] == 2


@pytest.mark.slow
def test_pairs_are_the_closest_of_different_families():
    vectors = clusters(30, 5)
    families = np.arange(150) // 2
    cosines = vectors @ vectors.T
    pairs = laid_out(vectors, families, 0.7).pairs
    first, second = np.nonzero(np.triu(cosines >= 0.7, 1) & (families[:, None] != families))
    assert sorted(map(tuple, pairs.tolist())) == list(
        zip(first.tolist(), second.tolist(), strict=True)
    )
    drawn = cosines[pairs[:, 0], pairs[:, 1]]
    assert (np.diff(drawn) <= 1e-6).all()
    assert len(laid_out(clusters(300, 15), least=0.0).pairs) == PAIRS


def test_neighbours_are_the_nearest_living_documents(tmp_path):
    vectors = clusters(20, 10)
    segments = []
    for name, part in (("a", vectors[:150]), ("b", vectors[150:])):
        writer = DenseWriter(tmp_path, name, 32, len(part))
        writer.add(part)
        writer.finish()
        segments.append(DenseFields.load(tmp_path, name))
    deleted = np.array([3, 77, 160])
    living = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(200), deleted))
    neighbour_rows = neighbours(DenseIndex(tuple(segments)), living, vectors[living], deleted)
    cosines = vectors[living] @ vectors[living].T
    np.fill_diagonal(cosines, -2)
    nearest = np.argsort(-cosines, axis=1)[:, :NEIGHBOURS]
    assert [set(row) for row in neighbour_rows.tolist()] == [set(row) for row in nearest.tolist()]
