"""What differs between an index and the disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skillsearch.errors import ParseError
from skillsearch.index.build.snapshot import UNKNOWN_STAT, FileStat, SeenFile, Snapshot
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.types import JsonValue, Root, SkillFile


@dataclass(frozen=True, slots=True)
class Differences:
    """SKILL.md files that differ from what was indexed, by path.

    Attributes:
        added: Files that were not there.
        changed: Files whose bytes are others.
        removed: Files that are gone.
        missing_roots: Roots that are gone, whose skills are not counted as removed.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    missing_roots: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.added) + len(self.changed) + len(self.removed)

    def __str__(self) -> str:
        return f"{len(self.added)} added, {len(self.changed)} changed, {len(self.removed)} removed"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "added": list(self.added),
            "changed": list(self.changed),
            "removed": list(self.removed),
            "missing_roots": list(self.missing_roots),
        }


def is_up_to_date(index: OpenedIndex, folder: IndexFolder) -> bool:
    """Tell by stat alone whether the disk still is what an index was made of."""
    snapshot = snapshot_of(index, folder)
    return snapshot is not None and snapshot.is_current()


def snapshot_of(index: OpenedIndex, folder: IndexFolder) -> Snapshot | None:
    """Return how the disk looked when an index was made, where that was kept."""
    snapshot = Snapshot.load(folder.path)
    return snapshot if snapshot and snapshot.generation == index.name else None


def compare(index: OpenedIndex, folder: IndexFolder, *, verify: bool) -> Differences:
    """Walk the roots of an index and compare every SKILL.md with what was indexed.

    Args:
        index: The opened index.
        folder: Its folder.
        verify: Hash every file instead of trusting an unchanged stat.

    Returns:
        The differences; a file that could not be read then and cannot now is none.
    """
    known = known_files(index, folder)
    roots, missing = _present_roots(index)
    files = {str(file.path): file for file in discover(roots, leave_out=folder.path).files}
    changed = (
        path
        for path in files.keys() & known.keys()
        if _is_changed(files[path], known[path], verify=verify)
    )
    lost = tuple(f"{root}/" for root in missing)
    gone = (path for path in known.keys() - files.keys() if not path.startswith(lost))
    return Differences(
        added=tuple(sorted(files.keys() - known.keys())),
        changed=tuple(sorted(changed)),
        removed=tuple(sorted(gone)),
        missing_roots=missing,
    )


def known_files(index: OpenedIndex, folder: IndexFolder) -> Mapping[str, SeenFile]:
    """Return how the SKILL.md files of an index looked when it was made.

    Args:
        index: The opened index.
        folder: Its folder.

    Returns:
        By path; with unknown stat, and without those that could not be indexed, where that was
        not kept.
    """
    snapshot = snapshot_of(index, folder)
    if snapshot:
        return snapshot.files
    return {
        document.path: SeenFile(UNKNOWN_STAT, document.content_hash)
        for document in index.corpus.documents
    }


def _present_roots(index: OpenedIndex) -> tuple[list[Root], tuple[str, ...]]:
    """Return the roots of an index that are still there, and the paths of those that are not."""
    found, _ = make_roots([root.path for root in index.settings.roots])
    paths = {root.path for root in found}
    present = [root for root in index.settings.roots if root.path in paths]
    return present, tuple(str(r.path) for r in index.settings.roots if r.path not in paths)


def _is_changed(file: SkillFile, seen: SeenFile, *, verify: bool) -> bool:
    """Tell whether a file has other bytes than when it was indexed."""
    stat = FileStat(file.size, file.mtime_ns, file.inode)
    if not verify and stat == seen.stat:
        return False
    try:
        data, _ = read_skill_md(file.path)
    except ParseError:
        return bool(seen.content_hash)
    return content_hash(data) != seen.content_hash
