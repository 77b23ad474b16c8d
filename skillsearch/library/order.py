"""What skills need → the order to load them in; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from skillsearch.index.documents import Document

MAX_CYCLES = 100
"""Cycles that are reported; skills written to do harm can have one for every two of them."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A skill that is needed and not there.

    Attributes:
        requirement: What is needed: a name or ``name@constraint``.
        needed_by: Name of the skill that needs it; empty for a skill that was asked for itself.
    """

    requirement: str
    needed_by: str


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """Skills and all that they need, in an order to load them in.

    Attributes:
        order: Each skill after all that it needs, cycles aside, else in the order asked for.
        missing: What could not be resolved, in the order in which it was met.
        cycles: The names along each cycle that was met: each skill needs the next, the last one
            the first. At most `MAX_CYCLES`.
    """

    order: tuple[Document, ...]
    missing: tuple[Missing, ...]
    cycles: tuple[tuple[str, ...], ...]


def load_order(wanted: Sequence[str], resolve: Callable[[str], Document | None]) -> LoadOrder:
    """Order skills and all that they need so that each comes after what it needs.

    Skills in a cycle are ordered as if the requirement that closes it were not there. A skill
    without something that it needs is in the order all the same.

    Args:
        wanted: Names or requirements.
        resolve: Finds the skill that a requirement means, or None. It is called once for each
            requirement of each skill.

    Returns:
        The order, what is missing, and the cycles; the same for the same arguments.
    """
    missing: list[Missing] = []
    cycles: list[tuple[str, ...]] = []
    loaded: dict[str, Document] = {}
    path: dict[str, Document] = {}  # from a wanted skill to the one in hand, each needs the next

    def needs(requirements: Iterable[str], needed_by: str) -> Iterator[Document]:
        """Return what some requirements mean, each skill once."""
        found: dict[str, Document] = {}
        for requirement in dict.fromkeys(requirements):
            document = resolve(requirement)
            if document is None:
                missing.append(Missing(requirement, needed_by))
            else:
                found.setdefault(document.doc_id, document)
        return iter(found.values())

    # Depth first with a stack of our own: a chain of needs may be longer than Python's.
    stack = [needs(wanted, "")]
    while stack:
        document = next(stack[-1], None)
        if document is None:
            stack.pop()
            if path:
                doc_id, done = path.popitem()
                loaded[doc_id] = done
        elif document.doc_id in path:
            if len(cycles) < MAX_CYCLES:
                cycles.append(_names_from(document.doc_id, path))
        elif document.doc_id not in loaded:
            path[document.doc_id] = document
            stack.append(needs(document.requires, document.name))
    return LoadOrder(tuple(loaded.values()), tuple(missing), tuple(cycles))


def _names_from(doc_id: str, path: Mapping[str, Document]) -> tuple[str, ...]:
    """Return the names on a path from one of its documents on."""
    ids = list(path)
    return tuple(path[other].name for other in ids[ids.index(doc_id) :])
