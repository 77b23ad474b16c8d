"""Resolves the names and requirements in a library; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from skillsearch.errors import SkillError
from skillsearch.index.documents import Document
from skillsearch.index.names import Shadowed, find_by_name, find_shadowed
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.text.safe_text import one_line
from skillsearch.types import Hit, Root, Skill

MAX_CYCLES = 100
"""Cycles that are reported; hostile skills can have one for every two skills."""
_MAX_NAME_CHARS = 256


class Naming:
    """The names of some documents; whatever needs a pass over all of them is computed once."""

    def __init__(self, documents: DocumentStore, roots: Sequence[Root]) -> None:
        """Take documents, and their roots in order of precedence."""
        self.documents = documents
        self._roots = [str(root.path) for root in roots]

    @cached_property
    def shadowed(self) -> tuple[Shadowed, ...]:
        """The skills that a plain name does not mean, because another comes first."""
        return find_shadowed(self.documents, self._roots)

    @cached_property
    def shadowed_ids(self) -> frozenset[str]:
        """The ids of the shadowed skills."""
        return frozenset(item.document.doc_id for item in self.shadowed)

    @cached_property
    def listed(self) -> tuple[Document, ...]:
        """All skills that are not shadowed, by name, ties by id."""
        meant = (found for found in self.documents if found.doc_id not in self.shadowed_ids)
        return tuple(sorted(meant, key=lambda found: (found.name.casefold(), found.doc_id)))

    def find(self, name: str) -> Document:
        """Find the skill that a name means, as `find_by_name` does."""
        return find_by_name(name, self.documents, self._roots)

    def resolve(self, name: str) -> Document | None:
        """Return the skill that a name means, or None; no similar names are looked for."""
        try:
            return find_by_name(name, self.documents, self._roots, suggest=False)
        except SkillError:
            return None

    def in_folder(self, folder: str) -> Document | None:
        """Return the first skill by precedence whose folder has a name, ignoring case."""
        wanted = folder.casefold()
        order = {path: place for place, path in enumerate(self._roots)}
        found = [
            document
            for document in self.documents
            if PurePath(document.path).parent.name.casefold() == wanted
        ]
        return min(found, key=lambda d: order.get(d.root, len(order)), default=None)

    def handle(self, found: Document | Hit | Skill) -> str:
        """Return the name of a skill if that name means it and can be shown, else its id."""
        name = one_line(found.name, _MAX_NAME_CHARS)
        meant = self.resolve(name)
        is_meant = meant is not None and meant.doc_id == found.doc_id
        return name if is_meant else one_line(found.doc_id)


@dataclass(frozen=True, slots=True)
class Missing:
    """A required skill that does not exist.

    Attributes:
        requirement: A name or ``name@constraint``.
        needed_by: Name of the skill that needs it; empty if the caller asked for it.
    """

    requirement: str
    needed_by: str


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """Skills and everything they need, in the order to load them.

    Attributes:
        order: Each skill after all that it needs, cycles aside, otherwise in the order asked for.
        missing: Requirements that could not be resolved, in the order they were met.
        cycles: The names along each cycle: each skill needs the next, the last one the first. At
            most `MAX_CYCLES`.
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
        """Yield the skills that requirements mean, each once."""
        found: dict[str, Document] = {}
        for requirement in dict.fromkeys(requirements):
            document = resolve(requirement)
            if document is None:
                missing.append(Missing(requirement, needed_by))
            else:
                found.setdefault(document.doc_id, document)
        return iter(found.values())

    # Depth first with an explicit stack: a chain of needs may exceed the recursion limit.
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
    """Return the names on a path, starting at one of its documents."""
    ids = list(path)
    return tuple(path[other].name for other in ids[ids.index(doc_id) :])
