"""Features to an order, and evidence to probabilities."""

import json
import math
from collections import ChainMap
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.search.calibration import NAMED, Calibration, probability
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.evidence import EVIDENCE, READER
from skillsearch.index.search.features import FEATURES, features_of

AGAINST = tuple(name for name, row in FEATURES.items() if row.sign < 0)
SUPPORTING = tuple(name for name, row in EVIDENCE.items() if row.sign > 0)
LEXICAL_FEATURES, DENSE_FEATURES = features_of("words"), features_of("dense")

BY_HAND = Calibration(
    weights={
        name: float(-number if name in AGAINST else number)
        for number, name in enumerate(FEATURES, start=1)
    },
    reader=0.5,
    alone={name: float(number) for number, name in enumerate(EVIDENCE, start=1)}
    | {
        "excluded": -4.0,
        "contradiction": -2.0,
        "hubness": -3.0,
        "has_examples": -0.5,
        "words_alone": -9.0,
        "intercept": -1.5,
    },
    read={name: number / 2 for number, name in enumerate(EVIDENCE, start=1)}
    | {
        "excluded": -5.0,
        "contradiction": -3.0,
        "hubness": -2.0,
        "has_examples": -0.2,
        READER: 0.7,
        "intercept": -2.5,
    },
    threshold=0.3,
)
FREE = tuple(name for name, row in EVIDENCE.items() if row.sign == 0)
"""Evidence that moves the intercept alone."""
WEIGHT = st.floats(0, 50)


def table(names, values):
    return st.fixed_dictionaries(dict.fromkeys(names, values))


def coefficients(*supporting):
    free = table((*FREE, "intercept"), st.floats(-50, 50))
    support = table((*SUPPORTING, *supporting), WEIGHT)
    against = table(AGAINST, st.floats(-50, 0))
    return st.builds(lambda *parts: dict(ChainMap(*parts)), support, free, against)


SUPPORTED = (*LEXICAL_FEATURES, *DENSE_FEATURES)
CALIBRATIONS = st.one_of(
    st.builds(default_calibration),
    st.builds(
        Calibration,
        st.builds(
            lambda supporting, against: supporting | against,
            table(SUPPORTED, WEIGHT),
            table(AGAINST, st.floats(-50, 0)),
        ),
        WEIGHT,
        coefficients(),
        coefficients(READER),
        st.floats(0, 1),
    ),
)
VALUES = st.one_of(
    table(EVIDENCE, st.floats(0, 1)),
    st.builds(
        lambda evidence, logit: evidence | {READER: logit},
        table(EVIDENCE, st.floats(0, 1)),
        st.floats(-12, 12),
    ),
)


def score_of(evidence, calibration):
    return probability(sum(calibration.log_odds_parts(evidence).values()))


def test_every_piece_of_evidence_speaks_for_a_hit():
    assert sorted(EVIDENCE) == sorted({*SUPPORTING, *AGAINST, *FREE})
    assert len(EVIDENCE) == len(set(EVIDENCE))
    assert READER not in {*EVIDENCE, *FEATURES}
    assert set(FEATURES) == {*SUPPORTED, *AGAINST}


def test_each_feature_adds_its_weight_times_its_value():
    row = [(0.5, 0.25, 0.0)[number % 3] for number in range(len(FEATURES))]
    weights = BY_HAND.weights.values()
    expected = [weight * value for weight, value in zip(weights, row, strict=True)]
    assert BY_HAND.contributions(np.array([row, row])).tolist() == [pytest.approx(expected)] * 2


def test_each_piece_of_evidence_adds_its_coefficient_times_its_value():
    nothing = dict.fromkeys(EVIDENCE, 0.0)
    values = {"bm25_full": 0.5, "name": 0.5, "lead": -2, "words_alone": 0.5}
    coefficients = {name: number for number, name in enumerate(EVIDENCE, start=1)}
    expected = {
        "bm25_full": 0.5 * coefficients["bm25_full"],
        "name": 0.5 * coefficients["name"],
        "lead": -2 * coefficients["lead"],
        "words_alone": -4.5,
        "intercept": -1.5,
    }
    assert BY_HAND.log_odds_parts(nothing | values) == nothing | expected
    read = BY_HAND.log_odds_parts(nothing | {"bm25_full": 0.5, "words_alone": 1, READER: -3})
    assert read == nothing | {
        "bm25_full": coefficients["bm25_full"] / 4,
        "words_alone": coefficients["words_alone"] / 2,
        READER: pytest.approx(-2.1),
        "intercept": -2.5,
    }


def test_the_exact_name_says_enough_by_itself():
    """Its part makes up for what the others lack, but not for what opposes, and never takes."""
    nothing = dict.fromkeys(EVIDENCE, 0.0) | {"name": 1.0}
    coefficient = list(EVIDENCE).index("name") + 1
    assert BY_HAND.log_odds_parts(nothing)["name"] == max(NAMED + 1.5, coefficient)
    parts = BY_HAND.log_odds_parts(nothing | {"lead": -2, "excluded": 1.0})
    assert sum(parts.values()) == pytest.approx(NAMED + parts["excluded"])
    assert BY_HAND.log_odds_parts(nothing | {"lead": 3})["name"] == coefficient


def test_probabilities_are_the_logistic_function_of_the_log_odds():
    odds = [0.0, math.log(3), -math.log(3), 800.0]
    assert list(map(probability, odds)) == pytest.approx([0.5, 0.75, 0.25, 1.0])


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_probabilities_have_the_order_of_the_log_odds(odds, other_odds):
    low, high = sorted((odds, other_odds))
    assert 0 < probability(low) <= probability(high) <= 1


