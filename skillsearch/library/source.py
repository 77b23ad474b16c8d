"""Where a library gets its skills from: a scan of folders, or an existing index."""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from skillsearch.errors import ParseError, SkillError
from skillsearch.index.documents.document import Document, about_text, name_hash
from skillsearch.index.freshness import MAX_REFRESHED_FILES, Freshness, LookTimer, is_free
from skillsearch.index.indexing.changes import ChangeDetector, Changes
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.indexing.reading import sorted_diagnostics
from skillsearch.index.indexing.snapshot import SeenFiles, Snapshot
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.library.background import Indexer
from skillsearch.library.word_index import WordIndex
from skillsearch.settings.user_folders import index_dir_for
from skillsearch.skills.discovery import EMPTY, make_roots
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import MAX_SKILL_MD_BYTES
from skillsearch.types.indexing import Progress
from skillsearch.types.skills import SKILL_MD, Diagnostic, Root

_REGISTERED = "registered"
_FOLDER_CHARS = 64


@dataclass(frozen=True, slots=True)
class Scan:
    """The skills below roots at one time.

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


def scan(
    paths: Sequence[Path], previous: Scan = _NOTHING, aliases: Mapping[str, str] = EMPTY
) -> Scan:
    """Read the metadata of all skills below folders, in order of precedence.

    The roots have their `aliases`, or new ones. Files with the same bytes are taken over from the
    previous scan. A missing folder is reported and skipped, since it may come later.
    """
    roots, problems = make_roots(paths, aliases)
    changes = ChangeDetector(None, None, roots, before=previous.snapshot).walk()
    before = {document.path: document for document in previous.documents}
    documents: list[Document] = []
    about: dict[str, str] = {}
    for position, file in enumerate(changes.files):
        path = str(file.path)
        old = before.get(path) if changes.is_kept[position] else None
        if old and old.doc_id == file.doc_id:
            documents.append(old)
            about |= {path: previous.about[path]} if path in previous.about else {}
        elif skill := changes.reader.read(file):
            documents.append(Document.listed(skill))
            if (text := about_text(skill)) != skill.description:
                about[path] = text
    notes = [*changes.diagnostics(previous.diagnostics)]
    for problem in problems:
        notes.append(replace(problem, severity="note" if problem.severity == "note" else "warning"))
    return Scan(
        DocumentStore.build(documents),
        about,
        tuple(roots),
        sorted_diagnostics(notes),
        changes.snapshot(""),
        tuple(path for path in paths if not path.is_dir()),
    )


def differences(before: DocumentStore, now: DocumentStore) -> Changes:
    """Return the documents that came, changed and went, by id."""
    if before is now:
        return Changes()
    old, new = (
        {document.doc_id: (document.content_hash, document.continuation_hash) for document in some}
        for some in (before, now)
    )
    changed = (doc_id for doc_id in old.keys() & new.keys() if old[doc_id] != new[doc_id])
    groups = (new.keys() - old.keys(), changed, old.keys() - new.keys())
    return Changes(*(tuple(sorted(group)) for group in groups))


class IndexSource:
    """The skills of an existing index, kept like the disk by its `Freshness`."""

    def __init__(self, index: SkillIndex, executor: Executor | None = None) -> None:
        """Take an opened index; an executor, or else a thread, indexes large changes meanwhile."""
        self.made, self._executor = index, executor
        self.indexer = Freshness(index, executor or ThreadPoolExecutor(1))

    @property
    def documents(self) -> DocumentStore:
        """All skills, by id."""
        return self.made.opened.corpus.documents

    @property
    def roots(self) -> tuple[Root, ...]:
        """The roots, in order of precedence."""
        return self.made.opened.settings.roots

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The diagnostics reported when the index was made, by path."""
        return self.made.diagnostics()

    @property
    def problem(self) -> str:
        """Why the index is not like the disk; empty if it is."""
        return self.indexer.problem

    def is_current(self) -> bool:
        """Return, by stat alone, whether the disk still is what was indexed."""
        return self.made.is_current()

    def look(self, max_age: float | None, folders: Iterable[str] = ()) -> None:
        """Be like the disk, as `Freshness.look` says."""
        self.indexer.look(max_age, folders)

    def refresh(self) -> None:
        """Bring the index up to date; with an executor, begin to if that takes long."""
        if self._executor:
            self.look(0)
        else:
            self.made.refresh(keep_missing=True)

    def index(self) -> SkillIndex:
        """Return the index."""
        return self.made

    def add_root(self, path: Path) -> None:
        """Raise a SkillError: whoever made a saved index decides on its skills."""
        raise SkillError(
            f"A library over a saved index takes no further root, such as {str(path)!r}; index it "
            "with the others, or make the library with SkillLibrary.from_roots."
        )

    def register(self, content: str) -> Document:
        """Raise a SkillError: the roots of a saved index decide on its skills."""
        raise SkillError(
            "A library over a saved index takes no further skills; write the skill into one of "
            "its roots and refresh, or make the library with SkillLibrary.from_roots."
        )


