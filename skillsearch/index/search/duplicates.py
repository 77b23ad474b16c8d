"""Near-identical skills become one hit that names the others; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.corpus import Corpus
from skillsearch.index.dense.vectors import DenseChannel
from skillsearch.index.documents import KNOWN, Document

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Cosine similarity from which the metadata of two skills says the same.
SAME_MEANING = 0.97
# Shadowed skills of one name that are compared with it.
MOST_SHADOWED = 20
# Documents that are compared at a time.
_BLOCK = 16_384


@dataclass(frozen=True, slots=True)
class _Group:
    """Copies of one skill: the place and number of the one that stands for them, and the others."""

    place: int
    number: int
    others: list[int]


def collapse(
    corpus: Corpus, ranked: NDArray[np.int64], n: int, roots: Sequence[str] = ()
) -> list[tuple[int, tuple[int, ...]]]:
    """Group ranked documents so that copies of a skill take one place.

    Two are copies if their metadata says the same and either their names or their bodies are equal.
    The one of the first root stands for the others, at its own place, whatever theirs: so copies in
    a later root do not change what is found in the first. In one root it is the best, and only as
    much of the ranking is read as n groups need.
    Returns at most n pairs: the place in the ranking of the document that stands for a group, and
    the numbers of the others.
    """
    groups: list[_Group] = []
    alike: dict[tuple[str, str], list[int]] = {}
    for place, document in _by_precedence(corpus, ranked, roots):
        number = int(ranked[place])
        keys = [("name", document.name.casefold())]
        if document.body_hash:
            keys.append(("body", document.body_hash))
        near = (groups[one] for one in sorted({one for key in keys for one in alike.get(key, ())}))
        original = next((one for one in near if _say_the_same(corpus, number, one.number)), None)
        if original is not None:
            original.others.append(number)
            continue
        if len(roots) < 2 and len(groups) == n:
            break
        for key in keys:
            alike.setdefault(key, []).append(len(groups))
        groups.append(_Group(place, number, []))
    groups.sort(key=lambda group: group.place)
    return [(group.place, tuple(group.others)) for group in groups[:n]]


def _by_precedence(
    corpus: Corpus, ranked: NDArray[np.int64], roots: Sequence[str]
) -> Iterable[tuple[int, Document]]:
    """Return places of a ranking with their documents: root by root, and by rank in each."""
    documents = (corpus.documents[number] for number in ranked.tolist())
    if len(roots) < 2:
        return enumerate(documents)
    order = {root: place for place, root in enumerate(roots)}
    return sorted(enumerate(documents), key=lambda pair: order.get(pair[1].root, len(order)))


def shadowed_copies(corpus: Corpus, number: int) -> tuple[int, ...]:
    """Return the copies of a document among the first `MOST_SHADOWED` of its name that it shadows.

    Their metadata says the same as its own.
    """
    if not len(corpus.documents.shadowed):
        return ()
    named = corpus.documents.named(corpus.documents[number].name)
    is_shadowed = np.isin(named, corpus.documents.shadowed).tolist()
    others = [one for one, is_one in zip(named, is_shadowed, strict=True) if is_one]
    return tuple(one for one in others[:MOST_SHADOWED] if _say_the_same(corpus, number, one))


def copies(corpus: Corpus, numbers: Iterable[int]) -> frozenset[int]:
    """Return documents together with everything that could stand for one of them.

    Wider than what `collapse` joins, to see what is left without them: the same name, the same
    metadata or the same body is enough.
    """
    found: set[int] = set()
    for number in set(numbers):
        document = corpus.documents[number]
        found.add(number)
        found.update(corpus.documents.named(document.name))
        found.update(corpus.documents.by_body.get(document.body_hash, ()))
        found.update(_similar(corpus, number))
    return frozenset(found)


def _similar(corpus: Corpus, number: int) -> Iterator[int]:
    """Yield the documents whose metadata says the same, judged by the document's channel."""
    channel, living = _known_channel(corpus, number), np.sort(corpus.documents.living)
    vector = channel.vector_of(number)
    for begin in range(0, len(living), _BLOCK):
        documents = living[begin : begin + _BLOCK]
        cosines, _ = channel.cosines(vector, documents)
        yield from documents[cosines >= SAME_MEANING].tolist()


def _known_channel(corpus: Corpus, *numbers: int) -> DenseChannel:
    """Return the first channel if it knows some documents, else the last.

    If it reads Latin letters alone, two Chinese skills with the same English term look equal.
    """
    is_known = all(float(corpus.documents.fluency[number]) >= KNOWN for number in numbers)
    return corpus.dense[0 if is_known else -1]


def _say_the_same(corpus: Corpus, one: int, other: int) -> bool:
    """Return whether the metadata of two documents is as good as equal."""
    if corpus.documents[one].keys[-1][0] == corpus.documents[other].keys[-1][0]:
        return True
    if not corpus.dense:
        return False
    channel = _known_channel(corpus, one, other)
    cosines, _ = channel.cosines(channel.vector_of(one), np.array([other]))
    return float(cosines[0]) > SAME_MEANING
