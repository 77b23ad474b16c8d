"""A file of a skill in pages that a model can take in, each cut between characters."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from skillsearch.errors import SkillError
from skillsearch.files.paths import confine, printable
from skillsearch.skills.resources import content_hash as hash_bytes
from skillsearch.skills.resources import read_file
from skillsearch.types import FileContent

_BOM = "\ufeff"


def read_page(
    skill_dir: Path,
    relative: str,
    *,
    offset: int = 0,
    limit: int | None = None,
    content_hash: str | None = None,
    folders: Sequence[str] = (),
) -> FileContent:
    """Read a file of a skill, or one page of it.

    A file is text where all of it is UTF-8 without NUL; a byte order mark is not shown. A page of
    text begins with the character that holds ``offset``, and ends before the character that would
    exceed ``limit``, unless it is the only one. The file is read and hashed anew for every page.

    Args:
        skill_dir: The skill folder, trusted.
        relative: Path below it, not trusted.
        offset: Byte at which to begin; beyond the end of the file the page is empty.
        limit: Bytes that the page may have; None for all that are left.
        content_hash: The hash by which the caller knows the file; another one makes it stale.
        folders: Folders of the skill in one of which the path must lie; none allows all.

    Returns:
        The page, with the offset at which it really begins and that of the next one.

    Raises:
        UnsafePathError: As `open_in_skill`.
        SkillError: There is no such file, it cannot be read, is larger than ``MAX_FILE_BYTES``,
            or ``offset`` or ``limit`` is no such number.
    """
    _check_number("offset", offset, 0)
    if limit is not None:
        _check_number("limit", limit, 1)
    path = confine(relative, folders)
    data = read_file(skill_dir, relative, folders=folders)
    is_text = _is_text(data)
    start, end = (_text_bounds if is_text else _bounds)(data, offset, limit)
    page = data[start:end]
    digest = hash_bytes(data)
    return FileContent(
        path=printable(path),
        content=_as_text(page, start) if is_text else base64.b64encode(page).decode("ascii"),
        encoding="text" if is_text else "base64",
        offset=start,
        next_offset=end if end < len(data) else None,
        size=len(data),
        content_hash=digest,
        stale=content_hash is not None and content_hash != digest,
    )


def _check_number(name: str, value: object, lowest: int) -> None:
    """Refuse what is no whole number, or too small a one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        shown = repr(value)[:50]
        raise SkillError(f"{name} is {shown}; give a whole number of bytes, at least {lowest}.")


def _is_text(data: bytes) -> bool:
    """Say whether bytes are UTF-8 without NUL."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _as_text(page: bytes, start: int) -> str:
    """Decode a page; the first one without its byte order mark."""
    text = page.decode("utf-8")
    return text if start else text.removeprefix(_BOM)


def _bounds(data: bytes, offset: int, limit: int | None) -> tuple[int, int]:
    """Return where a page begins and ends."""
    start = min(offset, len(data))
    return start, len(data) if limit is None else min(start + limit, len(data))


def _text_bounds(data: bytes, offset: int, limit: int | None) -> tuple[int, int]:
    """Return where a page of text begins and ends, at least one character further on."""
    start = _back_to_character(data, min(offset, len(data)))
    start, end = _bounds(data, start, limit)
    end = _back_to_character(data, end)
    if end == start < len(data):
        end += 1
        while _is_inside_character(data, end):
            end += 1
    return start, end


def _back_to_character(data: bytes, position: int) -> int:
    """Return where the character begins that holds a byte of UTF-8."""
    while _is_inside_character(data, position):
        position -= 1
    return position


def _is_inside_character(data: bytes, position: int) -> bool:
    """Say whether a byte of UTF-8 continues a character; the end of the text does not."""
    return position < len(data) and data[position] & 0xC0 == 0x80
