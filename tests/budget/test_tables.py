"""The tables of a budget."""

from skillsearch.budget.costs import measure_skill, measure_text, report_budget
from skillsearch.budget.hosts import ListedSkill
from skillsearch.budget.tables import claims, levels, listings


def test_tables_have_the_figures_of_the_report(count_words):
    skill = ListedSkill("steep-tea", "Steep green tea.", path="/a/SKILL.md", root="/a")
    measured = measure_skill(
        skill, "Use hot water.", measure_text("Notes.", count_words), count_words
    )
    report = report_budget([measured], n=5, window=200_000, hosts=["claude-code", "codex"])
    assert [row[0] for row in levels(report).rows] == [
        *("overview", "bodies", "all"),
        *("search: 5 hits", "search: one body"),
    ]
    everything = next(row for row in levels(report).rows if row[0] == "all")
    assert everything == ("all", 20, 4, 1.0, 4, 4, "steep-tea")
    assert [row[0] for row in claims(report).rows] == [claim.name for claim in report.claims]
    assert [row[4:] for row in listings(report).rows] == [(1, 0, 0, 0, 0)] * 2


def test_without_skills_nothing_is_compared():
    report = report_budget([], n=5, window=None, hosts=["codex"])
    assert {row[4] for row in claims(report).rows} == {"nothing to compare"}
    assert {row[3] for row in levels(report).rows} == {None}
