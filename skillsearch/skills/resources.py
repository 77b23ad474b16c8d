"""The only module that opens or lists the files of a skill: bounded, and never through a link.

Links inside a skill are refused even if their target is inside it too; the one concession is a
SKILL.md that links to a text inside the roots. Of a hard link, its owner decides
(`is_foreign_link`).
"""

from __future__ import annotations

import base64
import difflib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from skillsearch.errors import ParseError, SkillError, explained
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.files.openat import (
    FOLDER_FLAGS,
    READ_FLAGS,
    is_foreign_link,
    open_file,
    open_folder,
    read_opened,
    using,
)
from skillsearch.files.paths import confine, is_plain, printable, shown, unsafe_path
from skillsearch.skills.findings import finding_of
from skillsearch.skills.folders import is_thrown_away
from skillsearch.skills.words import WORDS
from skillsearch.text.safe_text import listed
from skillsearch.types.json_values import is_whole
from skillsearch.types.skills import SKILL_MD, SKILL_MD_NAMES, FileContent, is_skill_md

MAX_SKILL_MD_BYTES = 1024 * 1024
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_LISTED_FILES = 2_000
SKIPPED_FOLDERS = frozenset(WORDS["folders"]["machinery"])
"""Folders that hold machinery rather than skills or their documents."""
_SKIPPED_FILES = lazy_pattern(
    r"\.DS_Store|Thumbs\.db|desktop\.ini|\.git|\._.*|.*\.py[co]|.*~|\..*\.sw[op]", re.IGNORECASE
)
"""Files that systems and programs leave behind."""

MAX_DEPTH = 12
"""Folders that are entered, one in the other, below a root or a skill."""
MAX_ENTRIES = 20_000
"""Entries of a skill folder that are looked at; it may contain all other skills."""

_CODES = {
    **dict.fromkeys((errno.ENXIO, errno.EINVAL), "not-a-regular-file"),
    errno.EFBIG: "file-too-large",
}
_NAMING = lazy_pattern(rb"(?i)\s*+@?(\.{1,2}/[^\n\0]{1,500}?|[^\s\0@][^\s\0]{0,500}\.md)\s*+")
"""A link that git checked out as text, or a host's way to include a file."""
_MAX_NAMING_BYTES = 1024
_TEXTS = frozenset({".md", ".markdown", ".mdc", ".mdx", ".txt"})
"""Endings of what a SKILL.md may link to beyond its folder: nothing that could hold a key."""
_SCRIPTS = "scripts"
_MAX_NAMED_FILES = 40
_MAX_COMPARED_FILES = 200
_MAX_COMPARED_CHARS = 100
"""Bounds of the search for names that come near: to compare two takes the product of lengths."""


def read_skill_md(path: Path, roots: Collection[Path | str] = ()) -> tuple[bytes, os.stat_result]:
    """Read a SKILL.md whole; return its bytes and the status of the opened file.

    It may be a link to a text in one of the `roots`, which are real paths. A FIFO or device does
    not block. A file that is refused, or that only names another, raises `ParseError` with a code
    of ``findings.txt``; a hard link to another user's file leaves the skill.
    """
    try:
        with using(_open_skill_md(path, roots)) as fd:
            if is_foreign_link(os.fstat(fd), path.parent.stat().st_uid):
                raise _refused(path, "link-leaves-skill")
            data, status = read_opened(fd, MAX_SKILL_MD_BYTES)
    except OSError as error:
        code = _CODES.get(error.errno or 0, "file-unreadable")
        detail = MAX_SKILL_MD_BYTES if code == "file-too-large" else error.strerror or error
        raise _refused(path, code, detail) from error
    named = _NAMING.fullmatch(data) if len(data) <= _MAX_NAMING_BYTES else None
    if named and (target := os.fsdecode(named[1])) != path.name:
        code = "names-skill" if _is_skill(path.parent / target, roots) else "names-file"
        raise _refused(path, code, printable(target))
    return data, status


def _is_skill(path: Path, roots: Collection[Path | str]) -> bool:
    """Return whether a path leads to a SKILL.md, or the folder of one, that counts in some root."""
    with suppress(OSError, ValueError):
        target = Path(os.path.realpath(path))
        for root in filter(target.is_relative_to, map(Path, roots)):
            below = ((target / SKILL_MD) if target.is_dir() else target).relative_to(root).parts
            is_left_out = any(name in SKIPPED_FOLDERS or is_thrown_away(name) for name in below)
            if is_skill_md(below[-1]) and not is_left_out:
                with using(open_file(root, below)) as fd:
                    return _NAMING.fullmatch(os.read(fd, _MAX_NAMING_BYTES)) is None
    return False


def _open_skill_md(path: Path, roots: Collection[Path | str]) -> int:
    """Open a SKILL.md; through a link only into the folder, or to a text in a root."""
    try:
        return os.open(path, READ_FLAGS)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    folder = Path(os.path.realpath(path.parent))
    target = Path(os.path.realpath(path))
    if target == folder:
        raise _refused(path, "not-a-regular-file")
    around = (folder, *(roots if target.suffix.lower() in _TEXTS else ()))
    for root in map(Path, around):
        if target.is_relative_to(root):
            return open_file(root, target.relative_to(root).parts)
    raise _refused(path, "link-leaves-skill")


