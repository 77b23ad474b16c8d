"""Puts a skill into a workspace: a read-only copy, renewed only if the skill or the copy changed.

No link is followed. Anything that is not a plain file, or no longer one when it is read, is left
out with a note. Files are hashed as they are copied.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from skillsearch.errors import WorkspaceError
from skillsearch.execution.files import (
    COPY_LIMITS,
    CopyLimits,
    bounded,
    chunks_of,
    open_plain,
    reason,
    remove_tree,
    temporary_name,
)
from skillsearch.execution.metadata import SkillRecord
from skillsearch.execution.types import LINKS, Parts, StagedCopy, Tree
from skillsearch.execution.workspace import Workspace
from skillsearch.files.openat import CREATE_FLAGS, FOLDER_FLAGS, open_file, open_folder, using
from skillsearch.files.paths import shown
from skillsearch.text.safe_text import one_line

SKILLS = "skills"
VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})
"""Left out: the history of a skill is not part of it, and its settings may hold secrets."""
SETTLED_NS = 2_000_000_000
"""The coarsest clock of a file system: two changes between its ticks have the same time."""

_MAX_NAME_BYTES = 100
_GONE = {
    *(errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EINVAL),
    *(errno.EACCES, errno.EPERM),
}
"""Errors of an entry that has gone, has changed its kind, or is not for us to read."""


@dataclass(frozen=True, slots=True)
class StagedSkill:
    """The copy of a skill in a workspace.

    Attributes:
        rel_path: Its folder from the workspace, such as ``skills/tea-timer``.
        is_new: Whether it was copied just now.
        notes: What is missing from the copy, one sentence each.
    """

    name: str
    path: Path
    rel_path: str
    digest: str
    is_new: bool
    notes: tuple[str, ...] = ()


def stage_skill(
    workspace: Workspace,
    name: str,
    folder: Path,
    *,
    limits: CopyLimits = COPY_LIMITS,
    settled_ns: int = SETTLED_NS,
) -> StagedSkill:
    """Ensure that a workspace holds a skill as it is now.

    Files have mode 0444 or 0555 and folders 0555; ``out``, ``work`` and ``inputs`` in the skill's
    folder link to those of the workspace. Nothing is copied if neither the skill nor the copy has
    changed since this process made it. The folder itself is trusted, its contents are not. Raises
    a `WorkspaceError` if the skill cannot be read or copied, or is too large.
    """
    with workspace.guard:
        try:
            with using(open_folder(folder)) as source:
                return _Stager(workspace, name, limits, settled_ns).stage(source)
        except OSError as exc:
            raise WorkspaceError(
                f"The skill {shown(name)} cannot be copied from {shown(folder)} to "
                f"{shown(workspace.skills)}: {exc.strerror}."
            ) from exc


def folder_name(name: str) -> str:
    """Return the name of the folder that a skill is staged in.

    It is the skill's name, if that is a possible and visible file name of at most 100 bytes; else
    what remains of it, and the beginning of its sha256.
    """
    safe = one_line(name).replace("/", "-").replace("\\", "-").lstrip(".")
    if safe and safe == name and len(safe.encode()) <= _MAX_NAME_BYTES:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    kept = safe.encode()[: _MAX_NAME_BYTES - 9].decode(errors="ignore")
    return f"{kept}-{digest[:8]}"


class _Stager:
    """Stages one skill."""

    def __init__(
        self, workspace: Workspace, name: str, limits: CopyLimits, settled_ns: int
    ) -> None:
        self._workspace = workspace
        self._name = name
        self._safe = folder_name(name)
        self._limits = limits
        self._settled_ns = settled_ns

    def stage(self, source: int) -> StagedSkill:
        """Stage the skill from its open folder, unless the last copy is still good."""
        tree = self._list(source)
        known = self._workspace.staged.get(self._name)
        kept = known and self._updated(known, source, tree)
        staged = kept or self._copy(source, tree)
        rel_path = f"{SKILLS}/{self._safe}"
        if not kept:
            self._workspace.record(SkillRecord(self._name, rel_path, staged.digest))
        self._workspace.staged[self._name] = staged
        path = self._workspace.skills / self._safe
        return StagedSkill(self._name, path, rel_path, staged.digest, not kept, staged.notes)

    def _list(self, folder: int) -> Tree:
        return list_tree(folder, self._limits, self._settled_ns)

    def _updated(self, known: StagedCopy, source: int, tree: Tree) -> StagedCopy | None:
        """Return an updated record of a copy; None if it has to be made anew."""
        before = known.source
        if (tree.executables, tree.notes) != (before.executables, before.notes):
            return None
        if not self._has_same_files(source, tree, before, known.digest):
            return None
        try:
            with using(self._workspace.open(SKILLS, self._safe)) as folder:
                copy = self._list(folder)
                is_same = copy.state == known.copy.state and self._has_same_files(
                    folder, copy, known.copy, known.digest
                )
        except (OSError, WorkspaceError):
            return None  # whatever lies there, we did not leave it
        return replace(known, source=tree, copy=copy) if is_same else None

    def _has_same_files(self, folder: int, tree: Tree, before: Tree, digest: str) -> bool:
        """Return whether an open folder holds the same files as before; read only in doubt."""
        if tree.state == before.state and before.is_settled:
            return True
        return digest_tree(folder, tree, limits=self._limits)[0] == digest

    def _copy(self, source: int, tree: Tree) -> StagedCopy:
        """Copy the skill to a temporary name first, so that nobody ever sees half of it."""
        temporary = temporary_name()
        with using(self._workspace.open(SKILLS)) as skills:
            try:
                with using(open_folder(skills, (temporary,), make=True)) as copy:
                    digest, notes = self._fill(copy, source, tree)
                    if not remove_tree(skills, self._safe):
                        old = shown(self._workspace.skills / self._safe)
                        raise WorkspaceError(f"{old} cannot be removed; close the workspace.")
                    os.rename(temporary, self._safe, src_dir_fd=skills, dst_dir_fd=skills)
                    left = self._list(copy)
            finally:
                remove_tree(skills, temporary)
        return StagedCopy(tree, left, digest, bounded((*tree.notes, *notes)))

    def _fill(self, copy: int, source: int, tree: Tree) -> tuple[str, tuple[str, ...]]:
        """Copy a tree into an empty open folder as read-only; return its hash, and notes."""
        for parts in tree.folders:
            os.close(open_folder(copy, parts, make=True))
        digest, notes = digest_tree(source, tree, copy, limits=self._limits)
        for name, target in LINKS.items():
            os.symlink(target, name, dir_fd=copy)
        for parts in (*tree.folders, ()):
            with using(open_folder(copy, parts)) as folder:
                os.fchmod(folder, 0o555)
        return digest, notes


def list_tree(
    folder: int,
    limits: CopyLimits = COPY_LIMITS,
    settled_ns: int = SETTLED_NS,
) -> Tree:
    """List an open folder, without `VERSION_CONTROL` and entries at the top named as `LINKS`.

    Raises a `WorkspaceError` if there is too much in it or it is too deep, and an `OSError` if it
    cannot be read.
    """
    listing = _Listing(limits)
    listing.add_folder(folder, ())
    return Tree(
        tuple(sorted(listing.files, key=_on_disk)),
        tuple(listing.folders),
        frozenset(listing.executables),
        tuple(sorted(listing.state.items())),
        listing.newest + settled_ns < time.time_ns(),
        tuple(sorted(listing.notes)),
    )


def digest_tree(
    folder: int,
    tree: Tree,
    into: int | None = None,
    *,
    limits: CopyLimits = COPY_LIMITS,
) -> tuple[str, tuple[str, ...]]:
    """Hash the listed files of an open folder, and copy them in the same reading.

    ``into`` must hold the same folders and no files; executable files get mode 0555 there, all
    others 0444. Returns the sha256 of each path and the bytes of its file, both followed by a NUL,
    and notes on files that are left out.
    """
    digest = hashlib.sha256()
    notes: list[str] = []
    owner = os.fstat(folder).st_uid
    total = 0
    for parts in tree.files:
        try:
            fd = open_plain(folder, parts, owner)
        except OSError as exc:
            notes.append(_left_out(parts, exc))
            continue
        with using(fd):
            digest.update(_on_disk(parts) + b"\0")
            for chunk in _read(fd, parts, total, into, limits):
                total += len(chunk)
                digest.update(chunk)
            digest.update(b"\0")
    return digest.hexdigest(), tuple(notes)


class _Listing:
    """The entries found so far."""

    def __init__(self, limits: CopyLimits) -> None:
        self.files: list[Parts] = []
        self.folders: list[Parts] = []
        self.executables: list[Parts] = []
        self.state: dict[Parts, tuple[int | str, ...]] = {}
        self.notes: list[str] = []
        self.newest = 0
        self._count = 0
        self._limits = limits

    def add_folder(self, fd: int, above: Parts) -> None:
        """Add an open folder and everything below it."""
        if len(above) > self._limits.depth:
            raise WorkspaceError(
                f"{_quoted(above)} lies more than {self._limits.depth} folders deep; make the skill"
                " flatter."
            )
        self._add_state(above, os.fstat(fd))
        inner: list[Parts] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.name not in VERSION_CONTROL:
                    self._add(fd, (*above, entry.name), inner)
        for parts in inner:
            try:
                folder = os.open(parts[-1], FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=fd)
            except OSError as exc:
                self.notes.append(_left_out(parts, exc))
                continue
            with using(folder):
                self.folders.append(parts)
                self.add_folder(folder, parts)

    def _add(self, folder: int, parts: Parts, inner: list[Parts]) -> None:
        """Add one entry of an open folder, and a folder also to those still to be entered."""
        try:
            status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            target = os.readlink(parts[-1], dir_fd=folder) if stat.S_ISLNK(status.st_mode) else ""
        except OSError as exc:
            if exc.errno not in _GONE:
                raise
            return
        self._add_state(parts, status, target)
        if len(parts) == 1 and parts[0] in LINKS:
            if target != LINKS[parts[0]]:
                self.notes.append(f"{_quoted(parts)} gives way to a folder of the workspace.")
            return
        self._count += 1
        if self._count > self._limits.entries:
            raise WorkspaceError(
                f"The skill has more than {self._limits.entries:,} files and folders; move what no"
                " command needs out of it."
            )
        if stat.S_ISDIR(status.st_mode):
            inner.append(parts)
        elif stat.S_ISREG(status.st_mode):
            self.files.append(parts)
            if status.st_mode & 0o111:
                self.executables.append(parts)
        else:
            kind = "a link" if target else "a special file"
            self.notes.append(f"{_quoted(parts)} was left out: it is {kind}.")

    def _add_state(self, parts: Parts, status: os.stat_result, target: str = "") -> None:
        """Add everything that tells an entry from a changed one."""
        times = status.st_mtime_ns, status.st_ctime_ns
        self.state[parts] = (status.st_mode, status.st_ino, status.st_size, *times, target)
        self.newest = max(self.newest, status.st_ctime_ns)


def _read(
    fd: int, parts: Parts, before: int, into: int | None, limits: CopyLimits
) -> Iterator[bytes]:
    """Yield the contents of an open file, and copy it; `before` bytes were read of others."""
    size = 0
    with (
        nullcontext() if into is None else os.fdopen(open_file(into, parts, CREATE_FLAGS), "wb")
    ) as copy:
        for chunk in chunks_of(fd, limits.file_bytes + 1):
            size += len(chunk)
            if size > limits.file_bytes:
                raise WorkspaceError(
                    f"{_quoted(parts)} is larger than {limits.file_bytes >> 20} MiB, too large for"
                    " a file of a skill; give it to the command as an input."
                )
            if before + size > limits.total_bytes:
                raise WorkspaceError(
                    f"The skill is larger than {limits.total_bytes >> 20} MiB; give large files to"
                    " the command as inputs."
                )
            yield chunk
            if copy is not None:
                copy.write(chunk)
        if copy is not None:
            os.fchmod(copy.fileno(), 0o555 if os.fstat(fd).st_mode & 0o111 else 0o444)


def _on_disk(parts: Parts) -> bytes:
    """Return a path as the file system has it, which is also the key that paths are sorted by."""
    return os.fsencode("/".join(parts))


def _quoted(parts: Parts) -> str:
    return shown("/".join(parts))


def _left_out(parts: Parts, error: OSError) -> str:
    """Return the note on an entry that cannot be opened; raise an error it is not to blame for."""
    if error.errno not in _GONE:
        raise error
    return f"{_quoted(parts)} was left out: {reason(error)}."
