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
from dataclasses import dataclass, replace
from pathlib import Path

from skillsearch.errors import WorkspaceError
from skillsearch.execution import files
from skillsearch.execution.types import LINKS, Parts, StagedSkill, Tree
from skillsearch.execution.workspace import Workspace
from skillsearch.files.file_stat import RACY_NS, is_racy
from skillsearch.files.openat import CREATE_FLAGS, FOLDER_FLAGS, open_file, open_folder, using
from skillsearch.files.paths import shown
from skillsearch.text.safe_text import one_line

SKILLS = "skills"
VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})
"""Left out: the history of a skill is not part of it, and its settings may hold secrets."""

_MAX_NAME_BYTES = 100
_GONE = {
    *(errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EINVAL),
    *(errno.EACCES, errno.EPERM),
}
"""Errors of an entry that has gone, has changed its kind, or is not for us to read."""


def stage_skill(
    workspace: Workspace,
    name: str,
    folder: Path,
    *,
    limits: files.CopyLimits = files.COPY_LIMITS,
    racy_ns: int = RACY_NS,
) -> StagedSkill:
    """Ensure that a workspace holds a skill as it is now, read-only and with `LINKS`.

    The folder itself is trusted, its contents are not. Raises a `WorkspaceError` if the skill
    cannot be read or copied, or is too large.
    """
    stager = _Stager(workspace, folder_name(name), limits, racy_ns)
    with workspace.guard:
        try:
            with using(open_folder(folder)) as source:
                known = workspace.staged.get(name)
                tree = list_tree(source, files.Budget(limits))
                kept = known and stager.updated(known, source, tree)
                staged = kept or stager.copy(source, tree)
        except OSError as exc:
            raise WorkspaceError(
                f"The skill {shown(name)} cannot be copied from {shown(folder)} to "
                f"{shown(workspace.skills)}: {exc.strerror}."
            ) from exc
        if staged.is_new:
            workspace.record_skill(name, staged)
        workspace.staged[name] = staged
    return staged


def folder_name(name: str) -> str:
    """Return the name of the folder of a skill: its own name, with a hash if that is impossible."""
    safe = one_line(name).replace("/", "-").replace("\\", "-").lstrip(".")
    if safe and safe == name and len(safe.encode()) <= _MAX_NAME_BYTES:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    kept = safe.encode()[: _MAX_NAME_BYTES - 9].decode(errors="ignore")
    return f"{kept}-{digest[:8]}"


@dataclass(frozen=True, slots=True)
class _Stager:
    workspace: Workspace
    folder: str
    limits: files.CopyLimits
    racy_ns: int

    def updated(self, known: StagedSkill, source: int, tree: Tree) -> StagedSkill | None:
        """Return an updated record of a copy; None if it has to be made anew."""
        before = known.source
        if (tree.files, tree.notes) != (before.files, before.notes) or not self._is_same(
            source, tree, before, known.digest
        ):
            return None
        try:
            with using(self.workspace.open(SKILLS, self.folder)) as folder:
                copy = list_tree(folder, files.Budget(self.limits))
                is_same = copy.state == known.copy.state and self._is_same(
                    folder, copy, known.copy, known.digest
                )
        except (OSError, WorkspaceError):
            return None  # whatever lies there, we did not leave it
        return replace(known, source=tree, copy=copy, is_new=False) if is_same else None

    def _is_same(self, folder: int, tree: Tree, before: Tree, digest: str) -> bool:
        """Return whether an open folder holds the same files as before; read only in doubt."""
        # A clock that was set back tells nothing: what is newer than the listing counts as racy.
        newest = min(before.newest_ns, before.seen_ns)
        if tree.state == before.state and not is_racy(newest, before.seen_ns, self.racy_ns):
            return True
        return digest_tree(folder, tree, files.Budget(self.limits))[0] == digest

    def copy(self, source: int, tree: Tree) -> StagedSkill:
        """Copy the skill to a temporary name first, so that nobody ever sees half of it."""
        temporary, path = files.temporary_name(), self.workspace.skills / self.folder
        with using(self.workspace.open(SKILLS)) as skills:
            try:
                with using(open_folder(skills, (temporary,), make=True)) as copy:
                    for parts in tree.folders:
                        os.close(open_folder(copy, parts, make=True))
                    digest, notes = digest_tree(source, tree, files.Budget(self.limits), copy)
                    for name, target in LINKS.items():
                        os.symlink(target, name, dir_fd=copy)
                    for parts in (*tree.folders, ()):
                        with using(open_folder(copy, parts)) as folder:
                            os.fchmod(folder, 0o555)
                    if not files.remove_tree(skills, self.folder):
                        raise WorkspaceError(
                            f"{shown(path)} cannot be removed; close the workspace."
                        )
                    os.rename(temporary, self.folder, src_dir_fd=skills, dst_dir_fd=skills)
                    left = list_tree(copy, files.Budget(self.limits))
            finally:
                files.remove_tree(skills, temporary)
        rel_path, all_notes = f"{SKILLS}/{self.folder}", files.bounded([*tree.notes, *notes])
        return StagedSkill(path, rel_path, digest, tree, left, all_notes, is_new=True)


