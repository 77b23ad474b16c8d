"""Which of several skills with one name is meant, for a whole corpus at once; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from skillsearch.index.document_store import DocumentStore
from skillsearch.index.documents import Document
from skillsearch.index.names import preferred


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A skill that a plain name does not mean.

    Attributes:
        document: The skill; its id still finds it.
        by: The skill that the name means instead.
    """

    document: Document
    by: Document


def find_shadowed(documents: DocumentStore, roots: Sequence[str]) -> tuple[Shadowed, ...]:
    """Find the skills that others of the same name come before.

    Args:
        documents: All documents.
        roots: Paths of the roots, in order of precedence.

    Returns:
        The shadowed skills, by id. Skills that neither a root nor a version tells apart do not
        shadow each other: a name that is theirs is ambiguous.
    """
    found = []
    for namesakes in _namesakes(documents):
        best = preferred(namesakes, roots)
        meant = {document.doc_id for document in best}
        found += [Shadowed(d, best[0]) for d in namesakes if d.doc_id not in meant]
    return tuple(sorted(found, key=lambda shadowed: shadowed.document.doc_id))


def _namesakes(documents: DocumentStore) -> Iterator[list[Document]]:
    """Yield the documents of each name that several have."""
    living = documents.living
    order = living[np.argsort(documents.names[living], kind="stable")]
    names = documents.names[order]
    starts = np.flatnonzero(np.concatenate(([True], names[1:] != names[:-1])))
    for group in np.split(order, starts[1:]):
        if len(group) > 1:
            yield [documents[number] for number in group.tolist()]
