"""Attackers that learn from the answers: they climb by the whole score, as the search gives it.

In each round every attacker writes variants of its skill, all are indexed beside the honest skills,
the known requests are searched, and the variant that stands highest for most of them is kept.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from attacks.ground import UNSET, Ground
from attacks.texts import Known, Text, framed, manner, sentences_of, shorten

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
        credits = _credits(known, ground, list(chain.from_iterable(tried)), trust)
        best = np.reshape(credits, (-1, 1 + VARIANTS)).argmax(axis=1)  # the first of equals
        kept = [variants[number] for variants, number in zip(tried, best, strict=True)]
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
    material = [sentence for number in aim for sentence in _material(known, number, rng)]
    about = sentences_of(text.description)
    for _ in range(rng.randint(1, 3)):
        sentence = rng.choice(material)
        if about and rng.random() < 0.7:
            about[rng.randrange(len(about))] = sentence
        else:
            about.insert(rng.randint(0, len(about)), sentence)
    body = rng.choice((text.body, text.body, _body(known, aim, rng)))
    return replace(text, description=shorten(" ".join(dict.fromkeys(about))), body=body)


def _material(known: Known, number: int, rng: random.Random) -> Iterator[str]:
    yield known.requests[number]
    yield framed(known.requests[number], rng)
    yield from sentences_of(known.best_skills[number].description)


def _body(known: Known, aim: Sequence[int], rng: random.Random) -> str:
    """Put requests before paragraphs of the bodies of the best skills."""
    bodies = [known.best_skills[number].body for number in aim]
    paragraphs = [paragraph for body in bodies for paragraph in body.split("\n\n")]
    chosen = rng.sample(paragraphs, min(len(paragraphs), 12))
    requests = [framed(request, rng) for request in known.requests_of(aim)]
    return "\n\n".join([*requests, *chosen]) + "\n"
