"""Finds documents by name, and the skills that other skills of the same name shadow."""

from __future__ import annotations

import difflib
import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import AmbiguousNameError, SkillNotFoundError, VersionNotFoundError
from skillsearch.index.documents import Document
from skillsearch.index.relatives import are_kin
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.folders import remoteness
from skillsearch.skills.versions import release_order, satisfies, split_requirement
from skillsearch.text.safe_text import listed, one_line
from skillsearch.types import Diagnostic, Hit, Relative, Skill

_NEAREST_NAMES, _COMPARED_NAMES, _COMPARED_CHARS = 5, 100, 200
_NEAREST_CUTOFF = 0.4
"""Least similarity (difflib's ratio) of a name that is worth suggesting."""
_SHOWN_VERSIONS, _SHOWN_VERSION_CHARS = 10, 40
_MAX_NAME_CHARS, _NAME_CHARS, _MOST_LISTED = 256, 64, 5
# Namesakes of one root that another is compared with.
_MOST_COMPARED = 32


def find_by_name(
    name: str, documents: DocumentStore, roots: Sequence[str], *, suggest: bool = True
) -> Document:
    """Find the document that a name means; of several, the `preferred` one.

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
    """Return the documents of the first root with any that no kin of theirs supersedes.

    So a version that a stranger writes hides nothing: of namesakes with other content, all stay.
    """
    order = {root: place for place, root in enumerate(roots)}
    first = min(order.get(document.root, len(order)) for document in documents)
    best = [document for document in documents if order.get(document.root, len(order)) == first]
    if len(best) == 1:
        return best
    newest = sorted(best, key=lambda one: release_order(one.version) or (), reverse=True)
    kept: list[Document] = []
    for document in sorted(newest, key=lambda one: remoteness(one.folder)):
        if not any(_supersedes(other, document) for other in kept[:_MOST_COMPARED]):
            kept.append(document)
    ids = {document.doc_id for document in kept}
    return [document for document in best if document.doc_id in ids]


def _supersedes(one: Document, other: Document) -> bool:
    """Return whether a skill is kin of another that lies further from the live ones or is older."""
    far, version = remoteness(one.folder), release_order(one.version)
    far_other, version_other = remoteness(other.folder), release_order(other.version)
    is_newer = version is not None and version_other is not None and version > version_other
    comes_first = far < far_other or (far == far_other and is_newer)
    return comes_first and are_kin(one, other)


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
    found = []
    for namesakes, best in _namesakes(documents, roots):
        meant = {document.doc_id for document in best}
        for number, document in namesakes.items():
            if document.doc_id not in meant:
                kin = (one for one in best[:_MOST_COMPARED] if _supersedes(one, document))
                found.append(Shadowed(document, next(kin, best[0]), number))
    return tuple(sorted(found, key=lambda shadowed: shadowed.document.doc_id))


def name_problems(documents: DocumentStore, roots: Sequence[str]) -> Iterator[Diagnostic]:
    """Tell each name that stands twice in a root: as a warning if it means none of its skills."""
    for namesakes, best in _namesakes(documents, roots):
        same = [one for one in namesakes.values() if one.root == best[0].root]
        if len(same) > 1:
            name = one_line(same[0].name, _NAME_CHARS)
            ids = listed((one_line(one.doc_id) for one in same), _MOST_LISTED)
            said = f"{len(same)} skills of this root are named {name!r}: {ids}."
            if len(best) > 1:
                more = "Each is found, and loaded by its id alone; rename all but one."
                yield Diagnostic("name-ambiguous", "warning", f"{said} {more}", same[1].path)
            else:
                more = f"They are kin: the name means {one_line(best[0].doc_id)}, the others by id."
                yield Diagnostic("name-twice", "note", f"{said} {more}", same[1].path)


def _namesakes(
    documents: DocumentStore, roots: Sequence[str]
) -> Iterator[tuple[dict[int, Document], list[Document]]]:
    """Yield the documents of each name that several have, by number, and the `preferred` ones."""
    living = documents.living
    order = living[np.argsort(documents.names[living], kind="stable")]
    names = documents.names[order]
    # Where a name begins that several documents have, in order of their ids.
    is_other = np.concatenate(([True], names[1:] != names[:-1], [True]))[: len(names) + 1]
    bounds = np.flatnonzero(is_other)
    is_shared = np.diff(bounds) > 1
    for begin, end in zip(bounds[:-1][is_shared], bounds[1:][is_shared], strict=True):
        namesakes = {number: documents[number] for number in order[begin:end].tolist()}
        yield namesakes, preferred(list(namesakes.values()), roots)


def handle_of(
    found: Document | Hit | Relative | Skill, documents: DocumentStore, roots: Sequence[str]
) -> str:
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
