"""Reading SKILL.md files for the index, and telling by stat or hash whether one changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import ParseError
from skillsearch.files.file_stat import UNKNOWN_STAT, FileStat
from skillsearch.index.build.snapshot import SeenFile
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.types import Diagnostic, Skill, SkillFile

_MOST_KEPT = 1_000
"""Skills that a `FileReader` keeps: enough for a delta segment, too few to fill the memory."""


class ReadFile(NamedTuple):
    """A SKILL.md that was read; `skill` is None if it cannot be indexed."""

    seen: SeenFile
    skill: Skill | None
    diagnostics: Sequence[Diagnostic]


def read_file(file: SkillFile) -> ReadFile:
    """Read a SKILL.md; problems with it become diagnostics."""
    # Importing the parser takes a tenth of a run that finds nothing changed.
    from skillsearch.skills.parser import parse_skill

    path = str(file.path)
    seen = SeenFile(stat_of(file), "", is_indexed=False)
    try:
        data, status = read_skill_md(file.path)
        seen = SeenFile(FileStat.of(status), content_hash(data), is_indexed=False)
        skill, diagnostics = parse_skill(
            data, doc_id=file.doc_id, path=file.path, root=file.root.path
        )
    except ParseError as exc:
        if exc.code == "file-unreadable":
            # Permissions do not change the stat, so an unreadable file is tried again each time.
            seen = seen._replace(stat=UNKNOWN_STAT)
        return ReadFile(seen, None, [Diagnostic(exc.code, "error", str(exc), path, exc.line)])
    return ReadFile(seen._replace(is_indexed=True), skill, diagnostics)


def is_same(file: SkillFile, seen: SeenFile, *, verify: bool) -> bool:
    """Return whether a file has the bytes it had; `verify` hashes it whatever its stat."""
    if seen.stat == stat_of(file) and not verify:
        return True
    if seen.stat != UNKNOWN_STAT and seen.stat.size != file.size:
        return False
    try:
        data, _ = read_skill_md(file.path)
    except ParseError:
        return False
    return content_hash(data) == seen.content_hash


def stat_of(file: SkillFile) -> FileStat:
    """Return the stat that a file had when it was discovered."""
    return FileStat(file.size, file.mtime_ns, file.inode)


class FileReader:
    """Reads files, and keeps the first skills; `seen` is how the files look, by path."""

    def __init__(self) -> None:
        self.seen: dict[str, SeenFile] = {}
        self._diagnostics: dict[str, Sequence[Diagnostic]] = {}
        self._kept: dict[str, ReadFile] = {}

    def read(self, file: SkillFile, refused: ReadFile | None = None) -> Skill | None:
        """Return the skill of a file, None if it cannot be indexed; `refused` says so already."""
        path = str(file.path)
        found = refused or self._kept.get(path) or read_file(file)
        if len(self._kept) < _MOST_KEPT:
            self._kept[path] = found
        self.seen[path] = found.seen
        if found.diagnostics:
            self._diagnostics[path] = found.diagnostics
        return found.skill

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The diagnostics of the files that were read."""
        return [one for some in self._diagnostics.values() for one in some]


def in_order(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sort diagnostics by path and drop duplicates."""
    return tuple(
        sorted(set(found), key=lambda item: (item.path, item.line or 0, item.code, item.message))
    )


def count_skipped(diagnostics: Sequence[Diagnostic]) -> int:
    """Count the SKILL.md files that could not be indexed."""
    errors = {d.path for d in diagnostics if d.severity == "error"}
    return sum(Path(path).name.casefold() == "skill.md" for path in errors)
