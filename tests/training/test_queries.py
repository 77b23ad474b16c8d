"""Pairs of a query and a document that are drawn from a skill."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.training.queries import TASK_CHARS, WEIGHTS, MinedSkill, QueryPair, SkillText

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


def draw_many(skill: SkillText, count: int = 400, seed: int = 1) -> list[QueryPair]:
    mined, chance = MinedSkill.mine(skill), random.Random(seed)
    return [pair for pair in (mined.draw(chance) for _ in range(count)) if pair]


def test_every_kind_of_query_is_drawn() -> None:
    kinds = Counter(pair.kind for pair in draw_many(SKILL))
    assert set(kinds) == set(WEIGHTS)


def test_a_query_from_the_metadata_is_not_in_its_document() -> None:
    """Else a search for equal words would do, and nothing of meaning be learned."""
    for pair in draw_many(SKILL):
        if pair.kind in {"request", "sentence"}:
            assert pair.query.lower() not in pair.document.lower()


def test_pieces_and_tasks_are_paired_with_metadata() -> None:
    """They come from the body, and so are what scripts say."""
    for pair in draw_many(SKILL):
        if pair.kind in {"piece", "task", "headings", "script"}:
            assert pair.document == f"{SKILL.name}: {SKILL.about}"


def test_the_name_is_missing_from_about_half_the_queries_of_the_body() -> None:
    """A user does not know it, but some texts have it."""
    body = "The sourdough baker says that flour matters more than the oven or the pan does.\n"
    skill = SkillText(SKILL.name, SKILL.about, body)
    pieces = [pair.query for pair in draw_many(skill, 800) if pair.kind == "piece"]
    named = sum("sourdough baker" in query.lower() for query in pieces)
    assert 0.35 < named / len(pieces) < 0.65


def test_tasks_are_long_but_not_longer_than_said() -> None:
    long = SkillText("a", "b" * 80, "\n\n".join(f"Paragraph {n} " + "word " * 40 for n in range(9)))
    tasks = [pair.query for pair in draw_many(long) if pair.kind == "task"]
    assert max(map(len, tasks)) > 400
    assert max(map(len, tasks)) < TASK_CHARS + 200


def test_a_skill_with_too_little_text_gives_no_pair() -> None:
    assert MinedSkill.mine(SkillText("x", "short", "")).draw(random.Random(1)) is None


@pytest.mark.parametrize("seed", range(3))
def test_keywords_are_words_of_the_skill_without_stop_words(seed: int) -> None:
    words = [pair.query for pair in draw_many(SKILL, seed=seed) if pair.kind == "keywords"]
    text = f"{SKILL.about} {BODY}".lower()
    assert words
    for query in words:
        assert 3 <= len(query.split()) <= 6
        assert all(
            word in text and word not in {"a", "the", "or", "when"} for word in query.split()
        )


@given(st.text(max_size=60), st.text(max_size=300), st.text(max_size=600), st.integers(0, 99))
def test_any_skill_can_be_drawn_from(name: str, about: str, body: str, seed: int) -> None:
    pair = MinedSkill.mine(SkillText(name, about, body)).draw(random.Random(seed))
    assert pair is None or (pair.query and pair.document)
