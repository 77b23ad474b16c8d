"""Finds the skills that others of the same name shadow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.documents.document import Document
from skillsearch.index.documents.names import (
    MOST_COMPARED,
    handle_of,
    prefer,
    preferred,
)
from skillsearch.index.documents.relatives import are_alike
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.index.storage.numbering import Numbers, find_sorted, repeats, union, without
from skillsearch.text.safe_text import listed, one_line
from skillsearch.types.skills import MAX_NAME_CHARS, Diagnostic, Root

_MOST_LISTED = 5


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A skill that a plain name does not mean, its number, and the one that it means instead."""

    document: Document
    by: Document
    number: int


def find_shadowed(documents: DocumentStore, roots: Sequence[Root]) -> tuple[Shadowed, ...]:
    """Find the skills that others of the same name take precedence over, by id.

    One of a project and one of the user or another project are both found, unless one is a copy.
    """
    shadowed = _shadowed(_namesakes(documents, documents.living), roots)
    return tuple(sorted(shadowed, key=lambda each: each.document.doc_id))


def _shadowed(groups: Iterable[dict[int, Document]], roots: Sequence[Root]) -> Iterator[Shadowed]:
    paths, projects = [str(root.path) for root in roots], _projects(roots)
    for namesakes in groups:
        first = preferred(list(namesakes.values()), paths)
        scopes: dict[tuple[str, ...], dict[int, Document]] = {}
        for number, document in namesakes.items():
            scopes.setdefault(projects.get(document.root, ()), {})[number] = document
        for some in scopes.values():
            best, by = prefer(list(some.values()), paths)
            for document in best if best[0].root != first[0].root else ():
                copies = (other for other in first[:MOST_COMPARED] if are_alike(other, document))
                if copied := next(copies, None):
                    by[document.doc_id] = copied
            best_ids = {document.doc_id for document in best}.difference(by)
            for number, document in some.items():
                if document.doc_id not in best_ids:
                    yield Shadowed(document, by.get(document.doc_id, best[0]), number)


def _projects(roots: Sequence[Root]) -> dict[str, tuple[str, ...]]:
    return {str(root.path): root.projects for root in roots}


def name_problems(documents: DocumentStore, roots: Sequence[Root]) -> Iterator[Diagnostic]:
    """Tell each name that stands twice in a root: as a warning if it means none of its skills.

    And each that stands for skills of the user and of a project.
    """
    paths, projects = [str(root.path) for root in roots], _projects(roots)
    gone = set(shadowed_numbers(documents, roots).tolist())
    for namesakes in _namesakes(documents, documents.living):
        best = preferred(list(namesakes.values()), paths)
        first = one_line(best[0].doc_id)
        for number, document in namesakes.items():
            around = projects.get(document.root, ()), projects.get(best[0].root, ())
            if number not in gone and around[0] != around[1] and not all(around):
                name = one_line(document.name, MAX_NAME_CHARS)
                message = f"The name {name!r} means {first}, where both are seen;"
                more = f"this one is loaded as {one_line(handle_of(document, documents, paths))}."
                yield Diagnostic("name-of-project", "note", f"{message} {more}", document.path)
        if len(same := [each for each in namesakes.values() if each.root == best[0].root]) > 1:
            name = one_line(same[0].name, MAX_NAME_CHARS)
            best_ids = {document.doc_id for document in best}
            same.sort(key=lambda each: each.doc_id not in best_ids)
            ids = listed((one_line(each.doc_id) for each in same), _MOST_LISTED)
            message = f"{len(same)} skills of this root are named {name!r}: {ids}."
            if len(best) > 1:
                more = "Each is found, and loaded by its id alone; rename all but one."
                yield Diagnostic("name-ambiguous", "warning", f"{message} {more}", same[1].path)
            else:
                more = f"They are kin: the name means {first}, the others by id."
                yield Diagnostic("name-twice", "note", f"{message} {more}", same[1].path)


def _namesakes(documents: DocumentStore, numbers: Numbers) -> Iterator[dict[int, Document]]:
    """Yield documents that share a name, by number; only these are read."""
    for places in repeats(documents.names[numbers]):
        yield {number: documents[number] for number in numbers[places].tolist()}


def shadowed_numbers(documents: DocumentStore, roots: Sequence[Root]) -> Numbers:
    """Return the numbers of what `find_shadowed` finds, int64, ascending.

    No more documents are held than share one name.
    """
    return _numbers(_shadowed(_namesakes(documents, documents.living), roots))


def shadowed_without(documents: DocumentStore, deleted: Numbers, roots: Sequence[Root]) -> Numbers:
    """Return `shadowed_numbers` of documents of which more are deleted, given those of all.

    Only those are compared again that had a namesake among the documents that were left out.
    """
    gone = without(deleted, documents.deleted)
    living = without(documents.living, gone)
    lost = np.sort(documents.names[gone])
    again = living[find_sorted(lost, documents.names[living]) >= 0]
    rest = without(documents.shadowed, union(gone, again))
    return union(rest, _numbers(_shadowed(_namesakes(documents, again), roots)))


def _numbers(shadowed: Iterable[Shadowed]) -> Numbers:
    return np.array(sorted(each.number for each in shadowed), np.int64)
