"""Write the members of an archive below a folder, and refuse any that look suspicious."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from skillsearch.files.openat import CREATE_FLAGS, open_file, open_folder, using
from skillsearch.files.paths import MAX_PATH_CHARS
from skillsearch.text.safe_text import visible

MAX_PARTS = 32
MAX_PART_BYTES = 255
_FORBIDDEN = {"\\": "a backslash", ":": "a colon", "\t": "a tab", "\n": "a line break"}


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """Limits on one archive.

    Attributes:
        members: Files and folders, and as many entries.
        file_bytes: Bytes of one file, counted as they are written.
        total_bytes: Bytes of all files.
    """

    members: int = 20_000
    file_bytes: int = 64 << 20
    total_bytes: int = 256 << 20


class RefusedMemberError(Exception):
    """A member that refuses its whole archive; `extract` turns it into a `RootError`.

    Attributes:
        member: Its name; empty if the archive itself is at fault.
        reason: What is wrong, as the end of a sentence.
    """

    def __init__(self, member: str, reason: str) -> None:
        """Name the member and the reason."""
        super().__init__(member, reason)
        self.member = member
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Member:
    """A file or folder of an archive, its name as written, its content read on demand."""

    name: str
    is_folder: bool
    mode: int = 0o644
    content: Iterable[bytes] = ()


class Unpacker:
    """Writes members below an empty folder that nobody else uses; a context manager."""

    def __init__(self, into: Path, limits: UnpackLimits) -> None:
        self._limits = limits
        self._folder = open_folder(into)
        self._made: dict[str, tuple[str, bool]] = {}  # folded path → path, whether it is a file
        self._entries = 0
        self._bytes = 0

    def __enter__(self) -> Unpacker:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)

    def add(self, member: Member) -> None:
        """Write a member, or raise `RefusedMemberError` over its name, size or place."""
        self._entries += 1
        if max(self._entries, len(self._made)) > self._limits.members:
            raise RefusedMemberError(member.name, f"is beyond {self._limits.members:,} members")
        parts = plain_parts(member.name)
        if not parts and not member.is_folder:
            raise RefusedMemberError(member.name, "names no file")
        self._reserve(parts, member)
        if member.is_folder:
            os.close(open_folder(self._folder, parts, make=True))
        else:
            self._write(parts, member)

    def _reserve(self, parts: tuple[str, ...], member: Member) -> None:
        """Record a path and its parent folders, none of which may exist in another form."""
        for length in range(1, len(parts) + 1):
            path, is_file = "/".join(parts[:length]), length == len(parts) and not member.is_folder
            if (key := _folded(path)) not in self._made:
                self._made[key] = path, is_file
                continue
            made, was_file = self._made[key]
            if made != path:
                reason = f"differs from {made!r} only in case or accents"
            elif was_file and is_file:
                reason = "occurs twice"
            elif was_file or is_file:
                reason = f"makes {path!r} both a file and a folder"
            else:
                continue
            raise RefusedMemberError(member.name, reason)

    def _write(self, parts: tuple[str, ...], member: Member) -> None:
        """Write a file, counting the bytes that really arrive."""
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
    """Split the name of a member, without empty parts and ``.``; empty for the top of the archive.

    Raises `RefusedMemberError` if it could lead elsewhere, or should not name a file.
    """
    parts = name.split("/")
    refusals = {
        f"has more than {MAX_PATH_CHARS:,} characters in its name": len(name) > MAX_PATH_CHARS,
        "has hidden or undecodable characters in its name": visible(name) != name,
        **{f"has {word} in its name": char in name for char, word in _FORBIDDEN.items()},
        "is absolute": name.startswith("/"),
        "climbs with '..'": ".." in parts,
        f"is more than {MAX_PARTS} folders deep": len(parts) > MAX_PARTS,
    }
    for reason, is_refused in refusals.items():
        if is_refused:
            raise RefusedMemberError(name, reason)
    if any(len(part.encode()) > MAX_PART_BYTES for part in parts):
        raise RefusedMemberError(name, f"has a part of more than {MAX_PART_BYTES} bytes")
    return tuple(part for part in parts if part not in {"", "."})


def _folded(path: str) -> str:
    """Return a key that is equal for paths which some file system takes for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
