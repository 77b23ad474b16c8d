"""How the folders looked when they were last compared with the index.

A folder's modification time changes when an entry is added, removed or renamed in it, and a
file's stat when its content is written. So as long as every folder and every SKILL.md still has
the stat recorded here, nothing has to be listed, opened or hashed.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import xxhash

from skillsearch.files.atomic_files import read_with_digest, write_atomically
from skillsearch.skills.discovery import Scope, inside

_FILE = "snapshot.bin"
_RACY_NS = 2_000_000_000
"""A change this close before a look may share the timestamp of a change after it: clocks of
file systems tick every few milliseconds, some every two seconds. Such an entry is looked at
again."""
_UNKNOWN = -1
_HASH_BYTES = 32
_INODES = 1 << 64
_HAS_HASH, _IS_INDEXED = 1, 2


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
        is_indexed: False where no document could be made of it.
    """

    stat: FileStat
    content_hash: str
    is_indexed: bool = True


class SeenFiles(Mapping[str, SeenFile]):
    """Files by path, in columns: 57 bytes each beside the path.

    Added in any order; a path is added once.
    """

    def __init__(self) -> None:
        """Begin with no files."""
        self._paths: list[str] = []
        self._sizes, self._mtimes, self._inodes = array("q"), array("q"), array("Q")
        self._hashes, self._kinds = bytearray(), bytearray()
        self._rows: dict[str, int] = {}

    @classmethod
    def of(cls, files: Mapping[str, SeenFile]) -> SeenFiles:
        """Return files as columns."""
        if isinstance(files, SeenFiles):
            return files
        columns = cls()
        for path, seen in files.items():
            columns.add(path, seen)
        return columns

    def add(self, path: str, seen: SeenFile) -> None:
        """Add a file that is not there yet."""
        self._paths.append(path)
        self._sizes.append(seen.stat.size)
        self._mtimes.append(seen.stat.mtime_ns)
        self._inodes.append(seen.stat.inode % _INODES)
        self._hashes += bytes.fromhex(seen.content_hash) or bytes(_HASH_BYTES)
        self._kinds.append(_HAS_HASH * bool(seen.content_hash) | _IS_INDEXED * seen.is_indexed)

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __getitem__(self, path: str) -> SeenFile:
        if len(self._rows) < len(self._paths):
            self._rows = {path: row for row, path in enumerate(self._paths)}
        return self._at(self._rows[path])

    def changed(self) -> Iterator[str]:
        """Yield the files whose stat is not the one recorded, those that are gone included."""
        look = os.stat  # twice as fast as Path.stat
        expected = zip(self._paths, self._sizes, self._mtimes, self._inodes, strict=True)
        for path, size, mtime_ns, inode in expected:
            try:
                now = look(path)
            except OSError:
                yield path
                continue
            if now.st_mtime_ns != mtime_ns or now.st_size != size or now.st_ino != inode:
                yield path

    def without_racy(self, seen_at_ns: int) -> SeenFiles:
        """Return these files, those that changed just before a time with unknown stat."""
        careful = SeenFiles()
        for row, path in enumerate(self._paths):
            seen = self._at(row)
            is_racy = _is_racy(seen.stat.mtime_ns, seen_at_ns)
            careful.add(path, seen._replace(stat=UNKNOWN_STAT) if is_racy else seen)
        return careful

    def amended(self, gone: Callable[[str], bool], files: Mapping[str, SeenFile]) -> SeenFiles:
        """Return these files with some exchanged.

        Args:
            gone: Tells of a path whether its file is there no more.
            files: Files that were looked at, by path.

        Returns:
            The files.
        """
        kept = [row for row, path in enumerate(self._paths) if path not in files and not gone(path)]
        renewed = SeenFiles()
        rows = np.array(kept, np.int64)
        renewed._paths = [self._paths[row] for row in kept]
        for name in ("_sizes", "_mtimes", "_inodes"):
            column: array[int] = getattr(self, name)
            taken = np.array(column)[rows].astype(column.typecode)
            setattr(renewed, name, array(column.typecode, taken.tobytes()))
        hashes = np.frombuffer(self._hashes, np.uint8).reshape(-1, _HASH_BYTES)
        renewed._hashes = bytearray(hashes[rows].tobytes())
        renewed._kinds = bytearray(np.frombuffer(self._kinds, np.uint8)[rows].tobytes())
        for path, seen in files.items():
            renewed.add(path, seen)
        return renewed

    def to_bytes(self) -> bytes:
        """Return all columns but the paths."""
        stats = np.array([self._sizes, self._mtimes], "<i8").tobytes()
        inodes = np.array(self._inodes, "<u8").tobytes()
        return b"".join((stats, inodes, self._hashes, self._kinds))

    @classmethod
    def from_bytes(cls, paths: list[str], data: bytes) -> SeenFiles:
        """Rebuild the columns.

        Args:
            paths: The paths.
            data: What `to_bytes` gave.

        Returns:
            The files.

        Raises:
            ValueError: When there is not one row for each path.
        """
        files, count = cls(), len(paths)
        ends = [8 * count, 16 * count, 24 * count, (24 + _HASH_BYTES) * count]
        if len(data) != ends[-1] + count:
            raise ValueError(f"{len(data)} bytes are not {count} files")
        files._paths = paths
        files._sizes = _column("q", data[: ends[0]])
        files._mtimes = _column("q", data[ends[0] : ends[1]])
        files._inodes = _column("Q", data[ends[1] : ends[2]])
        files._hashes = bytearray(data[ends[2] : ends[3]])
        files._kinds = bytearray(data[ends[3] :])
        return files

    def _at(self, row: int) -> SeenFile:
        """Return the file of a row."""
        stat = FileStat(self._sizes[row], self._mtimes[row], self._inodes[row])
        digest = self._hashes[row * _HASH_BYTES : (row + 1) * _HASH_BYTES].hex()
        kind = self._kinds[row]
        return SeenFile(
            stat if stat.size != _UNKNOWN else UNKNOWN_STAT,
            digest if kind & _HAS_HASH else "",
            bool(kind & _IS_INDEXED),
        )


