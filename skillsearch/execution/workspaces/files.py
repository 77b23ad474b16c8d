"""Files that a program may change at any time: opened, read, written and removed within bounds.

All are opened by `skillsearch.files.openat` and checked once open: before, they may still change.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

from skillsearch import errors
from skillsearch.errors import UnsafePathError, WorkspaceError
from skillsearch.files.openat import CREATE_FLAGS, FOLDER_FLAGS, is_foreign_link, open_file, using
from skillsearch.files.paths import confine, is_utf8, shown

MAX_LINES = 20  # warnings of one kind of work that are shown in full
TEMPORARY = ".skillsearch-"  # begins the names of our temporary files and folders

_CHUNK = 1 << 20
_INFO_BYTES = 512
_MAX_NAME_BYTES = 100
_REASONS = {
    errno.EACCES: "it may not be read",
    errno.EISDIR: "a folder has that name",
    errno.ELOOP: "it is a link",
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "a part of it is a link or not a folder",
    errno.ENXIO: "it is not a plain file",
}
_REFUSALS = {
    "depth": "{path} lies more than {limit} folders deep; make an archive of it.",
    "entries": "There are more than {limit:,} files and folders to copy, up to {path}; leave some"
    " out, or make an archive of them.",
    "file_bytes": "{path} is larger than {limit:,} bytes; split it up.",
    "total_bytes": "The files up to {path} are larger than {limit:,} bytes together; leave some"
    " out.",
}


class CopyLimits(NamedTuple):
    """Limits on everything that is copied into a workspace at once."""

    entries: int = 5_000
    depth: int = 32
    file_bytes: int = 64 << 20
    total_bytes: int = 256 << 20


COPY_LIMITS = CopyLimits()
explained = partial(errors.explained, WorkspaceError)


class Budget:
    """Counts of what was copied, too much of which raises a `WorkspaceError`, and notes."""

    def __init__(self, limits: CopyLimits = COPY_LIMITS) -> None:
        """Begin with nothing copied."""
        self.limits = limits
        self.entries = self.total_bytes = 0
        self.notes: list[str] = []  # on what was left out

    def note(self, *notes: str) -> None:
        """Add notes on what was left out."""
        self.notes += notes

    def take_entry(self, path: str) -> None:
        """Count an entry of a folder; a WorkspaceError if it is one too many."""
        self.entries += 1
        self.check("entries", self.entries, path)

    def taken(self, file: int | bytes, path: str) -> Iterator[bytes]:
        """Yield the contents of a file, given or open, as far as they may be copied."""
        size = 0
        most = self.limits.file_bytes + 1
        for chunk in (file,) if isinstance(file, bytes) else chunks_of(file, most):
            size += len(chunk)
            self.total_bytes += len(chunk)
            self.check("file_bytes", size, path)
            self.check("total_bytes", self.total_bytes, path)
            yield chunk

    def check(self, name: str, used: int, path: str) -> None:
        """Raise a WorkspaceError with the message of a limit if more is used."""
        limit: int = getattr(self.limits, name)
        if used > limit:
            raise WorkspaceError(_REFUSALS[name].format(path=shown(path), limit=limit))


def open_plain(folder: int, parts: Sequence[str], owner: int) -> int:
    """Open a plain file below an open folder, never through a link; the parts have no ``..``.

    A hard link to a file of another user than the owner raises an `OSError` too: nothing else tells
    it from a file of the folder.
    """
    fd = open_file(folder, parts)
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and not is_foreign_link(status, owner):
        return fd
    os.close(fd)
    if stat.S_ISREG(status.st_mode):
        raise OSError(errno.EPERM, "it is a hard link to the file of another user")
    raise OSError(errno.ENXIO, "it is not a plain file")


def reason(error: OSError) -> str:
    """Return why a file could not be opened, as the end of a sentence."""
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)


def chunks_of(fd: int, limit: int) -> Iterator[bytes]:
    """Yield the bytes of an open file, at most `limit`, however much it grows meanwhile."""
    while limit > 0 and (chunk := os.read(fd, min(limit, _CHUNK))):
        limit -= len(chunk)
        yield chunk


def temporary_name() -> str:
    """Return a name that is not taken."""
    return f"{TEMPORARY}{secrets.token_hex(8)}"


def distinct_name(safe: str, name: str) -> str:
    """Return the safe part of a name, with a hash of the name if that is not all or too long."""
    if safe and safe == name and len(safe.encode()) <= _MAX_NAME_BYTES:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    shortened = safe.encode()[: _MAX_NAME_BYTES - 9].decode(errors="ignore")
    return f"{shortened}-{digest[:8]}"


def replace_file(folder: int, name: str, chunks: Iterable[bytes], mode: int) -> None:
    """Write a file in place of a file or link of an open folder, atomically."""
    with replacing(folder, name) as temporary:
        fd = os.open(temporary, CREATE_FLAGS, 0o600, dir_fd=folder)
        with open(fd, "wb") as file:  # noqa: PTH123
            file.writelines(chunks)
            file.flush()
            os.fchmod(fd, mode)


@contextmanager
def replacing(folder: int, name: str) -> Iterator[str]:
    """Yield a temporary name for a file or link that then takes the name, or is removed."""
    temporary = temporary_name()
    try:
        yield temporary
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(OSError):  # if it was renamed, nothing is left
            os.unlink(temporary, dir_fd=folder)


def relative_parts(path: str, what: str) -> tuple[str, ...]:
    """Return the parts of an untrusted relative path, without empty ones and ``.``, not decoded.

    A `WorkspaceError` that begins with `what` refuses what `confine` does, and invalid Unicode.
    """
    try:
        if not is_utf8(path) or "\\" in path:
            raise UnsafePathError("it is not UTF-8, or of Windows")
        return confine(path.replace("%", "%25")).parts
    except UnsafePathError as error:
        raise WorkspaceError(
            f"{what} {shown(path)} cannot be used; write names with '/' between them, none before"
            " the first, without '..', backslashes and control characters."
        ) from error


def bounded(lines: Sequence[str]) -> tuple[str, ...]:
    """Return lines for a reader; of too many, the first ones and how many more there are."""
    if len(lines) <= MAX_LINES:
        return tuple(lines)
    return (*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES:,} more")


def remove_tree(parent: int, name: str) -> bool:
    """Remove a file, a link, or a folder with its contents; return whether the name is free.

    No link is followed and no mount entered. Folders that are not empty are moved up before they
    are entered: depth costs neither open files nor recursion, and no path gets too long.
    """
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError:
        try:
            with using(open_owned(parent, name)) as top:
                waiting = _remove_files(top)
                while waiting:
                    folder = waiting.pop()
                    with suppress(OSError):
                        with using(open_owned(top, folder)) as fd:
                            waiting += _move(fd, _remove_files(fd), top)
                        os.rmdir(folder, dir_fd=top)
                os.rmdir(name, dir_fd=parent)
        except OSError:
            return False
    return True


def open_owned(parent: int, name: str) -> int:
    """Open a folder that a program may have locked, and make it accessible to its owner again.

    Raises an `OSError` if it is missing, a link, not a folder or another user's, or a mount.
    """
    flags = FOLDER_FLAGS | os.O_NOFOLLOW
    try:
        fd = os.open(name, flags, dir_fd=parent)
    except PermissionError:
        if hasattr(os, "O_PATH"):  # Linux changes no mode without following links but like this
            with using(os.open(name, os.O_PATH | flags, dir_fd=parent)) as handle:
                os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101
        else:
            os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
        fd = os.open(name, flags, dir_fd=parent)
    try:
        if _mount(fd) != _mount(parent):
            raise OSError(errno.EXDEV, "something is mounted on it")
        os.fchmod(fd, 0o700)
    except OSError:
        os.close(fd)
        raise
    return fd


def _mount(fd: int) -> bytes | int:
    try:
        info = os.open(f"/proc/self/fdinfo/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return os.fstat(fd).st_dev  # not on Linux
    with using(info):
        return os.read(info, _INFO_BYTES).partition(b"mnt_id:")[2].partition(b"\n")[0]


def _remove_files(folder: int) -> list[str]:
    """Remove everything but folders that are not empty, and return the names of these."""
    with os.scandir(folder) as scanned:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scanned]
    left: list[str] = []
    for name, is_folder in entries:
        try:
            (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
        except OSError:
            left += [name] if is_folder else []
    return left


def _move(folder: int, names: Iterable[str], top: int) -> Iterator[str]:
    """Move folders up to another one, and yield the new names of those that could be moved."""
    for old in names:
        with suppress(OSError):
            new = secrets.token_hex(12)
            os.close(open_owned(folder, old))  # a folder that is read-only cannot be moved
            os.rename(old, new, src_dir_fd=folder, dst_dir_fd=top)
            yield new
