"""Near-identical skills become one hit that names the others; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
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


def collapse(
    corpus: Corpus, ranked: NDArray[np.int64], n: int, roots: Sequence[str] = ()
) -> list[tuple[int, tuple[int, ...]]]:
    """Group ranked documents so that copies of a skill take one place.

    Two are copies if their metadata says the same and either their names or their bodies are equal.
    The one of the first root stands for the others, at its own place, so that copies in a later
    root do not change what is found in the first; in one root it is the best. Returns at most n
    pairs: the place in the ranking of what stands for a group, and the numbers of the others.
    """
    # The place and number of what stands for a group, and the others.
    groups: list[tuple[int, int, list[int]]] = []
    alike: defaultdict[tuple[str, str | int], set[int]] = defaultdict(set)
    most = n
    documents: Iterable[tuple[int, Document]] = enumerate(
        corpus.documents[number] for number in ranked.tolist()
    )
    if len(roots) > 1:  # Root by root, and by rank in each.
        order, most = {root: place for place, root in enumerate(roots)}, len(ranked)
        documents = sorted(documents, key=lambda pair: order.get(pair[1].root, len(order)))
    for place, document in documents:
        number = int(ranked[place])
        # A body that does not tell skills apart is like no other.
        name, body = ("name", document.name.casefold()), ("body", document.body_hash or number)
        near = (groups[one] for one in sorted(alike[name] | alike[body]))
        original = next((one for one in near if _say_the_same(corpus, number, one[1])), None)
        if original is not None:
            original[2].append(number)
        elif len(groups) == most:
            break
        else:
            alike[name].add(len(groups))
            alike[body].add(len(groups))
            groups.append((place, number, []))
    return [(place, tuple(others)) for place, _, others in sorted(groups)[:n]]


def shadowed_copies(corpus: Corpus, number: int) -> tuple[int, ...]:
    """Return the first copies of a document that it shadows, whose metadata says the same."""
    if not len(corpus.documents.shadowed):
        return ()
    named = np.array(corpus.documents.named(corpus.documents[number].name), np.int64)
    others = named[np.isin(named, corpus.documents.shadowed)].tolist()
    return tuple(one for one in others[:MOST_SHADOWED] if _say_the_same(corpus, number, one))


def copies(corpus: Corpus, numbers: Iterable[int]) -> frozenset[int]:
    """Return documents with all of the same name, metadata or body: more than `collapse` joins."""
    found: set[int] = set()
    for number in set(numbers):
        document = corpus.documents[number]
        same_body = corpus.documents.by_body.get(document.body_hash, ())
        found.update((number, *corpus.documents.named(document.name), *same_body))
        # Those whose metadata says the same, judged by the document's channel.
        channel, living = _known_channel(corpus, number), np.sort(corpus.documents.living)
        vector = channel.vector_of(number)
        for begin in range(0, len(living), _BLOCK):
            block = living[begin : begin + _BLOCK]
            cosines, *_ = channel.cosines(vector, block)
            found.update(block[cosines >= SAME_MEANING].tolist())
    return frozenset(found)


def _known_channel(corpus: Corpus, *numbers: int) -> DenseChannel:
    """Return the first channel if it knows some documents, else the last."""
    # Two Chinese skills with the same English term look equal to one that reads Latin alone.
    is_known = (corpus.documents.fluency[list(numbers)] >= KNOWN).all()
    return corpus.dense[0 if is_known else -1]


def _say_the_same(corpus: Corpus, one: int, other: int) -> bool:
    if corpus.documents[one].keys[-1][0] == corpus.documents[other].keys[-1][0]:
        return True
    if not corpus.dense:
        return False
    channel = _known_channel(corpus, one, other)
    cosines, *_ = channel.cosines(channel.vector_of(one), np.array([other]))
    return float(cosines[0]) > SAME_MEANING
