"""Copying files and folders into a workspace, within one budget and never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from skillsearch.errors import WorkspaceError
from skillsearch.execution.files import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_FILE_BYTES,
    MAX_TOTAL_BYTES,
    chunks_of,
    open_plain,
    reason,
    replace_file,
)
from skillsearch.execution.media_types import HEAD_BYTES
from skillsearch.files.openat import open_folder, using
from skillsearch.files.paths import shown

_MODE = 0o644


class Copier:
    """Copies into open folders, until the budget is used up.

    Attributes:
        notes: What was left out of folders, a sentence each.
    """

    def __init__(self) -> None:
        """Begin with a whole budget."""
        self.notes: list[str] = []
        self._entries_left = MAX_ENTRIES
        self._bytes_left = MAX_TOTAL_BYTES

    def put_file(self, fd: int, folder: int, name: str, path: str) -> tuple[int, bytes]:
        """Copy an open file, with its permission to be executed.

        Args:
            fd: The open file.
            folder: The open folder to copy it to.
            name: Its name there; a file or link of that name is replaced.
            path: Where it comes from, as messages quote it.

        Returns:
            How many bytes it has, and the first of them.

        Raises:
            WorkspaceError: When the budget is used up.
            OSError: When it cannot be read or written, or a folder has that name.
        """
        is_executable = os.fstat(fd).st_mode & stat.S_IXUSR
        return self._put(
            chunks_of(fd, MAX_FILE_BYTES + 1), folder, name, path, 0o755 if is_executable else _MODE
        )

    def put_bytes(self, data: bytes, folder: int, name: str, path: str) -> None:
        """Write bytes as `put_file` writes those of a file."""
        self._put(iter((data,)), folder, name, path, _MODE)

    def put_folder(self, source: int, target: int, path: str, *, depth: int = 0) -> int:
        """Copy what lies in an open folder into another one, over files of the same names there.

        Links, special files and what cannot be read are left out with a note.

        Args:
            source: The open folder.
            target: The open folder to copy to, not below it.
            path: Where it comes from, as messages quote it.
            depth: How many folders were entered to come here.

        Returns:
            How many bytes were copied.

        Raises:
            WorkspaceError: When the budget is used up, or the folder is too deep.
            OSError: When the folder cannot be read, or the copy not be written.
        """
        if depth > MAX_DEPTH:
            raise WorkspaceError(
                f"{shown(path)} lies more than {MAX_DEPTH} folders deep; make an archive of it, or"
                " ask for less."
            )
        owner = os.fstat(source).st_uid
        total = 0
        for name, is_folder in self._entries(source, path):
            inner = f"{path}/{name}"
            try:
                fd = (
                    open_folder(source, (name,))
                    if is_folder
                    else open_plain(source, (name,), owner)
                )
            except OSError as error:
                self.notes.append(f"{shown(inner)} was left out: {reason(error)}.")
                continue
            with using(fd):
                if is_folder:
                    with using(open_folder(target, (name,), make=True)) as into:
                        total += self.put_folder(fd, into, inner, depth=depth + 1)
                else:
                    total += self.put_file(fd, target, name, inner)[0]
        return total

    def _entries(self, folder: int, path: str) -> list[tuple[str, bool]]:
        """Return the names in a folder, sorted, and which may be folders."""
        found: list[tuple[str, bool]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self._entries_left -= 1
                if self._entries_left < 0:
                    raise WorkspaceError(
                        f"There are more than {MAX_ENTRIES:,} files and folders to copy, in"
                        f" {shown(path)} and before; make an archive of them, or ask for less."
                    )
                found.append((entry.name, entry.is_dir(follow_symlinks=False)))
        return sorted(found)

    def _put(
        self, chunks: Iterator[bytes], folder: int, name: str, path: str, mode: int
    ) -> tuple[int, bytes]:
        """Write a file from chunks, and return its size and its beginning."""
        head, size = b"", 0

        def counted() -> Iterator[bytes]:
            nonlocal head, size
            for chunk in chunks:
                if len(head) < HEAD_BYTES:
                    head += chunk[: HEAD_BYTES - len(head)]
                size += len(chunk)
                self._spend(len(chunk), size, path)
                yield chunk

        replace_file(folder, name, counted(), mode)
        return size, head

    def _spend(self, count: int, size: int, path: str) -> None:
        """Take bytes from the budget."""
        self._bytes_left -= count
        if size > MAX_FILE_BYTES:
            raise WorkspaceError(
                f"{shown(path)} is larger than {MAX_FILE_BYTES:,} bytes; split it up."
            )
        if self._bytes_left < 0:
            raise WorkspaceError(
                f"The inputs up to {shown(path)} are larger than {MAX_TOTAL_BYTES:,} bytes"
                " together; ask for less."
            )
