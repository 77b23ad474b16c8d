"""Near-identical skills become one hit that names the others; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.corpus import Corpus
from skillsearch.index.dense_channel import DenseChannel
from skillsearch.index.documents import KNOWN, Document

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAME_MEANING = 0.97
"""Cosine similarity of two skills' metadata from which they say the same."""
_BLOCK = 16_384
"""Documents that are compared at a time."""


def collapse(
    corpus: Corpus, ranked: NDArray[np.int64], n: int
) -> list[tuple[int, tuple[int, ...]]]:
    """Group ranked documents so that copies of a skill take one place.

    Two are copies when their metadata says the same and either their names or their bodies are
    equal. Only as much of the ranking is read as n groups need.

    Args:
        corpus: The opened index.
        ranked: Document numbers, best first.
        n: Groups wanted.

    Returns:
        At most n pairs: the place in the ranking of the best of a group, and the document numbers
        of the copies ranked behind it.
    """
    groups: list[tuple[int, Document, list[int]]] = []
    for place, number in enumerate(ranked.tolist()):
        document = corpus.documents[number]
        original = next(
            (
                copies
                for first, other, copies in groups
                if _look_alike(document, other) and _say_the_same(corpus, number, ranked[first])
            ),
            None,
        )
        if original is not None:
            original.append(number)
        elif len(groups) < n:
            groups.append((place, document, []))
        else:
            break
    return [(place, tuple(copies)) for place, _, copies in groups]


def copies(corpus: Corpus, numbers: Iterable[int]) -> frozenset[int]:
    """Return documents together with everything that could stand for one of them.

    Wider than what `collapse` joins, for who asks what is left without them: the same name, or the
    same metadata, or the same body is enough.

    Args:
        corpus: The opened index.
        numbers: Document numbers.

    Returns:
        Those numbers and the numbers of their copies.
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
    """Yield the documents whose metadata says the same as that of one, by its channel."""
    channel, living = _known_channel(corpus, number), np.sort(corpus.documents.living)
    vector = channel.vector_of(number)
    for begin in range(0, len(living), _BLOCK):
        documents = living[begin : begin + _BLOCK]
        cosines, _ = channel.cosines(vector, documents)
        yield from documents[cosines >= SAME_MEANING].tolist()


def _known_channel(corpus: Corpus, *numbers: int) -> DenseChannel:
    """Return the first channel if it knows some documents, else the last.

    To one that reads Latin letters alone, two Chinese skills with the same English term are equal.
    """
    is_known = all(float(corpus.documents.fluency[number]) >= KNOWN for number in numbers)
    return corpus.dense[0 if is_known else -1]


def _look_alike(one: Document, other: Document) -> bool:
    """Tell whether two documents have the same name or the same body."""
    same_body = bool(one.body_hash) and one.body_hash == other.body_hash
    return same_body or one.name.casefold() == other.name.casefold()


def _say_the_same(corpus: Corpus, one: int, other: int) -> bool:
    """Tell whether the metadata of two documents is as good as equal."""
    if corpus.documents[one].keys[-1][0] == corpus.documents[other].keys[-1][0]:
        return True
    channel = _known_channel(corpus, one, other)
    cosines, _ = channel.cosines(channel.vector_of(one), np.array([other]))
    return float(cosines[0]) > SAME_MEANING
