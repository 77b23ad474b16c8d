"""Tests of what the levels of skills cost in a prompt, and of the promised savings."""

import pytest

from skillsearch.agents.prompt import CONCISE_CHARS
from skillsearch.budget.costs import (
    MeasuredSkill,
    Size,
    check_claims,
    measure_levels,
    measure_search,
    measure_skill,
    report_budget,
)
from skillsearch.budget.hosts import ListedSkill


def sized(name, overview, body, documents=0, *, xml=0, hidden=False):
    """Make a skill of so many tokens, each of ten characters."""
    sizes = (Size(10 * tokens, tokens) for tokens in (overview, overview, xml, body, documents))
    return MeasuredSkill(ListedSkill(name, "", hidden=hidden), *sizes)


def test_the_levels_of_a_skill_are_measured_in_the_forms_that_prompts_have(count_words):
    skill = measure_skill(
        ListedSkill("tea", "Times tea & more.", path="/r/tea/SKILL.md"),
        "Use 80 C.",
        Size(7, 2),
        count=count_words,
    )
    line = "- tea: Times tea & more."
    xml = (
        "<skill>\n<name>\ntea\n</name>\n<description>\nTimes tea &amp; more.\n</description>\n"
        "<location>\n/r/tea/SKILL.md\n</location>\n</skill>"
    )
    assert skill.overview == skill.summary == Size(len(line), 6)
    assert skill.xml == Size(len(xml), count_words(xml))
    assert (skill.body, skill.documents) == (Size(9, 3), Size(7, 2))
    assert measure_levels([skill])[2].total == Size(16, 5)


def test_a_long_description_is_cut_in_a_summary_alone_and_a_hidden_one_is_in_none(count_words):
    long = ListedSkill("tea", "Tea " * 250)
    skill = measure_skill(long, "Body.", Size(), count=count_words)
    assert skill.overview.characters == len("- tea: ") + 999
    assert skill.summary.characters == pytest.approx(len("- tea: ") + CONCISE_CHARS, abs=4)
    hidden = ListedSkill("tea", "Tea.", hidden=True)
    skill = measure_skill(hidden, "Body.", Size(), count=count_words)
    assert (skill.overview, skill.xml, skill.body) == (Size(), Size(), Size(5, 1))


def test_levels_add_up():
    skills = [sized("a", 4, 30), sized("b", 6, 50, 100), sized("c", 0, 20, hidden=True)]
    overview, bodies, everything = measure_levels(skills)
    assert (overview.total, overview.share) == (Size(100, 10), 0.05)
    assert (overview.median, overview.largest, overview.largest_skill) == (
        Size(50, 5),
        Size(60, 6),
        "b",
    )
    assert (bodies.total, bodies.share, bodies.median) == (Size(1000, 100), 0.5, Size(300, 30))
    assert (everything.total, everything.share) == (Size(2000, 200), 1.0)
    assert (everything.largest, everything.largest_skill) == (Size(1500, 150), "b")


def test_a_search_costs_the_average_overview_of_its_hits_and_one_body():
    skills = [
        sized("a", 4, 30),
        sized("b", 6, 50),
        sized("c", 5, 40),
        sized("d", 0, 9, hidden=True),
    ]
    search = measure_search(skills, 2)
    assert (search.listing, search.body) == (Size(100, 10), Size(350, 35))
    assert search.total == Size(450, 45)
    two = [sized("a", 4, 30), sized("b", 6, 50)]
    assert measure_search(two, 5).listing == Size(100, 10)  # five hits of two skills are two


def test_claims_are_measured_as_they_are_worded():
    """Each by hand: 10 of overview, 120 of bodies, 200 of all, a median body of 40, 2 hits of 3."""
    skills = [sized("a", 3, 30, xml=4), sized("b", 4, 50, 80, xml=6), sized("c", 3, 40, xml=10)]
    claims = check_claims(skills, 2)
    assert [(claim.name, claim.figure, claim.claimed, claim.holds) for claim in claims] == [
        ("metadata", "saving", 0.9, True),
        ("start", "share", 0.2, True),
        ("on demand", "saving", 0.8, False),
        ("relevant", "saving", 0.7, False),
        ("format", "saving", 0.5, True),
    ]
    measured = [1 - 10 / 200, 10 / 120, 1 - 50 / 120, 1 - 7 / 10, 1 - 10 / 20]
    assert [claim.measured for claim in claims] == pytest.approx(measured)


@pytest.mark.parametrize(("body", "holds"), [(50, True), (49, True), (48, False)])
def test_a_share_holds_in_whole_percent(body, holds):
    """10 of 49 are 20.4 %, which is 20; 10 of 48 are 20.8 %, which is 21."""
    start = check_claims([sized("a", 10, body)], 1)[1]
    assert start.holds is holds


@pytest.mark.parametrize("skills", [[], [sized("a", 0, 0, hidden=True)]])
def test_nothing_to_compare_is_said(skills):
    """No division by nothing, and no claim that holds by accident."""
    assert {claim.holds for claim in check_claims(skills, 5)} == {None}
    assert [level.share for level in measure_levels(skills)] == [None] * 3


def test_a_report_has_the_hosts_that_were_asked_for_once():
    report = report_budget([sized("a", 1, 2)], n=5, window=9, hosts=["codex", "hermes", "codex"])
    assert [listing.host for listing in report.listings] == ["codex", "hermes"]
    assert (report.skills, report.hidden, report.to_dict()["context"]) == (1, 0, 9)
