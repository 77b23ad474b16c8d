"""What becomes of single honest skills: cloned, copied whole, or in a root of less trust."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from attack_ground import (
    UNSET,
    Asked,
    Ground,
    Matrix,
    ndcg,
    shown_best,
    write_skills,
)
from attack_texts import clones

from skillsearch.index.skill_index import SkillIndex

VICTIMS = 10
CLONES = 400
LEAST_REQUESTS = 3
"""Requests that make a best skill a victim."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A measure of each request, without and with what was done; `trust` is that of the second."""

    measure: str
    trust: str
    before: Matrix
    after: Matrix


Probe: TypeAlias = Callable[
    [Ground, Sequence[Asked], Sequence[str], random.Random], Iterator[Effect]
]


def victims(asked: Sequence[Asked], rng: random.Random, count: int = VICTIMS) -> Mapping[str, int]:
    """Choose best skills of several requests; return how many each has."""
    wanted: defaultdict[str, int] = defaultdict(int)
    for one in asked:
        for skill in one.best_skills:
            wanted[skill] += 1
    able = sorted(skill for skill, requests in wanted.items() if requests >= LEAST_REQUESTS)
    return {skill: wanted[skill] for skill in rng.sample(able, min(count, len(able)))}


def clone_victims(
    ground: Ground,
    asked: Sequence[Asked],
    trusts: Sequence[str],
    rng: random.Random,
    count: int = CLONES,
) -> Iterator[Effect]:
    """Clone one victim at a time; measure whether its requests show it, at its own path."""
    own = {
        skill: [one for one in asked if skill in one.best_skills] for skill in victims(asked, rng)
    }
    # Only the victim counts, not another skill as right.
    own = {skill: [Asked(one.text, {skill: 1}) for one in group] for skill, group in own.items()}
    index = ground.index()
    before = [_shown(ground, index, group) for group in own.values()]
    written = {skill: clones(ground.skills[skill], count, rng) for skill in own}
    for trust in trusts:
        after = [
            _shown(ground, ground.index(written[skill], trust), group)
            for skill, group in own.items()
        ]
        name = f"clones: victim in first five ({len(own)} victims, {count} clones each)"
        yield Effect(name, trust, np.concatenate(before), np.concatenate(after))


def _shown(ground: Ground, index: SkillIndex, asked: Sequence[Asked]) -> Matrix:
    results = ground.search(index, [one.text for one in asked])
    return shown_best(asked, results, ground.ids)


def copy_all(
    ground: Ground, asked: Sequence[Asked], trusts: Sequence[str], _rng: random.Random
) -> Iterator[Effect]:
    """Copy all honest skills into the later root; their own paths must be shown as before."""
    alone = _both(ground, asked, UNSET, is_copied=False)
    shutil.rmtree(ground.later, ignore_errors=True)
    shutil.copytree(ground.home, ground.later)
    for trust in trusts:
        copied = _both(ground, asked, trust, is_copied=True)
        for name, before in alone.items():
            yield Effect(
                f"later-root: best skill in first five of {name}", trust, before, copied[name]
            )


def _both(
    ground: Ground, asked: Sequence[Asked], trust: str, *, is_copied: bool
) -> dict[str, Matrix]:
    index = ground.open([ground.home, ground.later], trust) if is_copied else ground.index()
    search = ground.library_search(index)
    by_library = [search(one.text) for one in asked]
    return {
        "SkillIndex": _shown(ground, index, asked),
        "SkillLibrary": shown_best(asked, by_library, ground.ids),
    }


def split_honest(
    ground: Ground, asked: Sequence[Asked], trusts: Sequence[str], rng: random.Random
) -> Iterator[Effect]:
    """Put half of the honest skills into a second root; measure requests with a best one there."""
    keys = sorted(ground.skills)
    rng.shuffle(keys)
    second = set(keys[: len(keys) // 2])
    halves = [
        {k: t for k, t in ground.skills.items() if (k in second) is at} for at in (False, True)
    ]
    roots = [ground.work / "honest-first", ground.work / "honest-second"]
    ids = {
        path: key
        for root, half in zip(roots, halves, strict=True)
        for path, key in write_skills(root, half).items()
    }
    chosen = [one for one in asked if one.best_skills & second]
    found: dict[str, Matrix] = {}
    for trust in trusts:
        results = ground.search(ground.open(roots, trust), [one.text for one in chosen])
        pairs = zip(chosen, results, strict=True)
        found[trust] = np.array([ndcg(hits, one.grades, ids) for one, hits in pairs])
    before = found[trusts[0]]
    for trust in trusts[1:] or trusts:
        name = f"honest-unvetted: nDCG@10 of the second root ({trusts[0]} → {trust})"
        yield Effect(name, trust, before, found[trust])


PROBES: Mapping[str, Probe] = {
    "clones": clone_victims,
    "later-root": copy_all,
    "honest-unvetted": split_honest,
}
"""What is done to honest skills, by its name."""
