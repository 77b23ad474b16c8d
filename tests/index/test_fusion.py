"""Reciprocal rank fusion."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.search.fusion import RRF_K, reciprocal_rank_fusion

SCORES = st.lists(
    st.tuples(st.sampled_from([0, 0.1, 0.2, 0.5, 1.0]), st.sampled_from([0, 0.1, 0.5, 2.0])),
    min_size=1,
    max_size=12,
)


def fuse(*channels):
    """Fuse lists."""
    return reciprocal_rank_fusion([np.array(scores, np.float64) for scores in channels]).tolist()


def test_fused_scores_by_hand():
    """First and third place, second and first, third and none, over two first places."""
    found = fuse([0.9, 0.5, 0.1], [0.2, 0.8, 0.0])
    best = 2 / 61
    assert found == pytest.approx(
        [(1 / 61 + 1 / 62) / best, (1 / 62 + 1 / 61) / best, (1 / 63) / best]
    )


def test_first_in_all_channels_is_one_and_absent_from_all_is_zero():
    """A score of 0 or less is no rank."""
    assert fuse([5, 0, -1], [0.1, 0, -3]) == [1.0, 0.0, 0.0]


def test_equal_scores_share_the_better_rank():
    """Two firsts are followed by a third."""
    found = fuse([0.5, 0.5, 0.2])
    assert found == pytest.approx([1.0, 1.0, 61 / 63])


def test_a_smaller_constant_favours_the_first():
    """With k = 1 the second place is worth two thirds of the first."""
    scores = reciprocal_rank_fusion([np.array([0.9, 0.1])], rrf_k=1)
    assert scores.tolist() == pytest.approx([1.0, 2 / 3])
    assert RRF_K == 60


def test_nothing_is_fused_into_nothing():
    """No candidate, no score."""
    assert fuse([], []) == []


@given(SCORES, st.randoms())
def test_neither_the_order_of_candidates_nor_of_channels_counts(rows, random):
    """Shuffled rows give shuffled scores, swapped channels the same ones."""
    one, other = (list(column) for column in zip(*rows, strict=True))
    order = list(range(len(rows)))
    random.shuffle(order)
    fused = fuse(one, other)
    assert fuse(other, one) == pytest.approx(fused)
    assert fuse([one[i] for i in order], [other[i] for i in order]) == [fused[i] for i in order]
    assert all(0 <= score <= 1 + 1e-12 for score in fused)


@given(SCORES)
def test_who_is_ahead_in_every_channel_is_ahead(rows):
    """Dominance survives the loss of the scores."""
    fused = fuse(*zip(*rows, strict=True))
    for a, mine in zip(rows, fused, strict=True):
        for b, other in zip(rows, fused, strict=True):
            if a[0] >= b[0] and a[1] >= b[1]:
                assert mine >= other
