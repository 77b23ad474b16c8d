"""Judged collections → the same ones over the documents of all of them together; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from skillsearch.evaluation.types import Collection, JudgedDocument

_Texts: TypeAlias = tuple[str, str, str]
_Places: TypeAlias = Mapping[str, Sequence[str]]
"""The documents of the pool that stand for each document of a collection."""

_POOL = "pool"


def pool_collections(collections: Sequence[Collection]) -> tuple[Collection, ...]:
    """Let the documents of all collections compete for the queries of each.

    An id in the pool is the name of the collection, a slash, and the id there. A document with the
    same texts as documents of an earlier collection is not in the pool again: those stand for it in
    every judgment. Negatives are left out, for another collection may answer them.

    Args:
        collections: The collections, whose names differ and have no slash.

    Returns:
        A collection for each, with its own queries and judgments and the documents of all.
    """
    documents: list[JudgedDocument] = []
    held: dict[_Texts, Sequence[str]] = {}
    places = [_add(collection, documents, held) for collection in collections]
    return tuple(
        _pooled(collection, found, tuple(documents), len(collections))
        for collection, found in zip(collections, places, strict=True)
    )


def _add(
    collection: Collection, documents: list[JudgedDocument], held: dict[_Texts, Sequence[str]]
) -> _Places:
    """Add to a pool what it does not hold yet of a collection; copies within that are kept."""
    places: dict[str, Sequence[str]] = {}
    new: defaultdict[_Texts, list[str]] = defaultdict(list)
    for document in collection.documents:
        texts = document.name, document.description, document.body
        if texts in held:
            places[document.doc_id] = held[texts]
        else:
            pooled = replace(document, doc_id=f"{collection.name}/{document.doc_id}")
            documents.append(pooled)
            new[texts].append(pooled.doc_id)
            places[document.doc_id] = (pooled.doc_id,)
    held.update(new)
    return places


def _pooled(
    collection: Collection, places: _Places, documents: tuple[JudgedDocument, ...], count: int
) -> Collection:
    """Return a collection over the documents of the pool."""
    note = f"Asked among the {len(documents):,} documents of {count:,} collections together."
    if collection.negatives:
        left = f"Its {len(collection.negatives):,} negatives were not asked"
        note += f" {left}: another collection may answer them."
    return replace(
        collection,
        documents=documents,
        qrels={query_id: _moved(grades, places) for query_id, grades in collection.qrels.items()},
        ignored={
            query_id: frozenset(place for doc_id in doc_ids for place in places[doc_id])
            for query_id, doc_ids in collection.ignored.items()
        },
        negatives=(),
        notes=(*collection.notes, note),
        pool=_POOL,
    )


def _moved(grades: Mapping[str, int], places: _Places) -> dict[str, int]:
    """Return judgments by the ids in the pool; of several for one document the highest counts."""
    moved: dict[str, int] = {}
    for doc_id, grade in grades.items():
        for place in places[doc_id]:
            moved[place] = max(grade, moved.get(place, grade))
    return moved
