"""Members of an archive → files below a folder; what is odd about one of them refuses it."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from skillsearch.files.openat import CREATE_FLAGS, open_file, open_folder, using
from skillsearch.files.paths import MAX_PATH_CHARS
from skillsearch.text.safe_text import visible

MAX_PARTS = 32
MAX_PART_BYTES = 255

_FORBIDDEN = {"\\": "a backslash", ":": "a colon", "\t": "a tab", "\n": "a line break"}


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """What an archive may come to.

    Attributes:
        members: Files and folders, and as many entries.
        file_bytes: Bytes of one file, counted as they are written.
        total_bytes: Bytes of all files.
    """

    members: int = 20_000
    file_bytes: int = 64 << 20
    total_bytes: int = 256 << 20


class RefusedMemberError(Exception):
    """A member for which an archive is refused; `extract` makes a `RootError` of it.

    Attributes:
        member: Its name; empty where it is about the archive.
        reason: What is wrong, as the rest of a sentence.
    """

    def __init__(self, member: str, reason: str) -> None:
        """Say what is wrong with which member."""
        super().__init__(member, reason)
        self.member = member
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Member:
    """A file or folder of an archive.

    Attributes:
        name: Its path, as written.
        is_folder: True for a folder.
        mode: Its permissions; of a folder's nothing is taken.
        content: The bytes of a file, read as they are asked for.
    """

    name: str
    is_folder: bool
    mode: int = 0o644
    content: Iterable[bytes] = ()


class _Taken(NamedTuple):
    """A path that was made: its spelling, and whether it is a file."""

    path: str
    is_file: bool


class Unpacker:
    """Writes members below a folder that is empty and nobody else's; a context manager."""

    def __init__(self, into: Path, limits: UnpackLimits) -> None:
        self._limits = limits
        self._folder = open_folder(into)
        self._taken: dict[str, _Taken] = {}
        self._entries = 0
        self._bytes = 0

    def __enter__(self) -> Unpacker:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)

    def add(self, member: Member) -> None:
        """Write a member.

        Args:
            member: The member.

        Raises:
            RefusedMemberError: When its name, its size or its place cannot be.
            OSError: When it cannot be written.
        """
        self._entries += 1
        if max(self._entries, len(self._taken)) > self._limits.members:
            raise RefusedMemberError(member.name, f"is beyond {self._limits.members:,} members")
        parts = plain_parts(member.name)
        if not parts and not member.is_folder:
            raise RefusedMemberError(member.name, "names no file")
        self._take(parts, member)
        if member.is_folder:
            os.close(open_folder(self._folder, parts, make=True))
        else:
            self._write(parts, member)

    def _take(self, parts: tuple[str, ...], member: Member) -> None:
        """Note a path and the folders on the way; none may be there in another form."""
        for length in range(1, len(parts) + 1):
            is_file = length == len(parts) and not member.is_folder
            taken = _Taken("/".join(parts[:length]), is_file)
            found = self._taken.setdefault(_folded(taken.path), taken)
            if found is taken:
                continue
            if found.path != taken.path:
                reason = f"differs from {found.path!r} in case or accents alone"
                raise RefusedMemberError(member.name, reason)
            if found.is_file and is_file:
                raise RefusedMemberError(member.name, "is there twice")
            if found.is_file or is_file:
                reason = f"makes {taken.path!r} both a file and a folder"
                raise RefusedMemberError(member.name, reason)

    def _write(self, parts: tuple[str, ...], member: Member) -> None:
        """Write a file, counting what really comes."""
        with using(open_folder(self._folder, parts[:-1], make=True)) as folder:
            opened = open_file(folder, parts[-1:], CREATE_FLAGS)
        size = 0
        with os.fdopen(opened, "wb") as file:
            for block in member.content:
                size += len(block)
                self._bytes += len(block)
                if size > self._limits.file_bytes:
                    reason = f"is larger than {self._limits.file_bytes:,} bytes"
                    raise RefusedMemberError(member.name, reason)
                if self._bytes > self._limits.total_bytes:
                    reason = f"brings all files to over {self._limits.total_bytes:,} bytes"
                    raise RefusedMemberError(member.name, reason)
                file.write(block)
            os.fchmod(opened, (member.mode & 0o755) | 0o600)


def plain_parts(name: str) -> tuple[str, ...]:
    """Check the name of a member.

    Args:
        name: The name as written.

    Returns:
        Its parts, without empty ones and ``.``; none for the top of the archive.

    Raises:
        RefusedMemberError: When it could lead elsewhere, or is none that a file should have.
    """
    parts = name.split("/")
    if len(name) > MAX_PATH_CHARS:
        raise RefusedMemberError(name, f"has more than {MAX_PATH_CHARS:,} characters in its name")
    if visible(name) != name:
        raise RefusedMemberError(name, "has hidden or undecodable characters in its name")
    for char, word in _FORBIDDEN.items():
        if char in name:
            raise RefusedMemberError(name, f"has {word} in its name")
    if name.startswith("/"):
        raise RefusedMemberError(name, "is absolute")
    if ".." in parts:
        raise RefusedMemberError(name, "climbs with '..'")
    if len(parts) > MAX_PARTS:
        raise RefusedMemberError(name, f"lies more than {MAX_PARTS} folders deep")
    if any(len(part.encode()) > MAX_PART_BYTES for part in parts):
        raise RefusedMemberError(name, f"has a part of more than {MAX_PART_BYTES} bytes")
    return tuple(part for part in parts if part not in {"", "."})


def _folded(path: str) -> str:
    """Return what paths share that some file system takes for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
