"""In which order skills load: each after all that it requires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from skillsearch.index.documents.document import Document

MAX_CYCLES = 100
"""Cycles that are reported; hostile skills can have one for every two skills."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A required skill that does not exist, and the name of the skill that needs it, if any."""

    requirement: str
    needed_by: str


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """Skills and everything they need, each after all that it needs, else in the order asked for.

    `missing` are in the order they were met; along each of at most `MAX_CYCLES` cycles, each skill
    needs the next, the last one the first.
    """

    order: tuple[Document, ...]
    missing: tuple[Missing, ...]
    cycles: tuple[tuple[str, ...], ...]


def load_order(wanted: Sequence[str], resolve: Callable[[str], Document | None]) -> LoadOrder:
    """Order skills and everything they need, each after what it needs.

    Skills in a cycle are ordered as if the requirement that closes it did not exist; a skill that
    lacks something is still part of the order. `resolve` finds the skill that a requirement means,
    and is called once for each requirement of each skill.
    """
    missing: list[Missing] = []
    cycles: list[tuple[str, ...]] = []
    loaded: dict[str, Document] = {}
    path: dict[str, Document] = {}  # from a wanted skill to the current one; each needs the next

    def needs(requirements: Iterable[str], needed_by: str) -> Iterator[Document]:
        needed: dict[str, Document] = {}
        for requirement in dict.fromkeys(requirements):
            if (document := resolve(requirement)) is None:
                missing.append(Missing(requirement, needed_by))
            else:
                needed.setdefault(document.doc_id, document)
        return iter(needed.values())

    # Depth first with an explicit stack: a chain of needs may exceed the recursion limit.
    stack = [needs(wanted, "")]
    while stack:
        if (document := next(stack[-1], None)) is None:
            stack.pop()
            if path:
                loaded.update([path.popitem()])
        elif document.doc_id in path:
            if len(cycles) < MAX_CYCLES:
                ids = list(path)
                cycle = ids[ids.index(document.doc_id) :]
                cycles.append(tuple(path[doc_id].name for doc_id in cycle))
        elif document.doc_id not in loaded:
            path[document.doc_id] = document
            stack.append(needs(document.requires, document.name))
    return LoadOrder(tuple(loaded.values()), tuple(missing), tuple(cycles))
