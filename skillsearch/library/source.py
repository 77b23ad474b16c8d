"""Where a library has its skills from: a scan of folders, or an index built before."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from skillsearch import config
from skillsearch.errors import IndexingError, ParseError, SkillError
from skillsearch.index.documents import Document, name_hash
from skillsearch.index.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.library.catalogue import scan
from skillsearch.library.indexing import Indexer, Searchable
from skillsearch.library.words import WordIndex
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import MAX_SKILL_MD_BYTES
from skillsearch.types import Diagnostic, IndexProgress, JsonValue, Languages, Progress, Root

_REGISTERED = "registered"
_FOLDER_CHARS = 64


@dataclass(frozen=True, slots=True)
class Changes:
    """What a refresh found, as ids of documents, sorted.

    Attributes:
        added: Skills that were not there.
        changed: Skills whose SKILL.md has other bytes.
        removed: Skills that are gone.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.added) + len(self.changed) + len(self.removed)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "added": list(self.added),
            "changed": list(self.changed),
            "removed": list(self.removed),
        }

    @classmethod
    def between(cls, before: DocumentStore, after: DocumentStore) -> Changes:
        """Compare two states of a corpus; the same object has no changes."""
        if before is after:
            return cls()
        old = {document.doc_id: document.content_hash for document in before}
        new = {document.doc_id: document.content_hash for document in after}
        both = old.keys() & new.keys()
        return cls(
            added=tuple(sorted(new.keys() - old.keys())),
            changed=tuple(sorted(doc_id for doc_id in both if old[doc_id] != new[doc_id])),
            removed=tuple(sorted(old.keys() - new.keys())),
        )


class Source(Protocol):
    """Skills, and the index to search them by."""

    @property
    def documents(self) -> DocumentStore:
        """All skills, by id."""

    @property
    def roots(self) -> tuple[Root, ...]:
        """The roots, in order of precedence."""

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is wrong or odd, by path."""

    def is_current(self) -> bool:
        """Tell by stat alone whether the disk still is what `documents` tells of."""

    def refresh(self) -> None:
        """Bring `documents` up to date with the disk."""

    def index(self) -> Searchable | None:
        """Return an index of `documents`, made if need be; None where there is no root."""

    @property
    def is_indexing(self) -> bool:
        """Whether an index is being made beside the library."""

    @property
    def progress(self) -> IndexProgress | None:
        """How far the first index is; None if there is one."""

    def add_root(self, path: Path) -> None:
        """Add a root behind all others."""

    def register(self, content: str) -> Document:
        """Add a skill that lies in no root."""


class IndexSource:
    """The skills of an index that was built before."""

    def __init__(self, index: SkillIndex, executor: Executor | None = None) -> None:
        """Take an opened index.

        Args:
            index: The index.
            executor: Brings it up to date while it is searched as it is; None for the caller.
        """
        self._index = index
        self._executor = executor
        self._state = object()
        self._indexer = Indexer(executor, (self._state, index))

    @property
    def documents(self) -> DocumentStore:
        """All skills, by id."""
        return self._index.opened.corpus.documents

    @property
    def roots(self) -> tuple[Root, ...]:
        """The roots, in order of precedence."""
        return self._index.opened.settings.roots

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was reported when the index was made, by path."""
        return self._index.diagnostics()

    def is_current(self) -> bool:
        """Tell by stat alone whether the disk still is what was indexed."""
        return self._index.is_current()

    def refresh(self) -> None:
        """Bring the index up to date with the disk; with an executor, that is only begun here.

        What it has made by then is taken by the next call.
        """
        if self._executor is None:
            self._index.refresh()
            return
        self._index = self._indexer.index_of(self._state, self._renew)
        if not self._indexer.is_busy and not self._index.is_current():
            self._state = object()
            self._indexer.index_of(self._state, self._renew)

    def index(self) -> SkillIndex:
        """Return the index."""
        return self._index

    @property
    def is_indexing(self) -> bool:
        """Whether the index is being brought up to date beside the library."""
        return self._indexer.is_busy

    @property
    def progress(self) -> None:
        """None: there is an index."""

    def _renew(self, progress: Progress) -> SkillIndex:
        """Bring the index up to date, while the one that is searched stays as it is."""
        index = SkillIndex.open(self._index.folder)
        index.refresh(progress=progress)
        return index

    def add_root(self, path: Path) -> None:
        """Refuse: what a saved index holds is decided by who made it."""
        raise SkillError(
            f"A library over a saved index takes no further root, such as {str(path)!r}; index it "
            "with the others, or make the library with SkillLibrary.from_roots."
        )

    def register(self, content: str) -> Document:
        """Refuse: what a saved index holds is decided by its roots."""
        raise SkillError(
            "A library over a saved index takes no further skills; write the skill into one of "
            "its roots and refresh, or make the library with SkillLibrary.from_roots."
        )


