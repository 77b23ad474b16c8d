"""Which of several skills with one name is meant, for a whole corpus at once; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.documents import Document
from skillsearch.index.names import preferred
from skillsearch.index.storage.document_store import DocumentStore

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    found = (shadowed for _, shadowed in _shadowed(documents, roots))
    return tuple(sorted(found, key=lambda shadowed: shadowed.document.doc_id))


def shadowed_numbers(documents: DocumentStore, roots: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers of what `find_shadowed` finds, int64, ascending."""
    return np.array(sorted(number for number, _ in _shadowed(documents, roots)), np.int64)


def _shadowed(documents: DocumentStore, roots: Sequence[str]) -> Iterator[tuple[int, Shadowed]]:
    """Yield the shadowed skills with their numbers."""
    for numbers in _namesakes(documents):
        namesakes = [documents[number] for number in numbers]
        best = preferred(namesakes, roots)
        meant = {document.doc_id for document in best}
        for number, document in zip(numbers, namesakes, strict=True):
            if document.doc_id not in meant:
                yield number, Shadowed(document, best[0])


def _namesakes(documents: DocumentStore) -> Iterator[list[int]]:
    """Yield the numbers of the documents of each name that several have, in order of their ids."""
    living = documents.living
    order = living[np.argsort(documents.names[living], kind="stable")]
    names = documents.names[order]
    is_other = np.concatenate(([True], names[1:] != names[:-1], [True]))[: len(names) + 1]
    bounds = np.flatnonzero(is_other)
    is_shared = np.diff(bounds) > 1
    for begin, end in zip(bounds[:-1][is_shared], bounds[1:][is_shared], strict=True):
        yield order[begin:end].tolist()
