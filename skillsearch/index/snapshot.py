"""How the folders looked when they were last compared with the index.

A folder's modification time changes when an entry is added, removed or renamed in it, and a
file's stat when its content is written. So as long as every folder and every SKILL.md still has
the stat recorded here, nothing has to be listed, opened or hashed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import CacheError
from skillsearch.index.cache import read_record, write_record

_FILE = "snapshot.json"
_RACY_NS = 2_000_000_000
"""A change this close before a look may share the timestamp of a change after it: clocks of
file systems tick every few milliseconds, some every two seconds. Such an entry is looked at
again."""
_UNKNOWN = -1


class FileStat(NamedTuple):
    """What tells cheaply whether a file may have changed.

    Attributes:
        size: Bytes.
        mtime_ns: Modification time, nanoseconds since the epoch.
        inode: Inode number.
    """

    size: int
    mtime_ns: int
    inode: int


UNKNOWN_STAT = FileStat(_UNKNOWN, _UNKNOWN, _UNKNOWN)
"""The stat of no file: what has it is looked at again."""


class SeenFile(NamedTuple):
    """A SKILL.md as it was seen.

    Attributes:
        stat: Its stat.
        content_hash: sha256 of its bytes, hexadecimal; empty where it could not be read.
    """

    stat: FileStat
    content_hash: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All folders listed and all SKILL.md seen under some roots.

    Attributes:
        generation: The index generation that was made of them.
        folders: Modification time of each folder that was listed, nanoseconds.
        files: Every SKILL.md, by path, those that could not be indexed included.
    """

    generation: str
    folders: Mapping[str, int]
    files: Mapping[str, SeenFile]

    def is_current(self) -> bool:
        """Tell whether every folder and file still has the stat that was recorded."""
        for path, mtime_ns in self.folders.items():
            if not _has_mtime(path, mtime_ns):
                return False
        return all(_has_stat(path, seen.stat) for path, seen in self.files.items())

    def without_racy(self, seen_at_ns: int) -> Snapshot:
        """Return this snapshot with the entries that changed just before it was taken unknown.

        Args:
            seen_at_ns: When the look began, nanoseconds since the epoch.

        Returns:
            The snapshot to save.
        """

        def is_racy(mtime_ns: int) -> bool:
            return abs(mtime_ns - seen_at_ns) <= _RACY_NS

        folders = {
            path: _UNKNOWN if is_racy(mtime) else mtime for path, mtime in self.folders.items()
        }
        files = {
            path: SeenFile(UNKNOWN_STAT, seen.content_hash) if is_racy(seen.stat.mtime_ns) else seen
            for path, seen in self.files.items()
        }
        return Snapshot(self.generation, folders, files)

    def save(self, folder: Path) -> None:
        """Replace the snapshot of an index folder.

        Args:
            folder: The index folder.

        Raises:
            OSError: When it cannot be written; the snapshot before stays.
        """
        columns = {
            "generation": self.generation,
            "folders": "\0".join(self.folders),
            "folder_mtimes": list(self.folders.values()),
            "files": "\0".join(self.files),
            "sizes": [seen.stat.size for seen in self.files.values()],
            "mtimes": [seen.stat.mtime_ns for seen in self.files.values()],
            "inodes": [seen.stat.inode for seen in self.files.values()],
            "hashes": [seen.content_hash for seen in self.files.values()],
        }
        write_record(folder / _FILE, columns)

    @classmethod
    def load(cls, folder: Path) -> Snapshot | None:
        """Read the snapshot of an index folder; None where it is missing or damaged."""
        try:
            return cls._from_columns(read_record(folder / _FILE))
        except (CacheError, ValueError, KeyError, TypeError):
            return None

    @classmethod
    def _from_columns(cls, columns: Mapping[str, list[int]]) -> Snapshot:
        """Rebuild a snapshot from its JSON form."""
        stats = map(FileStat, columns["sizes"], columns["mtimes"], columns["inodes"])
        seen = (SeenFile(*pair) for pair in zip(stats, map(str, columns["hashes"]), strict=True))
        files = zip(_split(columns["files"]), seen, strict=True)
        folders = zip(_split(columns["folders"]), columns["folder_mtimes"], strict=True)
        return cls(str(columns["generation"]), dict(folders), dict(files))


def _split(joined: object) -> list[str]:
    """Split a column of paths."""
    return str(joined).split("\0") if joined else []


def _has_mtime(path: str, mtime_ns: int) -> bool:
    """Tell whether a folder has this modification time."""
    try:
        return os.stat(path).st_mtime_ns == mtime_ns  # noqa: PTH116 - half the cost of Path.stat
    except OSError:
        return False


def _has_stat(path: str, expected: FileStat) -> bool:
    """Tell whether a file has this stat."""
    try:
        now = os.stat(path)  # noqa: PTH116 - half the cost of Path.stat
    except OSError:
        return False
    return (now.st_size, now.st_mtime_ns, now.st_ino) == expected
