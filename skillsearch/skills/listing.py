"""The files of a skill, listed: bounded, sorted, and never through a link."""

from __future__ import annotations

import os
from pathlib import Path

from skillsearch.errors import SkillError
from skillsearch.files.openat import FOLDER_FLAGS
from skillsearch.files.paths import is_plain, printable

MAX_LISTED_FILES = 2_000
SKIPPED_FOLDERS = frozenset(
    {
        ".git",
        ".hg",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
        "venv",
    }
)
"""Folders that hold machinery rather than skills or their documents."""

_MAX_LIST_DEPTH = 12
_MAX_ENTRIES = 20_000


def list_files(
    skill_dir: Path, *, limit: int = MAX_LISTED_FILES, max_entries: int = _MAX_ENTRIES
) -> tuple[tuple[str, ...], bool]:
    """List the regular files of a skill except SKILL.md; return also whether some are missing.

    Paths are relative to the folder, as `open_in_skill` takes them. Links are neither followed nor
    listed. `SKIPPED_FOLDERS` are left out, and so are names that are not UTF-8 or hold hidden
    characters. Depth and the number of entries looked at are bounded.

    Raises:
        SkillError: The folder cannot be read.
    """
    listing = _Listing(limit, max_entries)
    try:
        fd = os.open(skill_dir, FOLDER_FLAGS)
        try:
            listing.add_folder(fd, "")
        finally:
            os.close(fd)
    except OSError as error:
        raise SkillError(
            f"The folder {printable(skill_dir)!r} cannot be read: {error.strerror}."
        ) from error
    return tuple(sorted(listing.files)), listing.truncated


class _Listing:
    """The files found so far, and the room that is left."""

    def __init__(self, limit: int, max_entries: int) -> None:
        self.files: list[str] = []
        self.truncated = False
        self._is_full = False
        self._limit = limit
        self._entries_left = max_entries

    def add_folder(self, fd: int, prefix: str) -> None:
        """Add the files below an open folder."""
        files, folders = self._entries(fd)
        for name in files:
            if prefix or name.lower() != "skill.md":
                self._add(prefix + name)
        for name in folders:
            if self._is_full:
                return
            self._add_subfolder(fd, name, f"{prefix}{name}/")

    def _add(self, path: str) -> None:
        if len(self.files) < self._limit:
            self.files.append(path)
        else:
            self.truncated = self._is_full = True

    def _add_subfolder(self, fd: int, name: str, prefix: str) -> None:
        """Open a subfolder and add its files; skip it if it cannot be read."""
        if prefix.count("/") > _MAX_LIST_DEPTH:
            self.truncated = True
            return
        try:
            inner = os.open(name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=fd)
            try:
                self.add_folder(inner, prefix)
            finally:
                os.close(inner)
        except OSError:
            self.truncated = True

    def _entries(self, fd: int) -> tuple[list[str], list[str]]:
        """Return the names of plain files and of folders, each sorted."""
        files: list[str] = []
        folders: list[str] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                if self._entries_left <= 0:
                    self.truncated = self._is_full = True
                    break
                self._entries_left -= 1
                if not is_plain(entry.name):
                    self.truncated = True
                elif entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
                elif entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED_FOLDERS:
                    folders.append(entry.name)
        return sorted(files), sorted(folders)
