"""Write the members of an archive from a stranger: paths and sizes are checked as they arrive."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from skillsearch.files.openat import CREATE_FLAGS, open_file, open_folder, using
from skillsearch.files.paths import MAX_PATH_CHARS, first_of
from skillsearch.text.safe_text import one_line, visible

MAX_PARTS = 32
MAX_PART_BYTES = 255
_FORBIDDEN = {"\\": "a backslash", ":": "a colon", "\t": "a tab", "\n": "a line break"}


class UnpackLimits(NamedTuple):
    """Limits on one archive: files and folders, and the bytes of one file and of all."""

    members: int = 20_000
    file_bytes: int = 64 << 20
    total_bytes: int = 256 << 20


LIMITS = UnpackLimits()


class RefusedMemberError(Exception):
    """An archive is refused, for a member if one is named; `reason` ends a sentence."""

    def __init__(self, member: str, reason: str) -> None:
        super().__init__(member, reason)
        self.member, self.reason = member, reason


class Member(NamedTuple):
    """A file or folder of an archive, its name as written, its content read on demand.

    It is left out if there is a `fault`, which ends a sentence as in `RefusedMemberError`.
    """

    name: str
    is_folder: bool
    mode: int = 0o644
    content: Iterable[bytes] = ()
    fault: str = ""


def write_members(members: Iterable[Member], into: Path, limits: UnpackLimits) -> tuple[str, ...]:
    """Write members below an empty folder that only we use; report those that were left out.

    `RefusedMemberError` if all must be refused, or nothing is left.
    """
    made: dict[str, tuple[str, bool]] = {}  # folded path → path, whether it is a file
    left_out: list[tuple[str, str]] = []
    written = 0
    with using(open_folder(into)) as folder:
        for entries, member in enumerate(members, start=1):
            is_beyond = max(entries, len(made)) > limits.members
            refuse_if(member.name, {f"is beyond {limits.members:,} members": is_beyond})
            parts = tuple(part for part in member.name.split("/") if part not in {"", "."})
            if fault := member.fault or name_fault(member.name) or _reserve(made, parts, member):
                left_out.append((one_line(member.name, 200), fault))
            elif member.is_folder:
                os.close(open_folder(folder, parts, make=True))
            else:
                written += _write(folder, parts, member, limits, written)
    if left_out and not any(is_file for _, is_file in made.values()):
        raise RefusedMemberError(*left_out[0])
    return tuple(f"{name!r} {fault}" for name, fault in left_out)


def _reserve(made: dict[str, tuple[str, bool]], parts: tuple[str, ...], member: Member) -> str:
    """Record a path and its parent folders; return what hinders that it is written."""
    if not (parts or member.is_folder):
        return "names no file"
    for length in range(1, len(parts) + 1):
        path, is_file = "/".join(parts[:length]), length == len(parts) and not member.is_folder
        key = _folded(path)
        if key not in made:
            made[key] = path, is_file
            continue
        first, was_file = made[key]
        if first != path:
            return f"differs from {first!r} only in case or accents"
        refusals = {
            "occurs twice": was_file and is_file,
            f"makes {path!r} both a file and a folder": was_file or is_file,
        }
        refuse_if(member.name, refusals)
    return ""


def reserve_all(made: dict[str, tuple[str, bool]], paths: Iterable[tuple[str, ...]]) -> str:
    """Record the paths of some files; return what hinders that they lie beside the others.

    If anything does, none is recorded.
    """
    new: dict[str, tuple[str, bool]] = {}
    for parts in paths:
        if fault := name_fault(name := "/".join(parts)):
            return f"{one_line(name, 200)!r} {fault}"
        for length in range(1, len(parts) + 1):
            path, is_file = "/".join(parts[:length]), length == len(parts)
            key = _folded(path)
            first, was_file = new.setdefault(key, made.get(key, (path, is_file)))
            if first != path:
                return f"{path!r} differs from {first!r} only in case or accents"
            if was_file != is_file:
                return f"{path!r} would be both a file and a folder"
    made.update(new)
    return ""


def _folded(path: str) -> str:
    """Return what is equal for paths that some file system takes for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())


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
            total, most, most_of_all = before + size, limits.file_bytes, limits.total_bytes
            refusals = {
                f"is larger than {most:,} bytes": size > most,
                f"brings all files to over {most_of_all:,} bytes": total > most_of_all,
            }
            refuse_if(member.name, refusals)
            file.write(block)
        os.fchmod(opened, (member.mode & 0o755) | 0o600)
    return size


def name_fault(name: str) -> str:
    """Return why no file may have the name of a member, as it could lead elsewhere, or nothing."""
    parts = name.split("/")
    sizes = [len(part.encode("utf-8", "replace")) for part in parts]
    refusals = {
        f"has more than {MAX_PATH_CHARS:,} characters in its name": len(name) > MAX_PATH_CHARS,
        "has hidden or undecodable characters in its name": visible(name) != name,
        **{f"has {word} in its name": char in name for char, word in _FORBIDDEN.items()},
        "is absolute": name.startswith("/"),
        "climbs with '..'": ".." in parts,
        f"is more than {MAX_PARTS} folders deep": len(parts) > MAX_PARTS,
        f"has a part of more than {MAX_PART_BYTES} bytes": max(sizes) > MAX_PART_BYTES,
    }
    return first_of(refusals)


def refuse_if(name: str, refusals: Mapping[str, object]) -> None:
    """Refuse an archive, for a member, for the first reason that holds."""
    if reason := first_of(refusals):
        raise RefusedMemberError(name, reason)
