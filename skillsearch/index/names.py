"""Finds documents by name, and the skills that other skills of the same name shadow."""

from __future__ import annotations

import difflib
import heapq
import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import AmbiguousNameError, SkillNotFoundError, VersionNotFoundError
from skillsearch.index.documents import Document
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.versions import newest, satisfies, split_requirement
from skillsearch.text.safe_text import one_line
from skillsearch.types import Hit, Skill

_NEAREST_NAMES, _COMPARED_NAMES, _COMPARED_CHARS = 5, 100, 200
_NEAREST_CUTOFF = 0.4
"""Least similarity (difflib's ratio) of a name that is worth suggesting."""
_SHOWN_VERSIONS, _SHOWN_VERSION_CHARS = 10, 40
_MAX_NAME_CHARS = 256


def find_by_name(
    name: str, documents: DocumentStore, roots: Sequence[str], *, suggest: bool = True
) -> Document:
    """Find the document that a name means; of several, the newest in the first root with any.

    It is a name in any case, ``root:name``, or the id of a document; each also with a version
    constraint, such as ``pdf@>=1.2``, unless a skill has just that name. Without `suggest` an error
    lists no similar names: finding them reads all documents.

    Raises SkillNotFoundError, VersionNotFoundError (with the versions), VersionConstraintError if
    the constraint cannot be read, or AmbiguousNameError if versions do not tell several apart.
    """
    named, wanted = _meant(name, documents), name
    if not named and "@" in name:
        wanted, constraint = split_requirement(name)
        named = _meant(wanted, documents)
        fitting = [document for document in named if satisfies(document.version, constraint)]
        if named and not fitting:
            versions = (one_line(one.version, _SHOWN_VERSION_CHARS) for one in named)
            raise VersionNotFoundError(name, tuple(dict.fromkeys(versions))[:_SHOWN_VERSIONS])
        named = fitting
    if not named:
        raise SkillNotFoundError(name, nearest_names(wanted, documents) if suggest else ())
    best = preferred(named, roots)
    if len(best) > 1:
        raise AmbiguousNameError(name, tuple(document.doc_id for document in best))
    return best[0]


def preferred(documents: Sequence[Document], roots: Sequence[str]) -> list[Document]:
    """Return the newest document of the first root with any; all of it if none is the newest."""
    order = {root: place for place, root in enumerate(roots)}
    first = min(order.get(document.root, len(order)) for document in documents)
    best = [document for document in documents if order.get(document.root, len(order)) == first]
    place = newest([document.version for document in best]) if len(best) > 1 else None
    return best if place is None else [best[place]]


def _meant(name: str, documents: DocumentStore) -> list[Document]:
    """Return the document of an id, which no skill may take as a name, else all of a name."""
    alias, colon, rest = name.partition(":")
    number = documents.number_of(name) if colon else None
    if number is not None:
        return [documents[number]]
    named = [documents[number] for number in documents.named(name)]
    if named or not colon:
        return named
    same_name = (documents[number] for number in documents.named(rest))
    return [document for document in same_name if document.alias == alias]


def nearest_names(
    name: str, documents: Iterable[Document], *, cutoff: float = _NEAREST_CUTOFF
) -> tuple[str, ...]:
    """Return up to five names of documents that look most like a name, nearest first."""
    folded = {document.name.casefold(): document.name for document in documents}
    wanted = name[:_COMPARED_CHARS].casefold()
    pairs = _pairs(wanted)

    def likeness(other: str) -> float:
        # The share of common letter pairs (Dice) is far cheaper than difflib's ratio.
        theirs = _pairs(other)
        return len(pairs & theirs) / (len(pairs) + len(theirs))

    similar = heapq.nlargest(_COMPARED_NAMES, folded, key=likeness)
    close = difflib.get_close_matches(wanted, similar, n=_NEAREST_NAMES, cutoff=cutoff)
    return tuple(folded[other] for other in close)


def _pairs(text: str) -> set[tuple[str, str]]:
    return set(itertools.pairwise(f"^{text[:_COMPARED_CHARS]}$"))


def skill_of(document: Document) -> Skill:
    """Read a document's skill as it is on disk now; raises ParseError if it is not one any more."""
    # A search reads no skill unless it explains: the parser and its YAML are imported only here.
    from skillsearch.skills.parser import read_skill

    path, root = Path(document.path), Path(document.root)
    return read_skill(path, doc_id=document.doc_id, root=root)


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A skill that a plain name does not mean, its number, and the one that it means instead."""

    document: Document
    by: Document
    number: int


def find_shadowed(documents: DocumentStore, roots: Sequence[str]) -> tuple[Shadowed, ...]:
    """Find the skills that others of the same name take precedence over, by id."""
    found: list[Shadowed] = []
    living = documents.living
    order = living[np.argsort(documents.names[living], kind="stable")]
    names = documents.names[order]
    # Where a name begins that several documents have, in order of their ids.
    is_other = np.concatenate(([True], names[1:] != names[:-1], [True]))[: len(names) + 1]
    bounds = np.flatnonzero(is_other)
    is_shared = np.diff(bounds) > 1
    for begin, end in zip(bounds[:-1][is_shared], bounds[1:][is_shared], strict=True):
        numbers = order[begin:end].tolist()
        namesakes = [documents[number] for number in numbers]
        best = preferred(namesakes, roots)
        meant = {document.doc_id for document in best}
        found += [
            Shadowed(document, best[0], number)
            for number, document in zip(numbers, namesakes, strict=True)
            if document.doc_id not in meant
        ]
    return tuple(sorted(found, key=lambda shadowed: shadowed.document.doc_id))


def handle_of(found: Document | Hit | Skill, documents: DocumentStore, roots: Sequence[str]) -> str:
    """Return what means a skill alone, on one line: its name, else ``root:name``, else its id."""
    name, alias = one_line(found.name, _MAX_NAME_CHARS), found.doc_id.partition(":")[0]
    for known in (name, f"{alias}:{name}"):
        with suppress(LookupError, ValueError):
            if find_by_name(known, documents, roots, suggest=False).doc_id == found.doc_id:
                return known
    return one_line(found.doc_id)


def shadowed_numbers(documents: DocumentStore, roots: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers of what `find_shadowed` finds, int64, ascending."""
    return np.array(sorted(one.number for one in find_shadowed(documents, roots)), np.int64)
