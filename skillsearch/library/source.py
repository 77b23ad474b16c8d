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
from pathlib import Path

from skillsearch import config
from skillsearch.errors import IndexingError, ParseError, SkillError
from skillsearch.files.paths import printable
from skillsearch.index.build.changes import ChangeDetector
from skillsearch.index.build.reading import Snapshot, in_order
from skillsearch.index.documents import Document, name_hash
from skillsearch.index.fields import about_text
from skillsearch.index.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.library.indexing import Indexer, WordIndex
from skillsearch.skills.discovery import make_roots
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import MAX_SKILL_MD_BYTES
from skillsearch.types import Diagnostic, Languages, Progress, Root

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

    def is_current(self) -> bool:
        """Return, by stat alone, whether the disk still looks the same."""
        return self.snapshot.is_current() and not any(path.is_dir() for path in self.missing)


def scan(paths: Sequence[Path], previous: Scan | None = None) -> Scan:
    """Read the metadata of all skills below some folders, in order of precedence.

    Files with the same bytes are taken over from the previous scan. A missing folder is reported
    and skipped, since it may come later.
    """
    roots, problems = make_roots(paths)
    seen = previous.snapshot if previous else None
    changes = ChangeDetector(None, None, roots, before=seen).walk()
    before = {document.path: document for document in previous.documents} if previous else {}
    documents: list[Document] = []
    about: dict[str, str] = {}
    kept: set[str] = set()
    for place, file in enumerate(changes.files):
        path = str(file.path)
        old = before.get(path)
        if changes.is_kept[place] and old and old.doc_id == file.doc_id:
            documents.append(old)
            kept.add(path)
        elif skill := changes.reader.read(file):
            documents.append(Document.listed(skill))
            if (text := about_text(skill)) != skill.description:
                about[path] = text
    found = [*changes.diagnostics()]
    if previous:
        about |= {path: text for path, text in previous.about.items() if path in kept}
        found += [one for one in previous.diagnostics if one.path in kept]
    refused = {problem.path for problem in problems if problem.severity == "error"}
    found += [
        replace(problem, severity="warning") if problem.severity == "error" else problem
        for problem in problems
    ]
    return Scan(
        DocumentStore.build(documents),
        about,
        tuple(roots),
        in_order(found),
        changes.snapshot(""),
        tuple(path for path in paths if printable(path) in refused and not path.is_dir()),
    )


class IndexSource:
    """The skills of an existing index, which the `indexer` updates."""

    def __init__(self, index: SkillIndex, executor: Executor | None = None) -> None:
        """Take an opened index; an executor updates it while it is searched as it is."""
        self._index = index
        self._executor = executor
        self._state = object()
        self.indexer = Indexer(executor, (self._state, index))

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
        if self._executor is None:
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
        self,
        paths: Sequence[Path],
        index_dir: Path | None,
        model: str,
        executor: Executor | None = None,
        languages: Languages = "auto",
    ) -> None:
        """Scan folders; without an `index_dir` the index lies in the user's cache."""
        self._paths = tuple(paths)
        self._index_dir = index_dir
        self._model = model
        self._languages = languages
        self._take(scan(self._paths))
        self.indexer = Indexer(executor)
        self._private: Path | None = None

    def _take(self, found: Scan) -> None:
        self._scan = found
        self.documents, self.roots = found.documents, found.roots
        self.diagnostics = found.diagnostics

    def is_current(self) -> bool:
        """Return, by stat alone, whether the disk still is what was scanned."""
        return self._scan.is_current()

    def refresh(self) -> None:
        """Scan again if anything changed; the index follows when it is next asked for."""
        if not self.is_current():
            self._take(scan(self._paths, self._scan))

    def index(self) -> SkillIndex | WordIndex | None:
        """Return an index, one of words while an executor makes the first one; None without roots.

        Raises IndexingError when that has just begun.
        """
        if not self.roots:
            return None
        paths = tuple(root.path for root in self.roots)
        request = IndexRequest(paths, self._model, True, languages=self._languages)
        index_dir = self._index_dir or config.index_dir_for(self._paths, self._model)

        def make(progress: Progress | None) -> SkillIndex:
            return SkillIndex.build(request, index_dir, progress=progress)[0]

        def count_words() -> WordIndex:
            return WordIndex(scanned.documents, scanned.about, scanned.roots)

        scanned = self._scan
        try:
            return self.indexer.index_of(scanned, make, count_words)
        except IndexingError:
            if self.indexer.words is None:
                raise
            return self.indexer.words

    def add_root(self, path: Path) -> None:
        """Scan another folder."""
        self._paths = (*self._paths, path)
        self._take(scan(self._paths, self._scan))

    def register(self, content: str) -> Document:
        """Write a skill into a private root, which takes precedence over all others.

        The index then lies beside that root, since it is of no use to another process.
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
        if self._private is None:
            base = Path(tempfile.mkdtemp(prefix="skillsearch-")).resolve()
            weakref.finalize(self, shutil.rmtree, base, ignore_errors=True)
            self._private = base / _REGISTERED
            self._private.mkdir()
            self._paths = (self._private, *self._paths)
            self._index_dir = base / "index"
        folder = self._private / self._folder_for(skill.name)
        folder.mkdir(exist_ok=True)
        path = folder / "SKILL.md"
        path.write_bytes(data)
        self._take(scan(self._paths, self._scan))
        return next(document for document in self.documents if document.path == str(path))

    def _folder_for(self, name: str) -> str:
        registered = [d for d in self.documents if Path(d.root) == self._private]
        for document in registered:
            if name_hash(document.name) == name_hash(name):
                return Path(document.path).parent.name
        plain = re.sub(r"[^\w-]+", "-", name).strip("-")[:_FOLDER_CHARS] or "skill"
        taken = {Path(document.path).parent.name for document in registered}
        numbered = (f"{plain}-{count}" for count in itertools.count(2))
        return next(folder for folder in itertools.chain([plain], numbered) if folder not in taken)
