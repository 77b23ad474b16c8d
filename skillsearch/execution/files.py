"""Files that a program may change at any time: opened, read and written within bounds.

What somebody else can write to is opened by `skillsearch.files.openat` alone, and looked at when
it is open: before that it may still become a link, a FIFO or another file.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from skillsearch.errors import UnsafePathError, WorkspaceError
from skillsearch.files.openat import CREATE_FLAGS, open_file
from skillsearch.files.paths import confine, is_utf8, shown

MAX_ENTRIES = 5_000
"""Files, folders and others that are put into a workspace together."""
MAX_DEPTH = 32
MAX_FILE_BYTES = 64 << 20
MAX_TOTAL_BYTES = 256 << 20
MAX_LINES = 20
"""Warnings of one kind of work that are shown in full."""
TEMPORARY = ".skillsearch-"
"""What the names of our temporary files and folders begin with."""

_CHUNK = 1 << 20
_REASONS = {
    errno.EACCES: "it may not be read",
    errno.EISDIR: "a folder has that name",
    errno.ELOOP: "it is a link",
    errno.ENOENT: "there is none",
    errno.ENOTDIR: "a part of it is a link or no folder",
    errno.ENXIO: "it is no plain file",
}


def open_plain(folder: int, parts: Sequence[str], owner: int) -> int:
    """Open a plain file below an open folder.

    Args:
        folder: The open folder, which stays open.
        parts: Names of the folders on the way and of the file, checked for ``..`` before.
        owner: The user whose files these are. A hard link to the file of another is refused:
            nothing else tells it from a file of the folder.

    Returns:
        A file descriptor, which the caller closes.

    Raises:
        OSError: When it cannot be opened without following a link, is no plain file, or is the
            hard link of another user; `reason` says it in words.
    """
    fd = open_file(folder, parts)
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and (status.st_nlink == 1 or status.st_uid == owner):
        return fd
    os.close(fd)
    if stat.S_ISREG(status.st_mode):
        raise OSError(errno.EPERM, "it is a hard link to the file of another user")
    raise OSError(errno.ENXIO, "it is no plain file")


def reason(error: OSError) -> str:
    """Return why a file could not be opened, as the end of a sentence."""
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)


def chunks_of(fd: int, limit: int) -> Iterator[bytes]:
    """Read a file in parts.

    Args:
        fd: The open file, which stays open.
        limit: Bytes to read at most, however it grows meanwhile.

    Yields:
        Its bytes.
    """
    while limit > 0 and (chunk := os.read(fd, min(limit, _CHUNK))):
        limit -= len(chunk)
        yield chunk


def temporary_name() -> str:
    """Return a name that nothing has yet, and that tells what it is."""
    return f"{TEMPORARY}{secrets.token_hex(8)}"


def replace_file(folder: int, name: str, chunks: Iterable[bytes], mode: int) -> None:
    """Write a file in the place of another file or link, at once and whole, or not at all.

    Args:
        folder: The open folder to write in.
        name: Its name there.
        chunks: Its bytes.
        mode: Its permissions.

    Raises:
        OSError: When it cannot be written, or a folder has that name; whatever the chunks raise
            passes too.
    """
    temporary = temporary_name()
    fd = os.open(temporary, CREATE_FLAGS, 0o600, dir_fd=folder)
    try:
        with open(fd, "wb") as file:  # noqa: PTH123
            file.writelines(chunks)
            file.flush()
            os.fchmod(fd, mode)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(OSError):  # where it has its name, nothing is left
            os.unlink(temporary, dir_fd=folder)


def replace_link(folder: int, name: str, target: str) -> None:
    """Make a symbolic link in the place of a file or link, at once.

    Args:
        folder: The open folder to make it in.
        name: Its name there.
        target: What it holds.

    Raises:
        OSError: When it cannot be made, or a folder has that name.
    """
    temporary = temporary_name()
    os.symlink(target, temporary, dir_fd=folder)
    try:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def relative_parts(path: str, what: str) -> tuple[str, ...]:
    """Check a relative path that came from outside, and take it apart.

    Args:
        path: The path; nothing in it is decoded.
        what: What it is the path of, as an error begins.

    Returns:
        Its parts, without empty ones and ``.``.

    Raises:
        WorkspaceError: The path is empty, absolute, or too long, has ``..``, a backslash, control
            characters, or is no Unicode text.
    """
    try:
        parts = confine(path.replace("%", "%25")).parts
    except UnsafePathError as error:
        raise _unsafe(path, what) from error
    if not is_utf8(path):
        raise _unsafe(path, what)
    return parts


def _unsafe(path: str, what: str) -> WorkspaceError:
    """Return the error for a path that is refused."""
    return WorkspaceError(
        f"{what} {shown(path)} cannot be used; write names with '/' between them, none before the"
        " first, without '..', backslashes and control characters."
    )


def bounded(lines: Sequence[str]) -> tuple[str, ...]:
    """Return lines for a reader, of too many the first ones and how many more there are."""
    if len(lines) <= MAX_LINES:
        return tuple(lines)
    return (*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES:,} more")
