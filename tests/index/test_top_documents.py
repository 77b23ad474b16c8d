"""The highest of many scores, against a sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.lexical.top_documents import lowest_of_best, top_documents


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0, 2.0]), max_size=300), st.integers(1, 400)
)
def test_top_documents_are_those_of_a_sort(values, k):
    """The k best above zero, and whatever ties with the last of them."""
    scores = np.array(values, np.float32)
    assert_top(scores, k)


@pytest.mark.parametrize("size", [31, 32, 33, 3200, 3232, 65_535, 65_536, 66_000, 70_001, 120_000])
@pytest.mark.parametrize("k", [1, 7, 100])
@pytest.mark.parametrize("density", [0.0, 0.001, 0.5, 1.0])
def test_top_documents_of_many_are_those_of_a_sort(size, k, density):
    """Around the sizes at which the blocks change, sparse and dense."""
    random = np.random.default_rng(size + k)
    scores = random.integers(1, 1000, size).astype(np.float32)
    scores[random.random(size) >= density] = 0
    assert_top(scores, k)


def assert_top(scores, k):
    """Compare `top_documents` with a sort."""
    found = top_documents(scores, k)
    positive = np.sort(scores[scores > 0])[::-1]
    lowest = positive[min(k, len(positive)) - 1] if len(positive) else 1
    expected = np.flatnonzero((scores >= lowest) & (scores > 0))
    assert found.tolist() == expected.tolist()


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, -np.inf]), max_size=300), st.integers(1, 400))
def test_no_document_below_the_bound_is_among_the_best(values, k):
    """It may be too low, never too high, and never below 0."""
    scores = np.array(values, np.float32)
    bound = lowest_of_best(scores, k)
    best = np.sort(scores)[::-1][:k]
    assert bound >= 0
    assert bound <= max(best[-1], 0) if len(best) == k else bound == 0
