"""Requests mined from the texts of a skill."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.training import queries


def stated(about="", body=""):
    return list(queries.stated_requests(about, body))


def test_quoted_phrases_are_requests_and_code_is_not() -> None:
    """Paths, flags, values and single words are nothing that a user says."""
    about = (
        'Triggers on "clean up my inbox", “sort these letters by date” and "inbox"; runs '
        '"mail --all --force", "please run src/mail/sort.py" and "key = value of it".'
    )
    assert stated(about) == ["clean up my inbox", "sort these letters by date"]


def test_a_request_has_at_most_200_characters() -> None:
    fitting = "sort the letters " + "x" * 183
    assert stated(f'Say "{fitting}" or "{fitting}x".') == [fitting]


def test_a_body_is_asked_for_quotes_only_below_lines_about_requests() -> None:
    """A quote elsewhere, or in code, may be anything."""
    body = (
        '# Letters\n\nThe title reads "yours sincerely and so on".\n\n'
        'When the user says:\n\n"write to my landlord"\n\n'
        '## Examples\n\n- "complain about the noise upstairs"\n\n'
        '```\nsay "this is only code"\n```\n'
    )
    assert stated(body=body) == ["write to my landlord", "complain about the noise upstairs"]


def test_uses_that_are_denied_are_not_requests() -> None:
    about = 'Sorts letters. Not for "shred all of my letters".'
    body = "## When not to use\n\n- Shredding all of the letters\n"
    assert stated(about, body) == []


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("Use when reviewing a lease for hidden costs.", "reviewing a lease for hidden costs"),
        ("Use this skill when the user asks to plan a garden.", "plan a garden"),
        ("Helps. When the user wants to rent a small boat.", "rent a small boat"),
    ],
)
def test_a_clause_is_what_is_asked_without_who_asks(text: str, clause: str) -> None:
    assert next(queries.clauses(text)) == clause


def test_items_below_headings_of_use_are_requests() -> None:
    """Items of other sections are steps and notes."""
    body = (
        "## When to use\n\n- The user wants to dry mushrooms at home\n1. **Storing** dried fruit\n"
        "Not an item of the list.\n\n## Steps\n\n- Cut the mushrooms into slices\n"
    )
    assert stated(body=body) == ["dry mushrooms at home", "Storing dried fruit"]


def test_sentences_have_at_least_four_words_or_twelve_letters() -> None:
    text = (
        "Sorts **all** the letters. Too short. See [the guide](a.md) on this!\n"
        "把信件按日期分类整理好了。短。"
    )
    assert list(queries.sentences(text)) == [
        "Sorts all the letters.",
        "See the guide on this!",
        "把信件按日期分类整理好了。",
    ]


def test_headings_are_plain_and_not_those_of_code() -> None:
    body = "intro\n# Bees\n\n### The `queen` **bee**\n\n```\n# a comment\n```\n"
    assert queries.headings(body) == ["Bees", "The queen bee"]


def test_what_is_mined_is_sorted_by_kind() -> None:
    about = 'Sorts letters by date and street. Say "sort my letters". Use when drowning in mail.'
    body = f"{about}\n\n# Steps\n\nOpen every letter with a dull knife, then lay it flat.\n"
    mined = queries.MinedSkill.mine(queries.SkillText("tidy", about, body, ("Sorts them.",)))
    assert mined.sources == {
        "request": ("sort my letters",),
        "clause": ("drowning in mail",),
        "sentence": (
            "Sorts letters by date and street.",
            'Say "sort my letters".',
            "Use when drowning in mail.",
        ),
        "piece": ("Open every letter with a dull knife, then lay it flat.",),
        "script": ("Sorts them.",),
        "headings": ("Steps",),
    }
    assert mined.text.metadata("Sorts letters by date and street.").startswith("tidy:   Say")
    assert mined.text.head("Steps").endswith("lay it flat.")


def test_paragraphs_are_plain_and_without_code() -> None:
    body = (
        "# Bees\n\nShort.\n\n"
        "A [hive](https://x.test/a) needs **room** to grow before summer comes.\n\n"
        "```\nhive.open() and many more characters of code here\n```\n"
    )
    assert queries.paragraphs(body) == ["A hive needs room to grow before summer comes."]


@pytest.mark.parametrize("spelling", ["bee-keeper", "Bee Keeper", "bee_keeper", "BEEKEEPER"])
def test_a_name_is_taken_out_however_it_is_joined(spelling: str) -> None:
    assert queries.without_name(f"ask the {spelling} now", "bee-keeper") == "ask the now"


def test_a_name_inside_a_word_stays() -> None:
    assert queries.without_name("the cargo arrives", "go") == "the cargo arrives"


@given(st.text(max_size=300), st.text(max_size=40))
def test_any_text_can_be_mined(text: str, name: str) -> None:
    for mined in (stated(text, text), queries.clauses(text), queries.sentences(text)):
        assert all(isinstance(phrase, str) for phrase in mined)
    assert queries.headings(text) is not None
    assert queries.paragraphs(text) is not None
    assert isinstance(queries.without_name(text, name), str)


@pytest.mark.parametrize("unit", ['"', "use when ", "[", "#", ". ", "-", "`", "“a", "word ", ":"])
@pytest.mark.timeout(120)
@pytest.mark.slow
def test_time_grows_with_the_length_of_a_hostile_text(unit: str) -> None:
    """Half a megabyte of one sign takes seconds at most, and not the hours of a square."""
    text = "## when to use\n- " + unit * (500_000 // len(unit))
    stated(text, text)
    for mine in (queries.clauses, queries.sentences):
        for _ in mine(text):
            pass
    queries.paragraphs(text)
    queries.without_name(text, "use when")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('"""Sort the letters\nof a *day*."""\nimport os\n', "Sort the letters of a day."),
        ("#!/usr/bin/env python3\n\nr'''Sort the letters.'''\n", "Sort the letters."),
        ("\ufeff#!/bin/sh\n# Sort the letters\n# by street.\nls\n", "Sort the letters by street."),
        ("// Sort the letters.\nlet x;", "Sort the letters."),
        ("/**\n * Sort the letters\n * by street.\n */\n", "Sort the letters by street."),
        ("-- Sort the letters.\nselect 1;", "Sort the letters."),
        ("# Copyright of the post office\n\n'''Sort the letters.'''\n", "Sort the letters."),
        ("/* eslint */\n// Sort the letters.", "Sort the letters."),
        ('import os\n"""Sort the letters."""\n', ""),
        ('"""Sort the letters and never end', ""),
        ("# run.py\n", ""),
        ("", ""),
    ],
)
def test_a_script_says_of_itself_what_stands_before_its_code(script, said) -> None:
    """The first docstring or comment that is neither a notice of a licence nor for a tool."""
    assert queries.opening(script) == said


@given(st.text(alphabet="#/*-\"'r\n aé", max_size=300))
def test_any_script_has_an_opening(script: str) -> None:
    assert "\n" not in queries.opening(script)


def test_requests_of_the_description_come_before_those_of_the_body() -> None:
    about = 'Say "open my letters" or "burn my letters".'
    body = '## When to use\n\n- Opening old letters\n\n## Examples\n\n- "open my letters"\n'
    assert stated(about, body) == [
        "open my letters",
        "burn my letters",
        "Opening old letters",
        "open my letters",
    ]
