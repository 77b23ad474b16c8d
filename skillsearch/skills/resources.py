"""The only module that opens the files of a skill: confined, bounded, and never through a link.

Links inside a skill are refused even if their target is inside it too: one rule, without exceptions
to get wrong. The one concession is a SKILL.md that links into its own folder. A hard link looks
like the file itself, so its owner decides (`is_foreign_link`).
"""

from __future__ import annotations

import base64
import difflib
import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from skillsearch.errors import ParseError, SkillError
from skillsearch.files.openat import READ_FLAGS, open_file
from skillsearch.files.paths import confine, printable, shown, unsafe_path
from skillsearch.skills.listing import list_files
from skillsearch.types import FileContent

MAX_SKILL_MD_BYTES = 1024 * 1024
MAX_FILE_BYTES = 16 * 1024 * 1024

_SCRIPTS = "scripts"
_MAX_COMPARED_FILES = 200
_MAX_COMPARED_CHARS = 100
"""Bounds of the search for names that come near: to compare two takes the product of lengths."""


def read_skill_md(path: Path, *, limit: int = MAX_SKILL_MD_BYTES) -> tuple[bytes, os.stat_result]:
    """Read a SKILL.md whole; return its bytes and the status of the opened file.

    A FIFO or device does not block, and a file that grows meanwhile is cut off.

    Raises:
        ParseError: ``file-unreadable``, ``not-a-regular-file``, ``file-too-large``, or
            ``link-leaves-skill`` for a link out of the folder or a hard link to another user's
                file.
    """
    fd = _open_skill_md(path)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _not_regular(path)
        if is_foreign_link(status, path.parent.stat()):
            raise _leaves_skill(path)
        data = _read_up_to(fd, status, limit)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(fd)
    if data is None:
        raise ParseError(
            f"{printable(path)!r} is larger than {limit} bytes; move parts of it to references/.",
            code="file-too-large",
        )
    return data, status


def _open_skill_md(path: Path) -> int:
    """Open a SKILL.md; through a link only if the target stays inside the folder."""
    try:
        return os.open(path, READ_FLAGS)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise _not_regular(path) from error
        if error.errno != errno.ELOOP:
            raise _unreadable(path, error) from error
    try:
        folder = Path(os.path.realpath(path.parent))
        target = Path(os.path.realpath(path))
        if target == folder:
            raise _not_regular(path)
        if not target.is_relative_to(folder):
            raise _leaves_skill(path)
        return open_file(folder, target.relative_to(folder).parts)
    except OSError as error:
        raise _unreadable(path, error) from error


