"""Skills → which pairs are trained in which order: every batch of a run, made beforehand; pure."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skillsearch.text.scripts import readable
from skillsearch.training.batches import batches
from skillsearch.training.phrases import SkillText
from skillsearch.training.queries import BODY_SHARE, MinedSkill, Pair
from skillsearch.training.settings import TrainingSettings

Batch: TypeAlias = tuple[tuple[int, Pair], ...]
"""Rows of skills, each with a pair of that skill."""

JUDGED = "judged"
"""Kind of the pairs whose query somebody judged."""
_MOST_USES = 8
"""How often a judged query is trained at most; few queries seen often are learned by heart."""
_LEAST_METADATA = 30
"""Characters of metadata without which a skill is no document to be found."""
_DISTINCT_BODY = 200
"""Shorter bodies are equal by chance."""


class JudgedPair(NamedTuple):
    """A query and a skill that somebody chose for it.

    Attributes:
        query: The query.
        row: Row of the skill.
    """

    query: str
    row: int


def distinct_skills(
    skills: Sequence[SkillText], scripts: frozenset[str] | None
) -> tuple[list[SkillText], dict[int, int]]:
    """Take each skill once, with what an embedder can read of it.

    Args:
        skills: All skills.
        scripts: Scripts that the embedder reads, None for all.

    Returns:
        Skills that differ in metadata and in body, white space and case aside, and have metadata
        that can be read; and for the place of each skill given its row among them, that of a copy
        being the row of the first. Skills without readable metadata have none.
    """
    kept: list[SkillText] = []
    rows: dict[int, int] = {}
    seen: dict[tuple[str, str], int] = {}
    for place, skill in enumerate(skills):
        text = SkillText(
            readable(skill.name, scripts) or skill.name,
            readable(skill.about, scripts),
            readable(skill.body, scripts),
            tuple(text for one in skill.scripts if (text := readable(one, scripts))),
        )
        if len(text.about) < _LEAST_METADATA:
            continue
        keys = list(_content_keys(text))
        row = next((seen[key] for key in keys if key in seen), len(kept))
        if row == len(kept):
            kept.append(text)
        for key in keys:
            seen.setdefault(key, row)
        rows[place] = row
    return kept, rows


def has_texts(skills: Sequence[SkillText], least: int) -> bool:
    """Tell whether there are at least so many different texts that queries can be made of."""
    found = 0
    for skill in skills:
        found += sum(map(len, MinedSkill.mine(skill).sources.values()))
        if found >= least:
            return True
    return False


def make_plan(
    skills: Sequence[SkillText],
    near: NDArray[np.int32],
    settings: TrainingSettings,
    judged: Sequence[JudgedPair] = (),
) -> list[Batch]:
    """Draw the pairs of every step.

    Beside each judged query stands a pair of a skill that is near to the chosen one: a hard
    negative.

    Args:
        skills: As `distinct_skills` returns them.
        near: The nearest of each, as `skillsearch.training.batches.neighbours` returns them.
        settings: How many steps of what size, and the seed.
        judged: Judged queries to mix in.

    Returns:
        As many batches as there are steps; one may have a few pairs less than its size, where
        skills have too little text.
    """
    chance = random.Random(settings.seed)
    mined = [MinedSkill.mine(skill) for skill in skills]
    size = min(settings.batch_size, len(skills))
    count = _count_judged(settings, size, len(judged))
    chosen = cycle(chance.sample(judged, len(judged)))
    dealt = batches(near, max(1, size - 2 * count), chance)
    plan = []
    for rows in islice(dealt, settings.steps):
        drawn = [(row, mined[row].draw(chance)) for row in rows]
        for one in islice(chosen, count):
            drawn.append((one.row, _judged(one, mined[one.row], chance)))
            beside = [int(row) for row in near[one.row][:8] if row >= 0]
            if beside:
                row = chance.choice(beside)
                drawn.append((row, mined[row].draw(chance)))
        plan.append(tuple((row, pair) for row, pair in drawn if pair))
    return plan


def _count_judged(settings: TrainingSettings, size: int, judged: int) -> int:
    """Return how many judged queries each batch gets."""
    share = min(settings.judged_share, 0.5)
    return min(int(share * size), math.ceil(_MOST_USES * judged / settings.steps))


def _judged(one: JudgedPair, skill: MinedSkill, chance: random.Random) -> Pair:
    """Pair a judged query with a field of the skill that was chosen for it."""
    head = skill.head()
    from_body = head and chance.random() < BODY_SHARE
    return Pair(one.query, head if from_body else skill.metadata(), JUDGED)


def _content_keys(text: SkillText) -> Iterator[tuple[str, str]]:
    """Yield what two skills must not share to be two."""
    for field, content in (("about", text.about), ("body", text.body)):
        folded = " ".join(content.casefold().split())
        if field == "about" or len(folded) >= _DISTINCT_BODY:
            yield field, folded
