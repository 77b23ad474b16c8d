"""Numbers and verdicts in words."""

from dataclasses import replace

import pytest

from skillsearch.evaluation.report import (
    against_baseline,
    best_systems,
    headline,
    percent,
    points,
    probability,
    score_digits,
    spread,
    verdict,
)
from skillsearch.evaluation.types import Comparison


def compared(difference=0.1, p_holm=0.01, wins=3, losses=1):
    """Make a comparison."""
    ends = (difference - 0.1, difference + 0.1)
    return Comparison("a", "b", "R@5", difference, ends, 0.001, p_holm, wins, 0, losses)


def test_shares_are_percent_with_one_decimal():
    """As tables of retrieval have them; a dash where there is none."""
    assert [percent(share) for share in (0.8432, 0.0, 1.0, None)] == ["84.3", "0.0", "100.0", "-"]
    assert [spread((0.81, 0.8744)), spread(None)] == ["81.0-87.4", "-"]


def test_differences_carry_their_sign():
    """Points, not percent of something."""
    assert [points(value) for value in (0.032, -0.2, -0.0001)] == ["+3.2", "-20.0", "+0.0"]


@pytest.mark.parametrize(
    ("value", "shown"), [(1.0, "1.000"), (0.0456, "0.046"), (0.001, "0.001"), (0.0009, "<0.001")]
)
def test_p_values_have_three_decimals(value, shown):
    """None of them is zero."""
    assert probability(value) == shown


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        (0.0, "0.00"),
        (0.3, "0.30"),
        (23.456, "23.46"),
        (-7.0, "-7.00"),
        (0.016393, "0.0164"),
        (123456.0, "1.23e+05"),
        (float("inf"), "inf"),
    ],
)
def test_scores_show_what_tells_them_apart(score, shown):
    """Two decimals serve probabilities and BM25, but neither rank fusion nor huge scores."""
    assert score_digits(score) == shown


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "better"),
        ({"difference": -0.1}, "worse"),
        ({"p_holm": 0.05}, "may be chance"),
        ({"difference": -0.1, "p_holm": 0.3}, "may be chance"),
        ({"difference": 0.0, "p_holm": 1.0, "wins": 0, "losses": 0}, "equal"),
    ],
)
def test_only_what_chance_does_not_explain_is_a_verdict(fields, said):
    """The corrected p-value decides, not the difference."""
    assert verdict(compared(**fields)) == said


def test_systems_that_look_the_same_share_the_first_place():
    """The rounded figures decide; if all are equal, or more is not better, none is best."""
    means = {"a": {"R@5": 0.84312}, "b": {"R@5": 0.84298}, "c": {"R@5": 0.8}, "d": {}}
    assert best_systems("R@5", means) == {"a", "b"}
    assert best_systems("R@5", {name: means[name] for name in ("a", "b")}) == frozenset()
    assert best_systems("R@5", {"a": {"R@5": 0.5}}) == frozenset()
    assert best_systems("Judged@10", {"a": {"Judged@10": 1.0}, "b": {"Judged@10": 0.0}}) == set()
    assert best_systems("nDCG@10", means) == frozenset()


def test_the_headline_names_the_best_and_whether_it_is_more_than_chance(report, system_report):
    """In the words of the verdict; of a single system only what it reached."""
    systems = [
        system_report(name, seed, quality, is_empty=True)
        for seed, (name, quality) in enumerate({"bm25": 0.5, "dense": 0.7, "hybrid": 0.3}.items())
    ]
    top = percent(systems[1].means["nDCG@10"])
    assert headline(report(*systems[:1])) == (
        f"bm25 has the highest nDCG@10, {percent(systems[0].means['nDCG@10'])}."
    )
    made = report(*systems)
    difference = points(systems[1].means["nDCG@10"] - systems[0].means["nDCG@10"])
    assert headline(made) == (
        f"dense has the highest nDCG@10, {top}, {difference} points from bm25: "
        "no difference can be told from chance."
    )
    assert headline(report(systems[0], systems[2])).startswith("bm25 has the highest nDCG@10")


def test_without_the_main_measure_there_is_no_headline(report, system_report):
    """Nothing is said rather than something wrong."""
    assert headline(report(replace(system_report("bm25", is_empty=True), means={}))) == ""


def test_a_system_is_told_against_the_first_in_a_few_words(report):
    """By the main measure; of too few queries nothing is known."""
    made = report()
    names = [system.name for system in made.systems]
    known = {one.system: one for one in made.comparisons if one.measure == "nDCG@10"}
    assert [against_baseline(made, name) for name in names] == [
        "",
        f"{points(known['dense'].difference)}, may be chance",
        f"{points(known['hybrid'].difference)}, better",
    ]
    few = replace(made, comparisons=())
    assert [against_baseline(few, name) for name in names[:2]] == ["", "too few queries"]
