"""The only module that opens the files of a skill: confined, bounded, and never through a link.

Links inside a skill are refused even where their target is inside it too: one rule, no exceptions
to get wrong. The one concession is a SKILL.md that is itself a link into its own folder.
"""

from __future__ import annotations

import difflib
import errno
import hashlib
import os
import re
import stat
from contextlib import suppress
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from skillsearch.errors import ParseError, SkillError, UnsafePathError

MAX_SKILL_MD_BYTES = 1024 * 1024
MAX_FILE_BYTES = 16 * 1024 * 1024
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

_MAX_PATH_CHARS = 1024
_MAX_LIST_DEPTH = 12
_MAX_ENTRIES_SEEN = 20_000
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


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
            ``link-leaves-skill`` where the file is a link out of its folder.
    """
    fd = _open_skill_md(path)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _not_regular(path)
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
        return os.open(path, _READ_FLAGS)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise _not_regular(path) from error
        if error.errno != errno.ELOOP:
            raise _unreadable(path, error) from error
    folder = Path(os.path.realpath(path.parent))
    target = Path(os.path.realpath(path))
    if target == folder:
        raise _not_regular(path)
    if not target.is_relative_to(folder):
        raise ParseError(
            f"{printable(path)!r} is a link out of its skill folder; put the file itself there.",
            code="link-leaves-skill",
        )
    try:
        return _open_below(folder, target.relative_to(folder).parts)
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


def content_hash(data: bytes) -> str:
    """Return the hash that a file's bytes are known by: sha256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def is_utf8(path: str) -> bool:
    """Say whether a file name or path, as the system gave it, was UTF-8 on disk."""
    return path.isascii() or not any("\ud800" <= char <= "\udfff" for char in path)


def printable(path: str | Path) -> str:
    """Return a path that can be encoded as UTF-8, whatever bytes are in it."""
    text = str(path)
    return text if is_utf8(text) else text.encode("utf-8", "backslashreplace").decode()


def confine(relative: str) -> PurePosixPath:
    """Check a path inside a skill that came from outside, and return it in plain form.

    Percent-encoding is decoded once. This is the one path rule of the package; it looks at the
    text only, `open_in_skill` enforces it on the file system.

    Args:
        relative: The path as asked for.

    Returns:
        The decoded path, without empty and ``.`` parts.

    Raises:
        UnsafePathError: The path is empty, absolute, or too long, or has ``..``, a backslash, a
            drive, or control characters.
    """
    decoded = unquote(relative, errors="surrogateescape") if "%" in relative else relative
    if reason := _unsafe_reason(decoded):
        raise _unsafe(relative, reason)
    return PurePosixPath(decoded)


def _unsafe_reason(path: str) -> str | None:
    """Return what is unsafe about a decoded path, or None."""
    parts = path.split("/")
    if len(path) > _MAX_PATH_CHARS:
        return f"has more than {_MAX_PATH_CHARS} characters"
    if _CONTROL.search(path) or not _is_encodable(path):
        return "holds characters that no file name should have"
    if "\\" in path or _DRIVE.match(path):
        return "is written in the manner of Windows"
    if path.startswith("/"):
        return "is absolute"
    if ".." in parts:
        return "climbs with '..'"
    if not any(part not in {"", "."} for part in parts):
        return "names no file"
    return None


