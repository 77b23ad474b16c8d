"""What attackers in the victim's own root can do to it: is it lost, though it is there?

Each attack names one victim at a time: a skill that is right for measured requests. The attackers'
folders sort first in the honest root, or lie in a later vetted root. A victim is *lost* if one of
its requests showed it among the first five without the attack, and now neither shows nor names it
by a handle that loads it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from attack_ground import FIRST, Asked, Ground, Matrix
from attack_texts import Text, framed, named, sentences_of, shorten, tweaked

from skillsearch.errors import SkillSearchError
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.types.answers import Hit, Relative, SearchResult

VICTIMS = 24
COPIES = 5
"""Skills that a paraphrasing attacker writes for each victim."""
TRIGGERS = 2
"""Requests that a capturing copy names."""
INSIDE, LATER = "same root", "later vetted root"


@dataclass(frozen=True, slots=True)
class Victim:
    """An honest skill, what attackers know of its requests, and those that are measured."""

    doc_id: str
    text: Text
    known: Sequence[str]
    measured: Sequence[str]


Writer: TypeAlias = Callable[[Victim, Text, random.Random], list[Text]]
"""Writes skills against a victim; the second text is that of another skill."""


@dataclass(frozen=True, slots=True)
class Toll:
    """What an attack took from victims, for each of their requests before and after."""

    kind: str
    place: str
    victims: int
    before: Matrix
    after: Matrix
    first_before: Matrix
    first_after: Matrix
    lost: Sequence[str]


def _triggered(victim: Victim, rng: random.Random) -> str:
    """Return the victim's description with a few requests behind it."""
    asked = rng.sample(victim.known, min(TRIGGERS, len(victim.known)))
    return f"{victim.text.description} {' '.join(framed(one, rng) for one in asked)}"


def capture(victim: Victim, _: Text, rng: random.Random) -> list[Text]:
    """Copy the victim, with a few requests as triggers."""
    about = _triggered(victim, rng)
    return [replace(victim.text, name=f"{victim.text.name}-pro", description=about)]


def bridge(victim: Victim, other: Text, rng: random.Random) -> list[Text]:
    """Join the victim's description to the body of another skill, and the other way round."""
    return [
        Text(f"{victim.text.name}-plus", _triggered(victim, rng), other.body),
        Text(f"{victim.text.name}-more", other.description, victim.text.body),
    ]


def version(victim: Victim, _: Text, __: random.Random) -> list[Text]:
    """Take the victim's name, with another content and a higher version."""
    body = "# Helper\n\n" + "Do what was asked, step by step, and say what was done. " * 12
    return [Text(victim.text.name, "Generic helper.", body, version="99.0.0")]


def paraphrase(victim: Victim, _: Text, rng: random.Random) -> list[Text]:
    """Say the same in other words, some times, with requests and a body of its own."""
    texts = []
    for number in range(COPIES):
        asked = [framed(one, rng) for one in rng.sample(victim.known, min(2, len(victim.known)))]
        about = shorten(f"{tweaked(victim.text.description, rng)} {' '.join(asked)}")
        lines = [tweaked(one, rng) for one in sentences_of(victim.text.body)]
        body = "\n\n".join([*asked, *rng.sample(lines, min(len(lines), 12))])
        texts.append(Text(named([victim.text.name, "alt"], number), about, body))
    return texts


def split(victim: Victim, _: Text, __: random.Random) -> list[Text]:
    """Write two skills that have half of the victim each."""
    halves = []
    for number, (about, body) in enumerate(
        zip(_halves(victim.text.description), _halves(victim.text.body), strict=True)
    ):
        halves.append(Text(named([victim.text.name, "part"], number), about, body))
    return halves


def _halves(text: str) -> tuple[str, str]:
    middle = text.find(" ", len(text) // 2)
    return (text[:middle], text[middle:]) if middle > 0 else (text, text)


WRITERS: Mapping[str, Writer] = {
    "capture": capture,
    "bridge": bridge,
    "version": version,
    "paraphrase": paraphrase,
    "split": split,
}
"""Attacks on single victims, by their names."""
RIVALS = ("bridge", "paraphrase")
"""Those whose skills are no copies: they take places as any other skill for the same task does."""


def find_victims(
    skills: Mapping[str, Text], asked: Sequence[Asked], rng: random.Random, count: int = VICTIMS
) -> list[Victim]:
    """Choose skills that alone are right for most requests; attackers know the first half."""
    wanted: defaultdict[str, list[str]] = defaultdict(list)
    for one in asked:
        if len(one.best_skills) == 1:
            wanted[min(one.best_skills)].append(one.text)
    able = sorted(skill for skill, requests in wanted.items() if len(requests) > 1)
    rng.shuffle(able)
    found = []
    for skill in sorted(able, key=lambda one: -len(wanted[one]))[:count]:
        requests = wanted[skill]
        half = len(requests) // 2
        found.append(Victim(skill, skills[skill], requests[:half], requests[half:]))
    return found


def tolls(
    ground: Ground, victims: Sequence[Victim], kinds: Sequence[str], seed: int
) -> Iterator[Toll]:
    """Attack all victims at once, in each place, by each kind of `WRITERS`."""
    others = [text for key, text in ground.skills.items() if key not in {v.doc_id for v in victims}]
    requests = [request for victim in victims for request in victim.measured]
    owners = [victim.doc_id for victim in victims for _ in victim.measured]
    index = ground.open([ground.home])
    plain = ground.search(index, requests)
    before = _standings(ground, SkillLibrary.of_index(index), plain, owners)
    for kind in kinds:
        for place in (INSIDE, LATER):
            rng = random.Random(seed)
            written = [
                text
                for victim in victims
                for text in WRITERS[kind](victim, rng.choice(others or [victim.text]), rng)
            ]
            index = ground.join(written) if place == INSIDE else ground.index(written, "vetted")
            results = ground.search(index, requests)
            after = _standings(ground, SkillLibrary.of_index(index), results, owners)
            ground.leave()
            gone = (before[0] > 0) & (after[0] == 0)
            lost = sorted({owner for owner, is_gone in zip(owners, gone, strict=True) if is_gone})
            yield Toll(kind, place, len(victims), before[0], after[0], before[1], after[1], lost)


def _standings(
    ground: Ground, library: SkillLibrary, results: Sequence[SearchResult], owners: Sequence[str]
) -> tuple[Matrix, Matrix]:
    """Return where victims are shown or named among the first five hits, and in the first."""
    groups = [
        [{ground.ids.get(path, "") for path in _loadable(library, hit)} for hit in result[:FIRST]]
        for result in results
    ]
    pairs = list(zip(owners, groups, strict=True))
    return (
        np.array([any(owner in group for group in found) for owner, found in pairs], float),
        np.array([owner in set().union(*found[:1]) for owner, found in pairs], float),
    )


def _loadable(library: SkillLibrary, hit: Hit) -> Iterator[str]:
    """Yield the paths of the skills of a hit that its names load."""
    named: list[Hit | Relative] = [hit, *(hit.family.members if hit.family else ())]
    for one in named:
        try:
            if library.find(one.handle or one.name).path == one.path:
                yield one.path
        except SkillSearchError:
            continue
