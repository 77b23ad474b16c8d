"""The only module that opens the files of a skill: confined, bounded, and never through a link.

Links inside a skill are refused even where their target is inside it too: one rule, no exceptions
to get wrong. The one concession is a SKILL.md that is itself a link into its own folder. A hard
link cannot be told from the file itself, so it is judged by its owner (`is_foreign_link`).
"""

from __future__ import annotations

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

MAX_SKILL_MD_BYTES = 1024 * 1024
MAX_FILE_BYTES = 16 * 1024 * 1024

_SCRIPTS = "scripts"
_MAX_COMPARED_FILES = 200
_MAX_COMPARED_CHARS = 100
"""Bounds of the search for names that come near: to compare two takes the product of lengths."""


def read_skill_md(path: Path, *, limit: int = MAX_SKILL_MD_BYTES) -> tuple[bytes, os.stat_result]:
    """Read a SKILL.md whole.

    A FIFO or device does not block, and a file that grows meanwhile is cut off. The status is that
    of the file that was read, so it fits the bytes.

    Args:
        path: The file.
        limit: Bytes that it may have at most.

    Returns:
        The bytes and the status of the opened file.

    Raises:
        ParseError: ``file-unreadable``, ``not-a-regular-file``, ``file-too-large``, or
            ``link-leaves-skill`` where the file is a link out of its folder, or a hard link to
            the file of another user.
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
    """Open a SKILL.md; through a link only where that stays inside the folder."""
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
    """Return all bytes of a file, or None where there are more than the limit."""
    if status.st_size > limit:
        return None
    parts: list[bytes] = []
    left = limit + 1
    while left > 0 and (part := os.read(fd, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts) if left > 0 else None


def _unreadable(path: Path, error: OSError) -> ParseError:
    """Return the error for a file that the system does not let us read."""
    reason = error.strerror or str(error)
    return ParseError(
        f"{printable(path)!r} cannot be read ({reason}); check that it exists and its permissions.",
        code="file-unreadable",
    )


def _not_regular(path: Path) -> ParseError:
    """Return the error for a FIFO, device, socket or folder."""
    return ParseError(
        f"{printable(path)!r} is not a regular file; put a text file there.",
        code="not-a-regular-file",
    )


def _leaves_skill(path: Path) -> ParseError:
    """Return the error for a SKILL.md that is a link to a file elsewhere."""
    return ParseError(
        f"{printable(path)!r} is a link out of its skill folder; put the file itself there.",
        code="link-leaves-skill",
    )


def content_hash(data: bytes) -> str:
    """Return the hash that a file's bytes are known by: sha256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def is_foreign_link(file: os.stat_result, folder: os.stat_result) -> bool:
    """Say whether a file has several names and belongs to another user than the skill folder.

    Somebody may then have linked another user's file into the skill. Package installers link
    files of one owner, which is why those pass: nothing tells such a link from the file itself.

    Args:
        file: Status of the opened file.
        folder: Status of the skill folder.

    Returns:
        True where the file is to be refused.
    """
    return file.st_nlink > 1 and file.st_uid != folder.st_uid


def open_in_skill(skill_dir: Path, relative: str, *, folders: Sequence[str] = ()) -> int:
    """Open a file of a skill for reading, component by component and never through a link.

    Args:
        skill_dir: The skill folder, trusted.
        relative: Path below it with ``/`` between the parts, not trusted.
        folders: Folders of the skill in one of which the path must lie; none allows all.

    Returns:
        A file descriptor of a regular file; the caller closes it.

    Raises:
        UnsafePathError: `confine` refuses the path, or it meets a link, a folder where a file is
            wanted, a special file, or a hard link to the file of another user.
        SkillError: There is no such file, or it cannot be read; names the files that come near.
    """
    if "%" in relative:
        # A list of files gives names as they are on disk, where a per cent sign is just that.
        as_listed = confine(relative.replace("%", "%25"), folders)
        if os.path.lexists(skill_dir / as_listed):
            return _open_confined(skill_dir, as_listed, relative)
    return _open_confined(skill_dir, confine(relative, folders), relative)


def _open_confined(skill_dir: Path, path: PurePosixPath, relative: str) -> int:
    """Open the file at a path that `confine` let pass; messages quote it as it was asked for."""
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
    plain = [file for file in files if file.isprintable()]  # a name may hold what hides or misleads
    near = difflib.get_close_matches(str(path)[:_MAX_COMPARED_CHARS], plain, n=5, cutoff=0.5)
    hint = f"Did you mean: {', '.join(near)}?" if near else "List the skill's files first."
    return SkillError(f"The skill has no file {shown(path)}. {hint}")


def _cannot_read(relative: str, error: OSError) -> SkillError:
    """Return the error for a file that the system does not let us read."""
    return SkillError(f"The file {shown(relative)} cannot be read: {error.strerror}.")


def _meets_link(skill_dir: Path, path: PurePosixPath) -> bool:
    """Say whether a part of a path is a link; only words the message, decides nothing."""
    with suppress(OSError):
        return any((skill_dir / part).is_symlink() for part in (path, *path.parents) if part.parts)
    return False


def read_file(
    skill_dir: Path, relative: str, *, limit: int = MAX_FILE_BYTES, folders: Sequence[str] = ()
) -> bytes:
    """Read a file of a skill whole.

    Args:
        skill_dir: The skill folder, trusted.
        relative: Path below it, not trusted.
        limit: Bytes that it may have at most.
        folders: Folders of the skill in one of which the path must lie; none allows all.

    Returns:
        The bytes.

    Raises:
        UnsafePathError: As `open_in_skill`.
        SkillError: There is no such file, it cannot be read, or is larger than ``limit``.
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

    The script is opened and closed, so all that `open_in_skill` refuses is refused here. But a
    path, unlike an open file, is only as safe as the folder stays: whoever can write there can
    put another file in its place.

    Args:
        skill_dir: The skill folder, trusted.
        script: Path below ``scripts/``, not trusted. ``scripts/`` may also stand before it, as in
            the list of files, unless that names a file of ``scripts/scripts/``.

    Returns:
        The path below the skill folder as that was given, made absolute.

    Raises:
        UnsafePathError: As `open_in_skill`.
        SkillError: There is no such script, or it cannot be read.
    """
    below = confine(script)
    path = PurePosixPath(_SCRIPTS, below)
    if below.parts[0] == _SCRIPTS and not os.path.lexists(skill_dir / path):
        path = below
    os.close(_open_confined(skill_dir, path, script))
    return skill_dir.absolute() / path
