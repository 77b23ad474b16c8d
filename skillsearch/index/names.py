"""Names → documents, and documents → the skills as they are on disk now."""

from __future__ import annotations

import difflib
import heapq
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from skillsearch.errors import AmbiguousNameError, SkillNotFoundError, VersionNotFoundError
from skillsearch.index.documents import Document
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.resources import read_skill_md
from skillsearch.skills.versions import newest, satisfies, split_requirement
from skillsearch.text.safe_text import one_line
from skillsearch.types import Skill

_NEAREST_NAMES = 5
_NEAREST_CUTOFF = 0.4
"""Least similarity (difflib's ratio) of a name that is worth suggesting."""
_COMPARED_NAMES = 100
_COMPARED_CHARS = 200
_SHOWN_VERSIONS = 10
_SHOWN_VERSION_CHARS = 40


def find_by_name(
    name: str, documents: DocumentStore, roots: Sequence[str], *, suggest: bool = True
) -> Document:
    """Find the document that a name means.

    Args:
        name: A name in any case, ``root:name``, or the id of a document; each also with a
            constraint on the version, such as ``pdf@>=1.2``, unless a skill is named just that.
        documents: All documents.
        roots: Paths of the roots, in order of precedence.
        suggest: False to leave out the nearest names of an error, whose search looks at every
            document.

    Returns:
        The document; of several that fit, the newest in the first root that has any.

    Raises:
        SkillNotFoundError: When there is none; names the nearest.
        VersionNotFoundError: When there are some, but none whose version fits; names the versions.
        VersionConstraintError: When there are some, but the constraint cannot be read.
        AmbiguousNameError: When one root has several that versions do not tell apart.
    """
    named, wanted = _meant(name, documents), name
    if not named and "@" in name:
        wanted, constraint = split_requirement(name)
        named = _meant(wanted, documents)
        fitting = [document for document in named if satisfies(document.version, constraint)]
        if named and not fitting:
            raise VersionNotFoundError(name, _versions(named))
        named = fitting
    if not named:
        raise SkillNotFoundError(name, nearest_names(wanted, documents) if suggest else ())
    best = preferred(named, roots)
    if len(best) > 1:
        raise AmbiguousNameError(name, tuple(document.doc_id for document in best))
    return best[0]


def preferred(documents: Sequence[Document], roots: Sequence[str]) -> list[Document]:
    """Return those of the documents of one name that it means.

    Args:
        documents: The documents, at least one.
        roots: Paths of the roots, in order of precedence.

    Returns:
        The newest document of the first root that has any; all documents of that root where a
        version cannot be read or several are the newest.
    """
    order = {root: place for place, root in enumerate(roots)}
    first = min(order.get(document.root, len(order)) for document in documents)
    best = [document for document in documents if order.get(document.root, len(order)) == first]
    place = newest([document.version for document in best]) if len(best) > 1 else None
    return best if place is None else [best[place]]


def _versions(documents: Sequence[Document]) -> tuple[str, ...]:
    """Return the first versions among some documents, each once and fit to be shown."""
    shown = (one_line(document.version, _SHOWN_VERSION_CHARS) for document in documents)
    return tuple(dict.fromkeys(shown))[:_SHOWN_VERSIONS]


def _meant(name: str, documents: DocumentStore) -> list[Document]:
    """Return the document of an id, else those of a name, else those of a name in one root.

    An id comes first: it is what names a skill beyond doubt, and no skill may take it as a name.
    """
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
    """Find the names of documents that look most like a name.

    Args:
        name: The name.
        documents: The documents; all of them are looked at.
        cutoff: Least similarity, 0 to 1.

    Returns:
        Up to five names, nearest first.
    """
    folded = {document.name.casefold(): document.name for document in documents}
    wanted = name[:_COMPARED_CHARS].casefold()
    close = difflib.get_close_matches(
        wanted, _sharing_most(wanted, folded), n=_NEAREST_NAMES, cutoff=cutoff
    )
    return tuple(folded[other] for other in close)


def _sharing_most(wanted: str, names: Iterable[str]) -> list[str]:
    """Return the names that share the most pairs of letters with one (Dice's coefficient).

    To compare thousands of names letter by letter takes seconds; to count their pairs does not.
    """
    pairs = _pairs(wanted)

    def likeness(other: str) -> float:
        theirs = _pairs(other)
        return len(pairs & theirs) / (len(pairs) + len(theirs))

    return heapq.nlargest(_COMPARED_NAMES, names, key=likeness)


def _pairs(text: str) -> set[tuple[str, str]]:
    """Return the pairs of neighbouring letters of a text, its edges included."""
    return set(itertools.pairwise(f"^{text[:_COMPARED_CHARS]}$"))


def read_skill(document: Document) -> Skill:
    """Read a document's skill from disk, as it is now.

    Args:
        document: The document.

    Returns:
        The skill.

    Raises:
        ParseError: When its file can no longer be read as a skill.
    """
    # A search reads no skill unless it explains: the parser and its YAML are imported only here.
    from skillsearch.skills.parser import parse_skill

    path = Path(document.path)
    data, _ = read_skill_md(path)
    return parse_skill(data, doc_id=document.doc_id, path=path, root=Path(document.root))[0]
