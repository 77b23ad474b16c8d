"""Attackers that learn from the answers: they climb by the whole score, as the search gives it.

In each round every attacker writes variants of its skill, all are indexed beside the honest skills,
the known requests are searched, and the variant that stands highest for most of them is kept.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from attack_ground import UNSET, Ground
from attack_texts import Known, Text, framed, manner, sentences_of, shorten

ROUNDS = 5
VARIANTS = 3
"""Variants of each attacker in a round, beside what it has."""


def adaptive(
    known: Known, ground: Ground, count: int, rng: random.Random, trust: str = UNSET
) -> list[Text]:
    """Write skills and improve them by what the known requests find, with their root's trust."""
    aims = known.clusters(count, rng)
    kept = manner(known, count, rng)
    for _ in range(ROUNDS):
        tried = [
            [text, *(_variant(text, known, aim, rng) for _ in range(VARIANTS))]
            for text, aim in zip(kept, aims, strict=True)
        ]
        credits = _credits(known, ground, [text for each in tried for text in each], trust)
        for place, each in enumerate(tried):
            begin = place * len(each)
            own = credits[begin : begin + len(each)]
            kept[place] = each[own.index(max(own))]  # what it has, unless a variant is better
    return kept


def _credits(known: Known, ground: Ground, texts: Sequence[Text], trust: str) -> list[float]:
    """Return how high each text stands for the known requests: the sum of reciprocal ranks."""
    # Variants of one attacker have one name, which a root cannot hold twice.
    named = [replace(text, name=f"{text.name}-{number}") for number, text in enumerate(texts)]
    index = ground.index(named, trust)
    credits = [0.0] * len(texts)
    for result in ground.search(index, known.requests):
        for hit in result:
            if hit.path in ground.others:
                credits[int(ground.others[hit.path])] += 1 / hit.rank
    return credits


def _variant(text: Text, known: Known, aim: Sequence[int], rng: random.Random) -> Text:
    """Exchange a few sentences of a description, and perhaps the body."""
    material = [one for place in aim for one in _material(known, place, rng)]
    about = sentences_of(text.description)
    for _ in range(rng.randint(1, 3)):
        sentence = rng.choice(material)
        if about and rng.random() < 0.7:
            about[rng.randrange(len(about))] = sentence
        else:
            about.insert(rng.randint(0, len(about)), sentence)
    body = rng.choice((text.body, text.body, _body(known, aim, rng)))
    return replace(text, description=shorten(" ".join(dict.fromkeys(about))), body=body)


def _material(known: Known, place: int, rng: random.Random) -> Iterator[str]:
    yield known.requests[place]
    yield framed(known.requests[place], rng)
    yield from sentences_of(known.best_skills[place].description)


def _body(known: Known, aim: Sequence[int], rng: random.Random) -> str:
    """Put requests before paragraphs of the bodies of the best skills."""
    paragraphs = [part for place in aim for part in known.best_skills[place].body.split("\n\n")]
    chosen = rng.sample(paragraphs, min(len(paragraphs), 12))
    return "\n\n".join([*(framed(known.requests[place], rng) for place in aim), *chosen]) + "\n"