class ScannedSource:
    """The skills of some folders; their index is made when it is first asked for."""

    def __init__(
        self,
        paths: Sequence[Path],
        index_dir: Path | None,
        model: str,
        executor: Executor | None = None,
        *,
        languages: Languages = "auto",
    ) -> None:
        """Scan the folders.

        Args:
            paths: Absolute paths, in order of precedence.
            index_dir: Folder of the index; None for one of its own in the user's cache.
            model: What to load the embedder by.
            executor: Makes the index; None for the caller.
            languages: Which languages to index for.
        """
        self._paths = tuple(paths)
        self._chosen_index_dir = index_dir
        self._model = model
        self._languages = languages
        self._catalogue = scan(self._paths)
        self._indexer = Indexer(executor)
        self._private: Path | None = None

    @property
    def documents(self) -> DocumentStore:
        """All skills, by id; what only a search needs of them is empty."""
        return self._catalogue.documents

    @property
    def roots(self) -> tuple[Root, ...]:
        """The roots that exist, in order of precedence."""
        return self._catalogue.roots

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What could not be read or is odd, by path."""
        return self._catalogue.diagnostics

    def is_current(self) -> bool:
        """Tell by stat alone whether the disk still is what was scanned."""
        return self._catalogue.is_current()

    def refresh(self) -> None:
        """Scan again what changed; the index follows when it is next asked for."""
        if not self.is_current():
            self._catalogue = scan(self._paths, self._catalogue)

    def index(self) -> Searchable | None:
        """Return the index of these skills, brought up to date after a change.

        Returns:
            The index; words alone if an executor still makes the first one.

        Raises:
            IndexingError: When that has just begun.
            SkillSearchError: When the index cannot be made.
        """
        if not self.roots:
            return None
        paths = tuple(root.path for root in self.roots)
        request = IndexRequest(paths, self._model, True, languages=self._languages)
        index_dir = self._index_dir()

        def make(progress: Progress) -> SkillIndex:
            """Index these roots."""
            return SkillIndex.build(request, index_dir, progress=progress)[0]

        def count_words() -> WordIndex:
            """Make what is searched until then."""
            return WordIndex.build(catalogue.documents, catalogue.about, catalogue.roots)

        catalogue = self._catalogue
        try:
            return self._indexer.index_of(catalogue, make, count_words)
        except IndexingError:
            if self._indexer.words is None:
                raise
            return self._indexer.words

    @property
    def is_indexing(self) -> bool:
        """Whether the index is being made beside the library."""
        return self._indexer.is_busy

    @property
    def progress(self) -> IndexProgress | None:
        """How far the first index is; None if there is one."""
        return self._indexer.progress

    def add_root(self, path: Path) -> None:
        """Scan a further folder."""
        self._paths = (*self._paths, path)
        self._catalogue = scan(self._paths, self._catalogue)

    def register(self, content: str) -> Document:
        """Write a skill into a private root, which comes before all others.

        The index of a library with such skills lies beside that root: it would be of no use to
        another process.

        Args:
            content: A whole SKILL.md; it replaces a registered skill of the same name.

        Returns:
            Its document.

        Raises:
            ParseError: When it is no skill.
        """
        data = content.encode("utf-8", "surrogatepass")
        if len(data) > MAX_SKILL_MD_BYTES:
            raise ParseError(
                f"The skill is larger than {MAX_SKILL_MD_BYTES} bytes; write it into a folder and "
                "move parts of it to references/.",
                code="file-too-large",
            )
        nowhere = Path(_REGISTERED, "unnamed", "SKILL.md")
        skill, _ = parse_skill(data, doc_id="", path=nowhere, root=nowhere.parent.parent)
        folder = self._private_root() / self._folder_for(skill.name)
        folder.mkdir(exist_ok=True)
        path = folder / "SKILL.md"
        path.write_bytes(data)
        self._catalogue = scan(self._paths, self._catalogue)
        return next(document for document in self.documents if document.path == str(path))

    def _index_dir(self) -> Path:
        """Return the folder of the index; that of registered skills goes with them."""
        if self._private is not None:
            return self._private.parent / "index"
        return self._chosen_index_dir or config.index_dir_for(self._paths, self._model)

    def _private_root(self) -> Path:
        """Return the root of registered skills, made at the first of them."""
        if self._private is None:
            base = Path(tempfile.mkdtemp(prefix="skillsearch-")).resolve()
            weakref.finalize(self, shutil.rmtree, base, ignore_errors=True)
            self._private = base / _REGISTERED
            self._private.mkdir()
            self._paths = (self._private, *self._paths)
        return self._private

    def _folder_for(self, name: str) -> str:
        """Return the folder of the registered skill of a name, or a new one."""
        registered = [d for d in self.documents if Path(d.root) == self._private]
        for document in registered:
            if name_hash(document.name) == name_hash(name):
                return Path(document.path).parent.name
        plain = re.sub(r"[^\w-]+", "-", name).strip("-")[:_FOLDER_CHARS] or "skill"
        taken = {Path(document.path).parent.name for document in registered}
        count = 1
        folder = plain
        while folder in taken:
            count += 1
            folder = f"{plain}-{count}"
        return folder
