"""The files of a folder: listed, told from changed ones, hashed, and copied as they are hashed.

No link is followed. What is no plain file, or no longer one when it is read, is left out with a
note.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

from skillsearch.errors import WorkspaceError
from skillsearch.execution.files import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_FILE_BYTES,
    MAX_TOTAL_BYTES,
    chunks_of,
    open_plain,
    reason,
)
from skillsearch.files.openat import CREATE_FLAGS, FOLDER_FLAGS, open_file, using
from skillsearch.files.paths import shown

LINKS = {"out": "../../out", "work": "../../work", "inputs": "../../work/inputs"}
"""What lies at the top of a staged skill, in the place of entries of these names."""
VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})
"""Left out: the history of a skill is no part of it, and its settings may hold secrets."""

_SETTLED_NS = 2_000_000_000
"""The coarsest clock of a file system: two changes between its ticks have the same time."""
_GONE = {
    *(errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EINVAL),
    *(errno.EACCES, errno.EPERM),
}
"""How it shows that an entry has gone or changed its kind, or is not for us to read."""

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """What lies in a folder.

    Attributes:
        files: Paths of its plain files, in the order of their bytes.
        folders: Paths of the folders in it, each after the one that it lies in.
        executables: Paths of the files that may be executed.
        state: Kind, permissions, inode, size and times of everything.
        is_settled: Whether an equal ``state`` later means that nothing changed; it does not where
            something changed just before.
        notes: What is left out, a sentence each.
    """

    files: tuple[Parts, ...]
    folders: tuple[Parts, ...]
    executables: frozenset[Parts]
    state: tuple[tuple[Parts, tuple[int | str, ...]], ...]
    is_settled: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StagedCopy:
    """What is known of a skill that was staged, whatever happened to its copy since.

    Attributes:
        source: The skill's own folder, as it was then.
        copy: The copy, as it was left.
        digest: Hash of both.
        notes: What was left out, a sentence each.
    """

    source: Tree
    copy: Tree
    digest: str
    notes: tuple[str, ...]


def list_tree(folder: int) -> Tree:
    """List what lies in an open folder.

    Left out are `VERSION_CONTROL` and, at the top, whatever has the name of one of the `LINKS`.

    Args:
        folder: The open folder.

    Returns:
        What lies in it.

    Raises:
        WorkspaceError: When there is too much in it, or it is too deep.
        OSError: When it cannot be read.
    """
    listing = _Listing()
    listing.add_folder(folder, ())
    return Tree(
        tuple(sorted(listing.files, key=_on_disk)),
        tuple(listing.folders),
        frozenset(listing.executables),
        tuple(sorted(listing.state.items())),
        listing.newest + _SETTLED_NS < time.time_ns(),
        tuple(sorted(listing.notes)),
    )


def digest_tree(folder: int, tree: Tree, into: int | None = None) -> tuple[str, tuple[str, ...]]:
    """Hash the files of an open folder, and copy them in the same reading.

    The hash is the sha256 of each path and the bytes of its file, both followed by a NUL.

    Args:
        folder: The open folder.
        tree: What `list_tree` found in it.
        into: An open folder that holds the same folders and no files, to copy the files to. What
            may be executed then has mode 0555, all else 0444.

    Returns:
        The hash, hexadecimal, and notes on files that are left out.

    Raises:
        WorkspaceError: When a file, or all of them together, are too large.
        OSError: When a file cannot be read or written.
    """
    digest = hashlib.sha256()
    notes: list[str] = []
    owner = os.fstat(folder).st_uid
    total = 0
    for parts in tree.files:
        try:
            fd = open_plain(folder, parts, owner)
        except OSError as exc:
            notes.append(_left_out(parts, exc))
            continue
        with using(fd):
            digest.update(_on_disk(parts) + b"\0")
            for chunk in _read(fd, parts, total, into):
                total += len(chunk)
                digest.update(chunk)
            digest.update(b"\0")
    return digest.hexdigest(), tuple(notes)


class _Listing:
    """What was found so far."""

    def __init__(self) -> None:
        self.files: list[Parts] = []
        self.folders: list[Parts] = []
        self.executables: list[Parts] = []
        self.state: dict[Parts, tuple[int | str, ...]] = {}
        self.notes: list[str] = []
        self.count = 0
        self.newest = 0

    def add_folder(self, fd: int, above: Parts) -> None:
        """Add an open folder and what lies below it."""
        if len(above) > MAX_DEPTH:
            raise WorkspaceError(
                f"{_quoted(above)} lies more than {MAX_DEPTH} folders deep; make the skill flatter."
            )
        self._add_state(above, os.fstat(fd))
        inner: list[Parts] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.name not in VERSION_CONTROL:
                    self._add(fd, (*above, entry.name), inner)
        for parts in inner:
            self._add_inner(fd, parts)

    def _add(self, folder: int, parts: Parts, inner: list[Parts]) -> None:
        """Add one entry of an open folder; where it is a folder, to those still to be entered."""
        try:
            status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            target = os.readlink(parts[-1], dir_fd=folder) if stat.S_ISLNK(status.st_mode) else ""
        except OSError as exc:
            if exc.errno not in _GONE:
                raise
            return
        self._add_state(parts, status, target)
        if len(parts) == 1 and parts[0] in LINKS:
            if target != LINKS[parts[0]]:
                self.notes.append(f"{_quoted(parts)} gives way to a folder of the workspace.")
            return
        self._count()
        if stat.S_ISDIR(status.st_mode):
            inner.append(parts)
        elif stat.S_ISREG(status.st_mode):
            self.files.append(parts)
            if status.st_mode & 0o111:
                self.executables.append(parts)
        else:
            kind = "a link" if target else "a special file"
            self.notes.append(f"{_quoted(parts)} was left out: it is {kind}.")

    def _count(self) -> None:
        """Count an entry, and refuse too many."""
        self.count += 1
        if self.count > MAX_ENTRIES:
            raise WorkspaceError(
                f"The skill has more than {MAX_ENTRIES:,} files and folders; move what no command "
                "needs out of it."
            )

    def _add_inner(self, folder: int, parts: Parts) -> None:
        """Open a folder in an open one and add it; one that cannot be opened is left out."""
        try:
            fd = os.open(parts[-1], FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
        except OSError as exc:
            self.notes.append(_left_out(parts, exc))
            return
        with using(fd):
            self.folders.append(parts)
            self.add_folder(fd, parts)

    def _add_state(self, parts: Parts, status: os.stat_result, target: str = "") -> None:
        """Add what tells an entry from a changed one."""
        self.state[parts] = (
            status.st_mode,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            target,
        )
        self.newest = max(self.newest, status.st_ctime_ns)


def _read(fd: int, parts: Parts, total: int, into: int | None) -> Iterator[bytes]:
    """Yield what an open file holds, and copy it; `total` bytes were read of those before."""
    size = 0
    with (
        nullcontext() if into is None else os.fdopen(open_file(into, parts, CREATE_FLAGS), "wb")
    ) as copy:
        for chunk in chunks_of(fd, MAX_FILE_BYTES + 1):
            size += len(chunk)
            _check_size(parts, size, total + size)
            yield chunk
            if copy is not None:
                copy.write(chunk)
        if copy is not None:
            os.fchmod(copy.fileno(), 0o555 if os.fstat(fd).st_mode & 0o111 else 0o444)


def _check_size(parts: Parts, size: int, total: int) -> None:
    """Refuse a file that is too large, alone or with the others."""
    if size > MAX_FILE_BYTES:
        raise WorkspaceError(
            f"{_quoted(parts)} is larger than {MAX_FILE_BYTES >> 20} MiB, too large for a file of"
            " a skill; give it to the command as an input."
        )
    if total > MAX_TOTAL_BYTES:
        raise WorkspaceError(
            f"The skill is larger than {MAX_TOTAL_BYTES >> 20} MiB; give large files to the "
            "command as inputs."
        )


def _on_disk(parts: Parts) -> bytes:
    """Return a path as the file system has it, which is also what paths are ordered by."""
    return os.fsencode("/".join(parts))


def _quoted(parts: Parts) -> str:
    """Return a path as messages quote it."""
    return shown("/".join(parts))


def _left_out(parts: Parts, error: OSError) -> str:
    """Return the note on what cannot be opened; raise the error where that is no fault of it."""
    if error.errno not in _GONE:
        raise error
    return f"{_quoted(parts)} was left out: {reason(error)}."
