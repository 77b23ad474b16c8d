"""How the folders and SKILL.md files below the roots looked when an index was made.

A folder's modification time changes when an entry is added, removed or renamed in it. While all
are as in the snapshot, nothing has to be listed, opened or hashed.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.atomic_files import read_with_digest, write_atomically
from skillsearch.files.openat import UNKNOWN_STAT, is_racy
from skillsearch.skills.discovery import Scope, inside
from skillsearch.types.skills import FileStat

logger = logging.getLogger(__name__)

_FILE = "snapshot.bin"
_ROW = np.dtype(
    [
        *(("size", "<i8"), ("mtime_ns", "<i8"), ("inode", "<u8"), ("ctime_ns", "<i8")),
        *(("hash", "V32"), ("continuation", "V16"), ("kind", "u1")),
    ]
)
"""A file besides its path."""
_INODES = 1 << 64
_HAS_HASH, _IS_INDEXED, _HAS_MORE = 1, 2, 4


class SeenFile(NamedTuple):
    """A SKILL.md as it was seen, with the sha256 of its bytes, empty if it could not be read.

    The `beside_hash` is of the other files read for it: the continuation of a stub, eval files.
    """

    stat: FileStat
    content_hash: str
    is_indexed: bool = True
    beside_hash: str = ""


class SeenFiles(Mapping[str, SeenFile]):
    """Files by path, each once, in rows of 81 bytes besides the path."""

    def __init__(self, paths: list[str], rows: NDArray[Any]) -> None:
        """Take the paths and a row for each; a ValueError unless there are as many."""
        if len(paths) != len(rows):
            raise ValueError(f"{len(rows)} rows are not {len(paths)} files")
        self.paths, self.rows = paths, rows

    @classmethod
    def of(cls, paths: list[str], files: Iterable[SeenFile]) -> SeenFiles:
        """Take paths and their files in the same order."""
        rows = (
            (
                *stat[:2],
                stat.inode % _INODES,
                stat.ctime_ns,
                bytes.fromhex(content_hash) or bytes(32),
                bytes.fromhex(more) or bytes(16),
                _HAS_HASH * bool(content_hash) | _IS_INDEXED * is_indexed | _HAS_MORE * bool(more),
            )
            for stat, content_hash, is_indexed, more in files
        )
        return cls(paths, np.fromiter(rows, _ROW, len(paths)))

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __getitem__(self, path: str) -> SeenFile:
        *stat, digest, more, kind = self.rows[self.places[path]].item()
        return SeenFile(
            FileStat(*stat) if stat[0] != UNKNOWN_STAT.size else UNKNOWN_STAT,
            digest.hex() if kind & _HAS_HASH else "",
            bool(kind & _IS_INDEXED),
            more.hex() if kind & _HAS_MORE else "",
        )

    @cached_property
    def places(self) -> dict[str, int]:
        """The row of each path."""
        return {path: row for row, path in enumerate(self.paths)}

    def changed(self) -> Iterator[str]:
        """Yield the files whose stat differs, deleted ones included."""
        look = os.stat
        columns: Iterator[Any] = (self.rows[name].copy() for name in FileStat._fields)
        stats = (memoryview(column) for column in columns)
        for path, size, mtime_ns, inode, ctime_ns in zip(self.paths, *stats, strict=True):
            try:
                now = look(path)
            except OSError:
                yield path
                continue
            is_same = now.st_ctime_ns == ctime_ns and now.st_mtime_ns == mtime_ns
            if not is_same or now.st_size != size or now.st_ino != inode:
                yield path

    def stats(self) -> Iterator[tuple[str, FileStat]]:
        """Yield the path and the stat of each file."""
        return ((path, self[path].stat) for path in self.paths)

    def joined(self, rows: list[int], newer: SeenFiles) -> SeenFiles:
        """Return the files of the given rows, followed by newer ones."""
        paths = [*(self.paths[at] for at in rows), *newer]
        return SeenFiles(paths, np.concatenate([self.rows[rows], newer.rows]))

    def without_racy(self, seen_at_ns: int) -> SeenFiles:
        """Return these files with unknown stats for what changed just before `seen_at_ns`."""
        rows = self.rows.copy()
        mtimes_ns: Any = rows["mtime_ns"]
        racy = is_racy(mtimes_ns, seen_at_ns)
        for name, value in UNKNOWN_STAT._asdict().items():
            rows[name][racy] = value % _INODES if name == "inode" else value
        return SeenFiles(self.paths, rows)


@dataclass(frozen=True)
class Snapshot:
    """The times of folders and the stats of SKILL.md files below the roots of a generation.

    The `continued` are the other files that were read with them; `examples` is the digest of the
    `ExampleBook` that they were read with.
    """

    generation: str
    folders: Mapping[str, int]
    files: SeenFiles
    continued: SeenFiles = field(default_factory=lambda: SeenFiles.of([], ()))
    examples: str = ""

    def is_current(self) -> bool:
        """Return whether every folder and file still has its recorded stat."""
        return next(chain(self.changed_folders(), self.changed_files()), None) is None

    def changed_folders(self) -> Iterator[str]:
        """Yield the folders whose time differs, deleted ones included."""
        look = os.stat  # twice as fast as Path.stat
        for path, mtime_ns in self.folders.items():
            try:
                is_same = look(path).st_mtime_ns == mtime_ns
            except OSError:
                is_same = False
            if not is_same:
                yield path

    def changed_files(self) -> Iterator[str]:
        """Yield the files whose stat differs, deleted ones included."""
        return chain(self.files.changed(), self.continued.changed())

    def folders_of_skills(self, path: str) -> Iterator[str]:
        """Yield the folders around a file or folder, itself too, that have a SKILL.md, inner first.

        A change there can change what the skill of each says, if that is a stub.
        """
        while path:
            if path in self.with_skill:
                yield path
            path = path.rpartition("/")[0]

    @cached_property
    def with_skill(self) -> frozenset[str]:
        """The folders of the files."""
        return frozenset(path.rpartition("/")[0] for path in self.files)

    def without_racy(self, seen_at_ns: int) -> Snapshot:
        """Return this snapshot with unknown stats for what changed just before `seen_at_ns`."""
        unknown, times = UNKNOWN_STAT.mtime_ns, self.folders.items()
        folders = {path: unknown if is_racy(at, seen_at_ns) else at for path, at in times}
        files, more = (seen.without_racy(seen_at_ns) for seen in (self.files, self.continued))
        return replace(self, folders=folders, files=files, continued=more)

    def amended(self, scopes: Sequence[Scope], newer: Snapshot) -> Snapshot:
        """Return this snapshot with all that is inside the scopes replaced by a newer snapshot."""
        is_deep_in = inside(scope for scope in scopes if scope.is_deep)
        folders = {path: at for path, at in self.folders.items() if not is_deep_in(path)}
        is_gone = inside(scopes)
        paths = self.files.paths
        replaced = newer.files.places
        rows = [at for at, path in enumerate(paths) if path not in replaced and not is_gone(path)]
        files = self.files.joined(rows, newer.files)
        left = {path.rpartition("/")[0] for path in files.paths[: len(rows)]}
        owners = [next(self.folders_of_skills(path), "") for path in self.continued]
        rows = [at for at, owner in enumerate(owners) if owner in left]
        continued = self.continued.joined(rows, newer.continued)
        folders |= dict(newer.folders)
        return Snapshot(newer.generation, folders, files, continued, newer.examples)

    def save(self, folder: Path) -> None:
        """Replace the snapshot of an index folder; if that fails, the next run takes longer."""
        names = map("\0".join, (self.folders, self.files, self.continued))
        parts = (
            *(joined.encode("utf-8", "surrogatepass") for joined in names),
            np.array(list(self.folders.values()), "<i8").tobytes(),
            self.files.rows.tobytes(),
            self.continued.rows.tobytes(),
        )
        sizes = list(map(len, parts))
        header = {"generation": self.generation, "examples": self.examples, "sizes": sizes}
        data = b"".join((json.dumps(header).encode(), b"\n", *parts))
        digest = xxhash.xxh3_128_hexdigest(data).encode()
        try:
            write_atomically(folder / _FILE, digest + b"\n" + data, sync=False)
        except OSError as exc:
            logger.warning("the snapshot of %s was not saved: %s", folder, exc)

    @classmethod
    def load(cls, folder: Path, generation: str | None = None) -> Snapshot | None:
        """Read the snapshot of an index folder; None if there is none, or of another generation."""
        try:
            first, _, rest = read_with_digest(folder / _FILE).partition(b"\n")
            header = json.loads(first)
            name, examples = str(header["generation"]), str(header["examples"])
            if generation not in (None, name):
                return None
            folders, *paths, mtimes, rows, more_rows = map(BytesIO(rest).read, header["sizes"])
            times = np.frombuffer(mtimes, "<i8").tolist()
            seen = zip(map(_split, paths), (rows, more_rows), strict=True)
            files, more = (SeenFiles(names, np.frombuffer(some, _ROW)) for names, some in seen)
            stats = dict(zip(_split(folders), times, strict=True))
            return cls(name, stats, files, more, examples)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None


def _split(joined: bytes) -> list[str]:
    return joined.decode("utf-8", "surrogatepass").split("\0") if joined else []
