"""What becomes of single honest skills: cloned, copied whole, or in a root of less trust."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from attacks.ground import (
    UNSET,
    Ground,
    Matrix,
    Request,
    ndcgs,
    shown_best,
    texts_of,
    write_skills,
)
from attacks.texts import clones
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
    [Ground, Sequence[Request], Sequence[str], random.Random], Iterator[Effect]
]


def victims(
    requests: Sequence[Request], rng: random.Random, count: int = VICTIMS
) -> dict[str, list[Request]]:
    """Choose best skills of several requests; return these by skill."""
    own: defaultdict[str, list[Request]] = defaultdict(list)
    for request in requests:
        for skill in request.best_skills:
            own[skill].append(request)
    able = sorted(skill for skill, group in own.items() if len(group) >= LEAST_REQUESTS)
    return {skill: own[skill] for skill in rng.sample(able, min(count, len(able)))}


def clone_victims(
    ground: Ground,
    requests: Sequence[Request],
    trusts: Sequence[str],
    rng: random.Random,
    count: int = CLONES,
) -> Iterator[Effect]:
    """Clone one victim at a time; measure whether its requests show it, at its own path."""
    # Only the victim counts, not another skill as right.
    own = {
        skill: [Request(request.text, {skill: 1}) for request in group]
        for skill, group in victims(requests, rng).items()
    }
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


def _shown(ground: Ground, index: SkillIndex, requests: Sequence[Request]) -> Matrix:
    return shown_best(requests, ground.search(index, texts_of(requests)), ground.ids)


def copy_all(
    ground: Ground, requests: Sequence[Request], trusts: Sequence[str], _rng: random.Random
) -> Iterator[Effect]:
    """Copy all honest skills into the later root; their own paths must be shown as before."""
    alone = _both(ground, requests, UNSET, is_copied=False)
    shutil.rmtree(ground.later, ignore_errors=True)
    shutil.copytree(ground.home, ground.later)
    for trust in trusts:
        copied = _both(ground, requests, trust, is_copied=True)
        for name, before in alone.items():
            yield Effect(
                f"later-root: best skill in first five of {name}", trust, before, copied[name]
            )


def _both(
    ground: Ground, requests: Sequence[Request], trust: str, *, is_copied: bool
) -> dict[str, Matrix]:
    index = ground.open([ground.home, ground.later], trust) if is_copied else ground.index()
    search = ground.library_search(index)
    by_library = list(map(search, texts_of(requests)))
    return {
        "SkillIndex": _shown(ground, index, requests),
        "SkillLibrary": shown_best(requests, by_library, ground.ids),
    }


def split_honest(
    ground: Ground, requests: Sequence[Request], trusts: Sequence[str], rng: random.Random
) -> Iterator[Effect]:
    """Put half of the honest skills into a second root; measure requests with a best one there."""
    keys = sorted(ground.skills)
    rng.shuffle(keys)
    second = set(keys[: len(keys) // 2])
    roots = [ground.work / "honest-first", ground.work / "honest-second"]
    ids: dict[str, str] = {}
    for root, half in zip(roots, (ground.skills.keys() - second, second), strict=True):
        texts = {key: text for key, text in ground.skills.items() if key in half}
        ids |= write_skills(root, texts)
    chosen = [request for request in requests if request.best_skills & second]
    by_trust: dict[str, Matrix] = {}
    for trust in trusts:
        results = ground.search(ground.open(roots, trust), texts_of(chosen))
        by_trust[trust] = ndcgs(chosen, results, ids)
    for trust in trusts[1:] or trusts:
        name = f"honest-unvetted: nDCG@10 of the second root ({trusts[0]} → {trust})"
        yield Effect(name, trust, by_trust[trusts[0]], by_trust[trust])


PROBES: Mapping[str, Probe] = {
    "clones": clone_victims,
    "later-root": copy_all,
    "honest-unvetted": split_honest,
}
"""What is done to honest skills, by its name."""
