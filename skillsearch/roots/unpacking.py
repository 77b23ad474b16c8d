"""Write the members of an archive below a folder, and refuse any that look suspicious."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping
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
    """Limits on one archive: files and folders, and the bytes of one file and of all."""

    members: int = 20_000
    file_bytes: int = 64 << 20
    total_bytes: int = 256 << 20


class RefusedMemberError(Exception):
    """A member that refuses its whole archive; `extract` turns it into a `RootError`.

    `member` is its name, empty if the archive itself is at fault; `reason` ends a sentence.
    """

    def __init__(self, member: str, reason: str) -> None:
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


def write_members(members: Iterable[Member], into: Path, limits: UnpackLimits) -> None:
    """Write members below an empty folder that nobody else uses, or raise `RefusedMemberError`."""
    made: dict[str, tuple[str, bool]] = {}  # folded path → path, whether it is a file
    written = 0
    with using(open_folder(into)) as folder:
        for entries, member in enumerate(members, start=1):
            is_beyond = max(entries, len(made)) > limits.members
            refuse_if(member.name, {f"is beyond {limits.members:,} members": is_beyond})
            parts = plain_parts(member.name)
            refuse_if(member.name, {"names no file": not parts and not member.is_folder})
            _reserve(made, parts, member)
            if member.is_folder:
                os.close(open_folder(folder, parts, make=True))
            else:
                written += _write(folder, parts, member, limits, written)


def _reserve(made: dict[str, tuple[str, bool]], parts: tuple[str, ...], member: Member) -> None:
    """Record a path and its parent folders, none of which may exist in another form."""
    for length in range(1, len(parts) + 1):
        path, is_file = "/".join(parts[:length]), length == len(parts) and not member.is_folder
        # Equal for paths that some file system takes for the same.
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
        if key not in made:
            made[key] = path, is_file
            continue
        first, was_file = made[key]
        refusals = {
            f"differs from {first!r} only in case or accents": first != path,
            "occurs twice": was_file and is_file,
            f"makes {path!r} both a file and a folder": was_file or is_file,
        }
        refuse_if(member.name, refusals)


def _write(
    folder: int, parts: tuple[str, ...], member: Member, limits: UnpackLimits, before: int
) -> int:
    """Write a file, counting the bytes that really arrive after those `before`."""
    with using(open_folder(folder, parts[:-1], make=True)) as inner:
        opened = open_file(inner, parts[-1:], CREATE_FLAGS)
    size = 0
    with os.fdopen(opened, "wb") as file:
        for block in member.content:
            size += len(block)
            if size > limits.file_bytes:
                reason = f"is larger than {limits.file_bytes:,} bytes"
                raise RefusedMemberError(member.name, reason)
            if before + size > limits.total_bytes:
                reason = f"brings all files to over {limits.total_bytes:,} bytes"
                raise RefusedMemberError(member.name, reason)
            file.write(block)
        os.fchmod(opened, (member.mode & 0o755) | 0o600)
    return size


def plain_parts(name: str) -> tuple[str, ...]:
    """Split the name of a member, without empty parts and ``.``, unless it could lead elsewhere."""
    parts = name.split("/")
    refusals = {
        f"has more than {MAX_PATH_CHARS:,} characters in its name": len(name) > MAX_PATH_CHARS,
        "has hidden or undecodable characters in its name": visible(name) != name,
        **{f"has {word} in its name": char in name for char, word in _FORBIDDEN.items()},
        "is absolute": name.startswith("/"),
        "climbs with '..'": ".." in parts,
        f"is more than {MAX_PARTS} folders deep": len(parts) > MAX_PARTS,
    }
    refuse_if(name, refusals)
    is_long = any(len(part.encode()) > MAX_PART_BYTES for part in parts)
    refuse_if(name, {f"has a part of more than {MAX_PART_BYTES} bytes": is_long})
    return tuple(part for part in parts if part not in {"", "."})


def refuse_if(name: str, refusals: Mapping[str, object]) -> None:
    """Refuse a member for the first reason that holds."""
    for reason, is_refused in refusals.items():
        if is_refused:
            raise RefusedMemberError(name, reason)
