"""Where a library gets its skills from: a scan of folders, or an existing index."""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from skillsearch import config
from skillsearch.errors import IndexingError, ParseError, SkillError
from skillsearch.index.documents import Document, name_hash
from skillsearch.index.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.library.indexing import Indexer, Searchable, WordIndex
from skillsearch.library.scan import scan
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import MAX_SKILL_MD_BYTES
from skillsearch.types import Diagnostic, IndexProgress, JsonValue, Languages, Progress, Root

_REGISTERED = "registered"
_FOLDER_CHARS = 64


@dataclass(frozen=True, slots=True)
class Changes:
    """Ids of the documents that were added, removed, or whose bytes changed, sorted."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.added) + len(self.changed) + len(self.removed)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {name: list(ids) for name, ids in asdict(self).items()}

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
        """Everything that is wrong or odd, by path."""

    def is_current(self) -> bool:
        """Return, by stat alone, whether the disk still is what `documents` shows."""

    def refresh(self) -> None:
        """Bring `documents` up to date with the disk."""

    def index(self) -> Searchable | None:
        """Return an index of `documents`, made if necessary; None if there is no root."""

    @property
    def is_indexing(self) -> bool:
        """Whether an index is being made in the executor."""

    @property
    def progress(self) -> IndexProgress | None:
        """Progress of the first index; None if there is one."""

    def add_root(self, path: Path) -> None:
        """Add a root after all others."""

    def register(self, content: str) -> Document:
        """Add a skill that lies in no root, given as a whole SKILL.md."""


class IndexSource:
    """The skills of an existing index."""

    def __init__(self, index: SkillIndex, executor: Executor | None = None) -> None:
        """Take an opened index; an executor updates it while it is searched as it is."""
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
        """Return, by stat alone, whether the disk still is what was indexed."""
        return self._index.is_current()

    def refresh(self) -> None:
        """Bring the index up to date with the disk; with an executor, only begin to.

        The next call takes the index that it has made by then.
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
        """Whether the index is being updated in the executor."""
        return self._indexer.is_busy

    @property
    def progress(self) -> None:
        """None: there is an index."""

    def _renew(self, progress: Progress) -> SkillIndex:
        """Update a copy of the index, while the one that is searched stays as it is."""
        index = SkillIndex.open(self._index.folder)
        index.refresh(progress=progress)
        return index

    def add_root(self, path: Path) -> None:
        """Refuse: whoever made a saved index decides what it holds."""
        raise SkillError(
            f"A library over a saved index takes no further root, such as {str(path)!r}; index it "
            "with the others, or make the library with SkillLibrary.from_roots."
        )

    def register(self, content: str) -> Document:
        """Refuse: the roots of a saved index decide what it holds."""
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
        """Scan folders, given as absolute paths in order of precedence.

        Without an `index_dir` the index lies in the user's cache.
        """
        self._paths = tuple(paths)
        self._chosen_index_dir = index_dir
        self._model = model
        self._languages = languages
        self._scan = scan(self._paths)
        self._indexer = Indexer(executor)
        self._private: Path | None = None

    @property
    def documents(self) -> DocumentStore:
        """All skills by id, without what only a search needs of them."""
        return self._scan.documents

    @property
    def roots(self) -> tuple[Root, ...]:
        """The roots that exist, in order of precedence."""
        return self._scan.roots

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything that could not be read or is odd, by path."""
        return self._scan.diagnostics

    def is_current(self) -> bool:
        """Return, by stat alone, whether the disk still is what was scanned."""
        return self._scan.is_current()

    def refresh(self) -> None:
        """Scan again if anything changed; the index follows when it is next asked for."""
        if not self.is_current():
            self._scan = scan(self._paths, self._scan)

    def index(self) -> Searchable | None:
        """Return an up-to-date index, or one of words while an executor makes the first one.

        Raises IndexingError when that has just begun; SkillSearchError when the index cannot be
        made.
        """
        if not self.roots:
            return None
        paths = tuple(root.path for root in self.roots)
        request = IndexRequest(paths, self._model, True, languages=self._languages)
        index_dir = self._index_dir()

        def make(progress: Progress) -> SkillIndex:
            return SkillIndex.build(request, index_dir, progress=progress)[0]

        def count_words() -> WordIndex:
            return WordIndex.build(scanned.documents, scanned.about, scanned.roots)

        scanned = self._scan
        try:
            return self._indexer.index_of(scanned, make, count_words)
        except IndexingError:
            if self._indexer.words is None:
                raise
            return self._indexer.words

    @property
    def is_indexing(self) -> bool:
        """Whether the index is being made in the executor."""
        return self._indexer.is_busy

    @property
    def progress(self) -> IndexProgress | None:
        """Progress of the first index; None if there is one."""
        return self._indexer.progress

    def add_root(self, path: Path) -> None:
        """Scan another folder."""
        self._paths = (*self._paths, path)
        self._scan = scan(self._paths, self._scan)

    def register(self, content: str) -> Document:
        """Write a skill into a private root, which takes precedence over all others.

        The index then lies beside that root, since it is of no use to another process.

        Raises ParseError when it is not a skill.
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
        self._scan = scan(self._paths, self._scan)
        return next(document for document in self.documents if document.path == str(path))

    def _index_dir(self) -> Path:
        """Return the folder of the index."""
        if self._private is not None:
            return self._private.parent / "index"
        return self._chosen_index_dir or config.index_dir_for(self._paths, self._model)

    def _private_root(self) -> Path:
        """Return the root of registered skills, creating it for the first one."""
        if self._private is None:
            base = Path(tempfile.mkdtemp(prefix="skillsearch-")).resolve()
            weakref.finalize(self, shutil.rmtree, base, ignore_errors=True)
            self._private = base / _REGISTERED
            self._private.mkdir()
            self._paths = (self._private, *self._paths)
        return self._private

    def _folder_for(self, name: str) -> str:
        """Return the folder of the registered skill of a name, or an unused one."""
        registered = [d for d in self.documents if Path(d.root) == self._private]
        for document in registered:
            if name_hash(document.name) == name_hash(name):
                return Path(document.path).parent.name
        plain = re.sub(r"[^\w-]+", "-", name).strip("-")[:_FOLDER_CHARS] or "skill"
        taken = {Path(document.path).parent.name for document in registered}
        numbered = (f"{plain}-{count}" for count in itertools.count(2))
        return next(folder for folder in itertools.chain([plain], numbered) if folder not in taken)
