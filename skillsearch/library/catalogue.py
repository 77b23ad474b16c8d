"""Roots → the skills below them, without an index: what a small environment needs to start."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skillsearch.errors import ParseError
from skillsearch.files.paths import printable
from skillsearch.index.build.snapshot import UNKNOWN_STAT, FileStat, SeenFile, Snapshot
from skillsearch.index.documents import Document
from skillsearch.index.fields import about_text
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.types import Diagnostic, Root, SkillFile


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The skills below some roots, as they were at one time.

    Attributes:
        documents: All skills, by id; what only a search needs of them is empty.
        about: By path, what the metadata of a skill says beside its name, if that is more than
            the description.
        roots: The roots that exist, in order of precedence.
        diagnostics: What could not be read or is odd, by path.
        snapshot: How folders and files looked.
        missing: Roots that were asked for and cannot be read now.
    """

    documents: DocumentStore
    about: Mapping[str, str]
    roots: tuple[Root, ...]
    diagnostics: tuple[Diagnostic, ...]
    snapshot: Snapshot
    missing: tuple[Path, ...]

    def is_current(self) -> bool:
        """Tell, by stat alone, whether the disk still looks the same."""
        return self.snapshot.is_current() and not any(path.is_dir() for path in self.missing)


def scan(paths: Sequence[Path], previous: Catalogue | None = None) -> Catalogue:
    """Read the metadata of all skills below some folders.

    A file whose stat is unchanged is not opened, and one whose bytes are unchanged is not parsed
    again. A folder that is missing is reported and skipped: it may come later.

    Args:
        paths: Folders, in order of precedence.
        previous: The catalogue of an earlier scan to take unchanged skills from.

    Returns:
        The catalogue.
    """
    seen_at_ns = time.time_ns()
    roots, problems = make_roots(paths)
    discovery = discover(roots)
    scanning = _Scan(previous)
    for file in discovery.files:
        scanning.add(file)
    unusable = [problem for problem in problems if problem.severity == "error"]
    diagnostics = {
        *(replace(problem, severity="warning") for problem in unusable),
        *(problem for problem in problems if problem.severity != "error"),
        *discovery.diagnostics,
        *scanning.diagnostics,
    }
    refused = {problem.path for problem in unusable}
    snapshot = Snapshot("", dict(discovery.folders), scanning.seen)
    return Catalogue(
        DocumentStore.build(scanning.documents),
        scanning.about,
        tuple(roots),
        tuple(sorted(diagnostics, key=lambda d: (d.path, d.line or 0, d.code, d.message))),
        snapshot.without_racy(seen_at_ns),
        tuple(path for path in paths if printable(path) in refused and not path.is_dir()),
    )


class _Scan:
    """The skills read so far, and those of the scan before by path."""

    def __init__(self, previous: Catalogue | None) -> None:
        self._seen_before: Mapping[str, SeenFile] = previous.snapshot.files if previous else {}
        self._known = {d.path: d for d in previous.documents} if previous else {}
        self._about_before: Mapping[str, str] = previous.about if previous else {}
        self._reported: dict[str, list[Diagnostic]] = {}
        for diagnostic in previous.diagnostics if previous else ():
            self._reported.setdefault(diagnostic.path, []).append(diagnostic)
        self.documents: list[Document] = []
        self.about: dict[str, str] = {}
        self.diagnostics: list[Diagnostic] = []
        self.seen: dict[str, SeenFile] = {}

    def add(self, file: SkillFile) -> None:
        """Add a skill; one that cannot be read is reported."""
        path = str(file.path)
        stat = FileStat(file.size, file.mtime_ns, file.inode)
        before = self._seen_before.get(path)
        if before and before.stat == stat and self._take_over(file, before):
            return
        try:
            data, status = read_skill_md(file.path)
        except ParseError as exc:
            self.seen[path] = SeenFile(UNKNOWN_STAT, "")
            self._skip(path, exc)
            return
        stat = FileStat(status.st_size, status.st_mtime_ns, status.st_ino)
        seen = SeenFile(stat, content_hash(data))
        if self._take_over(file, seen):
            return
        self.seen[path] = seen
        try:
            skill, found = parse_skill(
                data, doc_id=file.doc_id, path=file.path, root=file.root.path
            )
        except ParseError as exc:
            self._skip(path, exc)
            return
        self.documents.append(Document.listed(skill))
        about = about_text(skill)
        if about != skill.description:
            self.about[path] = about
        self.diagnostics.extend(found)

    def _take_over(self, file: SkillFile, seen: SeenFile) -> bool:
        """Take over what the scan before made of the same bytes in the same place."""
        path = str(file.path)
        known = self._known.get(path)
        if known is None or (known.doc_id, known.content_hash) != (file.doc_id, seen.content_hash):
            return False
        self.seen[path] = seen
        self.documents.append(known)
        if path in self._about_before:
            self.about[path] = self._about_before[path]
        self.diagnostics.extend(self._reported.get(path, ()))
        return True

    def _skip(self, path: str, error: ParseError) -> None:
        """Report a file that is no skill."""
        self.diagnostics.append(Diagnostic(error.code, "error", str(error), path, error.line))
