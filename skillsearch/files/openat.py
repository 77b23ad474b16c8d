"""Open files below a folder, never through a link, and tell by their stat whether they changed.

Each part is opened below the one before, so that nobody can swap a checked folder for a link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from skillsearch.types.skills import FileStat

READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""For a file whose kind is not known yet: a FIFO does not block."""
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""For a folder that is trusted; with `os.O_NOFOLLOW` for one that is not."""
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""For a file that must not be there yet."""
LOCK_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""For a file that is there to be locked."""
RACY_NS = 2_000_000_000
"""File systems' clocks tick every few milliseconds, some only every two seconds."""


@contextmanager
def using(fd: int) -> Iterator[int]:
    """Close a file descriptor on exit."""
    try:
        yield fd
    finally:
        os.close(fd)


def is_folder(path: str | Path) -> bool:
    """Return whether a path is a folder; a name that is too long for a file system is none."""
    return os.path.isdir(path)  # noqa: PTH112  # Path.is_dir raises an OSError for such a name


def is_file(path: str | Path) -> bool:
    """Return whether a path is a regular file, or a link to one, as `is_folder` does."""
    return os.path.isfile(path)  # noqa: PTH113


def open_folder(folder: Path | int, parts: Sequence[str] = (), *, make: bool = False) -> int:
    """Open a folder below a trusted one, which stays open; the caller closes the descriptor.

    `parts` are the folders on the way, already checked for ``..``; with `make`, missing ones are
    created. A part that is a link raises `OSError` with ``ELOOP`` or ``ENOTDIR``.
    """
    fd = os.dup(folder) if isinstance(folder, int) else os.open(folder, FOLDER_FLAGS)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=fd)
            inner = os.open(part, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
    except OSError:
        os.close(fd)
        raise
    return fd


def open_file(folder: Path | int, parts: Sequence[str], flags: int = READ_FLAGS) -> int:
    """Open a file of any kind below a trusted folder; the caller looks at its kind and closes it.

    `parts` are as for `open_folder`, with the file's name; `flags` must include `os.O_NOFOLLOW`.
    """
    with using(open_folder(folder, parts[:-1])) as inner:
        return os.open(parts[-1], flags, 0o666, dir_fd=inner)


def read_regular(path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """Read a file as `read_opened` does; a link may lead to it."""
    with using(os.open(path, READ_FLAGS & ~os.O_NOFOLLOW)) as fd:
        return read_opened(fd, limit)


def read_opened(fd: int, limit: int) -> tuple[bytes, os.stat_result]:
    """Read an open regular file whole; ``EINVAL`` for another kind, ``EFBIG`` above the limit."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if status.st_size <= limit:
        data = bytearray()
        while len(data) <= limit and (part := os.read(fd, 1 << 20)):
            data += part
        if len(data) <= limit:
            return bytes(data), status
    raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes")


UNKNOWN_STAT = FileStat(-1, -1, -1, -1)
"""Equal to the stat of no file, so that the file is looked at again."""


def is_foreign_link(file: os.stat_result, owner: int) -> bool:
    """Return whether a file has several names, and another owner than its folder.

    Somebody may have linked another user's file into the folder; installers link their own.
    """
    return file.st_nlink > 1 and file.st_uid != owner


def is_racy(mtime_ns: int, seen_at_ns: int, within_ns: int = RACY_NS) -> bool:
    """Return whether a later change may share the timestamp of one seen at `seen_at_ns`."""
    return abs(mtime_ns - seen_at_ns) <= within_ns
