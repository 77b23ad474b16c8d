"""A workspace: the one folder that the commands of a session write to.

A lock beside it tells whether its process lives. It ends with the process, however that ends, so
the next process can remove what is left; a program inside the workspace cannot reach it.
"""

from __future__ import annotations

import logging
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from skillsearch.errors import WorkspaceError
from skillsearch.execution.metadata import Record, WorkspaceMetadata, save_metadata
from skillsearch.execution.ownership import new_name, prepare, remove
from skillsearch.execution.removal import open_owned, remove_tree
from skillsearch.execution.tree import StagedCopy
from skillsearch.files.openat import open_folder, using
from skillsearch.files.paths import shown

FOLDERS = (("skills",), ("work",), ("work", "inputs"), ("runs",), ("out",))
"""What every workspace holds, besides metadata.json."""

_MAX_SAME_TIME = 1_000
"""Runs of a workspace that may begin in the same millisecond, or be said to."""

logger = logging.getLogger(__name__)


class Workspace:
    """The folder of one session, and what this process knows about it.

    Its contents are other people's: a command may have replaced anything in it by anything.

    Attributes:
        path: The folder, absolute and without links.
        guard: To be held while skills or inputs are put into it.
        staged: What was staged, by name of the skill.
    """

    def __init__(self, path: Path, lock: int) -> None:
        """Take a new folder over; use `create`.

        Args:
            path: The folder, empty.
            lock: The open lock of it.
        """
        self.path = path
        self.guard = threading.RLock()
        self.staged: dict[str, StagedCopy] = {}
        self._lock: int | None = lock
        self._pid = os.getpid()
        self._status = path.lstat()
        self._metadata = WorkspaceMetadata.new()

    @classmethod
    def create(cls, base: Path, session: str) -> Workspace:
        """Make a workspace.

        Args:
            base: The folder to make it in, which is made as well where it is missing.
            session: Id of the session, any text.

        Returns:
            The workspace, which the caller closes.

        Raises:
            WorkspaceError: When the folder cannot be made, or others may enter ``base``.
        """
        base = prepare(base)
        try:
            name, lock = new_name(base, session)
        except OSError as exc:
            raise _unusable(base, exc) from exc
        try:
            (base / name).mkdir(mode=0o700)
            workspace = cls(base / name, lock)
            workspace.restore()
            workspace._save(workspace.metadata)
        except OSError as exc:
            remove(base, name, lock)
            raise _unusable(base / name, exc) from exc
        except WorkspaceError:
            remove(base, name, lock)
            raise
        return workspace

    @property
    def skills(self) -> Path:
        """Where skills are staged."""
        return self.path / "skills"

    @property
    def work(self) -> Path:
        """Where commands work, and inputs lie."""
        return self.path / "work"

    @property
    def runs(self) -> Path:
        """Where each run has a folder of its own."""
        return self.path / "runs"

    @property
    def out(self) -> Path:
        """Where commands leave what is to be collected."""
        return self.path / "out"

    @property
    def metadata(self) -> WorkspaceMetadata:
        """What happened in it, as this process remembers it."""
        return self._metadata

    def exists(self) -> bool:
        """Say whether the folder is still there, and still the one that was made."""
        try:
            status = self.path.lstat()
        except OSError:
            return False
        return self._lock is not None and os.path.samestat(status, self._status)

    def open(self, *parts: str, make: bool = False) -> int:
        """Open a folder of the workspace, without following any link.

        Args:
            *parts: Names of the folders on the way, checked for ``..`` before.
            make: True to make those that are missing.

        Returns:
            A file descriptor, which the caller closes.

        Raises:
            OSError: When a part is missing, is a link, or is no folder.
            WorkspaceError: When the workspace itself is gone.
        """
        if not self.exists():
            raise WorkspaceError(
                f"The workspace {shown(self.path)} is gone; run the command once more."
            )
        with using(open_folder(self.path.parent)) as base:
            top = open_owned(base, self.path.name)
        with using(top):
            if not os.path.samestat(os.fstat(top), self._status):
                raise WorkspaceError(
                    f"The workspace {shown(self.path)} was replaced by another folder."
                )
            return open_folder(top, parts, make=make)

    def restore(self) -> None:
        """Make its own folders anew where a command removed, replaced or locked them.

        Raises:
            WorkspaceError: When that is not possible.
        """
        try:
            with using(self.open()) as top:
                for *above, name in FOLDERS:
                    with using(open_folder(top, above)) as folder:
                        _restore(folder, name)
        except OSError as exc:
            raise _unusable(self.path, exc) from exc

    def new_run_dir(self) -> Path:
        """Make a folder for one run, with the time in its name: ``runs/run_20260824T121314.567``.

        What a command did to the workspace's own folders and to metadata.json is undone.

        Returns:
            Its path; a run that begins in the same millisecond is said to begin in the next.

        Raises:
            WorkspaceError: When it cannot be made.
        """
        self.restore()
        at = datetime.now(UTC)
        try:
            with self.guard:
                self._save(self._metadata.used())
            with using(self.open("runs")) as runs:
                for later in range(_MAX_SAME_TIME):
                    name = _run_name(at + timedelta(milliseconds=later))
                    if _make(runs, name):
                        return self.runs / name
        except OSError as exc:
            raise _unusable(self.runs, exc) from exc
        raise WorkspaceError(
            f"{shown(self.runs)} is full of runs of this moment; close the workspace."
        )

    def record(self, *records: Record) -> None:
        """Add records to the metadata, and write metadata.json.

        Args:
            *records: What was staged or collected.

        Raises:
            WorkspaceError: When the file cannot be written.
        """
        try:
            with self.guard:
                self._save(self._metadata.with_records(*records))
        except OSError as exc:
            raise _unusable(self.path, exc) from exc

    def close(self) -> None:
        """Remove the workspace; what cannot be removed is left to the next process, with a warning.

        A second call does nothing, nor does one in a forked copy of the process.
        """
        with self.guard:
            lock, self._lock = self._lock, None
        if lock is None or self._pid != os.getpid():
            return
        if not remove(self.path.parent, self.path.name, lock):
            logger.warning("The workspace %s could not be removed.", self.path)

    def _save(self, metadata: WorkspaceMetadata) -> None:
        """Keep metadata and write it."""
        self._metadata = metadata
        with using(self.open()) as folder:
            save_metadata(folder, metadata)


def _run_name(at: datetime) -> str:
    """Return the name of the folder of a run that begins at a time."""
    return f"run_{at:%Y%m%dT%H%M%S}.{at.microsecond // 1000:03}"


def _make(folder: int, name: str) -> bool:
    """Make a folder in an open one, unless the name is taken."""
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        return False
    return True


def _restore(folder: int, name: str) -> None:
    """Make sure that there is a folder in an open one which we can read and write."""
    if _make(folder, name):
        return
    try:
        os.close(open_owned(folder, name))
    except OSError:
        remove_tree(folder, name)
        _make(folder, name)


def _unusable(path: Path, exc: OSError) -> WorkspaceError:
    """Return the error for a workspace that the system does not let us use."""
    return WorkspaceError(
        f"The workspace {shown(path)} cannot be used ({exc.strerror}); check that its disk has "
        "space, and that the folder is yours."
    )
