"""Tables beside the reports: kinds of queries, and skills that steal each other's queries."""

from dataclasses import replace

import pytest

from skillsearch.evaluation.confusables import ConfusingWord, Confusion
from skillsearch.evaluation.reporting.figures import figure_rows
from skillsearch.evaluation.reporting.report import Outcome
from skillsearch.evaluation.reporting.tables import confusion_blocks, kinds, languages

PAIR = Confusion(
    loser="a:tea",
    loser_name="steep-tea",
    winner="a:coffee",
    winner_name="brew-coffee",
    queries=3,
    share=0.375,
    lead=0.25,
    unranked=1,
    is_mutual=True,
    examples=("brew a pot of tea", "second", "third"),
    words=(ConfusingWord("brew", 3, 1, "body"), ConfusingWord("pot", 1, 1, "nowhere")),
    missing=(ConfusingWord("brew", 3, 1, "body"), ConfusingWord("pot", 1, 1, "nowhere")),
)


@pytest.mark.parametrize("width", [60, 120])
def test_kinds_have_a_row_for_each_system(report, system_report, width, printed):
    systems = [system_report(name, queries=40) for name in ("hybrid", "bm25")]
    made = report(*systems)
    lines = printed(kinds({"trigger": made, "task\x1b": made}), width)
    assert lines[0] == "By kind of query, in percent"
    first = next(number for number, line in enumerate(lines) if line.startswith("trigger"))
    cells = [line.split() for line in lines[first:]]
    assert [row[:3] for row in cells[::2]] == [[of, "40", "hybrid"] for of in ("trigger", "task")]
    assert [row[0] for row in cells[1::2]] == ["bm25", "bm25"]
    assert cells[0][3] == f"{100 * systems[0].means['nDCG@10']:.1f}"


def test_languages_have_a_row_for_each_system(report, system_report, printed):
    systems = [system_report("hybrid", queries=40), system_report("bm25", 1, 0.7, queries=40)]
    made = report(*systems)
    few = replace(made, queries=3, comparisons=())
    whole = replace(made, languages={"zh": made, "ko": few}, crossing={"cross-language": made})
    lines = printed(languages(whole), 100)
    assert lines[0] == "By language of the query, in percent"
    assert lines[1].endswith("from hybrid")
    zh, zh_bm25, ko, ko_bm25, cross, cross_bm25 = lines[2:]
    assert (zh.split()[:3], ko.split()[:3]) == (["zh", "40", "hybrid"], ["ko", "3", "hybrid"])
    assert zh.split()[3] == f"{100 * systems[0].means['nDCG@10']:.1f}"
    assert zh_bm25.endswith(f"{100 * made.comparisons[0].difference:+.1f}, better")
    assert (ko_bm25.split()[0], ko_bm25.endswith("too few queries")) == ("bm25", True)
    assert cross.split()[:3] == ["cross-language", "40", "hybrid"]
    assert cross_bm25.split()[0] == "bm25"
    assert "too few" in "\n".join(printed(languages(whole)))


def test_languages_of_one_system_differ_from_nothing(report, system_report, printed):
    made = report(system_report("hybrid"))
    lines = printed(languages(replace(made, languages={"zh": made})))
    assert lines[1].split()[-1] == "R@5"
    assert len(lines) == 3


def test_a_confusion_says_who_loses_how_much_and_why(printed):
    assert printed(confusion_blocks([PAIR], "hybrid"), 200) == [
        "Skills that lose queries to others under hybrid",
        "steep-tea loses to brew-coffee: 3 queries, 37.5 % of its own, lead 0.25, "
        "not found at all for 1, and the other way round",
        "  won by: brew, pot",
        "  only in its body: brew",
        "  nowhere in it: pot",
        "  query: brew a pot of tea",
    ]
    plain = replace(PAIR, lead=None, unranked=3, is_mutual=False, words=(), missing=(), examples=())
    assert printed(confusion_blocks([plain], "hybrid"), 200)[1:] == [
        "steep-tea loses to brew-coffee: 3 queries, 37.5 % of its own, not found at all for 3"
    ]
    (line,) = printed(confusion_blocks([], "hybrid"))
    assert line == "Under hybrid no skill steals several queries from another one."
    lines = printed(confusion_blocks([PAIR] * 25, "hybrid"), 200)
    assert lines[-1] == "and 5 more pairs (--json lists all)"
    assert sum("loses to" in line for line in lines) == 20


def test_rows_of_confusions_follow_those_of_the_figures(report):
    made = report(collection="drinks")
    odd = replace(PAIR, lead=None, examples=())
    *_, first, second = figure_rows([Outcome(made, (), confusions=(PAIR, odd))])
    assert list(map(str, first)) == [
        *("drinks", "confusable", "a:tea", "steep-tea", "a:coffee", "brew-coffee"),
        *("3", "0.375000", "0.250000", "brew pot", "brew pot", "brew a pot of tea"),
    ]
    assert (second[8], second[11]) == ("", "")
    assert len(second) == len(first)
