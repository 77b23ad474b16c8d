"""The family of a document, as it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.index.documents.document import SKETCH_SIZE, Document, name_hash
from skillsearch.index.documents.families import have_most, overlaps
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.index.storage.numbering import Numbers, without
from skillsearch.skills.folders import in_checkout
from skillsearch.types.answers import Family, Relative

# Near-copies that are listed.
MOST_LISTED = 20
# In what near-copies may differ, and what of a document tells.
_DIFFERING = {"name": "name", "description": "description", "body": "body_hash"}
_NO_RANKS: Mapping[int, int] = {}
_VERSION = lazy_pattern(r"(?:^|(?<=[/@_-]))v?\d+(?:\.\d+)*(?=/|$)")


def family_of(
    store: DocumentStore, number: int, left_out: Numbers, ranks: Mapping[int, int] = _NO_RANKS
) -> Family | None:
    """Return the family of a document, without those left out; None if it has no near-copies.

    Those with `ranks`, by number, are listed first.
    """
    others = without(without(store.families.relatives(number), store.deleted), left_out).tolist()
    if not others:
        return None
    others.sort(key=lambda other: (ranks.get(other, len(ranks)), other))
    listed = _listed(store[number], [store[other] for other in others[:MOST_LISTED]])
    return Family(len(others), store.count_roots(store.families.leader_of(number)), listed)


def described(document: Document, others: Sequence[Document]) -> Family:
    """Return the family of a document, given its near-copies."""
    roots = {document.root, *(other.root for other in others)}
    return Family(len(others), len(roots), _listed(document, others[:MOST_LISTED]))


def _listed(document: Document, others: Sequence[Document]) -> tuple[Relative, ...]:
    pairs = ((each, tuple(_differences(document, each))) for each in others)
    return tuple(Relative(each.name, each.path, each.root, how, each.doc_id) for each, how in pairs)


def copies(store: DocumentStore, numbers: Iterable[int]) -> frozenset[int]:
    """Return documents with all of their namesakes and of the families of these."""
    relatives: set[int] = set()
    for number in set(numbers):
        for namesake in (number, *store.named(store[number].name)):
            relatives.update((namesake, *store.families.relatives(namesake).tolist()))
    return frozenset(relatives)


def families(store: DocumentStore) -> list[tuple[Document, ...]]:
    """Return the families of near-copies, the largest first, each with its leader first."""
    table = store.families
    leaders, sizes = np.unique(table.leaders, return_counts=True)
    order = np.lexsort((store.in_order(leaders), -sizes))
    all_of = ((leader, *table.followers(leader)[0].tolist()) for leader in leaders[order].tolist())
    return [tuple(map(store.__getitem__, numbers)) for numbers in all_of]


def are_kin(left: Document, right: Document) -> bool:
    """Return whether namesakes are copies or versions of one skill, by their texts or folders.

    They share most of a body, lie in one folder of that name, or have the same path but for a
    version (``1.0/pdf`` and ``2.0/pdf``) or a checkout. If no body tells anything, equal
    descriptions do.
    """
    return bool(_lineage_of(left) & _lineage_of(right)) or are_alike(left, right)


def are_alike(left: Document, right: Document) -> bool:
    """Return whether namesakes are copies or versions of one skill by their texts alone."""
    if left.content_hash == right.content_hash:
        return True
    if not (left.sketch or right.sketch):
        return left.description == right.description
    if not _hashes(left) & _hashes(right):
        return False
    some, others = (each.sketched[np.newaxis, :SKETCH_SIZE] for each in (left, right))
    return bool(have_most(*overlaps(some, others))[0])


def _hashes(document: Document) -> set[str]:
    return {document.sketch[start : start + 8] for start in range(0, len(document.sketch), 8)}


def _lineage_of(document: Document) -> frozenset[str]:
    return _lineage(document.folder, document.path, document.name)


@lru_cache(maxsize=256)
def _lineage(folder: str, path: str, name: str) -> frozenset[str]:
    """Return the folders of a skill; namesakes that share one are of the same lineage."""
    around = Path(path).parent.parent
    shared = {f"in {around}"} if name_hash(around.name) == name_hash(name) else set()
    return frozenset({*shared, _VERSION.sub("*", in_checkout(folder))})


def _differences(document: Document, other: Document) -> Iterator[str]:
    for what, name in _DIFFERING.items():
        if getattr(document, name) != getattr(other, name):
            yield what
