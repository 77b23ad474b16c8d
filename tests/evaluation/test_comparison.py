"""Intervals, paired tests and their correction, against scipy and a sheet of paper."""

import importlib
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.evaluation.comparison import (
    EXACT_UP_TO,
    compare,
    holm,
    interval,
    randomisation_test,
    share_interval,
)

DIFFERENCES = st.lists(st.sampled_from([-1.0, -0.5, -0.1, 0.0, 0.0, 0.1, 0.3, 1.0]), max_size=10)
P_VALUES = st.lists(st.floats(0, 1), max_size=12)


def mean(values, axis=-1):
    """Return the mean along an axis, as scipy wants a statistic."""
    return np.mean(values, axis=axis)


@pytest.fixture(scope="module")
def stats():
    """Import scipy only where its tests run: it takes a second."""
    return importlib.import_module("scipy.stats")


def random_values(size, seed=7):
    """Draw values as measures have them: many at the ends, some between."""
    return np.random.default_rng(seed).choice([0, 0, 0.3, 0.63, 1, 1], size).tolist()


@pytest.mark.parametrize("size", [2, 10, 300])
def test_the_interval_is_that_of_scipy(stats, size):
    values = [0.0, *random_values(size - 2), 1.0]
    expected = stats.bootstrap(
        (values,), mean, n_resamples=2_000, method="percentile", rng=np.random.default_rng(5)
    ).confidence_interval
    assert interval(values, seed=5) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_interval_depends_on_the_seed_alone():
    values = random_values(100)
    assert interval(values) == interval(values) == interval(values, block=7)
    assert interval(values) != interval(values, seed=1)


@pytest.mark.parametrize("values", [[0.3], [0.1] * 9, [0.0, -0.0]])
def test_equal_values_have_no_width(values):
    assert interval(values) == (values[0], values[0])


@given(st.integers(1, 500), st.data())
def test_the_interval_of_a_share_is_that_of_scipy(stats, size, data):
    count = data.draw(st.integers(0, size))
    expected = stats.binomtest(count, size).proportion_ci(method="wilson")
    low, high = share_interval(count / size, size)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-6)
    assert 0 <= low < high <= 1


@pytest.mark.parametrize("differences", [[], [0.0], [0.0] * 1_000])
def test_no_difference_is_no_evidence(differences):
    assert randomisation_test(differences) == 1


@given(DIFFERENCES)
def test_few_differences_are_tested_exactly(differences):
    """Every flip is counted, by the tenth so that no rounding counts."""
    tenths = [round(10 * difference) for difference in differences]
    sums = [sum(flipped) for flipped in product(*((-tenth, tenth) for tenth in tenths))]
    expected = sum(abs(flipped_sum) >= abs(sum(tenths)) for flipped_sum in sums) / len(sums)
    assert randomisation_test(differences) == pytest.approx(expected, abs=1e-12)


def test_the_most_differences_that_are_few_are_tested_exactly():
    assert randomisation_test([0.1] * EXACT_UP_TO) == 2 / 2**EXACT_UP_TO


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.2])
def test_the_random_test_is_near_that_of_scipy(stats, shift):
    """Both estimate the same p-value from 10,000 flips; 0.02 is three standard errors."""
    differences = np.random.default_rng(3).normal(shift, 1, 100)
    sampled = {"n_resamples": 10_000, "batch": 1_000, "rng": np.random.default_rng(0)}
    expected = stats.permutation_test(
        (differences,), mean, permutation_type="samples", vectorized=True, **sampled
    )
    assert randomisation_test(differences) == pytest.approx(expected.pvalue, abs=0.02)


def test_a_random_p_value_is_never_zero():
    """The observed assignment counts as one of the flips."""
    assert randomisation_test([0.1] * 500) == 1 / 10_001


@given(st.lists(st.floats(-1, 1), min_size=13, max_size=30))
def test_the_test_is_two_sided_and_repeats(differences):
    p_value = randomisation_test(differences)
    assert 0 < p_value <= 1
    assert p_value == randomisation_test(differences)
    assert p_value == randomisation_test([-difference for difference in differences])


@given(P_VALUES)
def test_holm_agrees_with_its_definition(p_values):
    """The largest, up to each rank, of the p-value times how many are left; at most 1."""
    ranked = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = holm(p_values)
    largest = 0.0
    for rank, number in enumerate(ranked):
        largest = max(largest, min(1.0, p_values[number] * (len(p_values) - rank)))
        assert corrected[number] == pytest.approx(largest, abs=1e-12)
        assert corrected[number] >= p_values[number]


def values_of(**by_measure):
    """Make the values of a system from one list a measure."""
    return {
        name.replace("_at_", "@"): {f"q{number}": value for number, value in enumerate(values)}
        for name, values in by_measure.items()
    }


def test_a_comparison_counts_wins_ties_and_flips():
    base = values_of(R_at_5=[0.0, 0.5, 1.0, 0.2])
    other = values_of(R_at_5=[1.0, 1.0, 0.5, 0.2 + 1e-12])
    (comparison,) = compare([("bm25", base), ("hybrid", other)])
    assert (comparison.system, comparison.baseline, comparison.measure) == ("hybrid", "bm25", "R@5")
    assert comparison.difference == pytest.approx(1 / 4)
    assert (comparison.wins, comparison.ties, comparison.losses) == (2, 1, 1)
    # Flips of 1, 1/2, 1/2 with a sum of at least 1 or at most -1: six of eight.
    assert comparison.p_value == comparison.p_holm == 6 / 8
    assert comparison.interval == interval([1.0, 0.5, -0.5, 0.0])


def test_all_are_compared_with_the_first_and_corrected_together():
    rng = np.random.default_rng(1)
    systems = [
        (name, values_of(R_at_5=rng.random(30), RR_at_10=rng.random(30), Judged_at_10=[1] * 30))
        for name in ("a", "b", "c")
    ]
    tests = compare(systems)
    assert [(test.system, test.baseline, test.measure) for test in tests] == [
        (name, "a", measure) for name in ("b", "c") for measure in ("R@5", "RR@10")
    ]
    assert [test.p_holm for test in tests] == holm([test.p_value for test in tests])


def test_queries_are_paired_by_id():
    base = {"R@5": {"x": 1.0, "y": 0.0}}
    other = {"R@5": {"y": 0.0, "x": 1.0}}
    (comparison,) = compare([("a", base), ("b", other)])
    assert (comparison.ties, comparison.p_value, comparison.interval) == (2, 1.0, (0.0, 0.0))


def test_one_system_is_compared_with_none():
    assert compare([("a", values_of(R_at_5=[1]))]) == compare([]) == ()