def _refused(path: Path, code: str, detail: object = "") -> ParseError:
    fault = finding_of("resources", code, printable(path), detail)
    return ParseError(fault.message, code=code, severity=fault.severity)


def content_hash(data: bytes) -> str:
    """Return the hash that identifies a file's bytes: sha256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def open_in_skill(skill_dir: Path, relative: str, *, folders: Sequence[str] = ()) -> int:
    """Open a regular file of a skill, component by component; the caller closes the descriptor.

    `relative` is not trusted; it must lie in one of the `folders` if any are given. If `confine`
    refuses it, or it meets a link, a folder, a special file, or a hard link to another user's file,
    `UnsafePathError` is raised; for a missing file, a `SkillError` that names similar ones.
    """
    relative = _without_folder(skill_dir, relative)
    # A list of files gives names as they are on disk, where these may be letters as any other.
    if "\\" in relative:
        exact, path = PurePosixPath(relative), confine(relative, folders)
        is_within = not folders or exact.parts[0] == path.parts[0]
        if is_within and relative in list_files(skill_dir)[0]:
            return _open_confined(skill_dir, exact, relative)
    if "%" in relative:
        as_listed = confine(relative.replace("%", "%25"), folders)
        if os.path.lexists(skill_dir / as_listed):
            return _open_confined(skill_dir, as_listed, relative)
    return _open_confined(skill_dir, confine(relative, folders), relative)


def _without_folder(skill_dir: Path, relative: str) -> str:
    """Return a path below the skill's folder; hosts also ask by the absolute path."""
    return relative.removeprefix(f"{skill_dir}/") if skill_dir.is_absolute() else relative


def _open_confined(skill_dir: Path, path: PurePosixPath, relative: str) -> int:
    """Open a path that `confine` let pass; messages quote it as it was requested."""
    try:
        folder = skill_dir.stat()
        fd = open_file(skill_dir, path.parts)
    except OSError as error:
        raise _open_error(skill_dir, relative, path, error) from error
    file = os.fstat(fd)
    is_regular = stat.S_ISREG(file.st_mode)
    if is_regular and not is_foreign_link(file, folder.st_uid):
        return fd
    os.close(fd)
    reason = "a hard link to the file of another user" if is_regular else "not a regular file"
    if stat.S_ISDIR(file.st_mode):
        within = (name for name in list_files(skill_dir)[0] if name.startswith(f"{path}/"))
        reason += f" but a folder of {listed(within, _MAX_NAMED_FILES) or 'none'}"
    raise unsafe_path(relative, f"is {reason}")


def _open_error(skill_dir: Path, relative: str, path: PurePosixPath, error: OSError) -> SkillError:
    """Translate a failure to open: a link, a special file, a missing file or a forbidden one."""
    is_link = error.errno == errno.ELOOP
    with suppress(OSError):
        inner = [skill_dir / part for part in (path, *path.parents) if part.parts]
        is_link = is_link or any(map(Path.is_symlink, inner))
    if is_link:
        return unsafe_path(relative, "leads through a link")
    if error.errno == errno.ENXIO:
        return unsafe_path(relative, "is not a regular file")
    if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}:
        return SkillError(f"The file {shown(relative)} cannot be read: {error.strerror}.")
    files, _ = list_files(skill_dir, limit=_MAX_COMPARED_FILES)
    # A name may hold hidden characters, which could mislead.
    plain = [file for file in files if file.isprintable()]
    near = difflib.get_close_matches(str(path)[:_MAX_COMPARED_CHARS], plain, n=5, cutoff=0.5)
    hint = f"Did you mean: {', '.join(near)}?" if near else "List the skill's files first."
    return SkillError(f"The skill has no file {shown(path)}. {hint}")


def read_file(
    skill_dir: Path, relative: str, *, limit: int = MAX_FILE_BYTES, folders: Sequence[str] = ()
) -> bytes:
    """Read a file of a skill whole, as `open_in_skill` opens it, up to `limit` bytes."""
    return read_with_status(skill_dir, relative, limit=limit, folders=folders)[0]


def read_with_status(
    skill_dir: Path, relative: str, *, limit: int = MAX_FILE_BYTES, folders: Sequence[str] = ()
) -> tuple[bytes, os.stat_result]:
    """Read as `read_file` does; return also the status of the opened file.

    A SkillError if the file cannot be read, or is larger than the limit.
    """
    with using(open_in_skill(skill_dir, relative, folders=folders)) as fd:
        try:
            return read_opened(fd, limit)
        except OSError as error:
            fault = f"cannot be read: {error.strerror or error}."
            if error.errno == errno.EFBIG:
                fault = f"is larger than {limit} bytes; split it up."
            raise SkillError(f"The file {shown(relative)} {fault}") from error


