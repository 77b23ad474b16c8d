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
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import WorkspaceError
from skillsearch.execution.types import LINKS, FileState, Parts, StagedSkill, Tree, path_below
from skillsearch.execution.workspaces import files
from skillsearch.execution.workspaces.workspace import Workspace
from skillsearch.files.openat import FOLDER_FLAGS, RACY_NS, is_racy, open_folder, using
from skillsearch.files.paths import shown
from skillsearch.text.safe_text import one_line

SKILLS = "skills"
VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})
"""Left out: the history of a skill is not part of it, and its settings may hold secrets."""

_GONE = {
    *(errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EINVAL),
    *(errno.EACCES, errno.EPERM),
}
"""Errors of an entry that has gone, has changed its kind, or is not for us to read."""


def stage_skill(
    workspace: Workspace, name: str, folder: Path, *, limits: files.CopyLimits = files.COPY_LIMITS
) -> StagedSkill:
    """Ensure that a workspace holds a skill as it is now, read-only and with `LINKS`.

    The folder itself is trusted, its contents are not. Raises a `WorkspaceError` if the skill
    cannot be read or copied, or is too large.
    """
    stager = _Stager(workspace, folder_name(name), limits)
    places = f"from {shown(folder)} to {shown(workspace.skills)}"
    failed = files.explained(f"The skill {shown(name)} cannot be copied {places}: %s.")
    with workspace.guard, failed, using(open_folder(folder)) as source:
        last = workspace.staged.get(name)
        tree = list_tree(source, files.Budget(limits))
        staged = (last and stager.updated(last, source, tree)) or stager.copy(source, tree)
        if staged.is_new:
            workspace.record_skill(name, staged)
        workspace.staged[name] = staged
    return staged


def folder_name(name: str) -> str:
    """Return the name of the folder of a skill: its own name, with a hash if that is impossible."""
    safe = one_line(name).replace("/", "-").replace("\\", "-").lstrip(".")
    return files.distinct_name(safe, name)


class _Stager(NamedTuple):
    workspace: Workspace
    folder: str
    limits: files.CopyLimits

    def updated(self, last: StagedSkill, source: int, tree: Tree) -> StagedSkill | None:
        """Return an updated record of a copy; None if it has to be made anew."""
        before = last.source
        is_listed_alike = (tree.files, tree.notes) == (before.files, before.notes)
        if not (is_listed_alike and self._is_same(source, tree, before, last.digest)):
            return None
        try:
            with using(self.workspace.open(SKILLS, self.folder)) as folder:
                copy = list_tree(folder, files.Budget(self.limits))
                is_same = copy.state == last.copy.state and self._is_same(
                    folder, copy, last.copy, last.digest
                )
        except (OSError, WorkspaceError):
            return None  # whatever lies there, we did not leave it
        return last._replace(source=tree, copy=copy, is_new=False) if is_same else None

    def _is_same(self, folder: int, tree: Tree, before: Tree, digest: str) -> bool:
        """Return whether an open folder holds the same files as before; read only in doubt."""
        # A clock that was set back tells nothing: what is newer than the listing counts as racy.
        newest = min(before.newest_ns, before.seen_ns)
        if tree.state == before.state and not is_racy(newest, before.seen_ns, RACY_NS):
            return True
        return digest_tree(folder, tree, files.Budget(self.limits)) == digest

    def copy(self, source: int, tree: Tree) -> StagedSkill:
        """Copy the skill to a temporary name first, so that nobody ever sees half of it."""
        temporary = files.temporary_name()
        budget = files.Budget(self.limits)
        path = self.workspace.skills / self.folder
        with using(self.workspace.open(SKILLS)) as skills:
            try:
                with using(open_folder(skills, (temporary,), make=True)) as copy:
                    digest = digest_tree(source, tree, budget, into=copy, mode=0o555)
                    for name, target in LINKS.items():
                        os.symlink(target, name, dir_fd=copy)
                    for parts in (*tree.folders, ()):
                        with using(open_folder(copy, parts)) as folder:
                            os.fchmod(folder, 0o555)
                    if not files.remove_tree(skills, self.folder):
                        message = f"{shown(path)} cannot be removed; close the workspace."
                        raise WorkspaceError(message)
                    os.rename(temporary, self.folder, src_dir_fd=skills, dst_dir_fd=skills)
                    left = list_tree(copy, files.Budget(self.limits))
            finally:
                files.remove_tree(skills, temporary)
        rel_path = f"{SKILLS}/{self.folder}"
        notes = files.bounded([*tree.notes, *budget.notes])
        return StagedSkill(path, rel_path, digest, tree, left, notes, is_new=True)


