"""What the texts of a skill say of the requests it is for."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.training import phrases


def test_quoted_phrases_are_found_and_code_is_not() -> None:
    """Paths, flags, values and single words are nothing that a user says."""
    text = (
        'Triggers on "clean up my inbox", “sort these letters by date” and "inbox"; runs '
        '"mail --all --force", "please run src/mail/sort.py" and "key = value of it".'
    )
    assert list(phrases.quoted(text)) == ["clean up my inbox", "sort these letters by date"]


def test_a_body_is_asked_for_quotes_only_where_it_speaks_of_requests() -> None:
    """A quote elsewhere, or in code, may be anything."""
    body = (
        '# Letters\n\nThe title reads "yours sincerely and so on".\n\n'
        'When the user says "write to my landlord", begin.\n\n'
        '## Examples\n\n- "complain about the noise upstairs"\n\n'
        '```\nsay "this is only code"\n```\n'
    )
    assert list(phrases.said(body)) == [
        "write to my landlord",
        "complain about the noise upstairs",
    ]


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("Use when reviewing a lease for hidden costs.", "reviewing a lease for hidden costs"),
        ("Use this skill when the user asks to plan a garden.", "plan a garden"),
        ("Helps. When the user wants to rent a small boat.", "rent a small boat"),
    ],
)
def test_a_clause_is_what_is_asked_without_who_asks(text: str, clause: str) -> None:
    """As a user would begin."""
    assert next(phrases.clauses(text)) == clause


def test_uses_are_the_items_below_headings_of_use() -> None:
    """Items of other sections are steps and notes."""
    body = (
        "## When to use\n\n- The user wants to dry mushrooms at home\n1. **Storing** dried fruit\n"
        "Not an item of the list.\n\n## Steps\n\n- Cut the mushrooms into slices\n"
    )
    assert list(phrases.uses(body)) == ["dry mushrooms at home", "Storing dried fruit"]


def test_paragraphs_are_plain_and_without_code() -> None:
    """Marks of Markdown and short lines are left out."""
    body = (
        "# Bees\n\nShort.\n\n"
        "A [hive](https://x.test/a) needs **room** to grow before summer comes.\n\n"
        "```\nhive.open() and many more characters of code here\n```\n"
    )
    assert phrases.paragraphs(body) == ["A hive needs room to grow before summer comes."]


@pytest.mark.parametrize("spelling", ["bee-keeper", "Bee Keeper", "bee_keeper", "BEEKEEPER"])
def test_a_name_is_taken_out_however_it_is_joined(spelling: str) -> None:
    """Else it gives the answer away."""
    assert phrases.without_name(f"ask the {spelling} now", "bee-keeper") == "ask the now"


def test_a_name_inside_a_word_stays() -> None:
    """Whole words only."""
    assert phrases.without_name("the cargo arrives", "go") == "the cargo arrives"


@given(st.text(max_size=300), st.text(max_size=40))
def test_any_text_can_be_mined(text: str, name: str) -> None:
    """Whatever it holds, nothing is raised."""
    for mine in (phrases.quoted, phrases.said, phrases.clauses, phrases.uses, phrases.sentences):
        assert all(isinstance(one, str) for one in mine(text))
    assert phrases.headings(text) is not None
    assert phrases.paragraphs(text) is not None
    assert isinstance(phrases.without_name(text, name), str)


@pytest.mark.parametrize("unit", ['"', "use when ", "[", "#", ". ", "-", "`", "“a", "word ", ":"])
def test_time_grows_with_the_length_of_a_hostile_text(unit: str) -> None:
    """Half a megabyte of one sign takes seconds at most, and not the hours of a square."""
    text = "## when to use\n- " + unit * (500_000 // len(unit))
    began = time.process_time()
    for mine in (phrases.quoted, phrases.said, phrases.clauses, phrases.uses, phrases.sentences):
        for _ in mine(text):
            pass
    phrases.paragraphs(text)
    phrases.without_name(text, "use when")
    assert time.process_time() - began < 20


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
    assert phrases.opening(script) == said


@given(st.text(alphabet="#/*-\"'r\n aé", max_size=300))
def test_any_script_has_an_opening(script: str) -> None:
    """Nothing fails, nothing goes on for ever, and it is one line."""
    assert "\n" not in phrases.opening(script)
