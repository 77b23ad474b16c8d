"""Files that a program may change at any time: opened, read, written and removed within bounds.

Anything that others can write to is opened only by `skillsearch.files.openat`, and checked once it
is open: before that it may still turn into a link, a FIFO or another file. Removing a folder never
follows a link or enters a mount. Folders that are not empty are moved up before they are entered,
so depth costs neither open files nor recursion, no path gets too long, and a full disk is no
obstacle.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from skillsearch.errors import UnsafePathError, WorkspaceError
from skillsearch.files.openat import CREATE_FLAGS, FOLDER_FLAGS, open_file, using
from skillsearch.files.paths import confine, is_utf8, shown

MAX_LINES = 20
"""Warnings of one kind of work that are shown in full."""
TEMPORARY = ".skillsearch-"
"""Prefix of our temporary files and folders."""

_CHUNK = 1 << 20
_INFO_BYTES = 512
_REASONS = {
    errno.EACCES: "it may not be read",
    errno.EISDIR: "a folder has that name",
    errno.ELOOP: "it is a link",
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "a part of it is a link or not a folder",
    errno.ENXIO: "it is not a plain file",
}


class CopyLimits(NamedTuple):
    """Limits on everything that is copied into a workspace at once.

    Attributes:
        entries: Files, folders and others.
        depth: Folders within folders.
    """

    entries: int = 5_000
    depth: int = 32
    file_bytes: int = 64 << 20
    total_bytes: int = 256 << 20


COPY_LIMITS = CopyLimits()


def open_plain(folder: int, parts: Sequence[str], owner: int) -> int:
    """Open a plain file below an open folder, and return its descriptor.

    Raises an `OSError` if that would follow a link, if it is not a plain file, or if it is a hard
    link to a file of another user than the owner, which is otherwise indistinguishable from a file
    of the folder. The parts must have been checked for ``..``.
    """
    fd = open_file(folder, parts)
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and (status.st_nlink == 1 or status.st_uid == owner):
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
    """Return a recognizable name that is not taken."""
    return f"{TEMPORARY}{secrets.token_hex(8)}"


def replace_file(folder: int, name: str, chunks: Iterable[bytes], mode: int) -> None:
    """Write a file in place of another file or link of an open folder, atomically.

    Raises an `OSError` if it cannot be written or a folder has that name; anything that the chunks
    raise passes through.
    """
    with _replacing(folder, name) as temporary:
        fd = os.open(temporary, CREATE_FLAGS, 0o600, dir_fd=folder)
        with open(fd, "wb") as file:  # noqa: PTH123
            file.writelines(chunks)
            file.flush()
            os.fchmod(fd, mode)


def replace_link(folder: int, name: str, target: str) -> None:
    """Make a symbolic link in place of a file or link of an open folder, atomically."""
    with _replacing(folder, name) as temporary:
        os.symlink(target, temporary, dir_fd=folder)


@contextmanager
def _replacing(folder: int, name: str) -> Iterator[str]:
    """Yield a temporary name for a file that then takes the name, or is removed."""
    temporary = temporary_name()
    try:
        yield temporary
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(OSError):  # if it was renamed, nothing is left
            os.unlink(temporary, dir_fd=folder)


def relative_parts(path: str, what: str) -> tuple[str, ...]:
    """Return the parts of an untrusted relative path, without empty ones and ``.``.

    Nothing in it is decoded. A `WorkspaceError` that begins with `what` refuses paths that are
    empty, absolute or too long, or have ``..``, a backslash, control characters or invalid Unicode.
    """
    try:
        parts = confine(path.replace("%", "%25")).parts
        if is_utf8(path):
            return parts
        cause = None
    except UnsafePathError as error:
        cause = error
    raise WorkspaceError(
        f"{what} {shown(path)} cannot be used; write names with '/' between them, none before the"
        " first, without '..', backslashes and control characters."
    ) from cause


def bounded(lines: Sequence[str]) -> tuple[str, ...]:
    """Return lines for a reader; of too many, the first ones and how many more there are."""
    if len(lines) <= MAX_LINES:
        return tuple(lines)
    return (*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES:,} more")


def remove_tree(parent: int, name: str) -> bool:
    """Remove a file, a link, or a folder with its contents; return whether the name is free."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError:
        try:
            with using(open_owned(parent, name)) as top:
                _empty(top)
                os.rmdir(name, dir_fd=parent)
        except OSError:
            return False
    return True


def open_owned(parent: int, name: str) -> int:
    """Open a folder that a program may have locked, and make it accessible to its owner again.

    Raises an `OSError` if it is missing, a link, not a folder or another user's, or if something
    is mounted on it: that is not part of the workspace, whoever mounted it.
    """
    flags = FOLDER_FLAGS | os.O_NOFOLLOW
    try:
        fd = os.open(name, flags, dir_fd=parent)
    except PermissionError:
        _unlock(parent, name)
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
    """Return an identifier of the mount that an open folder is on."""
    try:
        info = os.open(f"/proc/self/fdinfo/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return os.fstat(fd).st_dev  # not on Linux
    with using(info):
        return os.read(info, _INFO_BYTES).partition(b"mnt_id:")[2].partition(b"\n")[0]


def _unlock(parent: int, name: str) -> None:
    """Let the owner into a folder that cannot be opened, and never into one behind a link."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
        return
    # Linux changes no mode without following links, except through a handle on the folder.
    with using(os.open(name, os.O_PATH | FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=parent)) as handle:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101


def _empty(top: int) -> None:
    """Remove the contents of a folder, as far as that is possible."""
    waiting = _remove_files(top)
    while waiting:
        folder = waiting.pop()
        with suppress(OSError):
            with using(open_owned(top, folder)) as fd:
                waiting += _move(fd, _remove_files(fd), top)
            os.rmdir(folder, dir_fd=top)


def _remove_files(folder: int) -> list[str]:
    """Remove everything but folders that are not empty, and return the names of these."""
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    left: list[str] = []
    for name, is_folder in entries:
        try:
            (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
        except OSError:
            left += [name] if is_folder else []
    return left


def _move(folder: int, names: Iterable[str], top: int) -> list[str]:
    """Move folders up to another one, and return the new names of those that could be moved."""
    moved: list[str] = []
    for old in names:
        with suppress(OSError):
            new = secrets.token_hex(12)
            os.close(open_owned(folder, old))  # a folder that is read-only cannot be moved
            os.rename(old, new, src_dir_fd=folder, dst_dir_fd=top)
            moved.append(new)
    return moved
