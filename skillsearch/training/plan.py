"""The plan of a training run: its settings, and the pairs of every batch, drawn beforehand; pure.

The other documents of a batch are negatives, so it is made of small clusters of neighbours.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle, islice
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skillsearch.text.requests import fold_blanks
from skillsearch.training.queries import BODY_SHARE, MinedSkill, QueryPair, SkillText

Batch: TypeAlias = tuple[tuple[int, QueryPair], ...]
"""Rows of skills, each with a pair of it."""

JUDGED = "judged"  # kind of the pairs with a judged query
_MOST_USES = 8  # maximum of repeats of a judged query; more, and it is learned by heart
_LEAST_METADATA = 30  # characters of metadata that make a skill a document
_DISTINCT_BODY = 200  # shorter bodies are equal by chance
SAME = 0.86  # cosine of the metadata, by the tuned embedder, from which skills count as the same
CLUSTER = 8  # neighbours that share a batch
_NEIGHBOURS = 48
_ROWS = 1_024


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Settings of a training run; the same seed gives the same plan, and weights up to rounding.

    The learning rate rises for the share `warm_up`, then falls to zero. `scale` multiplies cosines
    before the softmax: a higher one only sees the nearest negatives. `judged_share` is of a batch,
    `teacher_share` of the loss. With the words and the `frozen_layers`, languages and words that no
    text uses keep their meaning. The precision is ``bfloat16``, ``float32``, or ``auto`` for the
    faster one here. After `patience` validations without a better value, training ends.
    """

    steps: int = 200
    batch_size: int = 64
    learning_rate: float = 6e-5
    warm_up: float = 0.05
    weight_decay: float = 0.01
    scale: float = 20.0
    query_tokens: int = 96
    document_tokens: int = 112
    judged_share: float = 0.25
    teacher_share: float = 0.5
    teacher_scale: float = 20.0
    frozen_layers: int = 4
    precision: str = "auto"
    device: str = "cpu"
    check_every: int = 50
    patience: int = 3
    save_every: int = 50
    seed: int = 0

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 1."""
        rising = max(1.0, self.warm_up * self.steps)
        if step <= rising:
            return self.learning_rate * step / rising
        return self.learning_rate * max(0.02, (self.steps - step) / (self.steps - rising))


class QueryRows(NamedTuple):
    """A query, and the rows of the skills that are right for it."""

    query: str
    rows: tuple[int, ...]


def distinct_skills(skills: Sequence[SkillText]) -> tuple[list[SkillText], dict[int, int]]:
    """Take each skill once.

    Returns skills that differ in metadata and body, and the row among them by the position of each
    given one with metadata; a copy has the row of the first.
    """
    distinct: list[SkillText] = []
    rows: dict[int, int] = {}
    seen: dict[tuple[str, str], int] = {}
    for position, skill in enumerate(skills):
        if len(skill.about) < _LEAST_METADATA:
            continue
        keys = [("about", fold_blanks(skill.about))]
        if len(body := fold_blanks(skill.body)) >= _DISTINCT_BODY:
            keys.append(("body", body))
        row = next((seen[key] for key in keys if key in seen), len(distinct))
        if row == len(distinct):
            distinct.append(skill)
        for key in keys:
            seen.setdefault(key, row)
        rows[position] = row
    return distinct, rows


def has_texts(skills: Sequence[SkillText], least: int) -> bool:
    """Return whether there are at least `least` different texts to make queries of."""
    sources = (MinedSkill.mine(skill).sources.values() for skill in skills)
    return any(
        count >= least for count in accumulate(len(texts) for kinds in sources for texts in kinds)
    )


def make_plan(
    skills: Sequence[SkillText],
    near: NDArray[np.int32],
    settings: TrainingSettings,
    judged: Sequence[QueryRows] = (),
) -> list[Batch]:
    """Draw the pairs of every step, for `distinct_skills` with their `neighbours`.

    Each judged query has one row, and is followed by a pair of a near skill: a hard negative. A
    batch has fewer pairs than its size if skills have too little text.
    """
    chance = random.Random(settings.seed)
    mined = list(map(MinedSkill.mine, skills))
    size = min(settings.batch_size, len(skills))
    most = math.ceil(_MOST_USES * len(judged) / settings.steps)
    count = min(int(min(settings.judged_share, 0.5) * size), most)
    chosen = cycle(chance.sample(judged, len(judged)))
    dealt = batches(near, max(1, size - 2 * count), chance)
    plan = []
    for rows in islice(dealt, settings.steps):
        drawn = [(row, mined[row].draw(chance)) for row in rows]
        for judged_query in islice(chosen, count):
            (row,) = judged_query.rows
            head = skills[row].head()
            document = head if head and chance.random() < BODY_SHARE else skills[row].metadata()
            drawn.append((row, QueryPair(judged_query.query, document, JUDGED)))
            if beside := [int(other) for other in near[row][:8] if other >= 0]:
                row = chance.choice(beside)
                drawn.append((row, mined[row].draw(chance)))
        plan.append(tuple((row, pair) for row, pair in drawn if pair))
    return plan


def neighbours(vectors: NDArray[np.float32]) -> NDArray[np.int32]:
    """Find up to 48 nearest other skills of each, given unit vectors; best first, -1 at the end."""
    count = min(_NEIGHBOURS, len(vectors) - 1)
    nearest = np.full((len(vectors), count), -1, np.int32)
    for begin in range(0, len(vectors), _ROWS):
        block = vectors[begin : begin + _ROWS] @ vectors.T
        block[block >= SAME] = -2.0
        best = np.argpartition(-block, count - 1, axis=1)[:, :count]
        values = np.take_along_axis(block, best, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        best = np.take_along_axis(best, order, axis=1).astype(np.int32)
        best[np.take_along_axis(values, order, axis=1) < -1.0] = -1
        nearest[begin : begin + _ROWS] = best
    return nearest


def batches(near: NDArray[np.int32], size: int, chance: random.Random) -> Iterator[list[int]]:
    """Deal all skills into batches, `CLUSTER` neighbours together, again and again without end."""
    while True:
        free = np.ones(len(near), np.bool_)
        order = list(range(len(near)))
        chance.shuffle(order)
        clusters = []
        for seed in order:
            if not free[seed]:
                continue
            free[seed] = False
            mates = [row for row in near[seed] if row >= 0 and free[row]][: 2 * CLUSTER]
            mates = chance.sample(mates, min(len(mates), CLUSTER - 1))
            free[mates] = False
            clusters.append([seed, *map(int, mates)])
        chance.shuffle(clusters)
        rows = [row for cluster in clusters for row in cluster]
        for begin in range(0, len(rows) - size + 1, size):
            yield rows[begin : begin + size]
