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
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np

from attacks.ground import FIRST, Ground, Matrix, Request
from attacks.texts import Text, framed, framed_all, named, sentences_of, shorten, tweaked
from skillsearch.errors import SkillSearchError
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.types.answers import Hit, Relative

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


class Standings(NamedTuple):
    """Whether each request shows or names its victim: among the first five hits, in the first."""

    five: Matrix
    first: Matrix


@dataclass(frozen=True, slots=True)
class Toll:
    """What an attack took from victims.

    Attributes:
        kind: One of `WRITERS`.
        root: Where the attackers stand.
        victims: How many there are.
        before: Where they stand without the attack.
        after: Where they stand with it.
        lost: The ids of those lost.
    """

    kind: str
    root: str
    victims: int
    before: Standings
    after: Standings
    lost: Sequence[str]


def _triggered(victim: Victim, rng: random.Random) -> str:
    """Return the victim's description with a few requests behind it."""
    requests = rng.sample(victim.known, min(TRIGGERS, len(victim.known)))
    return f"{victim.text.description} {framed_all(requests, rng)}"


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
        known = rng.sample(victim.known, min(2, len(victim.known)))
        requests = [framed(request, rng) for request in known]
        about = shorten(f"{tweaked(victim.text.description, rng)} {' '.join(requests)}")
        lines = [tweaked(sentence, rng) for sentence in sentences_of(victim.text.body)]
        body = "\n\n".join([*requests, *rng.sample(lines, min(len(lines), 12))])
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
    skills: Mapping[str, Text],
    requests: Sequence[Request],
    rng: random.Random,
    count: int = VICTIMS,
) -> list[Victim]:
    """Choose skills that alone are right for most requests; attackers know the first half."""
    own: defaultdict[str, list[str]] = defaultdict(list)
    for request in requests:
        if len(request.best_skills) == 1:
            own[min(request.best_skills)].append(request.text)
    able = sorted(skill for skill, texts in own.items() if len(texts) > 1)
    rng.shuffle(able)
    victims = []
    for skill in sorted(able, key=lambda skill: -len(own[skill]))[:count]:
        half = len(own[skill]) // 2
        victims.append(Victim(skill, skills[skill], own[skill][:half], own[skill][half:]))
    return victims


def tolls(
    ground: Ground, victims: Sequence[Victim], kinds: Sequence[str], seed: int
) -> Iterator[Toll]:
    """Attack all victims at once, in each root, by each kind of `WRITERS`."""
    owned = [(victim.doc_id, request) for victim in victims for request in victim.measured]
    before = _standings(ground, ground.open([ground.home]), owned)
    for kind, root in product(kinds, (INSIDE, LATER)):
        texts = _written(ground, victims, kind, random.Random(seed))
        index = ground.join(texts) if root == INSIDE else ground.index(texts, "vetted")
        after = _standings(ground, index, owned)
        ground.leave()
        pairs = zip(owned, (before.five > 0) & (after.five == 0), strict=True)
        lost = sorted({owner for (owner, _), is_gone in pairs if is_gone})
        yield Toll(kind, root, len(victims), before, after, lost)


def _written(
    ground: Ground, victims: Sequence[Victim], kind: str, rng: random.Random
) -> list[Text]:
    """Return what attackers of a kind write against all victims."""
    ids = {victim.doc_id for victim in victims}
    others = [text for key, text in ground.skills.items() if key not in ids]
    return [
        text
        for victim in victims
        for text in WRITERS[kind](victim, rng.choice(others or [victim.text]), rng)
    ]


def _standings(ground: Ground, index: SkillIndex, owned: Sequence[tuple[str, str]]) -> Standings:
    """Return where victims stand in an index, for each pair of one and its request."""
    results = ground.search(index, [request for _, request in owned])
    library = SkillLibrary.of_index(index)
    five, first = [], []
    for (owner, _), result in zip(owned, results, strict=True):
        shown = [
            owner in {ground.ids.get(path) for path in _loadable(library, hit)}
            for hit in result[:FIRST]
        ]
        five.append(any(shown))
        first.append(any(shown[:1]))
    return Standings(np.array(five, float), np.array(first, float))


def _loadable(library: SkillLibrary, hit: Hit) -> Iterator[str]:
    """Yield the paths of the skills of a hit that its names load."""
    named: list[Hit | Relative] = [hit, *(hit.family.members if hit.family else ())]
    for skill in named:
        try:
            if library.find(skill.handle or skill.name).path == skill.path:
                yield skill.path
        except SkillSearchError:
            continue
