"""Files on disk → what has changed since the index before, and the texts of a skill.

Which files changed is found out first, mostly by their stat; nothing is parsed for that but files
that could not be indexed before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import ParseError
from skillsearch.index.build.snapshot import UNKNOWN_STAT, FileStat, SeenFile, SeenFiles
from skillsearch.index.fields import FieldTexts, field_texts
from skillsearch.skills.discovery import id_of
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.types import Diagnostic, Progress, Root, Skill, SkillFile


class ReadFile(NamedTuple):
    """What came of reading a SKILL.md.

    Attributes:
        seen: How it looked.
        skill: The skill; None where it cannot be indexed.
        diagnostics: What there is to report.
    """

    seen: SeenFile
    skill: Skill | None
    diagnostics: Sequence[Diagnostic]

    def texts(
        self, scripts: Sequence[frozenset[str] | None], *, with_body: bool
    ) -> FieldTexts | None:
        """Return the texts of the skill as `field_texts` gives them; None where there is none."""
        return field_texts(self.skill, scripts, with_body=with_body) if self.skill else None


def read_file(file: SkillFile) -> ReadFile:
    """Read a SKILL.md; what is wrong with it is told by diagnostics."""
    # A run that finds nothing changed does without the parser, a tenth of what it takes.
    from skillsearch.skills.parser import parse_skill

    path = str(file.path)
    seen = SeenFile(_stat_of(file), "", is_indexed=False)
    try:
        data, status = read_skill_md(file.path)
        stat = FileStat(status.st_size, status.st_mtime_ns, status.st_ino)
        seen = SeenFile(stat, content_hash(data), is_indexed=False)
        skill, diagnostics = parse_skill(
            data, doc_id=file.doc_id, path=file.path, root=file.root.path
        )
    except ParseError as exc:
        if exc.code == "file-unreadable":
            # Permissions change no file's stat, so an unreadable file is tried again each time.
            seen = seen._replace(stat=UNKNOWN_STAT)
        return ReadFile(seen, None, [Diagnostic(exc.code, "error", str(exc), path, exc.line)])
    return ReadFile(seen._replace(is_indexed=True), skill, diagnostics)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What has become of the files since the index before.

    Attributes:
        files: All files that were discovered, by document id.
        is_kept: For each, 1 where its document can be taken over unread.
        refused: By place, files that could not be indexed and cannot now either.
        known: How files looked before, by path.
        gone: How many skills of the index before have no file any more.
    """

    files: Sequence[SkillFile]
    is_kept: bytearray
    refused: Mapping[int, ReadFile]
    known: Mapping[str, SeenFile]
    gone: int

    @property
    def changed(self) -> list[int]:
        """Places of the files that came or changed."""
        return [
            place
            for place, is_kept in enumerate(self.is_kept)
            if not is_kept and place not in self.refused
        ]

    def is_same(self) -> bool:
        """Tell whether the skills are those of the index before."""
        return not self.gone and len(self.refused) + sum(self.is_kept) == len(self.files)

    def diagnostics(self, reported: Mapping[str, Sequence[Diagnostic]]) -> Iterator[Diagnostic]:
        """Yield what there is to report of the files that are kept or refused.

        Args:
            reported: What was reported before, by path.

        Yields:
            The diagnostics.
        """
        for place, file in enumerate(self.files):
            if self.is_kept[place]:
                yield from reported.get(str(file.path), ())
            elif place in self.refused:
                yield from self.refused[place].diagnostics

    @property
    def count(self) -> int:
        """How many skills came, changed or went."""
        return len(self.files) - sum(self.is_kept) - len(self.refused) + self.gone

    def gone_ids(self, roots: Sequence[Root]) -> set[str]:
        """Return the ids of the skills of the index before that have no file any more."""
        if not self.gone:
            return set()
        paths = self.known.keys() - {str(file.path) for file in self.files}
        indexed = (Path(path) for path in paths if self.known[path].is_indexed)
        return {doc_id for path in indexed if (doc_id := id_of(roots, path)) is not None}

    def all_seen(self, read: Mapping[str, SeenFile] | None = None) -> SeenFiles:
        """Return how all files look.

        Args:
            read: Those that came or changed, by path.

        Returns:
            The files, by path.
        """
        found, again = SeenFiles(), read or {}
        for place, file in enumerate(self.files):
            path = str(file.path)
            found.add(path, again.get(path) or self.seen(place))
        return found

    def seen(self, place: int) -> SeenFile:
        """Return how a file that is kept or refused looks."""
        if place in self.refused:
            return self.refused[place].seen
        file = self.files[place]
        return self.known[str(file.path)]._replace(stat=_stat_of(file))


def compare_files(
    files: Sequence[SkillFile], known: Mapping[str, SeenFile], *, verify: bool, progress: Progress
) -> Comparison:
    """Find out which files changed.

    Args:
        files: All files that were discovered, by document id.
        known: How the files of an index looked, by path; empty where there is none.
        verify: Hash every file, whatever its stat says.
        progress: Told how far it is, where there is anything to compare with.

    Returns:
        What has become of each.
    """
    is_kept = bytearray(len(files))
    refused: dict[int, ReadFile] = {}
    indexed = 0
    for place, file in enumerate(files if known else ()):
        seen = known.get(str(file.path))
        if seen and seen.is_indexed:
            indexed += 1
            is_kept[place] = _is_same(file, seen, verify=verify)
        elif seen:
            again = read_file(file)
            if again.skill is None:
                refused[place] = again
        progress("read", place + 1, len(files))
    gone = sum(seen.is_indexed for seen in known.values()) - indexed
    return Comparison(files, is_kept, refused, known, gone)


def _is_same(file: SkillFile, seen: SeenFile, *, verify: bool) -> bool:
    """Tell whether a file has the bytes that it had."""
    if seen.stat == _stat_of(file) and not verify:
        return True
    if seen.stat != UNKNOWN_STAT and seen.stat.size != file.size:
        return False
    try:
        data, _ = read_skill_md(file.path)
    except ParseError:
        return False
    return content_hash(data) == seen.content_hash


def _stat_of(file: SkillFile) -> FileStat:
    """Return the stat that a file had when it was discovered."""
    return FileStat(file.size, file.mtime_ns, file.inode)