def list_tree(folder: int, budget: files.Budget, root: str = "") -> Tree:
    """List an open folder: of an input, whose paths in messages begin with `root`, or of a skill.

    Of a skill, `VERSION_CONTROL` and entries at the top named as `LINKS` are left out.
    """
    listing = _Listing(root, budget)
    listing.add_folder(folder, ())
    return listing.tree()


def digest_tree(
    folder: int, tree: Tree, budget: files.Budget, into: int | None = None, mode: int = 0o755
) -> str:
    """Return the sha256 of the listed files of an open folder, their paths and bytes.

    Folders and files are copied `into` another folder, files with no permissions beyond `mode`.
    """
    digest = hashlib.sha256()
    owner = os.fstat(folder).st_uid
    if into is not None:
        for parts in tree.folders:
            os.close(open_folder(into, parts, make=True))
    for parts, is_executable in tree.files.items():
        try:
            fd = files.open_plain(folder, parts, owner)
        except OSError as exc:
            budget.note(_left_out(tree.path(parts), exc))
            continue
        digest.update(_on_disk(parts) + b"\0")
        with using(fd):
            chunks = _hashed(budget.taken(fd, tree.path(parts)), digest)
            if into is None:
                deque(chunks, maxlen=0)
            else:
                allowed = mode & (0o755 if is_executable else 0o644)
                with using(open_folder(into, parts[:-1])) as above:
                    files.replace_file(above, parts[-1], chunks, allowed)
        digest.update(b"\0")
    return digest.hexdigest()


def _hashed(chunks: Iterator[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for chunk in chunks:
        digest.update(chunk)
        yield chunk


class _Listing:
    """A folder being listed."""

    def __init__(self, root: str, budget: files.Budget) -> None:
        self._root, self._budget = root, budget
        self._begun_ns, self._newest_ns = time.time_ns(), 0
        self._files: dict[Parts, bool] = {}
        self._folders: list[Parts] = []
        self._state: dict[Parts, FileState] = {}
        self._notes: list[str] = []

    def tree(self) -> Tree:
        """Return the files and folders that were listed."""
        by_bytes = {parts: self._files[parts] for parts in sorted(self._files, key=_on_disk)}
        return Tree(
            self._root,
            self._begun_ns,
            self._newest_ns,
            by_bytes,
            tuple(self._folders),
            self._state,
            tuple(sorted(self._notes)),
        )

    def add_folder(self, fd: int, above: Parts) -> None:
        """Add an open folder and everything below it."""
        self._budget.check("depth", len(above), path_below(self._root, above))
        self._add_state(above, os.fstat(fd))
        inner: list[Parts] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                parts = (*above, entry.name)
                is_left_out = not self._root and entry.name in VERSION_CONTROL
                if not is_left_out and self._is_folder(fd, parts):
                    inner.append(parts)
        for parts in inner:
            try:
                folder = os.open(parts[-1], FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=fd)
            except OSError as exc:
                self._notes.append(_left_out(path_below(self._root, parts), exc))
                continue
            with using(folder):
                self._folders.append(parts)
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
        path = path_below(self._root, parts)
        if path in LINKS:
            if target != LINKS[path]:
                self._notes.append(f"{shown(path)} gives way to a folder of the workspace.")
            return False
        self._budget.take_entry(path)
        if stat.S_ISREG(status.st_mode):
            self._files[parts] = bool(status.st_mode & 0o111)
        elif not stat.S_ISDIR(status.st_mode):
            error = OSError(errno.ELOOP if target else errno.ENXIO, "")
            self._notes.append(_left_out(path, error))
        return stat.S_ISDIR(status.st_mode)

    def _add_state(self, parts: Parts, status: os.stat_result, target: str = "") -> None:
        times = status.st_mtime_ns, status.st_ctime_ns
        self._state[parts] = (status.st_mode, status.st_ino, status.st_size, *times, target)
        self._newest_ns = max(self._newest_ns, status.st_ctime_ns)


def _on_disk(parts: Parts) -> bytes:
    return os.fsencode("/".join(parts))


def _left_out(path: str, error: OSError) -> str:
    """Return the note on an entry that cannot be opened; raise an error it is not to blame for."""
    if error.errno not in _GONE:
        raise error
    return f"{shown(path)} was left out: {files.reason(error)}."
