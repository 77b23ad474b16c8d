"""Tests of what a request and a skill say of versions, directions and opposites."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.search.contradictions import claims, contradiction, speaks_of, unexcluded

CONTRADICT = [
    ("upgrade from .NET 9 to .NET 10", "dotnet-10-to-11: Upgrade from .NET 10 to .NET 11"),
    ("migrate from angular 14 to 15", "Migrating Angular 15 to 16"),
    ("vue3 state", "Store patterns of Vue 2"),
    ("convert html to markdown", "markdown-to-html: converts Markdown to HTML"),
    ("turn this docx into a pdf", "pdf to docx"),
    ("json -> yaml", "yaml → json"),
    ("von Markdown nach HTML", "html-to-markdown"),
    ("export my contacts", "import contacts"),
]
AGREE = [
    ("upgrade from .NET 9 to .NET 10", "Upgrade from .NET 9 to .NET 10"),
    ("Vue 2 up to Vue 3", "Vue 3 development"),
    ("python 3.12 type hints", "Python 3 typing"),
    ("a web service on .NET 10", "For .NET 8+ applications"),
    ("relay 0.7 traces", "Relay 0.6 or 0.7 observability"),
    ("convert html to markdown", "html to markdown and markdown to html"),
    ("export my contacts", "import and export contacts"),
    ("review PR 77", "Reviews a pull request such as PR 12"),
    ("in 3 days", "in 5 steps"),
    ("draw a chart", "bake bread"),
]


@pytest.mark.parametrize(("request_", "skill"), CONTRADICT)
def test_another_version_direction_or_opposite_contradicts(request_, skill):
    assert contradiction(claims(request_), claims(skill)) > 0
    assert speaks_of(skill, claims(request_))


@pytest.mark.parametrize(("request_", "skill"), AGREE)
def test_the_same_and_what_a_skill_does_not_speak_of_do_not(request_, skill):
    assert contradiction(claims(request_), claims(skill)) == 0


def test_a_version_that_a_skill_is_not_for_contradicts():
    claimed = claims("Upgrade .NET projects. Not for .NET 9.")
    assert contradiction(claims("my .NET 9 project"), claimed) == 0
    assert contradiction(claims("my .NET 9 project"), unexcluded(claimed, claims(".NET 9"))) == 1


@given(st.text("ab1 .-to→", max_size=80), st.text("ab1 .-to→", max_size=80))
def test_it_is_a_share_and_no_text_contradicts_itself(request_, skill):
    claimed = claims(request_)
    assert 0 <= contradiction(claimed, claims(skill)) <= 1
    assert contradiction(claimed, claimed) == 0
    assert speaks_of(skill, claimed) or contradiction(claimed, claims(skill)) == 0


@pytest.mark.parametrize("piece", ["a", "a ", "a1 ", "1", "1, ", "a-to-", "a.", "- "])
def test_a_long_text_is_read_in_linear_time(piece):
    begin = time.process_time()
    claims(piece * 50_000)
    assert time.process_time() - begin < 2
