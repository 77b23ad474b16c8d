"""Documents of several collections as one pool, and which documents are copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from skillsearch.evaluation.types import Collection, JudgedDocument
from skillsearch.text.requests import fold_blanks
from skillsearch.text.safe_text import counted


def pool_collections(collections: Sequence[Collection]) -> tuple[Collection, ...]:
    """Return the collections, each with the documents of all as competitors.

    Their names differ and have no slash: an id in the pool is the name, a slash, and the old id. A
    document with the same texts as documents of an earlier collection is not added again; those
    stand for it in every judgment. Negatives are left out, for another collection may answer them.
    """
    documents: list[JudgedDocument] = []
    held: dict[tuple[str, str, str], list[str]] = {}
    places: dict[str, Sequence[str]] = {}
    for collection in collections:
        new: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
        for document in collection.documents:
            texts = document.name, document.description, document.body
            doc_id = f"{collection.name}/{document.doc_id}"
            if texts not in held:
                documents.append(replace(document, doc_id=doc_id))
                new[texts].append(doc_id)
            places[doc_id] = held.get(texts, (doc_id,))
        held |= new
    size = counted(len(documents), "document")
    note = f"Asked among the {size} of {counted(len(collections), 'collection')} together."
    return tuple(
        replace(_pooled(collection, places, note), documents=tuple(documents), pool="pool")
        for collection in collections
    )


def _pooled(collection: Collection, places: Mapping[str, Sequence[str]], note: str) -> Collection:
    if collection.negatives:
        left = counted(len(collection.negatives), "negative")
        note += f" Not asked: its {left}, which another collection may answer."
    qrels: dict[str, dict[str, int]] = {}
    for query_id, grades in collection.qrels.items():
        moved = qrels.setdefault(query_id, {})
        for doc_id, grade in grades.items():
            for pooled_id in places[f"{collection.name}/{doc_id}"]:
                # Of several judgments for one document the highest counts.
                moved[pooled_id] = max(grade, moved.get(pooled_id, grade))
    ignored = {
        key: frozenset(chain(*(places[f"{collection.name}/{doc_id}"] for doc_id in ids)))
        for key, ids in collection.ignored.items()
    }
    notes = (*collection.notes, note)
    return replace(collection, qrels=qrels, ignored=ignored, negatives=(), notes=notes)


def copies(documents: Iterable[JudgedDocument]) -> dict[str, tuple[str, ...]]:
    """Return the ids of all copies of each document, itself among them.

    Copies have the same name, and the same body or description, but for case and blanks.
    """
    groups: dict[str, list[str]] = {}
    firsts: dict[tuple[str, str, str], str] = {}
    for document in documents:
        doc_id, name = document.doc_id, fold_blanks(document.name)
        groups[doc_id] = [doc_id]
        for field, text in (("body", document.body), ("description", document.description)):
            if not (text := fold_blanks(text)):
                continue
            group = groups[doc_id]
            other = groups[firsts.setdefault((name, field, text), doc_id)]
            if other is not group:
                other += group
                groups |= dict.fromkeys(group, other)
    return {doc_id: tuple(group) for doc_id, group in groups.items()}
