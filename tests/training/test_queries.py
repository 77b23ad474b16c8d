"""Requests mined from the texts of a skill, and pairs of a query and a document drawn from it."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.training import queries
from skillsearch.training.queries import TASK_CHARS, WEIGHTS, MinedSkill, SkillText

BODY = """# Sourdough

A starter is fed with flour and water every day, at the same hour, in a warm place.

## When to use

- Baking bread without bought yeast
- "my loaf did not rise at all"

## Proofing

Let the dough rest for twelve hours under a cloth, until it has twice its size and small bubbles.
"""
SKILL = SkillText(
    "sourdough-baker",
    "Bakes bread from a starter. Use when feeding a starter or shaping a loaf. "
    'Say "bake me a loaf".',
    BODY,
    ("Weighs flour and water for a loaf of the size that is asked for.",),
)


def draw_many(skill, count=400, seed=1):
    mined, chance = MinedSkill.mine(skill), random.Random(seed)
    return [pair for pair in (mined.draw(chance) for _ in range(count)) if pair]


def test_every_kind_of_query_is_drawn():
    kinds = Counter(pair.kind for pair in draw_many(SKILL))
    assert set(kinds) == set(WEIGHTS)


def test_a_query_from_the_metadata_is_not_in_its_document():
    """Else a search for equal words would do, and nothing of meaning be learned."""
    for pair in draw_many(SKILL):
        if pair.kind in {"request", "sentence"}:
            assert pair.query.lower() not in pair.document.lower()


def test_pieces_and_tasks_are_paired_with_metadata():
    """They come from the body, and so are what scripts say."""
    for pair in draw_many(SKILL):
        if pair.kind in {"piece", "task", "headings", "script"}:
            assert pair.document == f"{SKILL.name}: {SKILL.about}"


def test_the_name_is_missing_from_about_half_the_queries_of_the_body():
    """A user does not know it, but some texts have it."""
    body = "The sourdough baker says that flour matters more than the oven or the pan does.\n"
    skill = SkillText(SKILL.name, SKILL.about, body)
    pieces = [pair.query for pair in draw_many(skill, 800) if pair.kind == "piece"]
    named = sum("sourdough baker" in query.lower() for query in pieces)
    assert 0.35 < named / len(pieces) < 0.65


def test_tasks_are_long_but_not_longer_than_said():
    long = SkillText("a", "b" * 80, "\n\n".join(f"Paragraph {n} " + "word " * 40 for n in range(9)))
    tasks = [pair.query for pair in draw_many(long) if pair.kind == "task"]
    assert max(map(len, tasks)) > 400
    assert max(map(len, tasks)) < TASK_CHARS + 200


def test_a_skill_with_too_little_text_gives_no_pair():
    assert MinedSkill.mine(SkillText("x", "short", "")).draw(random.Random(1)) is None


@pytest.mark.parametrize("seed", range(3))
def test_keywords_are_words_of_the_skill_without_stop_words(seed):
    words = [pair.query for pair in draw_many(SKILL, seed=seed) if pair.kind == "keywords"]
    text = f"{SKILL.about} {BODY}".lower()
    assert words
    for query in words:
        assert 3 <= len(query.split()) <= 6
        assert all(
            word in text and word not in {"a", "the", "or", "when"} for word in query.split()
        )


@given(st.text(max_size=60), st.text(max_size=300), st.text(max_size=600), st.integers(0, 99))
def test_any_skill_can_be_drawn_from(name, about, body, seed):
    pair = MinedSkill.mine(SkillText(name, about, body)).draw(random.Random(seed))
    assert pair is None or (pair.query and pair.document)


def stated(about="", body=""):
    return list(queries.stated_requests(about, body))


def test_quoted_phrases_are_requests_and_code_is_not():
    """Paths, flags, values and single words are nothing that a user says."""
    about = (
        'Triggers on "clean up my inbox", “sort these letters by date” and "inbox"; runs '
        '"mail --all --force", "please run src/mail/sort.py" and "key = value of it".'
    )
    assert stated(about) == ["clean up my inbox", "sort these letters by date"]


def test_a_request_has_at_most_200_characters():
    fitting = "sort the letters " + "x" * 183
    assert stated(f'Say "{fitting}" or "{fitting}x".') == [fitting]


def test_a_body_is_asked_for_quotes_only_below_lines_about_requests():
    """A quote elsewhere, or in code, may be anything."""
    body = (
        '# Letters\n\nThe title reads "yours sincerely and so on".\n\n'
        'When the user says:\n\n"write to my landlord"\n\n'
        '## Examples\n\n- "complain about the noise upstairs"\n\n'
        '```\nsay "this is only code"\n```\n'
    )
    assert stated(body=body) == ["write to my landlord", "complain about the noise upstairs"]


def test_uses_that_are_denied_are_not_requests():
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
def test_a_clause_is_what_is_asked_without_who_asks(text, clause):
    assert next(queries.clauses(text)) == clause


def test_items_below_headings_of_use_are_requests():
    """Items of other sections are steps and notes."""
    body = (
        "## When to use\n\n- The user wants to dry mushrooms at home\n1. **Storing** dried fruit\n"
        "Not an item of the list.\n\n## Steps\n\n- Cut the mushrooms into slices\n"
    )
    assert stated(body=body) == ["dry mushrooms at home", "Storing dried fruit"]


def test_sentences_have_at_least_four_words_or_twelve_letters():
    text = (
        "Sorts **all** the letters. Too short. See [the guide](a.md) on this!\n"
        "把信件按日期分类整理好了。短。"
    )
    assert list(queries.sentences(text)) == [
        "Sorts all the letters.",
        "See the guide on this!",
        "把信件按日期分类整理好了。",
    ]


def test_headings_are_plain_and_not_those_of_code():
    body = "intro\n# Bees\n\n### The `queen` **bee**\n\n```\n# a comment\n```\n"
    assert queries.headings(body) == ["Bees", "The queen bee"]


def test_what_is_mined_is_sorted_by_kind():
    about = 'Sorts letters by date and street. Say "sort my letters". Use when drowning in mail.'
    body = f"{about}\n\n# Steps\n\nOpen every letter with a dull knife, then lay it flat.\n"
    mined = MinedSkill.mine(SkillText("tidy", about, body, ("Sorts them.",)))
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


def test_paragraphs_are_plain_and_without_code():
    body = (
        "# Bees\n\nShort.\n\n"
        "A [hive](https://x.test/a) needs **room** to grow before summer comes.\n\n"
        "```\nhive.open() and many more characters of code here\n```\n"
    )
    assert queries.paragraphs(body) == ["A hive needs room to grow before summer comes."]


@pytest.mark.parametrize("spelling", ["bee-keeper", "Bee Keeper", "bee_keeper", "BEEKEEPER"])
def test_a_name_is_taken_out_however_it_is_joined(spelling):
    assert queries.without_name(f"ask the {spelling} now", "bee-keeper") == "ask the now"


def test_a_name_inside_a_word_stays():
    assert queries.without_name("the cargo arrives", "go") == "the cargo arrives"


@given(st.text(max_size=300), st.text(max_size=40))
def test_any_text_can_be_mined(text, name):
    for mined in (stated(text, text), queries.clauses(text), queries.sentences(text)):
        assert all(isinstance(phrase, str) for phrase in mined)
    assert queries.headings(text) is not None
    assert queries.paragraphs(text) is not None
    assert isinstance(queries.without_name(text, name), str)


@pytest.mark.parametrize("unit", ['"', "use when ", "[", "#", ". ", "-", "`", "“a", "word ", ":"])
@pytest.mark.timeout(120)
@pytest.mark.slow
def test_time_grows_with_the_length_of_a_hostile_text(unit):
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
def test_a_script_says_of_itself_what_stands_before_its_code(script, said):
    """The first docstring or comment that is neither a notice of a licence nor for a tool."""
    assert queries.opening(script) == said


@given(st.text(alphabet="#/*-\"'r\n aé", max_size=300))
def test_any_script_has_an_opening(script):
    assert "\n" not in queries.opening(script)


def test_requests_of_the_description_come_before_those_of_the_body():
    about = 'Say "open my letters" or "burn my letters".'
    body = '## When to use\n\n- Opening old letters\n\n## Examples\n\n- "open my letters"\n'
    assert stated(about, body) == [
        "open my letters",
        "burn my letters",
        "Opening old letters",
        "open my letters",
    ]
