"""Abstention: thresholds, calibration, and telling the answerable from the rest."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.evaluation.assess import (
    assess_abstention,
    auroc,
    expected_calibration_error,
    recall_at_false,
)
from skillsearch.evaluation.types import OperatingPoint, ReliabilityBin, SystemAnswers

SCORES = st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0]), min_size=1, max_size=20)
HITS = st.lists(
    st.tuples(st.sampled_from("abcdefg"), st.sampled_from([0.05, 0.2, 0.31, 0.6, 1.0])), max_size=7
)


def answered(*rankings):
    """Name the rankings q1, q2, … and make their (document, score) pairs tuples."""
    return {f"q{number}": tuple(ranking) for number, ranking in enumerate(rankings, start=1)}


def system(answers, *, calibrated=True, threshold=None, **unanswerable):
    """Make a system; unanswerable queries by their source."""
    return SystemAnswers(
        "s", "", answers, unanswerable, threshold=threshold, is_calibrated=calibrated
    )


def point_of(states):
    """Return what the states at the default threshold say in the form of the other thresholds."""
    false = {source: shares.false for source, shares in states.unanswerable.items()}
    return OperatingPoint(states.threshold, states.answerable.recall, false, states.precision)


def qrels_of(answers, document="a"):
    """Judge one document relevant for every query."""
    return {query: {document: 1} for query in answers}


def assessed(answers, **options):
    """Assess a system with these answers, for each of which document a is right."""
    return assess_abstention(system(answers, **options), qrels_of(answers))


# Kept up to 0.9, 0.3 (at rank 2) and 0.2 (at rank 6, beyond the answer), and never.
FOUR = answered(
    [("a", 0.9), ("x", 0.8)],
    [("x", 0.5), ("a", 0.3)],
    [("1", 0.7), ("2", 0.7), ("3", 0.7), ("4", 0.7), ("5", 0.7), ("a", 0.2)],
    [],
)
FOREIGN = {"f1": (("x", 0.5),), "f2": ()}


@given(SCORES, SCORES)
def test_auroc_is_the_share_of_pairs_in_order(answerable, unanswerable):
    pairs = [(yes > no) + (yes == no) / 2 for yes in answerable for no in unanswerable]
    area = auroc(answerable, unanswerable)
    assert area == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
    assert area + auroc(unanswerable, answerable) == pytest.approx(1)


@given(SCORES, SCORES, st.sampled_from([0.05, 0.25, 0.5]))
def test_recall_at_few_false_answers_is_the_best_that_a_threshold_allows(right, wrong, share):
    """A threshold lies below the scores that it accepts, so that ties stay together."""

    def accepted(scores, threshold):
        return sum(score > threshold for score in scores) / len(scores)

    thresholds = (-1.0, *right, *wrong)
    best = max(accepted(right, cut) for cut in thresholds if accepted(wrong, cut) <= share)
    assert recall_at_false(right, wrong, share) == best


def test_recall_at_few_false_answers_is_of_the_right_skills_of_an_answer():
    """Of 40 negatives two may have an answer: the third scores 0.6."""
    negatives = {f"n{n}": (("x", score),) for n, score in enumerate([0.9, 0.8, 0.6] + [0.1] * 37)}
    answers = answered([("a", 0.7)], [("x", 0.9), ("a", 0.61)], [("x", 0.9), ("a", 0.6)], [])
    measured = assessed(answers, twin=negatives, far={"f": ()})
    assert measured.recall_at_few_false == {"twin": 2 / 4, "far": 3 / 4}


def test_calibration_error_weighs_each_bin_by_its_scores():
    """Two in the first bin, of which none came true, and two in the last, of which one did."""
    error, bins = expected_calibration_error([0.02, 0.06, 0.95, 1.0], [False, False, True, False])
    assert error == pytest.approx(0.5 * 0.04 + 0.5 * (0.975 - 0.5))
    assert bins == (
        ReliabilityBin(0.0, 0.1, 2, pytest.approx(0.04), 0.0),
        ReliabilityBin(0.9, 1.0, 2, pytest.approx(0.975), 0.5),
    )


def test_an_edge_belongs_to_the_bin_above():
    """0.3 and 0.7 too, which have no exact double. The last bin holds 1 and what is just above."""
    for score in (step / 10 for step in range(10)):
        _, (bin_above,) = expected_calibration_error([score], [True])
        assert (bin_above.low, bin_above.high) == (score, pytest.approx(score + 0.1))
    _, (bin_above,) = expected_calibration_error([1.0, 1.0 + 1e-12], [True, True])
    assert (bin_above.low, bin_above.high, bin_above.count) == (0.9, 1.0, 2)


def test_weights_count_cases():
    scores, outcomes = [0.05, 0.02, 0.8], [True, False, False]
    thrice, bins = expected_calibration_error(scores, outcomes, weights=[3, 1, 2])
    expected, same = expected_calibration_error([0.05] * 3 + [0.02] + [0.8] * 2, [1] * 3 + [0] * 3)
    assert thrice == pytest.approx(expected)
    assert [part.count for part in bins] == [2, 1]
    assert [part.relevant for part in bins] == pytest.approx([part.relevant for part in same])
    assert [part.score for part in bins] == pytest.approx([part.score for part in same])


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1), st.integers(1, 20))
def test_calibration_error_is_bounded_and_complete(cases, bins):
    scores, outcomes = zip(*cases, strict=True)
    error, filled = expected_calibration_error(scores, outcomes, bins=bins)
    assert 0 <= error <= 1 + 1e-12
    assert sum(part.count for part in filled) == len(cases)
    assert all(part.low - 1e-12 <= part.score <= part.high + 1e-12 for part in filled)
    bias = abs(np.mean(scores) - np.mean(outcomes))
    assert error >= bias - 1e-9
    assert bins > 1 or error == pytest.approx(bias, abs=1e-9)


def test_recall_false_answers_and_precision_are_those_at_the_threshold():
    """At 0.4 one of four is kept, one of two foreign ones and four in all are answered.

    Then two right first hits of two answerable, one foreign and two other answers.
    """
    measured = assessed(FOUR, threshold=0.4, foreign=FOREIGN)
    assert point_of(measured.default) == OperatingPoint(0.4, 1 / 4, {"foreign": 1 / 2}, 1 / 4)
    answers = answered([("a", 0.9)], [("a", 0.9)])
    none = {"n1": (("x", 0.9),), "n2": (("x", 0.9),), "n3": (("x", 0.1),)}
    measured = assessed(answers, threshold=0.5, foreign={"f": (("x", 0.6),)}, negatives=none)
    assert point_of(measured.default) == OperatingPoint(
        0.5, 1.0, {"foreign": 1.0, "negatives": 2 / 3}, 2 / 5
    )


def test_a_score_at_the_threshold_is_accepted():
    answers = answered([("a", 0.5)])
    for threshold, recall in ((0.5, 1.0), (math.nextafter(0.5, 1), 0.0)):
        measured = assessed(answers, threshold=threshold)
        assert measured.default.answerable.recall == recall


def test_a_query_without_a_hit_is_not_answered_at_any_threshold():
    """Even where scores are negative, as those of some run files are."""
    measured = assessed(FOUR, foreign=FOREIGN)
    assert measured.curve[0] == OperatingPoint(0.0, 2 / 4, {"foreign": 1 / 2}, 1 / 4)
    assert measured.top_scores == {"answerable": (0.9, 0.5, 0.7, 0.0), "foreign": (0.5, 0.0)}
    answers = answered([("a", -3.0)], [("a", -1.0)])
    measured = assessed(answers, calibrated=False, none={"n": ()})
    assert measured.auroc == {"none": 1.0}


def test_depth_says_how_far_an_answer_goes():
    """The relevant document of the third query is at rank 6, and is kept once it is at rank 5."""
    higher = {**FOUR, "q3": FOUR["q3"][1:]}
    recalls = [assessed(answers).curve[0].recall for answers in (FOUR, higher)]
    assert recalls == [2 / 4, 3 / 4]


def test_probabilities_are_looked_at_on_a_grid_and_other_scores_at_their_quantiles():
    answers = {f"q{number}": (("a", float(number)),) for number in range(1_000)}
    grid = assessed(FOUR).curve
    assert [point.threshold for point in grid] == [step / 50 for step in range(51)]
    points = assessed(answers, calibrated=False).curve
    thresholds = [point.threshold for point in points]
    assert len(thresholds) == 51
    assert set(thresholds) <= {float(number) for number in range(1_000)}
    assert (thresholds[0], thresholds[25], thresholds[-1]) == (0, 499, 999)


def test_equal_scores_have_one_threshold():
    answers = answered([("a", 7.0)], [("x", 7.0)])
    measured = assessed(answers, calibrated=False, foreign={"f": (("x", 7.0),)})
    point = OperatingPoint(7.0, 1 / 2, {"foreign": 1.0}, 1 / 3)
    assert measured.auroc == {"foreign": 0.5}
    assert (measured.calibration_error, measured.reliability) == ({}, ())  # no probabilities
    assert measured.curve == (point,)
    assert measured.keeping == {0.9: point, 0.95: point}


@given(st.lists(HITS, min_size=1, max_size=12))
def test_the_threshold_that_keeps_a_share_is_the_highest(rankings):
    answers = answered(*rankings)
    qrels = qrels_of(answers)
    keeping = assess_abstention(system(answers), qrels).keeping
    best = [max((s for d, s in hits[:5] if d == "a"), default=None) for hits in answers.values()]
    scores = [score for score in best if score is not None]
    assert set(keeping) == ({0.9, 0.95} if scores else set())
    for share, point in keeping.items():
        accepted = sum(score >= point.threshold for score in scores)
        assert accepted >= share * len(scores) - 1e-9
        assert point.recall == pytest.approx(accepted / len(answers))
        higher = [score for score in scores if score > point.threshold]
        assert len(higher) < share * len(scores) - 1e-9


@given(st.lists(HITS, min_size=1, max_size=8), st.lists(HITS, max_size=8), st.booleans())
def test_a_higher_threshold_never_answers_more(rankings, foreign, calibrated):
    answers = answered(*rankings)
    measured = assessed(answers, calibrated=calibrated, foreign=answered(*foreign))
    for low, high in pairwise(measured.curve):
        assert low.threshold < high.threshold
        assert low.recall >= high.recall
        assert low.false_answers.get("foreign", 0) >= high.false_answers.get("foreign", 0)
    assert all(0 <= point.recall <= 1 for point in measured.curve)
    assert all(point.precision is None or 0 <= point.precision <= 1 for point in measured.curve)


def test_calibration_counts_first_hits_alone():
    """0.9 is relevant; 0.5 and 0.7 are not; the query without a hit has no first hit."""
    measured = assessed(FOUR)
    assert measured.calibration_error == {"answerable": pytest.approx((0.1 + 0.5 + 0.7) / 3)}
    assert measured.reliability == (
        ReliabilityBin(0.5, 0.6, 1, 0.5, 0.0),
        ReliabilityBin(0.7, 0.8, 1, pytest.approx(0.7), 0.0),
        ReliabilityBin(0.9, 1.0, 1, pytest.approx(0.9), 1.0),
    )


def test_both_sorts_of_queries_weigh_the_same_in_the_calibration():
    """One answerable query against four that nothing answers: half and half."""
    answers = answered([("a", 0.9)])
    foreign = {"f1": (("x", 0.2),), "f2": (("x", 0.2),)}
    negatives = {"n1": (("x", 0.9),), "n2": (("x", 0.4),)}
    measured = assessed(answers, foreign=foreign, negatives=negatives)
    # In the last bin weigh 1/2 of a relevant and 1/8 of an irrelevant 0.9: it is right in 4 of 5.
    expected = 2 / 8 * 0.2 + 1 / 8 * 0.4 + 5 / 8 * (0.9 - 4 / 5)
    assert measured.calibration_error == pytest.approx({"answerable": 0.1, "all": expected})
    last = measured.reliability[-1]
    assert last == ReliabilityBin(0.9, 1.0, 2, pytest.approx(0.9), pytest.approx(4 / 5))


def test_without_unanswerable_queries_only_kept_is_known():
    measured = assessed(FOUR, threshold=0.5, foreign={})
    assert measured.auroc == {}
    assert point_of(measured.default) == OperatingPoint(0.5, 1 / 4, {}, 1 / 3)
    assert set(measured.calibration_error) == {"answerable"}
    assert set(measured.top_scores) == {"answerable"}


@pytest.mark.parametrize("calibrated", [True, False])
def test_a_system_that_never_answers_recalls_nothing_and_has_no_precision(calibrated):
    silent = system({}, calibrated=calibrated, threshold=0.3, foreign={"f": ()})
    measured = assess_abstention(silent, {"q": {"a": 1}})
    assert point_of(measured.default) == OperatingPoint(0.3, 0.0, {"foreign": 0.0}, None)
    assert {point.recall for point in measured.curve} == ({0.0} if calibrated else set())
    assert measured.auroc == {"foreign": 0.5}
    assert (measured.keeping, measured.calibration_error, measured.reliability) == ({}, {}, ())


def test_only_unanswerable_queries_have_hits():
    measured = assess_abstention(system({}, foreign={"f": (("x", 0.8),)}), {"q": {"a": 1}})
    assert measured.auroc == {"foreign": 0.0}
    assert measured.calibration_error == {"all": pytest.approx(0.8)}


def test_only_queries_with_a_relevant_document_are_answerable():
    answers = answered([("a", 0.9)], [("a", 0.9)], [("a", 0.9)])
    measured = assess_abstention(system(answers), {"q1": {"a": 1}, "q2": {"a": 0}})
    assert measured.top_scores == {"answerable": (0.9,)}
    assert assess_abstention(system(answers, foreign=FOREIGN), {}).auroc == {}
