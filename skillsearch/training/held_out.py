"""Requests that skills state themselves, struck out of their texts to be asked later; pure.

What is struck is in no text that is trained or searched, so that whoever finds the skill by it
understood it. It is still the author's wording, easier than that of users.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skillsearch.training import phrases
from skillsearch.training.phrases import SkillText
from skillsearch.training.queries import MinedSkill

REQUESTS = ("request", "clause")
"""Kinds of texts that imitate users best."""
PIECES = ("piece",)
"""Taken where skills state too few requests."""
_LEAST_ABOUT = 30
_QUERY_CHARS = 300
_TRIES = 6
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class HeldQuery:
    """A query, and the skill that it was struck from.

    Attributes:
        text: The query.
        row: Row of the skill.
        kind: Where it comes from, as in `skillsearch.training.queries.Pair`.
    """

    text: str
    row: int
    kind: str


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Skills without some of what they said, and that.

    Attributes:
        skills: All skills, in their order.
        queries: At most one of each skill, in random order.
    """

    skills: tuple[SkillText, ...]
    queries: tuple[HeldQuery, ...]


def hold_out(skills: Sequence[SkillText], count: int, seed: int) -> HeldOut:
    """Strike a request out of some skills.

    Args:
        skills: The skills.
        count: How many queries are wanted; pieces of bodies are taken where requests are too few.
        seed: Of all choices.

    Returns:
        The skills left, and at most so many queries.
    """
    chance = random.Random(seed)
    left = list(skills)
    queries: list[HeldQuery] = []
    waiting = chance.sample(range(len(skills)), len(skills))
    for kinds in (REQUESTS, PIECES):
        later = []
        for row in waiting:
            found = _strike(skills[row], kinds, chance) if len(queries) < count else None
            if found is None:
                later.append(row)
                continue
            left[row], text, kind = found
            queries.append(HeldQuery(text, row, kind))
        waiting = later
    chance.shuffle(queries)
    return HeldOut(tuple(left), tuple(queries))


def mean_gain(
    queries: NDArray[np.float32], rows: Sequence[int], documents: NDArray[np.float32]
) -> float:
    """Return how high the right documents stand: the mean of 1 / log2(1 + rank).

    It is nDCG of one right document, without a cut-off, so that every rise counts.

    Args:
        queries: Their unit vectors, float32, (queries, dimensions).
        rows: Row of the right document of each.
        documents: Unit vectors of all documents, float32.

    Returns:
        The mean, 0 to 1; of equal documents the right one counts as the last.
    """
    scores = queries @ documents.T
    right = scores[np.arange(len(rows)), list(rows)]
    ranks = (scores >= right[:, np.newaxis]).sum(axis=1)
    return float(np.mean([1.0 / math.log2(1.0 + rank) for rank in ranks]))


def _strike(
    skill: SkillText, kinds: Sequence[str], chance: random.Random
) -> tuple[SkillText, str, str] | None:
    """Take a text of some kinds out of a skill; None where none can be taken out whole."""
    sources = MinedSkill.mine(skill).sources
    texts = [(text, kind) for kind in kinds for text in sources.get(kind, ())]
    for text, kind in chance.sample(texts, min(len(texts), _TRIES)):
        parts = (skill.about, skill.body, *skill.scripts)
        about, body, *scripts = (part.replace(text, " ") for part in parts)
        left = SkillText(skill.name, about, body, tuple(scripts))
        query = phrases.without_name(text, skill.name)
        folded = _fold(text)
        is_gone = folded not in _fold("\n".join((about, body, *scripts)))
        if is_gone and len(left.about.strip()) >= _LEAST_ABOUT and len(query.split()) > 2:
            return left, _head(query), kind
    return None


def _head(text: str) -> str:
    """Return the first words of a text."""
    return text if len(text) <= _QUERY_CHARS else text[:_QUERY_CHARS].rsplit(" ", 1)[0]


def _fold(text: str) -> str:
    """Return the words of a text alone, so that marks between them make no difference."""
    return " ".join(_WORD.findall(text.casefold()))