@given(CALIBRATIONS, VALUES, st.sampled_from((*SUPPORTING, READER)), st.floats(0, 12))
def test_more_support_never_lowers_a_score(calibration, evidence, name, more):
    if name in evidence:
        raised = evidence | {name: evidence[name] + more}
        assert score_of(raised, calibration) >= score_of(evidence, calibration) * (1 - 1e-12)


@given(CALIBRATIONS, st.lists(st.floats(0, 1), min_size=len(FEATURES), max_size=len(FEATURES)))
def test_a_channel_is_the_weighted_mean_of_its_features(calibration, row):
    for channel in (LEXICAL_FEATURES, DENSE_FEATURES):
        weights = [calibration.weights[name] for name in channel]
        values = [row[list(FEATURES).index(name)] for name in channel]
        shares = [calibration.weights[name] for name in channel if not FEATURES[name].is_excess]
        expected = min(float(np.dot(weights, values)) / max(sum(shares), 1e-12), 1.0)
        scores = calibration.channel_scores(np.array([row]), channel)
        assert scores.tolist() == pytest.approx([expected])


def test_a_channel_without_weight_scores_nothing():
    weights = BY_HAND.weights | dict.fromkeys(DENSE_FEATURES, 0.0)
    calibration = replace(BY_HAND, weights=weights)
    assert calibration.channel_scores(np.ones((1, len(FEATURES))), DENSE_FEATURES).tolist() == [0.0]


@given(CALIBRATIONS)
def test_a_calibration_comes_back_from_json(calibration):
    values = json.loads(json.dumps(calibration.to_dict() | {"provenance": {"date": "2026-11"}}))
    assert Calibration.from_dict(values) == calibration


def test_a_calibration_that_was_read_cannot_be_changed_by_accident():
    calibration = Calibration.from_dict(BY_HAND.to_dict())
    for numbers in (calibration.weights, calibration.alone, calibration.read):
        with pytest.raises(TypeError):
            numbers["name"] = 0.0


@pytest.mark.parametrize("size", [-1e6, 1e6])
def test_the_largest_coefficients_give_numbers(size):
    most = json.loads(json.dumps(BY_HAND.to_dict()))
    most["weights"] = dict.fromkeys(FEATURES, 1e6) | dict.fromkeys(AGAINST, -1e6)
    for key in ("alone", "read"):
        most[key] |= dict.fromkeys(EVIDENCE, 0.0) | {"intercept": size, "words_alone": size}
    calibration = Calibration.from_dict(most)
    assert np.isfinite(calibration.contributions(np.ones((2, len(FEATURES)))).sum(axis=1)).all()
    for reading in ({}, {READER: 0.0}):
        score = score_of(dict.fromkeys(EVIDENCE, 1.0) | {"name": 0.5} | reading, calibration)
        assert score > 0
        assert score == pytest.approx(float(size > 0))


def changed(*path, value):
    """Return the JSON form of a calibration with one value changed, or left out where it is ...."""
    values = json.loads(json.dumps(BY_HAND.to_dict()))
    branch = values
    for key in path[:-1]:
        branch = branch[key]
    branch.pop(path[-1], None)
    if value is not ...:
        branch[path[-1]] = value
    return values


NOT_NEGATIVE = [
    *(("weights", name) for name in SUPPORTED),
    *(("alone", name) for name in SUPPORTING),
    *(("read", name) for name in (*SUPPORTING, READER)),
    ("reader",),
    ("threshold",),
]
NUMBERS = [
    *NOT_NEGATIVE,
    *((key, name) for key in ("alone", "read") for name in (*FREE, "intercept")),
]
NO_NUMBERS = [..., None, True, "1", [], {}, math.nan, math.inf, -math.inf, 10**400, 1e7, -1e7]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: str(value)[:9])
def test_what_is_no_usable_number_is_refused_by_name(value):
    for path in NUMBERS if value is ... else (NUMBERS[0], ("reader",)):
        with pytest.raises(ValueError, match=f"'{path[-1]}' is .*, not a number") as caught:
            Calibration.from_dict(changed(*path, value=value))
        assert len(str(caught.value)) < 200


def test_a_wrong_sign_is_refused_by_name():
    """It would let more evidence lower a score; zero does not."""
    for path in NOT_NEGATIVE:
        with pytest.raises(ValueError, match=f"'{path[-1]}' has the wrong sign"):
            Calibration.from_dict(changed(*path, value=-1e-9))
        assert Calibration.from_dict(changed(*path, value=0))
    for name in AGAINST:
        with pytest.raises(ValueError, match=f"'{name}' has the wrong sign"):
            Calibration.from_dict(changed("weights", name, value=1e-9))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        # Its weight was fitted to something else; a feature of weight 0 is left out.
        (("weights", "cosine_body"), 2.0, "'cosine_body' is not a feature"),
        (("weights", "cosine_body"), 0.0, None),
        (("threshold",), 1.01, r"threshold is 1\.01"),
        (("threshold",), 1, None),
        *(((name,), ..., f"'{name}' is not a table") for name in ("weights", "alone", "read")),
    ],
)
def test_other_values_that_cannot_be_used_are_refused(path, value, message):
    if message is None:
        assert Calibration.from_dict(changed(*path, value=value))
    else:
        with pytest.raises(ValueError, match=message):
            Calibration.from_dict(changed(*path, value=value))
