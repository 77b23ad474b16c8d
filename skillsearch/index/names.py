"""Names → documents, and documents → the skills as they are on disk now."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from skillsearch.errors import AmbiguousNameError, SkillNotFoundError
from skillsearch.index.documents import Document, DocumentStore
from skillsearch.skills.resources import read_skill_md
from skillsearch.types import Skill

_NEAREST_NAMES = 5
_NEAREST_CUTOFF = 0.4
"""Least similarity (difflib's ratio) of a name that is worth suggesting."""


def find_by_name(name: str, documents: DocumentStore, roots: Sequence[str]) -> Document:
    """Find the document that a name means.

    Args:
        name: A name in any case, ``root:name``, or the id of a document.
        documents: All documents.
        roots: Paths of the roots, in order of precedence.

    Returns:
        The document; of several in different roots, that of the first root.

    Raises:
        SkillNotFoundError: When there is none; names the nearest.
        AmbiguousNameError: When one root has several.
    """
    named = _meant(name, documents)
    if not named:
        raise SkillNotFoundError(name, nearest_names(name, documents))
    order = {root: place for place, root in enumerate(roots)}
    first = min(order.get(document.root, len(order)) for document in named)
    best = [document for document in named if order.get(document.root, len(order)) == first]
    if len(best) > 1:
        raise AmbiguousNameError(name, tuple(document.doc_id for document in best))
    return best[0]


def _meant(name: str, documents: DocumentStore) -> list[Document]:
    """Return the documents of a name, else the one of an id, else those of a name in one root."""
    named = [documents[number] for number in documents.named(name)]
    alias, colon, rest = name.partition(":")
    if named or not colon:
        return named
    number = documents.number_of(name)
    if number is not None:
        return [documents[number]]
    same_name = (documents[number] for number in documents.named(rest))
    return [document for document in same_name if document.alias == alias]


def nearest_names(name: str, documents: DocumentStore) -> tuple[str, ...]:
    """Return up to five names of documents that look most like a name, nearest first."""
    folded = {document.name.casefold(): document.name for document in documents}
    close = difflib.get_close_matches(
        name.casefold(), folded, n=_NEAREST_NAMES, cutoff=_NEAREST_CUTOFF
    )
    return tuple(folded[other] for other in close)


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
