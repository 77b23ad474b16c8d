"""Reading SKILL.md files for the index, and how they and their folders looked when it was made.

A folder's modification time changes when an entry is added, removed or renamed in it. While all
are as in the snapshot, nothing has to be listed, opened or hashed.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from skillsearch.errors import ParseError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.atomic_files import read_with_digest, write_atomically
from skillsearch.files.openat import UNKNOWN_STAT, is_racy
from skillsearch.skills.discovery import Scope, inside
from skillsearch.skills.example_requests import EvalFiles, ExampleBook, beside_hash
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.skills.stubs import Continuation, continuation_in, continuation_of, digest_of
from skillsearch.types.skills import Diagnostic, FileStat, Root, Skill, SkillFile

logger = logging.getLogger(__name__)

NO_EXAMPLES = ExampleBook.empty()

_MOST_KEPT = 1_000
"""Skills that a `FileReader` keeps: enough for a delta segment, too few to fill the memory."""
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


class ReadFile(NamedTuple):
    """A SKILL.md that was read; `skill` is None if it cannot be indexed.

    Other `files` of the skill were read too: a stub's continuation, eval files.
    """

    seen: SeenFile
    skill: Skill | None
    diagnostics: Sequence[Diagnostic]
    files: Sequence[tuple[str, FileStat]] = ()


def read_for_index(
    file: SkillFile, book: ExampleBook = NO_EXAMPLES, roots: Iterable[Path] = ()
) -> ReadFile:
    """Read a SKILL.md, a stub with its continuation, and the examples that a book has for it.

    Problems with it become diagnostics. A link may lead into its root, or into one of the `roots`.
    """
    path = str(file.path)
    seen = SeenFile(file.stat, "", is_indexed=False)
    try:
        data, status = read_skill_md(file.path, (file.root.path, *roots))
        seen = SeenFile(FileStat.of(status), content_hash(data), is_indexed=False)
        skill, diagnostics, files = parse_file(file, data, book)
    except ParseError as exc:
        if exc.code == "file-unreadable":
            # Permissions do not change the stat, so an unreadable file is tried again each time.
            seen = seen._replace(stat=UNKNOWN_STAT)
        return ReadFile(seen, None, [Diagnostic(exc.code, exc.severity, str(exc), path, exc.line)])
    beside = beside_hash(digest_of(skill.continuation), skill.evals_hash)
    return ReadFile(seen._replace(is_indexed=True, beside_hash=beside), skill, diagnostics, files)


def parse_file(
    file: SkillFile, data: bytes, book: ExampleBook
) -> tuple[Skill, Sequence[Diagnostic], Sequence[tuple[str, FileStat]]]:
    """Parse the bytes of a SKILL.md, and read the files indexed with it; may raise a ParseError.

    Returns also the diagnostics, and the stat of each other file read for it.
    """
    # Importing the parser takes a tenth of a run that finds nothing changed.
    from skillsearch.skills.parser import parse_skill

    location = {"path": file.path, "root": file.root.path}
    skill, diagnostics = parse_skill(data, doc_id=file.doc_id, **location)
    more, evals = _beside(file, data, book)
    examples, text = book.with_own(skill.metadata, evals), more.text if more else None
    skill = replace(skill, examples=examples, evals_hash=evals.digest, continuation=text)
    return skill, diagnostics, (*(more.files if more else ()), *evals.stats)


def hash_beside(file: SkillFile, data: bytes, book: ExampleBook) -> str:
    """Return `SeenFile.beside_hash` for the bytes of a SKILL.md."""
    return _hash_of(*_beside(file, data, book))


def _beside(
    file: SkillFile, data: bytes, book: ExampleBook
) -> tuple[Continuation | None, EvalFiles]:
    """Read the other files of its folder that are indexed with a SKILL.md."""
    evals = EvalFiles.of(file.path.parent) if book.own else EvalFiles()
    return continuation_of(file.path, data), evals


def _hash_of(more: Continuation | None, evals: EvalFiles) -> str:
    return beside_hash(digest_of(more.text if more else None), evals.digest)


def is_same(file: SkillFile, seen: SeenFile, *, verify: bool, roots: Iterable[Path] = ()) -> bool:
    """Return whether a file has the bytes it had; `verify` hashes it whatever its stat."""
    if seen.stat == file.stat and not verify:
        return True
    if seen.stat != UNKNOWN_STAT and seen.stat.size != file.stat.size:
        return False
    with suppress(ParseError):
        data, _ = read_skill_md(file.path, (file.root.path, *roots))
        return content_hash(data) == seen.content_hash
    return False


class FileReader:
    """Reads files, and keeps how they looked, by path, and the first skills.

    The `continued` are the other files that were read with a SKILL.md, by its path.
    """

    def __init__(self, book: ExampleBook = NO_EXAMPLES, roots: Sequence[Path] = ()) -> None:
        """Take the examples that skills get, and the folders that links may lead into."""
        self._book, self.roots = book, roots
        self.files: dict[str, ReadFile] = {}
        self.continued: dict[str, Sequence[tuple[str, FileStat]]] = {}

    def read(self, file: SkillFile) -> Skill | None:
        """Return the skill of a file, None if it cannot be indexed."""
        path = str(file.path)
        read = self.files.get(path)
        if read is None or (read.skill is None and read.seen.is_indexed):
            read = read_for_index(file, self._book, self.roots)
            is_kept = len(self.files) < _MOST_KEPT
            self.files[path] = read if is_kept else read._replace(skill=None)
            self.continued[path] = read.files
        return read.skill

    def continues(self, file: SkillFile, seen: SeenFile) -> bool:
        """Return whether the files read with an unchanged SKILL.md are unchanged too."""
        evals = EvalFiles.of(file.path.parent) if self._book.own else EvalFiles()
        more = None
        if seen.beside_hash and _hash_of(None, evals) != seen.beside_hash:
            more = continuation_in(file.path.parent)  # as far as it can be told, it is a stub
        self.continued[str(file.path)] = (*(more.files if more else ()), *evals.stats)
        return _hash_of(more, evals) == seen.beside_hash


def sorted_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sort diagnostics by path and drop duplicates."""
    return tuple(sorted(set(diagnostics), key=lambda d: (d.path, d.line or 0, d.code, d.message)))


def empty_roots(roots: Iterable[Root]) -> Iterator[Diagnostic]:
    """Yield a warning of each root, which has no skills."""
    message = "No SKILL.md lies below this root; check the path."
    return (Diagnostic("root-empty", "warning", message, str(root.path)) for root in roots)


def skipped(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return why skills are lost: of each file or folder that could not be indexed, one error."""
    errors = (d for d in diagnostics if d.severity == "error" and not d.code.startswith("root-"))
    return list({error.path: error for error in errors}.values())


def count_skipped(diagnostics: Iterable[Diagnostic]) -> int:
    """Count the skills that are lost."""
    return len(skipped(diagnostics))


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