def _read_up_to(fd: int, status: os.stat_result, limit: int) -> bytes | None:
    """Return all bytes of a file, or None if there are more than the limit."""
    if status.st_size > limit:
        return None
    parts: list[bytes] = []
    left = limit + 1
    while left > 0 and (part := os.read(fd, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts) if left > 0 else None


def _unreadable(path: Path, error: OSError) -> ParseError:
    reason = error.strerror or str(error)
    return ParseError(
        f"{printable(path)!r} cannot be read ({reason}); check that it exists and its permissions.",
        code="file-unreadable",
    )


def _not_regular(path: Path) -> ParseError:
    return ParseError(
        f"{printable(path)!r} is not a regular file; put a text file there.",
        code="not-a-regular-file",
    )


def _leaves_skill(path: Path) -> ParseError:
    return ParseError(
        f"{printable(path)!r} is a link out of its skill folder; put the file itself there.",
        code="link-leaves-skill",
    )


def content_hash(data: bytes) -> str:
    """Return the hash that identifies a file's bytes: sha256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def is_foreign_link(file: os.stat_result, folder: os.stat_result) -> bool:
    """Return whether a file has several names and another owner than its skill folder.

    Somebody may then have linked another user's file into the skill. Package installers link files
    of one owner, so those pass.
    """
    return file.st_nlink > 1 and file.st_uid != folder.st_uid


def open_in_skill(skill_dir: Path, relative: str, *, folders: Sequence[str] = ()) -> int:
    """Open a file of a skill for reading, component by component and never through a link.

    `relative` is not trusted; it must lie in one of the `folders` if any are given. Returns the
    descriptor of a regular file, which the caller closes.

    Raises:
        UnsafePathError: `confine` refuses the path, or it meets a link, a folder, a special file,
            or
            a hard link to another user's file.
        SkillError: The file is missing or unreadable; names similar files.
    """
    if "%" in relative:
        # A list of files gives names as they are on disk, so a per cent sign may be one.
        as_listed = confine(relative.replace("%", "%25"), folders)
        if os.path.lexists(skill_dir / as_listed):
            return _open_confined(skill_dir, as_listed, relative)
    return _open_confined(skill_dir, confine(relative, folders), relative)


def _open_confined(skill_dir: Path, path: PurePosixPath, relative: str) -> int:
    """Open a path that `confine` let pass; messages quote it as it was requested."""
    try:
        folder = skill_dir.stat()
        fd = open_file(skill_dir, path.parts)
    except OSError as error:
        raise _open_error(skill_dir, relative, path, error) from error
    file = os.fstat(fd)
    if stat.S_ISREG(file.st_mode) and not is_foreign_link(file, folder):
        return fd
    os.close(fd)
    if stat.S_ISREG(file.st_mode):
        raise unsafe_path(relative, "is a hard link to the file of another user")
    raise unsafe_path(relative, "is not a regular file")


def _open_error(skill_dir: Path, relative: str, path: PurePosixPath, error: OSError) -> SkillError:
    """Translate a failure to open: a link, a special file, a missing file or a forbidden one."""
    if error.errno == errno.ELOOP or _meets_link(skill_dir, path):
        return unsafe_path(relative, "leads through a link")
    if error.errno == errno.ENXIO:
        return unsafe_path(relative, "is not a regular file")
    if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}:
        return _cannot_read(relative, error)
    files, _ = list_files(skill_dir, limit=_MAX_COMPARED_FILES)
    # A name may hold hidden characters, which could mislead.
    plain = [file for file in files if file.isprintable()]
    near = difflib.get_close_matches(str(path)[:_MAX_COMPARED_CHARS], plain, n=5, cutoff=0.5)
    hint = f"Did you mean: {', '.join(near)}?" if near else "List the skill's files first."
    return SkillError(f"The skill has no file {shown(path)}. {hint}")


def _cannot_read(relative: str, error: OSError) -> SkillError:
    return SkillError(f"The file {shown(relative)} cannot be read: {error.strerror}.")


def _meets_link(skill_dir: Path, path: PurePosixPath) -> bool:
    """Return whether a part of a path is a link; only for the message."""
    with suppress(OSError):
        return any((skill_dir / part).is_symlink() for part in (path, *path.parents) if part.parts)
    return False


def read_file(
    skill_dir: Path, relative: str, *, limit: int = MAX_FILE_BYTES, folders: Sequence[str] = ()
) -> bytes:
    """Read a file of a skill whole; for the arguments see `open_in_skill`.

    Raises:
        UnsafePathError: As `open_in_skill`.
        SkillError: The file is missing, unreadable, or larger than `limit` bytes.
    """
    fd = open_in_skill(skill_dir, relative, folders=folders)
    try:
        data = _read_up_to(fd, os.fstat(fd), limit)
    except OSError as error:
        raise _cannot_read(relative, error) from error
    finally:
        os.close(fd)
    if data is None:
        raise SkillError(f"The file {shown(relative)} is larger than {limit} bytes; split it up.")
    return data


def script_path(skill_dir: Path, script: str) -> Path:
    """Return the absolute path of a script of a skill, for a program that is to run it.

    Whatever `open_in_skill` refuses is refused here. But a path, unlike an open file, is only as
    safe as its folder: whoever can write there can replace the file. `script` is relative to
    ``scripts/``; it may start with ``scripts/``, as in the list of files, unless that names a file
    of ``scripts/scripts/``.

    Raises:
        UnsafePathError: As `open_in_skill`.
        SkillError: The script is missing or unreadable.
    """
    below = confine(script)
    path = PurePosixPath(_SCRIPTS, below)
    if below.parts[0] == _SCRIPTS and not os.path.lexists(skill_dir / path):
        path = below
    os.close(_open_confined(skill_dir, path, script))
    return skill_dir.absolute() / path


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

    A file is text if all of it is UTF-8 without NUL; its byte order mark is not shown. A page of
    text begins with the character that holds byte `offset` and ends before the character that would
    exceed `limit` bytes, unless it is the only one. The page is stale if `content_hash`, the hash
    by which the caller knows the file, is not the hash of the file now.

    Raises:
        UnsafePathError: As `open_in_skill`.
        SkillError: The file is missing, unreadable or too large, or `offset` or `limit` is
            unusable.
    """
    _check_number("offset", offset, 0)
    if limit is not None:
        _check_number("limit", limit, 1)
    path = confine(relative, folders)
    data = read_file(skill_dir, relative, folders=folders)
    is_text = _is_text(data)
    start, end = (_text_bounds if is_text else _bounds)(data, offset, limit)
    page = data[start:end]
    digest = hashlib.sha256(data).hexdigest()
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
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        shown = repr(value)[:50]
        raise SkillError(f"{name} is {shown}; give a whole number of bytes, at least {lowest}.")


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _as_text(page: bytes, start: int) -> str:
    """Decode a page; the first one without its byte order mark."""
    text = page.decode("utf-8")
    return text if start else text.removeprefix("\ufeff")


def _bounds(data: bytes, offset: int, limit: int | None) -> tuple[int, int]:
    start = min(offset, len(data))
    return start, len(data) if limit is None else min(start + limit, len(data))


def _text_bounds(data: bytes, offset: int, limit: int | None) -> tuple[int, int]:
    """Return where a page of text begins and ends; it has at least one character."""
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
    """Return whether a byte of UTF-8 continues a character; the end of the text does not."""
    return position < len(data) and data[position] & 0xC0 == 0x80
