"""Removing a folder whatever a program left in it, without ever following a link or a mount.

Folders that are not empty are moved up before they are entered, so depth costs neither open files
nor recursion, and no path gets too long. Nothing here needs space on the disk that may be full.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress

from skillsearch.files.openat import FOLDER_FLAGS

_INFO_BYTES = 512


def remove_tree(parent: int, name: str) -> bool:
    """Remove a file, a link, or a folder with all that is in it.

    Args:
        parent: The open folder that it lies in.
        name: Its name there.

    Returns:
        Whether nothing has that name any more.
    """
    try:
        os.unlink(name, dir_fd=parent)
        return True
    except FileNotFoundError:
        return True
    except OSError:
        return _remove_folder(parent, name)


def open_owned(parent: int, name: str) -> int:
    """Open a folder that a program may have locked, and let its owner read and write it again.

    Args:
        parent: The open folder that it lies in.
        name: Its name there.

    Returns:
        A file descriptor, which the caller closes.

    Raises:
        OSError: When it is missing, a link, no folder, another user's, or something is mounted on
            it: that is no part of the workspace, whoever mounted it there.
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
    """Return what tells the mount of an open folder from others."""
    try:
        info = os.open(f"/proc/self/fdinfo/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return os.fstat(fd).st_dev  # elsewhere than on Linux
    try:
        return os.read(info, _INFO_BYTES).partition(b"mnt_id:")[2].partition(b"\n")[0]
    finally:
        os.close(info)


def _unlock(parent: int, name: str) -> None:
    """Let the owner into a folder that cannot be opened, and never into one behind a link."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
        return
    # Linux changes no mode without following links, but it does through a handle on the folder.
    handle = os.open(name, os.O_PATH | FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101
    finally:
        os.close(handle)


def _remove_folder(parent: int, name: str) -> bool:
    """Remove a folder, and say whether that worked."""
    try:
        top = open_owned(parent, name)
    except OSError:
        return False
    try:
        _empty(top)
        os.rmdir(name, dir_fd=parent)
    except OSError:
        return False
    finally:
        os.close(top)
    return True


def _empty(top: int) -> None:
    """Remove what is in a folder, as far as that is possible."""
    mark, count = secrets.token_hex(8), 0
    waiting = _remove_files(top)
    while waiting:
        folder = waiting.pop()
        with suppress(OSError):
            fd = open_owned(top, folder)
            try:
                inner = _remove_files(fd)
                moved = [f"{mark}_{count + number}" for number in range(len(inner))]
                count += len(inner)
                waiting += _move(fd, zip(inner, moved, strict=True), top)
            finally:
                os.close(fd)
            os.rmdir(folder, dir_fd=top)


def _remove_files(folder: int) -> list[str]:
    """Remove all but the folders that are not empty, and return the names of these."""
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    left: list[str] = []
    for name, is_folder in entries:
        try:
            (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
        except OSError:
            left += [name] if is_folder else []
    return left


def _move(folder: int, names: Iterable[tuple[str, str]], top: int) -> list[str]:
    """Move folders up to another one, and return the new names of those that could be."""
    moved: list[str] = []
    for old, new in names:
        with suppress(OSError):
            os.close(open_owned(folder, old))  # a folder that is read-only cannot be moved
            os.rename(old, new, src_dir_fd=folder, dst_dir_fd=top)
            moved.append(new)
    return moved