def _column(typecode: Literal["q", "Q"], data: bytes) -> array[int]:
    """Return numbers that were saved with the least significant byte first."""
    saved = np.frombuffer(data, "<i8" if typecode == "q" else "<u8")
    return array(typecode, saved.astype(typecode).tobytes())


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
        return next(chain(self.changed_folders(), self.changed_files()), None) is None

    def changed_folders(self) -> Iterator[str]:
        """Yield the folders whose time is not the one recorded, those that are gone included."""
        look = os.stat
        for path, mtime_ns in self.folders.items():
            try:
                is_same = look(path).st_mtime_ns == mtime_ns
            except OSError:
                is_same = False
            if not is_same:
                yield path

    def changed_files(self) -> Iterator[str]:
        """Yield the files whose stat is not the one recorded, those that are gone included."""
        return SeenFiles.of(self.files).changed()

    def without_racy(self, seen_at_ns: int) -> Snapshot:
        """Return this snapshot with the entries that changed just before it was taken unknown.

        Args:
            seen_at_ns: When the look began, nanoseconds since the epoch.

        Returns:
            The snapshot to save.
        """
        folders = {
            path: _UNKNOWN if _is_racy(mtime, seen_at_ns) else mtime
            for path, mtime in self.folders.items()
        }
        files = SeenFiles.of(self.files).without_racy(seen_at_ns)
        return Snapshot(self.generation, folders, files)

    def amended(self, scopes: Sequence[Scope], looked: Snapshot) -> Snapshot:
        """Return this snapshot after some folders were looked at again.

        Args:
            scopes: The folders.
            looked: What was seen there, and the generation that was made of it.

        Returns:
            The snapshot to save.
        """
        is_deep_in = inside(scope for scope in scopes if scope.is_deep)
        folders = {path: at for path, at in self.folders.items() if not is_deep_in(path)}
        files = SeenFiles.of(self.files).amended(inside(scopes), dict(looked.files.items()))
        return Snapshot(looked.generation, folders | dict(looked.folders), files)

    def save(self, folder: Path) -> None:
        """Replace the snapshot of an index folder.

        Args:
            folder: The index folder.

        Raises:
            OSError: When it cannot be written; the snapshot before stays.
        """
        parts = (
            "\0".join(self.folders).encode("utf-8", "surrogatepass"),
            "\0".join(self.files).encode("utf-8", "surrogatepass"),
            np.array(list(self.folders.values()), "<i8").tobytes(),
            SeenFiles.of(self.files).to_bytes(),
        )
        header = {"generation": self.generation, "parts": list(map(len, parts))}
        data = b"".join((json.dumps(header).encode(), b"\n", *parts))
        digest = xxhash.xxh3_128_hexdigest(data).encode()
        write_atomically(folder / _FILE, digest + b"\n" + data, sync=False)

    @classmethod
    def load(cls, folder: Path) -> Snapshot | None:
        """Read the snapshot of an index folder; None where it is missing or damaged."""
        try:
            return cls._from_bytes(read_with_digest(folder / _FILE))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    @classmethod
    def _from_bytes(cls, data: bytes) -> Snapshot:
        """Rebuild a snapshot from the bytes of its file."""
        first, _, rest = data.partition(b"\n")
        header = json.loads(first)
        parts = []
        for size in header["parts"]:
            parts.append(rest[:size])
            rest = rest[size:]
        folders, files, mtimes, columns = parts
        times = np.frombuffer(mtimes, "<i8").tolist()
        return cls(
            str(header["generation"]),
            dict(zip(_split(folders), times, strict=True)),
            SeenFiles.from_bytes(_split(files), columns),
        )


def _split(joined: bytes) -> list[str]:
    """Split a column of paths."""
    return joined.decode("utf-8", "surrogatepass").split("\0") if joined else []


def _is_racy(mtime_ns: int, seen_at_ns: int) -> bool:
    """Tell whether a change came too shortly before a look to be told from one after it."""
    return abs(mtime_ns - seen_at_ns) <= _RACY_NS