def script_path(skill_dir: Path, script: str) -> Path:
    """Return the absolute path of a script of a skill; refuses and raises as `open_in_skill`.

    A path, unlike an open file, is only as safe as its folder. `script` is relative to
    ``scripts/``; it may start with ``scripts/``, as in the list of files, unless that names a file
    of ``scripts/scripts/``.
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
    by which the caller knows the file, is not the hash of the file now. A SkillError if `offset` or
    `limit` has an unusable value.
    """
    most = 1 if limit is None else limit
    for name, value, lowest in (("offset", offset, 0), ("limit", most, 1)):
        if not is_whole(value) or value < lowest:
            wanted = f"a whole number of bytes, at least {lowest}"
            raise SkillError(f"{name} is {value!r:.50}; give {wanted}.")
    path = confine(_without_folder(skill_dir, relative), folders)
    data = read_file(skill_dir, relative, folders=folders)
    is_text = False
    with suppress(UnicodeDecodeError):
        is_text = "\0" not in data.decode()
    start, end = _bounds(data, offset, limit, is_text=is_text)
    page = data[start:end]
    content = page.decode() if is_text else base64.b64encode(page).decode("ascii")
    if is_text and not start:
        content = content.removeprefix("\ufeff")
    digest = hashlib.sha256(data).hexdigest()
    return FileContent(
        path=printable(path),
        content=content,
        encoding="text" if is_text else "base64",
        offset=start,
        next_offset=end if end < len(data) else None,
        size=len(data),
        content_hash=digest,
        stale=content_hash is not None and content_hash != digest,
    )


def _bounds(data: bytes, offset: int, limit: int | None, *, is_text: bool) -> tuple[int, int]:
    """Return where a page begins and ends; one of text has whole characters, at least one."""

    def is_inside(position: int) -> bool:
        return is_text and position < len(data) and data[position] & 0xC0 == 0x80

    start = min(int(offset), len(data))
    while is_inside(start):
        start -= 1
    end = len(data) if limit is None else min(start + int(limit), len(data))
    while is_inside(end):
        end -= 1
    if end == start < len(data):
        end += 1
        while is_inside(end):
            end += 1
    return start, end


def list_files(
    skill_dir: Path,
    *,
    limit: int = MAX_LISTED_FILES,
    max_entries: int = MAX_ENTRIES,
    depth: int = MAX_DEPTH,
) -> tuple[tuple[str, ...], bool]:
    """List the regular files of a skill except SKILL.md; return also whether some are missing.

    Paths are relative to the folder, as `open_in_skill` takes them. Links are neither followed nor
    listed. `SKIPPED_FOLDERS`, what systems leave behind, names that are not UTF-8 or hold hidden
    characters are left out; depth and entries are bounded. A folder that cannot be read raises
    `SkillError`.
    """
    files: list[str] = []
    is_cut = False
    waiting: list[tuple[str, ...]] = [()]
    unread = explained(SkillError, f"The folder {printable(skill_dir)!r} cannot be read: %s.")
    with unread, using(os.open(skill_dir, FOLDER_FLAGS)) as top:
        while waiting and len(files) <= limit and max_entries >= 0:
            parts = waiting.pop()
            kinds = _kinds(top, parts, max_entries)
            max_entries -= len(kinds)
            names = sorted(kinds)
            names_of_files = ["/".join((*parts, name)) for name in names if kinds[name] == "file"]
            files += [file for file in names_of_files if not is_skill_md(file)]
            inner = [(*parts, name) for name in reversed(names) if kinds[name] == "folder"]
            is_deep = len(parts) == depth
            waiting += [] if is_deep else inner
            is_cut |= "unlisted" in kinds.values() or (is_deep and inner != [])
    return tuple(sorted(files[:limit])), is_cut or len(files) > limit


def without_inner(skill_dir: Path, files: Iterable[str]) -> Iterator[str]:
    """Yield the listed files that do not belong to a skill inside this one."""
    is_skill: dict[PurePosixPath, bool] = {}
    for file in files:
        inner = [folder for folder in PurePosixPath(file).parents if folder.parts]
        for folder in inner:
            if folder not in is_skill:
                paths = (skill_dir / folder / name for name in SKILL_MD_NAMES)
                is_skill[folder] = any(map(os.path.lexists, paths))
        if not any(is_skill[folder] for folder in inner):
            yield file


def _kinds(top: int, parts: Sequence[str], limit: int) -> dict[str, str]:
    """Return the kinds of the entries of a folder: a file, a folder, or unlisted if odd or many."""
    kinds: dict[str, str] = {}
    try:
        with using(open_folder(top, parts)) as fd, os.scandir(fd) as entries:
            for entry in entries:
                is_kept = not _SKIPPED_FILES.fullmatch(entry.name)
                kind = "file" if is_kept and entry.is_file(follow_symlinks=False) else ""
                if entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED_FOLDERS:
                    kind = "folder"
                is_listed = len(kinds) < limit and is_plain(entry.name)
                kinds[entry.name] = kind if is_listed else "unlisted"
                if len(kinds) > limit:
                    break
    except OSError:
        if not parts:
            raise
        kinds[""] = "unlisted"
    return kinds
