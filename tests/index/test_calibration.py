"""Features to probabilities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillsearch.index.calibration import (
    CALIBRATION,
    DEFAULT_THRESHOLD,
    DENSE_FEATURES,
    FEATURES,
    LEXICAL_FEATURES,
    REFERENCE_SIZE,
    Calibration,
)

ROWS = st.lists(st.floats(0, 1), min_size=len(FEATURES), max_size=len(FEATURES))


SIZES = st.integers(1, 10**6)


def score(row, calibration=CALIBRATION, size=REFERENCE_SIZE):
    """Score one candidate of a corpus."""
    return float(calibration.scores(np.array([row], np.float64), size)[0])


def test_every_feature_has_one_weight_and_none_is_negative():
    """More evidence never lowers a score."""
    assert sorted(CALIBRATION.weights) == sorted(FEATURES)
    assert min(CALIBRATION.weights.values()) >= 0
    assert CALIBRATION.slope > 0
    assert len(set(FEATURES)) == len(FEATURES)


def test_the_calibration_in_use_cannot_be_changed_by_accident():
    """It is one for the whole process."""
    with pytest.raises(TypeError):
        CALIBRATION.weights["name"] = 0.0


def test_scores_by_hand():
    """One over one plus e to the minus slope times (sum minus midpoint)."""
    weights = dict(zip(FEATURES, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], strict=True))
    calibration = Calibration(weights, slope=0.5, midpoint=2.0, midpoint_per_doubling=1.0)
    row = [0.5, 0.25, 0.0, 1.0, 0.2, 0.0]
    total = 0.5 + 0.5 + 0.0 + 4.0 + 1.0
    assert score(row, calibration) == pytest.approx(1 / (1 + np.exp(-0.5 * (total - 2.0))))
    assert calibration.contributions(np.array([row])).tolist() == [
        pytest.approx([0.25, 0.25, 0.0, 2.0, 0.5, 0.0])
    ]


def test_at_the_midpoint_the_score_is_one_half():
    """Whatever the slope."""
    calibration = Calibration(dict.fromkeys(FEATURES, 2.0), 9.0, 2.0, midpoint_per_doubling=0.5)
    assert score([1, 0, 0, 0, 0, 0], calibration) == 0.5


@pytest.mark.parametrize(
    ("size", "midpoint"),
    [(343, 2.0), (686, 2.5), (86, 1.0), (1024, 2.789), (10**6, 2.789), (16, -0.211), (1, -0.211)],
)
def test_the_midpoint_rises_with_the_corpus(size, midpoint):
    """By a step for each doubling, between the sizes that it was observed on."""
    calibration = Calibration(dict.fromkeys(FEATURES, 1.0), 2.0, 2.0, midpoint_per_doubling=0.5)
    assert calibration.offset(size) == pytest.approx(2.0 * midpoint, abs=0.01)
    none = 1 / (1 + np.exp(calibration.offset(size)))
    assert score([0.0] * 6, calibration, size) == pytest.approx(none)


@given(ROWS, SIZES, SIZES)
def test_a_larger_corpus_never_raises_the_score(row, one, other):
    """Among more skills the best that does not fit comes closer by chance."""
    small, large = sorted((one, other))
    assert score(row, size=large) <= score(row, size=small)


@given(ROWS, SIZES)
def test_contributions_add_up_to_the_log_odds(row, size):
    """What `explain` shows is the whole truth."""
    parts = CALIBRATION.contributions(np.array([row]))[0]
    log_odds = parts.sum() - CALIBRATION.offset(size)
    found = score(row, size=size)
    assert 0.0 < found < 1.0
    assert np.log(found / (1 - found)) == pytest.approx(log_odds, abs=1e-6)


@settings(max_examples=50)
@given(ROWS, st.integers(0, len(FEATURES) - 1), st.floats(0, 1))
def test_more_of_a_feature_never_lowers_the_score(row, place, value):
    """Feature by feature."""
    raised = [*row]
    raised[place] = max(row[place], value)
    assert score(raised) >= score(row)


def test_without_any_evidence_a_skill_is_far_below_the_threshold():
    """And with all of it far above."""
    assert score([0.0] * len(FEATURES)) < 0.05 < DEFAULT_THRESHOLD
    assert score([1, 1, 0, 1, 1, 1]) > 0.99


@given(ROWS)
def test_a_channel_is_the_weighted_mean_of_its_features(row):
    """By hand, for both channels; the features of the other have no say."""
    for channel in (LEXICAL_FEATURES, DENSE_FEATURES):
        weights = [CALIBRATION.weights[name] for name in channel]
        values = [row[FEATURES.index(name)] for name in channel]
        expected = np.average(values, weights=weights)
        found = CALIBRATION.channel_scores(np.array([row]), channel)
        assert found.tolist() == pytest.approx([expected])


def test_no_candidate_has_no_score():
    """An empty matrix of features is a usual case."""
    assert CALIBRATION.scores(np.zeros((0, len(FEATURES))), 5).tolist() == []
