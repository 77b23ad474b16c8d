"""Where a library gets its skills from: a scan of folders, or an existing index."""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from skillsearch import config
from skillsearch.errors import IndexingError, ParseError, SkillError
from skillsearch.index.build.changes import ChangeDetector
from skillsearch.index.build.reading import SeenFiles, Snapshot, in_order
from skillsearch.index.documents import Document, about_text, name_hash
from skillsearch.index.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.library.indexing import Indexer, WordIndex
from skillsearch.skills.discovery import make_roots
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import MAX_SKILL_MD_BYTES
from skillsearch.types import Diagnostic, Progress, Root

_REGISTERED = "registered"
_FOLDER_CHARS = 64


@dataclass(frozen=True, slots=True)
class Scan:
    """The skills below some roots, as they were at one time.

    The documents lack what only a search needs; `about` is the metadata besides the name, by path,
    if it differs from the description; roots that cannot be read now are `missing`.
    """

    documents: DocumentStore
    about: Mapping[str, str]
    roots: tuple[Root, ...]
    diagnostics: tuple[Diagnostic, ...]
    snapshot: Snapshot
    missing: tuple[Path, ...]


_NOTHING = Scan(DocumentStore.build(()), {}, (), (), Snapshot("", {}, SeenFiles.of([], ())), ())


def scan(paths: Sequence[Path], previous: Scan = _NOTHING) -> Scan:
    """Read the metadata of all skills below some folders, in order of precedence.

    Files with the same bytes are taken over from the previous scan. A missing folder is reported
    and skipped, since it may come later.
    """
    roots, problems = make_roots(paths)
    changes = ChangeDetector(None, None, roots, before=previous.snapshot).walk()
    before = {document.path: document for document in previous.documents}
    documents: list[Document] = []
    about: dict[str, str] = {}
    for place, file in enumerate(changes.files):
        path = str(file.path)
        old = before.get(path) if changes.is_kept[place] else None
        if old and old.doc_id == file.doc_id:
            documents.append(old)
            about |= {path: previous.about[path]} if path in previous.about else {}
        elif skill := changes.reader.read(file):
            documents.append(Document.listed(skill))
            if (text := about_text(skill)) != skill.description:
                about[path] = text
    found = [*changes.diagnostics(previous.diagnostics)]
    for problem in problems:
        found.append(replace(problem, severity="note" if problem.severity == "note" else "warning"))
    return Scan(
        DocumentStore.build(documents),
        about,
        tuple(roots),
        in_order(found),
        changes.snapshot(""),
        tuple(path for path in paths if not path.is_dir()),
    )


class IndexSource:
    """The skills of an existing index, which the `indexer` updates."""

    def __init__(self, index: SkillIndex, executor: Executor | None = None) -> None:
        """Take an opened index; an executor updates it while it is searched as it is."""
        self._index = index
        self._state = object()
        self.indexer = Indexer(executor)
        self.indexer.last = (self._state, index)

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
        """The diagnostics reported when the index was made, by path."""
        return self._index.diagnostics()

    def is_current(self) -> bool:
        """Return, by stat alone, whether the disk still is what was indexed."""
        return self._index.is_current()

    def refresh(self) -> None:
        """Bring the index up to date; with an executor, begin to, for the next call to take."""
        if self.indexer.executor is None:
            self._index.refresh()
            return
        self._index = self.indexer.index_of(self._state, self._renew)
        if not self.indexer.is_busy and not self._index.is_current():
            self._state = object()
            self.indexer.index_of(self._state, self._renew)

    def index(self) -> SkillIndex:
        """Return the index."""
        return self._index

    def _renew(self, progress: Progress | None) -> SkillIndex:
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
    """The skills of some folders; the `indexer` makes their index when it is first asked for."""

    def __init__(
        self, request: IndexRequest, index_dir: Path | None, executor: Executor | None
    ) -> None:
        """Scan the roots; without an `index_dir` the index lies in the user's cache."""
        self._request, self._index_dir = request, index_dir
        self._private: Path | None = None
        self._scan = _NOTHING
        self._look(*request.roots)
        self.indexer = Indexer(executor)

    def _look(self, *roots: Path) -> None:
        self._scan = scan(roots, self._scan)
        self._request = replace(self._request, roots=roots)
        self.documents = self._scan.documents
        self.roots = self._request.with_trust(self._scan.roots)
        self.diagnostics = self._scan.diagnostics

    def is_current(self) -> bool:
        """Return, by stat alone, whether the disk still is what was scanned."""
        has_come = any(path.is_dir() for path in self._scan.missing)
        return not has_come and self._scan.snapshot.is_current()

    def refresh(self) -> None:
        """Scan again if anything changed; the index follows when it is next asked for."""
        if not self.is_current():
            self._look(*self._request.roots)

    def index(self) -> SkillIndex | WordIndex | None:
        """Return an index, at first one of words; None without roots. May raise IndexingError."""
        if not self.roots:
            return None
        named, request = self._request.roots, self._request
        request = replace(request, roots=tuple(root.path for root in self._scan.roots))
        index_dir = self._index_dir or config.index_dir_for(named, request.model)

        def make(progress: Progress | None) -> SkillIndex:
            return SkillIndex.build(request, index_dir, progress=progress)[0]

        try:
            count_words = partial(WordIndex, self.documents, self._scan.about, self.roots)
            return self.indexer.index_of(self._scan, make, count_words)
        except IndexingError:
            if self.indexer.words is None:
                raise
            return self.indexer.words

    def add_root(self, path: Path) -> None:
        """Scan another folder."""
        self._look(*self._request.roots, path)

    def register(self, content: str) -> Document:
        """Write a skill into a private root before all others; the index then lies beside it."""
        data = content.encode("utf-8", "surrogatepass")
        if len(data) > MAX_SKILL_MD_BYTES:
            raise ParseError(
                f"The skill is larger than {MAX_SKILL_MD_BYTES} bytes; write it into a folder and "
                "move parts of it to references/.",
                code="file-too-large",
            )
        nowhere = Path(_REGISTERED, "unnamed", "SKILL.md")
        skill, _ = parse_skill(data, doc_id="", path=nowhere, root=nowhere.parent.parent)
        roots = self._request.roots
        if self._private is None:
            base = Path(tempfile.mkdtemp(prefix="skillsearch-")).resolve()
            weakref.finalize(self, shutil.rmtree, base, ignore_errors=True)
            self._private = base / _REGISTERED
            self._private.mkdir()
            roots = (self._private, *roots)
            self._index_dir = base / "index"
        folder = self._private / self._folder_for(skill.name)
        folder.mkdir(exist_ok=True)
        path = folder / "SKILL.md"
        path.write_bytes(data)
        self._look(*roots)
        return next(document for document in self.documents if document.path == str(path))

    def _folder_for(self, name: str) -> str:
        registered = [d for d in self.documents if Path(d.root) == self._private]
        taken = {Path(d.path).parent.name: name_hash(d.name) for d in registered}
        of_name = [folder for folder, known in taken.items() if known == name_hash(name)]
        plain = re.sub(r"[^\w-]+", "-", name).strip("-")[:_FOLDER_CHARS] or "skill"
        free = (f"{plain}-{count}" for count in itertools.count(2))
        free = (folder for folder in itertools.chain([plain], free) if folder not in taken)
        return next(itertools.chain(of_name, free))
