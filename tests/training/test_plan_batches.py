"""Which skills are trained side by side."""

import random
from itertools import islice

import numpy as np
import pytest

from skillsearch.training.plan import CLUSTER, SAME, batches, neighbours


def unit_rows(count: int, seed: int = 0, dimensions: int = 8) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_neighbours_are_those_of_a_full_sort() -> None:
    vectors = unit_rows(300)
    neighbours_of = neighbours(vectors)
    cosines = vectors @ vectors.T
    for row, near in enumerate(neighbours_of):
        allowed = [other for other in range(300) if cosines[row, other] < SAME]
        expected = sorted(allowed, key=lambda other: -cosines[row, other])[: len(near)]
        assert [other for other in near if other >= 0] == expected


def test_a_skill_is_no_neighbour_of_itself_or_its_copies() -> None:
    vectors = unit_rows(20)
    vectors[7] = vectors[3]
    neighbours_of = neighbours(vectors)
    assert 3 not in neighbours_of[7]
    assert 7 not in neighbours_of[3]
    assert all(row not in near for row, near in enumerate(neighbours_of))


@pytest.mark.parametrize("count", [2, 3, 9])
def test_few_skills_have_few_neighbours(count: int) -> None:
    assert neighbours(unit_rows(count)).shape == (count, count - 1)


def test_every_skill_is_dealt_once_a_round() -> None:
    near = neighbours(unit_rows(100))
    first = [row for batch in islice(batches(near, 10, random.Random(3)), 10) for row in batch]
    assert sorted(first) == list(range(100))


def test_a_batch_is_made_of_neighbours() -> None:
    vectors = unit_rows(400, dimensions=4)
    batch = next(batches(neighbours(vectors), 4 * CLUSTER, random.Random(3)))
    together = vectors[batch[:CLUSTER]] @ vectors[batch[:CLUSTER]].T
    assert together[np.triu_indices(CLUSTER, 1)].mean() > 0.3
