"""What the names in a library mean, at one state of its documents; pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import PurePath

from skillsearch.errors import SkillError
from skillsearch.index.documents import Document
from skillsearch.index.names import find_by_name
from skillsearch.index.precedence import Shadowed, find_shadowed
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.text.safe_text import one_line
from skillsearch.types import Hit, Root, Skill

_MAX_NAME_CHARS = 256


class Naming:
    """The names of some documents; what takes a look at all of them is kept.

    Attributes:
        documents: The documents.
    """

    def __init__(self, documents: DocumentStore, roots: Sequence[Root]) -> None:
        """Take documents, and their roots in order of precedence."""
        self.documents = documents
        self._roots = [str(root.path) for root in roots]

    @cached_property
    def shadowed(self) -> tuple[Shadowed, ...]:
        """The skills that a plain name does not mean."""
        return find_shadowed(self.documents, self._roots)

    @cached_property
    def shadowed_ids(self) -> frozenset[str]:
        """Their ids."""
        return frozenset(item.document.doc_id for item in self.shadowed)

    @cached_property
    def listed(self) -> tuple[Document, ...]:
        """All others, by name, ties by id."""
        meant = (found for found in self.documents if found.doc_id not in self.shadowed_ids)
        return tuple(sorted(meant, key=lambda found: (found.name.casefold(), found.doc_id)))

    def find(self, name: str) -> Document:
        """Find the skill that a name means; see `skillsearch.index.names.find_by_name`."""
        return find_by_name(name, self.documents, self._roots)

    def resolve(self, name: str) -> Document | None:
        """Return the skill that a name means, or None, without a search for names that are near."""
        try:
            return find_by_name(name, self.documents, self._roots, suggest=False)
        except SkillError:
            return None

    def in_folder(self, folder: str) -> Document | None:
        """Return the first skill, in order of precedence, whose folder has a name, in any case."""
        wanted = folder.casefold()
        order = {path: place for place, path in enumerate(self._roots)}
        found = [
            document
            for document in self.documents
            if PurePath(document.path).parent.name.casefold() == wanted
        ]
        return min(found, key=lambda d: order.get(d.root, len(order)), default=None)

    def handle(self, found: Document | Hit | Skill) -> str:
        """Return the name of a skill where that means it and can be shown as it is, else its id."""
        name = one_line(found.name, _MAX_NAME_CHARS)
        meant = self.resolve(name)
        is_meant = meant is not None and meant.doc_id == found.doc_id
        return name if is_meant else one_line(found.doc_id)