def list_tree(folder: int, budget: files.Budget, root: Parts = ()) -> Tree:
    """List an open folder: of an input, whose paths in messages begin with `root`, or of a skill.

    Of a skill, `VERSION_CONTROL` and entries at the top named as `LINKS` are left out.
    """
    tree = Tree(time.time_ns())
    _Listing(tree, budget, root).add_folder(folder, ())
    tree.files = {parts: tree.files[parts] for parts in sorted(tree.files, key=_on_disk)}
    tree.notes.sort()
    return tree


def open_files(
    folder: int, tree: Tree, notes: list[str], root: Parts = ()
) -> Iterator[tuple[Parts, int]]:
    """Yield the listed files of an open folder, each open until the next; note what is left out."""
    owner = os.fstat(folder).st_uid
    for parts in tree.files:
        try:
            fd = files.open_plain(folder, parts, owner)
        except OSError as exc:
            notes.append(_left_out("/".join((*root, *parts)), exc))
            continue
        with using(fd):
            yield parts, fd


def digest_tree(
    folder: int, tree: Tree, budget: files.Budget, into: int | None = None
) -> tuple[str, list[str]]:
    """Hash the listed files of an open folder, and copy them into the same folders elsewhere.

    Returns the sha256 of all paths and bytes, and notes on files that are left out.
    """
    digest = hashlib.sha256()
    notes: list[str] = []
    for parts, fd in open_files(folder, tree, notes):
        digest.update(_on_disk(parts) + b"\0")
        chunks = budget.taken(fd, "/".join(parts))
        for chunk in chunks if into is None else _copied(chunks, fd, into, parts):
            digest.update(chunk)
        digest.update(b"\0")
    return digest.hexdigest(), notes


def _copied(chunks: Iterator[bytes], fd: int, into: int, parts: Parts) -> Iterator[bytes]:
    with os.fdopen(open_file(into, parts, CREATE_FLAGS), "wb") as copy:
        for chunk in chunks:
            yield chunk
            copy.write(chunk)
        os.fchmod(copy.fileno(), 0o555 if os.fstat(fd).st_mode & 0o111 else 0o444)


@dataclass(frozen=True, slots=True)
class _Listing:
    tree: Tree
    budget: files.Budget
    root: Parts

    def add_folder(self, fd: int, above: Parts) -> None:
        """Add an open folder and everything below it."""
        self.budget.check("depth", len(above), "/".join((*self.root, *above)))
        self._add_state(above, os.fstat(fd))
        inner: list[Parts] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                parts = (*above, entry.name)
                is_left_out = not self.root and entry.name in VERSION_CONTROL
                if not is_left_out and self._is_folder(fd, parts):
                    inner.append(parts)
        for parts in inner:
            try:
                folder = os.open(parts[-1], FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=fd)
            except OSError as exc:
                self.tree.notes.append(_left_out("/".join((*self.root, *parts)), exc))
                continue
            with using(folder):
                self.tree.folders.append(parts)
                self.add_folder(folder, parts)

    def _is_folder(self, folder: int, parts: Parts) -> bool:
        """Add an entry of an open folder, and return whether it is a folder to be entered."""
        try:
            status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            target = os.readlink(parts[-1], dir_fd=folder) if stat.S_ISLNK(status.st_mode) else ""
        except OSError as exc:
            if exc.errno not in _GONE:
                raise
            return False
        self._add_state(parts, status, target)
        path = "/".join((*self.root, *parts))
        if path in LINKS:
            if target != LINKS[path]:
                self.tree.notes.append(f"{shown(path)} gives way to a folder of the workspace.")
            return False
        self.budget.entries += 1
        self.budget.check("entries", self.budget.entries, path)
        if stat.S_ISREG(status.st_mode):
            self.tree.files[parts] = bool(status.st_mode & 0o111)
        elif not stat.S_ISDIR(status.st_mode):
            error = OSError(errno.ELOOP if target else errno.ENXIO, "")
            self.tree.notes.append(_left_out(path, error))
        return stat.S_ISDIR(status.st_mode)

    def _add_state(self, parts: Parts, status: os.stat_result, target: str = "") -> None:
        """Add everything that tells an entry from a changed one."""
        times = status.st_mtime_ns, status.st_ctime_ns
        self.tree.state[parts] = (status.st_mode, status.st_ino, status.st_size, *times, target)
        self.tree.newest_ns = max(self.tree.newest_ns, status.st_ctime_ns)


def _on_disk(parts: Parts) -> bytes:
    return os.fsencode("/".join(parts))


def _left_out(path: str, error: OSError) -> str:
    """Return the note on an entry that cannot be opened; raise an error it is not to blame for."""
    if error.errno not in _GONE:
        raise error
    return f"{shown(path)} was left out: {files.reason(error)}."