class ScannedSource:
    """The skills of some folders; the `indexer` makes their index when it is first asked for.

    Whatever else the index holds by then, or other processes add to it later, is served too.
    """

    def __init__(
        self, request: IndexRequest, index_dir: Path | None, executor: Executor | None
    ) -> None:
        """Scan the roots; without an `index_dir` the index lies in the user's cache."""
        self._request, self._index_dir = request, index_dir
        self._private: Path | None = None
        self._wanted = request
        self._scan, self._timer = _NOTHING, LookTimer()
        self.indexer = Indexer(executor)
        self._read(*request.roots)

    def _read(self, *roots: Path) -> None:
        self._timer.is_due(0)
        self._request = replace(self._request, roots=roots)
        self._wanted = self._joined()
        before, self._scan = self._scan, scan(self._wanted.roots, self._scan, self._wanted.aliases)
        is_same = before.roots == self._scan.roots
        if is_same and not differences(before.documents, self._scan.documents):
            self._scan = replace(self._scan, documents=before.documents)  # nothing to index
        self.documents = self._scan.documents
        self.roots = self._wanted.with_trust(self._scan.roots)
        self.diagnostics = self._scan.diagnostics

    @property
    def _folder(self) -> Path:
        return self._index_dir or index_dir_for(self._request.roots, self._request.model)

    def _joined(self) -> IndexRequest:
        """Return what the index is to hold, given what it holds."""
        if not self._request.roots:
            return self._request
        held = IndexRequest.load(self._folder)
        return RootChange.adding(self._request).applied_to(held, unpack=False, missing="leave")

    def is_current(self) -> bool:
        """Return, by stat alone, whether the disk still is what was scanned."""
        has_come = any(path.is_dir() for path in self._scan.missing)
        is_scanned = not has_come and self._joined() == self._wanted
        return is_scanned and self._scan.snapshot.is_current()

    @property
    def problem(self) -> str:
        """Which folder cannot be read now; empty if all can."""
        missing = self._scan.missing
        return f"the folder {missing[0]} cannot be read; its skills are left out" if missing else ""

    def look(self, max_age: float | None, _folders: Iterable[str] = ()) -> None:
        """Scan again if anything changed; the index follows when it is next asked for."""
        is_due = max_age is not None and self._timer.is_due(max_age)
        if is_due and not self._timer.is_current(self.is_current):
            self._read(*self._request.roots)

    def refresh(self) -> None:
        """Scan again if anything changed, now."""
        self.look(0)

    def index(self) -> SkillIndex | WordIndex | None:
        """Return an index, at first one of words; None without roots. May raise IndexingError."""
        if not self.roots:
            return None
        change, index_dir = RootChange.adding(self._request), self._folder
        last, at_once = self.indexer.last, False
        if last and isinstance(last[0], DocumentStore) and not self.indexer.is_busy:
            is_little = len(differences(last[0], self.documents)) <= MAX_REFRESHED_FILES
            at_once = last[0] is not self.documents and is_little and is_free(index_dir)

        def make(progress: Progress | None) -> SkillIndex:
            if not (last and at_once and last[1].folder == index_dir):
                options = IndexOptions(missing="leave", progress=progress)
                return SkillIndex.build(change, index_dir, options)[0]
            last[1].apply(change, IndexOptions(missing="leave"))
            return last[1]

        count_words = partial(WordIndex, self.documents, self._scan.about, self.roots)
        return self.indexer.index_of(self.documents, make, count_words, at_once=at_once)

    @property
    def made(self) -> SkillIndex | None:
        """The index as it was last made; None before the first one."""
        return self.indexer.last[1] if self.indexer.last else None

    def add_root(self, path: Path) -> None:
        """Scan another folder."""
        self._read(*self._request.roots, path)

    def register(self, content: str) -> Document:
        """Write a skill into a private root before all others; the index then lies next to it.

        A ParseError if it is too large or is not read as a skill.
        """
        if len(data := content.encode("utf-8", "surrogatepass")) > MAX_SKILL_MD_BYTES:
            raise ParseError(
                f"The skill is larger than {MAX_SKILL_MD_BYTES} bytes; write it into a folder and "
                "move parts of it to references/.",
                code="file-too-large",
            )
        nowhere = Path(_REGISTERED, "unnamed", SKILL_MD)
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
        path = folder / SKILL_MD
        path.write_bytes(data)
        self._read(*roots)
        return next(document for document in self.documents if document.path == str(path))

    def _folder_for(self, name: str) -> str:
        registered = [d for d in self.documents if Path(d.root) == self._private]
        folders = {name_hash(d.name): Path(d.path).parent.name for d in registered}
        plain = re.sub(r"[^\w-]+", "-", name).strip("-")[:_FOLDER_CHARS] or "skill"
        numbered = (f"{plain}-{count}" for count in itertools.count(2))
        free = (name for name in itertools.chain([plain], numbered) if name not in folders.values())
        return folders.get(name_hash(name)) or next(free)
