"""The stat of every folder and SKILL.md when they were last compared with the index.

A folder's modification time changes when an entry is added, removed or renamed in it, and a
file's stat when it is written. While all of them are as recorded here, nothing has to be listed,
opened or hashed.
"""

from __future__ import annotations

import json
import logging
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
from skillsearch.files.file_stat import UNKNOWN_STAT, FileStat, is_racy
from skillsearch.skills.discovery import Discovery, Scope, inside

logger = logging.getLogger(__name__)

_FILE = "snapshot.bin"
_UNKNOWN = -1
_HASH_BYTES = 32
_INODES = 1 << 64
_HAS_HASH, _IS_INDEXED = 1, 2


class SeenFile(NamedTuple):
    """A SKILL.md as it was seen.

    Attributes:
        stat: Its stat.
        content_hash: sha256 of its bytes, hexadecimal; empty if it could not be read.
        is_indexed: False if it could not be indexed.
    """

    stat: FileStat
    content_hash: str
    is_indexed: bool = True


class SeenFiles(Mapping[str, SeenFile]):
    """Files by path, in columns: 57 bytes each besides the path. A path is added once."""

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
        """Yield the files whose stat differs, deleted ones included."""
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
        """Return these files; those whose stat is racy at a time get an unknown one."""
        careful = SeenFiles()
        for row, path in enumerate(self._paths):
            seen = self._at(row)
            if is_racy(seen.stat.mtime_ns, seen_at_ns):
                seen = seen._replace(stat=UNKNOWN_STAT)
            careful.add(path, seen)
        return careful

    def amended(self, gone: Callable[[str], bool], files: Mapping[str, SeenFile]) -> SeenFiles:
        """Return these files without those that are gone, and with others added or replaced."""
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
        """Read what `to_bytes` returned; raises ValueError unless there is a row for each path."""
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
    """Return numbers that were saved in little-endian order."""
    saved = np.frombuffer(data, "<i8" if typecode == "q" else "<u8")
    return array(typecode, saved.astype(typecode).tobytes())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All folders and SKILL.md files below some roots.

    Attributes:
        generation: The index generation that was made of them.
        folders: Modification time in nanoseconds of each folder that was listed, by path.
        files: Every SKILL.md by path, including those that could not be indexed.
    """

    generation: str
    folders: Mapping[str, int]
    files: Mapping[str, SeenFile]

    def is_current(self) -> bool:
        """Return whether every folder and file still has its recorded stat."""
        return next(chain(self.changed_folders(), self.changed_files()), None) is None

    def changed_folders(self) -> Iterator[str]:
        """Yield the folders whose time differs, deleted ones included."""
        look = os.stat
        for path, mtime_ns in self.folders.items():
            try:
                is_same = look(path).st_mtime_ns == mtime_ns
            except OSError:
                is_same = False
            if not is_same:
                yield path

    def changed_files(self) -> Iterator[str]:
        """Yield the files whose stat differs, deleted ones included."""
        return SeenFiles.of(self.files).changed()

    def without_racy(self, seen_at_ns: int) -> Snapshot:
        """Return this snapshot with unknown stats for what changed just before `seen_at_ns`."""
        folders = {
            path: _UNKNOWN if is_racy(mtime, seen_at_ns) else mtime
            for path, mtime in self.folders.items()
        }
        files = SeenFiles.of(self.files).without_racy(seen_at_ns)
        return Snapshot(self.generation, folders, files)

    def amended(self, scopes: Sequence[Scope], newer: Snapshot) -> Snapshot:
        """Return this snapshot with what is below some folders replaced by a newer snapshot."""
        is_deep_in = inside(scope for scope in scopes if scope.is_deep)
        folders = {path: at for path, at in self.folders.items() if not is_deep_in(path)}
        files = SeenFiles.of(self.files).amended(inside(scopes), dict(newer.files.items()))
        return Snapshot(newer.generation, folders | dict(newer.folders), files)

    def save(self, folder: Path) -> None:
        """Replace the snapshot of an index folder."""
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
        """Read the snapshot of an index folder; None if it is missing or damaged."""
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


def take_snapshot(
    generation: str, discovery: Discovery, seen: Mapping[str, SeenFile], seen_at_ns: int
) -> Snapshot:
    """Record the state of the disk that an index generation was made of.

    What changed just before `seen_at_ns` may change once more unseen, so its stat is unknown.
    """
    unreadable = {d.path for d in discovery.diagnostics if d.code == "folder-unreadable"}
    folders = {path: -1 if path in unreadable else at for path, at in discovery.folders}
    return Snapshot(generation, folders, seen).without_racy(seen_at_ns)


def save_snapshot(snapshot: Snapshot, folder: Path) -> None:
    """Save a snapshot in an index folder; if that fails, the next run only takes longer."""
    try:
        snapshot.save(folder)
    except OSError as exc:
        logger.warning("the snapshot of %s was not saved: %s", folder, exc)
