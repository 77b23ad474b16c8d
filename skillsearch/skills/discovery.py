"""Roots → the SKILL.md files below them, without opening any file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.paths import is_plain, is_utf8, printable
from skillsearch.skills.findings import finding_of
from skillsearch.skills.folders import is_in_trash, is_thrown_away
from skillsearch.skills.resources import MAX_DEPTH, SKIPPED_FOLDERS
from skillsearch.skills.words import WORDS
from skillsearch.text.safe_text import visible
from skillsearch.types.skills import (
    SKILL_MD,
    SKILL_MD_NAMES,
    Diagnostic,
    FileStat,
    Root,
    SkillFile,
    in_64_bits,
    is_skill_md,
)

MAX_FOLDERS = 2_500_000
"""Enough for two million skills; some 500 bytes of memory each."""

EMPTY: Mapping[str, str] = {}
_MAX_LOOKED_INTO = 2_000
"""Folders of all that are left out, in which a walk looks whether skills are lost by that."""
_NEAR_NAMES = frozenset(WORDS["files"]["near-skill-md"])
_RESOURCES = frozenset(WORDS["folders"]["of-resources"])
"""Folders of a skill whose own SKILL.md files are samples and documents."""
_finding = partial(finding_of, "discovery")


@dataclass(frozen=True, slots=True)
class Scope:
    """A folder to search on its own, with all below it if `is_deep`."""

    root: Root
    relative: str
    is_deep: bool


@dataclass(frozen=True, slots=True)
class Discovery:
    """Result of a walk over the roots: SKILL.md files by document id, and diagnostics by path.

    The `folders` are path and modification time (nanoseconds) of every listed one: while none of
    these times changes, no skill came or went.
    """

    files: tuple[SkillFile, ...]
    folders: tuple[tuple[str, int], ...]
    diagnostics: tuple[Diagnostic, ...]


def make_roots(
    paths: Iterable[Path], aliases: Mapping[str, str] = EMPTY
) -> tuple[list[Root], list[Diagnostic]]:
    """Check folders and give each a short unique alias; return a diagnostic for each unusable path.

    A folder given twice, or reached by the walk of another, counts once. The alias is the one that
    a real path has already, else the shortest end of the path that no other root shares or has. The
    order is kept.
    """
    unique: dict[Path, None] = {}
    diagnostics: list[Diagnostic] = []
    for path in paths:
        real, *problem = _check_root(path)
        if problem:
            diagnostics.append(Diagnostic(problem[0], "error", problem[1], printable(str(path))))
        else:
            unique[Path(real)] = None
    outermost: list[Path] = []
    for root in unique:
        around = set(root.parents) & unique.keys()
        outer = [
            other for other in unique if other in around and _is_walked(root.relative_to(other))
        ]
        if outer:
            diagnostics.append(_finding("root-nested", outer[0]).at(str(root)))
        else:
            outermost.append(root)
    return list(map(Root, outermost, _aliases(outermost, aliases))), diagnostics


def _check_root(path: Path) -> tuple[str, ...]:
    """Return the real path of a root; behind it, if it is unusable, a code and a message."""
    try:
        real = os.path.realpath(path, strict=True)
        is_folder = Path(real).is_dir()
    except (FileNotFoundError, NotADirectoryError):
        return "", "root-missing", "The folder does not exist; create it or correct the path."
    except (OSError, ValueError) as error:
        return "", "root-unreadable", f"The folder cannot be read: {error}."
    if not is_folder:
        return "", "root-not-a-folder", "This is not a folder; name the one that holds it."
    if not os.access(real, os.R_OK | os.X_OK):
        return "", "root-unreadable", "The folder cannot be read; check its permissions."
    if not is_utf8(real):
        return "", "path-not-utf8", "The folder's path is not UTF-8; rename it."
    return (real,)


def _is_walked(below: Path) -> bool:
    """Return whether a walk reaches a folder, given by its path below the root."""
    return len(below.parts) <= MAX_DEPTH and not any(map(is_skipped, below.parts))


def is_skipped(name: str) -> bool:
    """Return whether skills are never looked for in a folder of this name."""
    return name in SKIPPED_FOLDERS or is_thrown_away(name)


def _aliases(roots: Sequence[Path], held: Mapping[str, str]) -> list[str]:
    aliases = {root: held[str(root)] for root in roots if str(root) in held}
    new = [root for root in roots if root not in aliases]
    taken = set(aliases.values())
    for number, root in enumerate(new):
        length = 1
        while sum(other.parts[-length:] == root.parts[-length:] for other in new) > 1 or (
            length < len(root.parts) and _alias(root, length) in taken
        ):
            length += 1
        alias = _alias(root, length)
        aliases[root] = f"{alias}~{number}" if alias in taken else alias
        taken.add(aliases[root])
    return [aliases[root] for root in roots]


def _alias(root: Path, length: int) -> str:
    # A colon parts alias and folder in every document id, so an alias cannot hold one.
    return visible("/".join(root.parts[-length:])).replace(":", "_").replace("//", "/")


def discover(
    roots: Sequence[Root],
    scopes: Sequence[Scope] | None = None,
    *,
    leave_out: Path | None = None,
    max_folders: int = MAX_FOLDERS,
) -> Discovery:
    """Find the SKILL.md files below some roots, in a stable order, without opening any file.

    With `scopes`, only these folders are searched, with the same result; they may be gone. A folder
    counts once, by its real path: a link to a folder is followed only inside the roots. `leave_out`
    is skipped: the index, whose writing would look like a change of the skills.
    """
    walk = _Walk(roots, leave_out, max_folders)
    wanted = [Scope(root, "", True) for root in roots] if scopes is None else scopes
    deep: list[_Folder] = []
    alone: list[_Folder] = []
    for scope in wanted:
        path, depth = scope.root.path / scope.relative, len(Path(scope.relative).parts)
        is_new_link = scopes is not None and scope.is_deep and path.is_symlink()
        if not is_new_link:
            folder = _Folder(str(path), scope.root, scope.relative, depth)
            (deep if scope.is_deep else alone).append(folder)
    walk.run(deep)
    for folder in alone:
        walk.list_folder(folder)
    return Discovery(
        files=tuple(sorted(walk.files, key=lambda file: file.doc_id)),
        folders=tuple(sorted(walk.folders.items())),
        diagnostics=tuple(sorted(walk.diagnostics, key=attrgetter("path", "code"))),
    )


def scopes_at(roots: Sequence[Root], paths: Iterable[Path]) -> tuple[Scope, ...]:
    """Return where to look for changes below the roots at some paths, which may be gone."""
    scopes: dict[Scope, None] = {}
    for path in sorted(set(paths)):
        is_file = is_skill_md(path.name) or path.is_file()
        # Only the last part may be a link, which is not followed.
        folder = Path(os.path.realpath(path.parent)) / ("" if is_file else path.name)
        root = next((root for root in roots if folder.is_relative_to(root.path)), None)
        if root is not None and _is_walked(below := folder.relative_to(root.path)):
            scopes[Scope(root, "/".join(below.parts), not is_file)] = None
    return tuple(scopes)


def inside(scopes: Iterable[Scope]) -> Callable[[str], bool]:
    """Return a predicate for very many paths: would it have been seen in one of the scopes?"""
    wanted = [(str(scope.root.path / scope.relative), scope.is_deep) for scope in scopes]
    alone = {folder for folder, is_deep in wanted if not is_deep}
    deep = {folder for folder, is_deep in wanted if is_deep}
    below = tuple(f"{folder.rstrip('/')}/" for folder in deep)

    def is_inside(path: str) -> bool:
        return path.startswith(below) or path in deep or path.rpartition("/")[0] in alone

    return is_inside


def id_of(roots: Sequence[Root], path: Path) -> str | None:
    """Return the document id of a SKILL.md, which may be gone; None if it lies in no root."""
    root = next((root for root in roots if path.parent.is_relative_to(root.path)), None)
    return None if root is None else f"{root.alias}:{path.parent.relative_to(root.path).as_posix()}"


class _Folder(NamedTuple):
    """A folder yet to be listed: real path, root, path below the root, depth."""

    path: str
    root: Root
    relative: str
    depth: int


class _Walk:
    def __init__(self, roots: Sequence[Root], leave_out: Path | None, max_folders: int) -> None:
        self._left_out = "" if leave_out is None else os.path.realpath(leave_out)
        self._max_folders = max_folders
        self.files: list[SkillFile] = []
        self.folders: dict[str, int] = {}
        self.diagnostics: list[Diagnostic] = []
        self._roots = sorted(roots, key=lambda root: len(root.path.parts), reverse=True)
        self._waiting: list[_Folder] = []
        self._links: list[tuple[str, int]] = []
        self._looks_left = _MAX_LOOKED_INTO

    def run(self, folders: list[_Folder]) -> None:
        """List folders and all below them; links last, so that real folders win in any order."""
        self._waiting = folders
        while self._waiting or self._links:
            while self._waiting:
                folder = self._waiting.pop()
                if len(self.folders) >= self._max_folders:
                    self._report(folder.path, "too-many-folders", self._max_folders)
                    return
                self.list_folder(folder)
            links, self._links = sorted(self._links), []
            for path, depth in links:
                self._follow(path, depth)

    def list_folder(self, folder: _Folder) -> None:
        """List one folder: take its SKILL.md, queue its folders."""
        if folder.path in self.folders or folder.path == self._left_out:
            return
        skills: list[os.DirEntry[str]] = []
        near: list[str] = []
        try:
            # Stat first: a change while we list then shows as a newer time on the next walk.
            mtime_ns = os.stat(folder.path).st_mtime_ns  # noqa: PTH116 (twice as fast as Path.stat)
            self.folders[folder.path] = in_64_bits(mtime_ns)
            self._sort_entries(folder, skills, near)
        except FileNotFoundError:
            self.folders.pop(folder.path, None)
        except OSError as error:
            self._report(folder.path, "folder-unreadable", error.strerror)
        if skills:
            self._take_skill(folder, skills)
        elif near:
            self._report(near[-1], "file-name-near")

    def _sort_entries(
        self, folder: _Folder, skills: list[os.DirEntry[str]], near: list[str]
    ) -> None:
        """Queue the folders in a folder; add to the files that are, or nearly are, a SKILL.md."""
        with os.scandir(folder.path) as entries:
            for entry in entries:
                name = entry.name
                if is_skill_md(name):
                    skills.append(entry)
                elif entry.is_dir(follow_symlinks=False) or entry.is_symlink():
                    self._queue(folder, entry)
                elif name[:5].lower() == "skill" and name.lower() in _NEAR_NAMES:
                    near.append(entry.path)

    def _queue(self, folder: _Folder, entry: os.DirEntry[str]) -> None:
        """Queue a subfolder, or a link to one, unless a rule leaves it out."""
        name, path = entry.name, entry.path
        if is_skipped(name):
            if name not in SKIPPED_FOLDERS:
                self._report(path, "folder-kept-aside")
            return
        if entry.is_symlink():
            with suppress(OSError):
                if folder.depth < MAX_DEPTH and entry.is_dir():
                    self._links.append((path, folder.depth + 1))
        elif not is_plain(name):
            self._leave_out(path, "path-hidden-characters" if is_utf8(name) else "path-not-utf8")
        elif folder.depth >= MAX_DEPTH:
            self._leave_out(path, "folder-too-deep", MAX_DEPTH)
        else:
            relative = f"{folder.relative}/{name}" if folder.relative else name
            self._waiting.append(_Folder(path, folder.root, relative, folder.depth + 1))

    def _follow(self, link: str, depth: int) -> None:
        """Queue the target of a link if it lies inside a root."""
        real = os.path.realpath(link)
        if real in self.folders:
            return
        for root in self._roots:
            base = str(root.path).rstrip("/") + "/"
            if real.startswith(base) and is_plain(real[len(base) :]):
                self._waiting.append(_Folder(real, root, real[len(base) :], depth))
                return
        self._leave_out(link, "link-leaves-root", printable(real))

    def _leave_out(self, path: str, code: str, *values: object) -> None:
        """Report a folder that is left out, as an error if skills below it are lost by that."""
        skills, top = 0, path.count("/")
        for here, names, files in islice(os.walk(path), self._looks_left):
            self._looks_left -= 1
            skills += any(map(is_skill_md, files))
            is_deep = here.count("/") - top > MAX_DEPTH
            names[:] = [] if is_deep else [name for name in names if not is_skipped(name)]
        if skills:
            self._report(path, code, *values, skills)

    def _take_skill(self, folder: _Folder, entries: list[os.DirEntry[str]]) -> None:
        """Record the SKILL.md of a folder; the official spelling wins over others."""
        if is_in_trash(folder.relative):
            self._report(folder.path, "folder-kept-aside")
            return
        if outer := _document_of(folder):
            self._report(folder.path, "skill-in-skill", outer)
            return
        entry, *others = sorted(entries, key=lambda entry: (entry.name != SKILL_MD, entry.name))
        if entry.is_symlink() and (target := _other_skill(folder.root, entry.path)):
            self._report(entry.path, "link-to-skill", printable(target))
            return
        if entry.name != SKILL_MD:
            self._report(entry.path, "file-name-case", entry.name)
        for other in others:
            self._report(other.path, "file-name-twice", entry.name)
        try:
            status = entry.stat()
        except OSError as error:
            self._report(entry.path, "file-unreadable", error.strerror)
            return
        if not stat.S_ISREG(status.st_mode):
            self._report(entry.path, "not-a-regular-file")
            return
        doc_id = f"{folder.root.alias}:{folder.relative or '.'}"
        self.files.append(SkillFile(doc_id, Path(entry.path), folder.root, FileStat.of(status)))

    def _report(self, path: str, code: str, *values: object) -> None:
        self.diagnostics.append(_finding(code, *values).at(printable(path)))


def _document_of(folder: _Folder) -> str:
    """Return the folder of the skill that has a folder among its resources, or nothing."""
    parts = folder.relative.split("/")
    for depth, part in enumerate(parts):
        if part.lower() in _RESOURCES:
            outer = "/".join(parts[:depth])
            around = folder.root.path / outer
            if any(os.path.lexists(around / name) for name in SKILL_MD_NAMES):
                return outer or "."
    return ""


def _other_skill(root: Root, link: str) -> str:
    """Return the SKILL.md that a link leads to, if a walk over the root finds that; or nothing."""
    target = Path(os.path.realpath(link))
    if not target.is_relative_to(root.path) or not is_skill_md(target.name):
        return ""
    below = target.parent.relative_to(root.path)
    there = _Folder(str(target.parent), root, below.as_posix(), len(below.parts))
    is_left_out = is_in_trash(there.relative) or _document_of(there)
    is_found = target.is_file() and is_plain(str(below)) and _is_walked(below) and not is_left_out
    is_beside = there.path == os.path.realpath(Path(link).parent)
    return str(target) if is_found and not is_beside else ""
