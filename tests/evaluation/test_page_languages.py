"""The section of a page on the languages of queries."""

import re
from dataclasses import replace
from html import unescape

import pytest

from skillsearch.evaluation.reporting.page import page_templates

language_section = page_templates().get_template("pieces.html").module.languages
HOSTILE = "<script>alert(1)</script>\"'\u202e\x1b[31m"
MEASURES = ("nDCG@10", "R@5", "R@10", "Success@1", "Success@5", "RR@10", "Judged@10")


def cells(html):
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [
        [
            unescape(re.sub(r"<[^>]+>", " ", cell)).replace("\u2013", "-").split()
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        ]
        for row in rows
    ]


@pytest.fixture
def part(report, system_report):
    """Make the report of some queries, of which a few have no comparisons."""

    def make(queries, mean=0.5, names=("hybrid", "bm25")):
        systems = [
            replace(
                system_report(name, is_empty=True),
                means=dict.fromkeys(MEASURES, mean + number / 10),
                intervals=dict.fromkeys(MEASURES, (0.25, 0.75)),
            )
            for number, name in enumerate(names)
        ]
        made = report(*systems, unanswerable={}, queries=queries)
        figures = {"difference": 0.1, "p_holm": 0.01, "interval": (0.02, 0.18), "wins": 9}
        comparisons = tuple(replace(comparison, **figures) for comparison in made.comparisons)
        return replace(made, comparisons=comparisons if queries >= 10 else ())

    return make


def test_each_language_has_a_group_of_rows(part):
    assert language_section(part(40)) == ""  # a collection in one language
    parts = {"zh": part(40), "ko": part(10, 0.25)}
    crossing = {"cross-language": part(11)}
    html = language_section(replace(part(50), languages=parts, crossing=crossing))
    heads, *rows = cells(html)
    assert [" ".join(head) for head in heads] == ["system", *MEASURES, "from hybrid"]
    titles = [" ".join(row[0]) for row in rows if len(row) == 1]
    assert titles == ["zh, 40 queries", "ko, 10 queries", "cross-language, 11 queries"]
    first, second = rows[1:3]
    assert first == [["hybrid"], *[["50.0", "25.0-75.0"]] * 7, []]
    assert second == [["bm25"], *[["60.0", "25.0-75.0"]] * 7, ["+10.0,", "better"]]
    assert "<details" not in html


def test_languages_of_few_queries_are_folded(part):
    some = {"ja": part(9), "zh": part(40), "ko": part(1)}
    shown, folded = language_section(replace(part(50), languages=some)).split("<details>")
    assert [" ".join(row[0]) for row in cells(shown) if len(row) == 1] == ["zh, 40 queries"]
    assert "<summary>Fewer than 10 queries: 2</summary>" in folded
    heads, *rows = cells(folded)
    assert [" ".join(head) for head in heads] == ["system", *MEASURES, "from hybrid"]
    assert [" ".join(row[0]) for row in rows if len(row) == 1] == ["ja, 9 queries", "ko, 1 query"]
    assert rows[2] == [["bm25"], *[["60.0", "25.0-75.0"]] * 7, ["too", "few", "queries"]]
    del some["zh"]
    assert language_section(replace(part(10), languages=some)).count("<table") == 1


def test_hostile_names_are_shown_and_nothing_else(part):
    hostile = part(20, names=(HOSTILE, f"{HOSTILE}2"))
    html = language_section(replace(hostile, languages={HOSTILE: hostile}))
    assert "<script" not in html
    assert not set("\x1b\u202e") & set(html)
    shown = re.sub(r" data-label=\"[^\"]*\"", "", html)
    assert shown.count("&lt;script&gt;") == 4
