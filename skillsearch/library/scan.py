"""Reads the skills below some roots without an index, as a small environment does to start."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skillsearch.files.paths import printable
from skillsearch.index.build.changes import compare_files
from skillsearch.index.build.diagnostics import in_order
from skillsearch.index.build.reading import read_file
from skillsearch.index.build.snapshot import SeenFile, Snapshot
from skillsearch.index.documents import Document
from skillsearch.index.fields import about_text
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.types import Diagnostic, Root


@dataclass(frozen=True, slots=True)
class Scan:
    """The skills below some roots, as they were at one time.

    Attributes:
        documents: All skills by id, without what only a search needs of them.
        about: The metadata of a skill besides its name, by path, if it differs from the
            description.
        roots: The roots that exist, in order of precedence.
        diagnostics: Everything that could not be read or is odd, by path.
        snapshot: The stats of folders and files.
        missing: Roots that were asked for and cannot be read now.
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
    seen_at_ns = time.time_ns()
    roots, problems = make_roots(paths)
    known = previous.snapshot.files if previous else {}
    changes = compare_files(discover(roots), known, seen_at_ns)
    before = {document.path: document for document in previous.documents} if previous else {}
    documents: list[Document] = []
    about: dict[str, str] = {}
    seen: dict[str, SeenFile] = {}
    found: list[Diagnostic] = [*changes.discovery.diagnostics]
    taken_over: set[str] = set()
    for place, file in enumerate(changes.files):
        path = str(file.path)
        old = before.get(path)
        if changes.is_kept[place] and old and old.doc_id == file.doc_id:
            documents.append(old)
            taken_over.add(path)
            continue
        read = changes.refused.get(place) or read_file(file)
        seen[path] = read.seen
        found.extend(read.diagnostics)
        if read.skill is not None:
            documents.append(Document.listed(read.skill))
            if (text := about_text(read.skill)) != read.skill.description:
                about[path] = text
    if previous:
        about |= {path: text for path, text in previous.about.items() if path in taken_over}
        found.extend(one for one in previous.diagnostics if one.path in taken_over)
    unusable = [problem for problem in problems if problem.severity == "error"]
    found.extend(replace(problem, severity="warning") for problem in unusable)
    found.extend(problem for problem in problems if problem.severity != "error")
    refused = {problem.path for problem in unusable}
    snapshot = Snapshot("", dict(changes.discovery.folders), changes.seen_files(seen))
    return Scan(
        DocumentStore.build(documents),
        about,
        tuple(roots),
        in_order(found),
        snapshot.without_racy(seen_at_ns),
        tuple(path for path in paths if printable(path) in refused and not path.is_dir()),
    )
