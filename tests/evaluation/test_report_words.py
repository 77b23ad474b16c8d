"""Numbers and verdicts in words."""

from dataclasses import replace

import pytest

from skillsearch.evaluation.reporting.report import (
    VERDICTS,
    against_baseline,
    answers_said,
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
    ends = (difference - 0.1, difference + 0.1)
    return Comparison("a", "b", "R@5", difference, ends, 0.001, p_holm, wins, 0, losses)


def test_shares_differences_and_chances_are_shown_in_figures():
    assert [percent(share) for share in (0.8432, 0.0, 1.0, None)] == ["84.3", "0.0", "100.0", "-"]
    assert [spread((0.81, 0.8744)), spread(None)] == ["81.0-87.4", "-"]
    assert [points(value) for value in (0.032, -0.2, -0.0001)] == ["+3.2", "-20.0", "+0.0"]
    chances = [probability(value) for value in (1.0, 0.0456, 0.001, 0.0009)]
    assert chances == ["1.000", "0.046", "0.001", "<0.001"]


def test_scores_show_what_tells_them_apart():
    """Two decimals serve probabilities and BM25, but neither rank fusion nor huge scores."""
    scores = (0.0, 0.3, 23.456, -7.0, 0.016393, 123456.0, float("inf"))
    shown = ["0.00", "0.30", "23.46", "-7.00", "0.0164", "1.23e+05", "inf"]
    assert list(map(score_digits, scores)) == shown


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"difference": 0.2}, "better"),
        ({"difference": -0.2}, "worse"),
        ({"difference": 0.2, "p_holm": 0.05}, "undecided"),
        ({"difference": 0.1}, "undecided"),
        ({"p_holm": 0.05}, "may be chance"),
        ({"difference": -0.1, "p_holm": 0.3}, "may be chance"),
        ({"difference": 0.0, "p_holm": 1.0, "wins": 0, "losses": 0}, "equal"),
    ],
)
def test_only_what_chance_does_not_explain_is_a_verdict(fields, said):
    """The corrected p-value and the interval decide, not the difference."""
    assert verdict(compared(**fields)) == said


def test_systems_that_look_the_same_share_the_first_place():
    means = {"a": {"R@5": 0.84312}, "b": {"R@5": 0.84298}, "c": {"R@5": 0.8}, "d": {}}
    assert best_systems("R@5", means) == {"a", "b"}
    assert best_systems("R@5", {name: means[name] for name in ("a", "b")}) == frozenset()
    assert best_systems("R@5", {"a": {"R@5": 0.5}}) == frozenset()
    assert best_systems("Judged@10", {"a": {"Judged@10": 1.0}, "b": {"Judged@10": 0.0}}) == set()
    assert best_systems("nDCG@10", means) == frozenset()
    false = {"a": {"false answers, twin": 0.2}, "b": {"false answers, twin": 0.1}}
    assert best_systems("false answers, twin", false) == frozenset()


@pytest.fixture
def ranked(report, system_report):
    """Make a report of systems with some means of nDCG@10, and what is known of each difference."""

    def make(means, p_holm=0.01, **fields):
        systems = [
            replace(
                system_report(name, is_empty=True),
                means={"nDCG@10": mean},
                intervals={"nDCG@10": (mean - 0.1, mean + 0.05)},
            )
            for name, mean in means.items()
        ]
        (baseline, lowest), *others = means.items()
        fixed = {"baseline": baseline, "measure": "nDCG@10"}
        comparisons = [
            replace(compared(mean - lowest, p_holm), system=name, **fixed) for name, mean in others
        ]
        return replace(report(*systems), comparisons=tuple(comparisons), **fields)

    return make


@pytest.mark.parametrize(
    ("means", "best", "other"),
    [
        ({"bm25": 0.5, "dense": 0.7, "hybrid": 0.3}, "dense", "bm25"),
        ({"hybrid": 0.7, "bm25": 0.4, "dense": 0.5}, "hybrid", "dense"),
    ],
    ids=["against the baseline", "the baseline, against the next"],
)
def test_the_headline_names_the_best_and_its_lead(ranked, means, best, other):
    assert headline(ranked(means)) == (
        f"{best} has the highest nDCG@10, 70.0 (95 % interval 60.0-75.0), 20.0 points above "
        f"{other} (95 % interval +10.0 to +30.0): beyond chance."
    )


def test_the_headline_says_whether_it_is_more_than_chance(ranked):
    sentence = headline(ranked({"bm25": 0.5, "dense": 0.7}, p_holm=0.2))
    undecided = "undecided by its interval and its corrected test"
    assert sentence.endswith(f"(95 % interval +10.0 to +30.0): {undecided}.")


@pytest.mark.parametrize("p_holm", [0.01, 0.2])
@pytest.mark.parametrize("interval", [(0.002, 0.026), (-0.026, -0.002), (-0.01, 0.02), (0.0, 0.03)])
def test_no_verdict_contradicts_its_interval_or_its_test(p_holm, interval):
    word = verdict(replace(compared(sum(interval) / 2, p_holm), interval=interval))
    is_far = not interval[0] <= 0 <= interval[1]
    assert (word == "may be chance") == (not is_far and p_holm > 0.05)
    assert (word in ("better", "worse")) == (is_far and p_holm < 0.05)
    assert word in VERDICTS


def test_of_a_single_system_the_headline_says_only_what_it_reached(ranked, report, system_report):
    alone = "bm25 has an nDCG@10 of 50.0 (95 % interval 40.0-55.0)."
    assert headline(ranked({"bm25": 0.5})) == alone
    untested = replace(ranked({"bm25": 0.5, "dense": 0.4}), comparisons=())
    assert headline(untested) == "bm25 has the highest nDCG@10, 50.0 (95 % interval 40.0-55.0)."
    assert headline(report(replace(system_report("bm25", is_empty=True), means={}))) == ""


def test_of_runs_the_headline_is_about_the_last(ranked):
    made = ranked({"old": 0.5, "middle": 0.9, "new": 0.3}, unit="run")
    assert headline(made) == (
        "new has an nDCG@10 of 30.0 (95 % interval 20.0-35.0), 20.0 points below old "
        "(95 % interval -30.0 to -10.0): beyond chance."
    )
    untested = replace(made, comparisons=made.comparisons[:1])
    assert headline(untested) == "new has an nDCG@10 of 30.0 (95 % interval 20.0-35.0)."


def test_what_answers_say_is_told_in_a_sentence(report):
    _, dense, hybrid = report().systems
    states = hybrid.abstention.default
    false = [f"{percent(of.false)} % ({name})" for name, of in states.unanswerable.items()]
    assert answers_said(hybrid) == (
        f"With hybrid a right skill fits for {percent(states.answerable.recall)} % of the requests "
        f"that have one; of requests that nothing answers, {', '.join(false)} are answered."
    )
    assert answers_said(dense) == ""
    alone = replace(hybrid.abstention, default=replace(states, unanswerable={}))
    assert answers_said(replace(hybrid, abstention=alone)).endswith("requests that have one.")


def test_a_system_is_told_against_the_first_in_a_few_words(report):
    made = report()
    names = [system.name for system in made.systems]
    words = [
        f"{points(test.difference)}, {verdict(test)}"
        for test in made.comparisons
        if test.measure == "nDCG@10"
    ]
    assert [against_baseline(made, name) for name in names] == ["", *words]
    few = replace(made, comparisons=())
    assert [against_baseline(few, name) for name in names[:2]] == ["", "too few queries"]