def _is_encodable(path: str) -> bool:
    """Say whether the file system could hold a name."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _unsafe(relative: str, reason: str) -> UnsafePathError:
    """Return the error for a path that is refused."""
    return UnsafePathError(
        f"The path {relative[:200]!r} {reason}; ask for a file inside the skill folder, such as"
        " 'references/guide.md'."
    )


def open_in_skill(skill_dir: Path, relative: str) -> int:
    """Open a file of a skill for reading, component by component and never through a link.

    Args:
        skill_dir: The skill folder, trusted.
        relative: Path below it with ``/`` between the parts, not trusted.

    Returns:
        A file descriptor of a regular file; the caller closes it.

    Raises:
        UnsafePathError: `confine` refuses the path, or it meets a link, a folder where a file is
            wanted, or a special file.
        SkillError: There is no such file, or it cannot be read; names the files that come near.
    """
    path = confine(relative)
    try:
        fd = _open_below(skill_dir, path.parts)
    except OSError as error:
        raise _open_error(skill_dir, relative, path, error) from error
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise _unsafe(relative, "is not a regular file")


def _open_below(folder: Path, parts: tuple[str, ...]) -> int:
    """Open a path below a folder without following any link."""
    fd = os.open(folder, _FOLDER_FLAGS)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
        return os.open(parts[-1], _READ_FLAGS, dir_fd=fd)
    finally:
        os.close(fd)


def _open_error(skill_dir: Path, relative: str, path: PurePosixPath, error: OSError) -> SkillError:
    """Translate a failure to open: a link, a special file, a missing file or a forbidden one."""
    if error.errno == errno.ELOOP or _meets_link(skill_dir, path):
        return _unsafe(relative, "leads through a link")
    if error.errno == errno.ENXIO:
        return _unsafe(relative, "is not a regular file")
    if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}:
        return SkillError(f"The file {relative!r} cannot be read: {error.strerror}.")
    files, _ = list_files(skill_dir)
    near = difflib.get_close_matches(str(path), files, n=5, cutoff=0.5)
    hint = f" Did you mean: {', '.join(near)}?" if near else " List the skill's files first."
    return SkillError(f"The skill has no file {relative!r}.{hint}")


def _meets_link(skill_dir: Path, path: PurePosixPath) -> bool:
    """Say whether a part of a path is a link; only words the message, decides nothing."""
    with suppress(OSError):
        return any((skill_dir / part).is_symlink() for part in (path, *path.parents) if part.parts)
    return False


def read_file(skill_dir: Path, relative: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
    """Read a file of a skill whole.

    Args:
        skill_dir: The skill folder, trusted.
        relative: Path below it, not trusted.
        limit: Bytes that it may have at most.

    Returns:
        The bytes.

    Raises:
        UnsafePathError: As `open_in_skill`.
        SkillError: There is no such file, it cannot be read, or is larger than ``limit``.
    """
    fd = open_in_skill(skill_dir, relative)
    try:
        data = _read_up_to(fd, os.fstat(fd), limit)
    except OSError as error:
        raise SkillError(f"The file {relative!r} cannot be read: {error.strerror}.") from error
    finally:
        os.close(fd)
    if data is None:
        raise SkillError(f"The file {relative!r} is larger than {limit} bytes; read it in parts.")
    return data


def list_files(skill_dir: Path, *, limit: int = MAX_LISTED_FILES) -> tuple[tuple[str, ...], bool]:
    """List the regular files of a skill, SKILL.md aside.

    No link is followed or listed; machinery (`SKIPPED_FOLDERS`) is left out, as are names that
    are not UTF-8. Depth and the number of entries looked at are bounded.

    Args:
        skill_dir: The skill folder.
        limit: How many files to return at most.

    Returns:
        Paths below the folder, sorted, and whether some are missing from them.

    Raises:
        SkillError: The folder cannot be read.
    """
    listing = _Listing(limit)
    try:
        fd = os.open(skill_dir, _FOLDER_FLAGS)
    except OSError as error:
        raise SkillError(
            f"The folder {printable(skill_dir)!r} cannot be read: {error.strerror}."
        ) from (error)
    try:
        listing.add_folder(fd, "")
    finally:
        os.close(fd)
    return tuple(sorted(listing.files)), listing.truncated


class _Listing:
    """The files found so far, and what may still be looked at."""

    def __init__(self, limit: int) -> None:
        self.files: list[str] = []
        self.truncated = False
        self._is_full = False
        self._limit = limit
        self._entries_left = _MAX_ENTRIES_SEEN

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
        """Add one file, or note that there are too many."""
        if len(self.files) < self._limit:
            self.files.append(path)
        else:
            self.truncated = self._is_full = True

    def _add_subfolder(self, fd: int, name: str, prefix: str) -> None:
        """Open a folder below an open one and add its files; unreadable ones are left out."""
        if prefix.count("/") > _MAX_LIST_DEPTH:
            self.truncated = True
            return
        try:
            inner = os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=fd)
        except OSError:
            self.truncated = True
            return
        try:
            self.add_folder(inner, prefix)
        finally:
            os.close(inner)

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
                if not is_utf8(entry.name):
                    self.truncated = True
                elif entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
                elif entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED_FOLDERS:
                    folders.append(entry.name)
        return sorted(files), sorted(folders)
