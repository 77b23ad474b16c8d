"""Features to an order, and evidence to probabilities."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.documents import DENSE_CHANNELS, embeds_body
from skillsearch.index.search.calibration import (
    DENSE_FEATURES,
    EVIDENCE,
    FEATURES,
    LANGUAGE_FEATURES,
    LEXICAL_FEATURES,
    OPPOSING,
    SUPPORTING,
    Calibration,
    default_calibration,
    size_evidence,
)

BY_HAND = Calibration(
    weights=dict(zip(FEATURES, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], strict=True)),
    evidence={
        "bm25_full": 1.0,
        "bm25_known_alone": 2.0,
        "name": 3.0,
        "cosine_metadata": 4.0,
        "rarest_term": 5.0,
        "bm25_full_multilingual": 6.0,
        "cosine_metadata_multilingual": 7.0,
        "corpus_size": -0.5,
        "distrust": 8.0,
        "multilingual": -9.0,
    },
    intercept=-1.5,
    lag=0.5,
    lag_multilingual=1.5,
    threshold=0.3,
    clues=dict(zip(LANGUAGE_FEATURES, [3.0, -2.0, -4.0, 1.0], strict=True)) | {"intercept": 0.5},
)
FREE = ("distrust", "multilingual")
"""Evidence that moves the intercept alone."""
WEIGHT = st.floats(0, 50)


def table(names, values):
    """Return a strategy for a number by name."""
    return st.fixed_dictionaries(dict.fromkeys(names, values))


CALIBRATIONS = st.one_of(
    st.builds(default_calibration),
    st.builds(
        Calibration,
        table(FEATURES, WEIGHT),
        st.builds(
            lambda *parts: {name: value for part in parts for name, value in part.items()},
            table(SUPPORTING, WEIGHT),
            table(OPPOSING, st.floats(-50, 0)),
            table(FREE, st.floats(-50, 50)),
        ),
        st.floats(-20, 20),
        st.floats(0, 5),
        st.floats(0, 5),
        st.floats(0, 1),
        table((*LANGUAGE_FEATURES, "intercept"), st.floats(-50, 50)),
    ),
)
VALUES = table(EVIDENCE, st.floats(0, 1)).map(
    lambda found: found | {"corpus_size": 4 + 6 * found["corpus_size"]}
)
SUMS = st.lists(st.floats(0, 60), min_size=1, max_size=20).map(np.array)


def best_score(evidence, calibration):
    """Score the best candidate."""
    return float(calibration.scores(np.array([1.0]), evidence)[0])


def test_every_piece_of_evidence_speaks_for_or_against():
    """But for what moves the intercept; no name stands twice."""
    assert sorted(EVIDENCE) == sorted({*SUPPORTING, *OPPOSING, *FREE})
    assert len(EVIDENCE) == len(set(EVIDENCE))
    assert set(FEATURES) == {*LEXICAL_FEATURES, *DENSE_FEATURES}


def test_contributions_by_hand():
    """Weight times feature."""
    row = [0.5, 0.25, 0.0, 1.0, 0.2, 0.5, 0.0, 1.0, 0.1]
    assert BY_HAND.contributions(np.array([row])).tolist() == [
        pytest.approx([0.5, 0.5, 0.0, 4.0, 1.0, 3.0, 0.0, 8.0, 0.9])
    ]


def test_confidence_by_hand():
    """Coefficient times value, and the intercept beside them."""
    values = {"bm25_full": 0.5, "cosine_metadata": 1, "corpus_size": 10, "multilingual": 0.5}
    expected = {"bm25_full": 0.5, "cosine_metadata": 4, "corpus_size": -5, "multilingual": -4.5}
    nothing = dict.fromkeys(EVIDENCE, 0.0)
    assert BY_HAND.confidence(nothing | values) == nothing | expected | {"intercept": -1.5}


def test_scores_by_hand():
    """One over one plus e to the minus log-odds; half a unit of them for a unit behind the best."""
    evidence = dict.fromkeys(EVIDENCE, 0.0)
    evidence |= {"bm25_full": 0.5, "cosine_metadata": 1, "corpus_size": 5, "distrust": 0.5}
    log_odds = 0.5 + 4 - 2.5 + 4 - 1.5
    scores = BY_HAND.scores(np.array([3.0, 7.0, 6.0]), evidence)
    expected = [1 / (1 + math.exp(-(log_odds - 0.5 * behind))) for behind in (4, 0, 1)]
    assert scores.tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0.5), (0.25, 0.75), (1.0, 1.5)])
def test_the_lag_depends_on_the_channel_that_judges_the_best(share, expected):
    """Between both where both do: from 0.5 to 1.5 by the share of the second."""
    evidence = dict.fromkeys(EVIDENCE, 0.0) | {"multilingual": share}
    assert BY_HAND.lag_for(evidence) == pytest.approx(expected)
    first, second = BY_HAND.scores(np.array([5.0, 3.0]), evidence).tolist()
    odds = math.log(first / (1 - first)) - math.log(second / (1 - second))
    assert odds == pytest.approx(2 * expected)


@given(CALIBRATIONS, SUMS, VALUES)
def test_the_scores_have_the_order_of_the_sums(calibration, sums, evidence):
    """All lie between 0 and 1, and the best sum has the best score."""
    scores = calibration.scores(sums, evidence)
    assert (scores > 0).all()
    assert (scores <= 1).all()
    assert (np.diff(scores[np.argsort(sums)]) >= 0).all()
    assert scores.max() == scores[np.argmax(sums)]


@given(SUMS, VALUES)
def test_other_sums_have_other_scores(sums, evidence):
    """In the calibration in use, but for what a float cannot tell apart."""
    sums = np.unique(sums.round(3))
    assert (np.diff(default_calibration().scores(sums, evidence)) > 0).all()


@given(CALIBRATIONS, VALUES, st.sampled_from(SUPPORTING), st.floats(0, 1))
def test_more_support_never_lowers_a_score(calibration, evidence, name, value):
    """Piece by piece."""
    raised = evidence | {name: max(evidence[name], value)}
    assert best_score(raised, calibration) >= best_score(evidence, calibration)


@given(CALIBRATIONS, VALUES, st.sampled_from(OPPOSING), st.floats(0, 10))
def test_more_against_it_never_raises_a_score(calibration, evidence, name, value):
    """Nearness to things in general, or more skills of which one is near by chance."""
    raised = evidence | {name: max(evidence[name], value)}
    assert best_score(raised, calibration) <= best_score(evidence, calibration)


@given(SUMS, VALUES)
def test_confidence_and_lag_add_up_to_the_log_odds(sums, evidence):
    """`explain` shows every summand."""
    calibration = default_calibration()
    scores = calibration.scores(sums, evidence)
    behind = calibration.lag_for(evidence) * (sums.max() - sums)
    expected = sum(calibration.confidence(evidence).values()) - behind
    assert scores == pytest.approx(1 / (1 + np.exp(-expected)), rel=1e-9)


@given(CALIBRATIONS, SUMS, VALUES, st.floats(0, 1))
def test_a_weaker_candidate_has_no_influence(calibration, sums, evidence, share):
    """The score of one depends on itself and the best."""
    more = np.append(sums, share * sums.max())
    scores = calibration.scores(more, evidence)
    np.testing.assert_array_equal(scores[:-1], calibration.scores(sums, evidence))


def test_without_evidence_a_skill_is_below_the_threshold_and_with_all_far_above():
    """In the calibration in use, in a corpus of any size."""
    calibration = default_calibration()
    for size in (1, 16, 300, 10**6):
        nothing = dict.fromkeys(EVIDENCE, 0.0) | {"corpus_size": size_evidence(size)}
        assert best_score(nothing, calibration) < calibration.threshold / 2
        everything = nothing | dict.fromkeys(SUPPORTING, 1.0)
        assert best_score(everything, calibration) > 0.95


@given(st.integers(1, 10**7), st.integers(1, 10**7))
def test_a_larger_corpus_is_more_against_a_hit(one, other):
    """Or as much."""
    small, large = sorted((one, other))
    assert size_evidence(small) <= size_evidence(large)


@pytest.mark.parametrize(
    ("size", "expected"), [(1, 4), (16, 4), (17, 4.0875), (128, 7), (256, 8), (257, 8), (10**6, 8)]
)
def test_the_evidence_of_a_size_is_its_logarithm(size, expected):
    """To the base 2, between the sizes that it was observed on."""
    assert size_evidence(size) == pytest.approx(expected, abs=1e-3)


@given(CALIBRATIONS, st.lists(st.floats(0, 1), min_size=len(FEATURES), max_size=len(FEATURES)))
def test_a_channel_is_the_weighted_mean_of_its_features(calibration, row):
    """By hand, for both channels; the features of the other have no say."""
    for channel in (LEXICAL_FEATURES, DENSE_FEATURES):
        weights = [calibration.weights[name] for name in channel]
        values = [row[FEATURES.index(name)] for name in channel]
        expected = float(np.dot(weights, values)) / max(sum(weights), 1e-12)
        found = calibration.channel_scores(np.array([row]), channel)
        assert found.tolist() == pytest.approx([expected])


def test_a_channel_embeds_bodies_where_their_cosine_is_weighed():
    """The second alone, and neither in an index of metadata alone."""
    weighed = [any("body" in name for name in names) for names in DENSE_CHANNELS]
    assert [embeds_body(channel, with_body=True) for channel in range(2)] == weighed
    assert weighed == [False, True]
    assert not any(embeds_body(channel, with_body=False) for channel in range(2))


def test_a_channel_without_weight_scores_nothing():
    """An ablation may take all of its features."""
    weights = BY_HAND.weights | dict.fromkeys(DENSE_FEATURES, 0.0)
    calibration = replace(BY_HAND, weights=weights)
    assert calibration.channel_scores(np.ones((1, len(FEATURES))), DENSE_FEATURES).tolist() == [0.0]


def test_no_candidate_has_no_score():
    """An empty matrix of features is a usual case."""
    calibration = default_calibration()
    sums = calibration.contributions(np.zeros((0, len(FEATURES)))).sum(axis=1)
    assert calibration.scores(sums, dict.fromkeys(EVIDENCE, 0.0)).tolist() == []


@pytest.mark.parametrize(
    ("clues", "log_odds"),
    [
        ({}, 0.5),
        ({"english": 1, "overlap": 0.5}, 4.0),
        ({"other_language": 1}, -1.5),
        ({"other_language": 1, "other_letters": 1, "overlap": 1}, -4.5),
        ({"other_letters": 0.125, "overlap": 0.25}, 0.25),
    ],
)
def test_the_probability_of_english_by_hand(clues, log_odds):
    """One over one plus e to the minus weighted clues and intercept."""
    found = BY_HAND.p_english(dict.fromkeys(LANGUAGE_FEATURES, 0.0) | clues)
    assert found == pytest.approx(1 / (1 + math.exp(-log_odds)))


@given(CALIBRATIONS, table(LANGUAGE_FEATURES, st.floats(0, 1)))
def test_the_probability_of_english_is_one(calibration, clues):
    """Whatever was fitted, and however many clues there are."""
    assert 0 <= calibration.p_english(clues) <= 1


def test_the_most_extreme_clues_give_a_number():
    """No overflow, no division by zero."""
    for size, expected in ((-1e6, 0.0), (1e6, 1.0)):
        coefficients = dict.fromkeys((*LANGUAGE_FEATURES, "intercept"), size)
        found = replace(BY_HAND, clues=coefficients).p_english(
            dict.fromkeys(LANGUAGE_FEATURES, 1.0)
        )
        assert found == pytest.approx(expected)


@given(CALIBRATIONS)
def test_a_calibration_comes_back_from_json(calibration):
    """With every digit, and whatever else stands beside it."""
    values = json.loads(json.dumps(calibration.to_dict() | {"provenance": {"date": "2026-11"}}))
    assert Calibration.from_dict(values) == calibration


def test_a_calibration_that_was_read_cannot_be_changed_by_accident():
    """It is one for the whole process."""
    calibration = Calibration.from_dict(BY_HAND.to_dict())
    for numbers in (calibration.weights, calibration.evidence, calibration.clues):
        with pytest.raises(TypeError):
            numbers["name"] = 0.0


def changed(*path, value):
    """Return the JSON form of a calibration with one value changed, or left out where it is ...."""
    values = json.loads(json.dumps(BY_HAND.to_dict()))
    place = values
    for key in path[:-1]:
        place = place[key]
    place.pop(path[-1], None)
    if value is not ...:
        place[path[-1]] = value
    return values


NUMBERS = [
    *(("weights", name) for name in FEATURES),
    *(("evidence", name) for name in EVIDENCE),
    *(("clues", name) for name in (*LANGUAGE_FEATURES, "intercept")),
    ("intercept",),
    ("lag",),
    ("threshold",),
]
NO_NUMBERS = [..., None, True, "1", [], {}, math.nan, math.inf, -math.inf, 10**400, 1e7, -1e7]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: str(value)[:9])
@pytest.mark.parametrize("path", NUMBERS, ids=".".join)
def test_what_is_no_usable_number_is_refused_by_name(path, value):
    """Missing, of another type, not finite, or larger than any fit gives."""
    with pytest.raises(ValueError, match=f"'{path[-1]}' is .*, not a number") as caught:
        Calibration.from_dict(changed(*path, value=value))
    assert len(str(caught.value)) < 200


def test_a_feature_that_is_there_no_more_must_not_weigh_anything():
    """Its weight was fitted to something else; a feature of weight 0 is left out."""
    with pytest.raises(ValueError, match="'cosine_body' is not a feature"):
        Calibration.from_dict(changed("weights", "cosine_body", value=2.0))
    assert Calibration.from_dict(changed("weights", "cosine_body", value=0.0)) == BY_HAND


NOT_NEGATIVE = [
    *(("weights", name) for name in FEATURES),
    *(("evidence", name) for name in SUPPORTING),
    ("lag",),
]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((path, -1e-9) for path in NOT_NEGATIVE),
        *((("evidence", name), 1e-9) for name in OPPOSING),
    ],
)
def test_a_wrong_sign_is_refused_by_name(path, value):
    """It would let more evidence lower a score; zero does not."""
    with pytest.raises(ValueError, match=f"'{path[-1]}' has the wrong sign"):
        Calibration.from_dict(changed(*path, value=value))
    assert Calibration.from_dict(changed(*path, value=0))


@pytest.mark.parametrize(
    "path",
    [
        *(("evidence", name) for name in FREE),
        *(("clues", name) for name in LANGUAGE_FEATURES),
        ("intercept",),
    ],
)
def test_the_intercept_and_what_moves_it_may_have_either_sign(path):
    """They are no evidence for a skill."""
    for value in (-3, 3):
        assert Calibration.from_dict(changed(*path, value=value))


@pytest.mark.parametrize("value", [-0.01, 1.01])
def test_a_threshold_is_a_probability(value):
    """No other could be reached, or missed."""
    with pytest.raises(ValueError, match=f"threshold is {value}"):
        Calibration.from_dict(changed("threshold", value=value))


@pytest.mark.parametrize("name", ["weights", "evidence", "clues"])
@pytest.mark.parametrize("value", [..., None, [], 3, "weights"])
def test_a_table_that_is_none_is_refused_by_name(name, value):
    """Whatever stands in its place."""
    with pytest.raises(ValueError, match=f"'{name}' is not a table"):
        Calibration.from_dict(changed(name, value=value))


def test_the_largest_coefficients_give_numbers():
    """No overflow, no NaN, and no score of 0."""
    most = json.loads(json.dumps(BY_HAND.to_dict()))
    most |= {"lag": 1e6, "intercept": -1e6, "weights": dict.fromkeys(FEATURES, 1e6)}
    calibration = Calibration.from_dict(most)
    sums = calibration.contributions(np.outer([0.0, 1.0], np.ones(len(FEATURES)))).sum(axis=1)
    scores = calibration.scores(sums, dict.fromkeys(EVIDENCE, 1.0))
    assert 0 < scores[0] <= scores[1] < 1e-6
