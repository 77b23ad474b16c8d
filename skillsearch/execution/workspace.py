"""Workspaces: the one folder that the commands of a session write to, one per session.

A lock file beside each tells whether its process lives. The lock is there before the folder and is
removed after it, and it is released when the process ends, however that ends. So a folder without
a lock is not ours and is never touched, and one whose lock is free was left by a process that has
ended. A program inside the workspace cannot reach the lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import secrets
import stat
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from skillsearch.config import cache_dir
from skillsearch.errors import WorkspaceError
from skillsearch.execution.files import open_owned, remove_tree
from skillsearch.execution.metadata import Record, WorkspaceMetadata, save_metadata
from skillsearch.execution.types import StagedCopy
from skillsearch.files.openat import open_folder, using
from skillsearch.files.paths import shown

FOLDERS = (("skills",), ("work",), ("work", "inputs"), ("runs",), ("out",))
"""Contents of every workspace, besides metadata.json."""
MAX_WORKSPACES = 64

_MAX_SAME_TIME = 1_000
"""Runs of a workspace that may begin in the same millisecond, or claim to."""
_SUFFIX = ".lock"
_LOCK_NAME = re.compile(r"ws_[A-Za-z0-9_-]{1,49}_[0-9a-f]{16}\.lock")
_MAX_ID_CHARS = 40
_LOCK_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

logger = logging.getLogger(__name__)


class Workspace:
    """The folder of one session, and this process's knowledge of it.

    Its contents are untrusted: a command may have replaced anything in it by anything.

    Attributes:
        path: The folder, absolute and without links; the next four are below it.
        out: The folder from which outputs are collected.
        guard: To be held while skills or inputs are put into it.
        staged: The staged skills by name.
    """

    def __init__(self, path: Path, lock: int) -> None:
        """Take over a new, empty folder and its open lock; use `create`."""
        self.path = path
        self.skills, self.work = path / "skills", path / "work"
        self.runs, self.out = path / "runs", path / "out"
        self.guard = threading.RLock()
        self.staged: dict[str, StagedCopy] = {}
        self.metadata = WorkspaceMetadata.new()
        self._lock: int | None = lock
        self._pid = os.getpid()
        self._status = path.lstat()

    @classmethod
    def create(cls, base: Path, session: str) -> Workspace:
        """Make a workspace in a folder, which is made too if it is missing; the caller closes it.

        Raises a `WorkspaceError` if it cannot be made, or if others may enter ``base``.
        """
        base = make_base(base)
        try:
            name, lock = _new_name(base, session)
        except OSError as exc:
            raise _unusable(base, exc) from exc
        try:
            (base / name).mkdir(mode=0o700)
            workspace = cls(base / name, lock)
            workspace.restore()
            workspace._save(workspace.metadata)
        except OSError as exc:
            _remove(base, name, lock)
            raise _unusable(base / name, exc) from exc
        except WorkspaceError:
            _remove(base, name, lock)
            raise
        return workspace

    def exists(self) -> bool:
        """Return whether the folder is still there, and still the one that was made."""
        try:
            status = self.path.lstat()
        except OSError:
            return False
        return self._lock is not None and os.path.samestat(status, self._status)

    def open(self, *parts: str, make: bool = False) -> int:
        """Open a folder of the workspace without following any link, and return its descriptor.

        The parts must have been checked for ``..``. Raises an `OSError` if one of them is missing
        (unless it is to be made), a link, or not a folder, and a `WorkspaceError` if the workspace
        itself is gone.
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
        """Recreate those of its own folders that a command removed, replaced or locked."""
        try:
            with using(self.open()) as top:
                for *above, name in FOLDERS:
                    with using(open_folder(top, above)) as folder:
                        _restore(folder, name)
        except OSError as exc:
            raise _unusable(self.path, exc) from exc

    def new_run_dir(self, *, same_time: int = _MAX_SAME_TIME) -> Path:
        """Make a folder for one run, named by the time: ``runs/run_20260824T121314.567``.

        If the name is taken, the next millisecond counts, up to ``same_time`` times. Undoes what a
        command did to the workspace's own folders and to metadata.json.
        """
        self.restore()
        at = datetime.now(UTC)
        try:
            with self.guard:
                self._save(self.metadata.used())
            with using(self.open("runs")) as runs:
                for later in range(same_time):
                    time = at + timedelta(milliseconds=later)
                    name = f"run_{time:%Y%m%dT%H%M%S}.{time.microsecond // 1000:03}"
                    if _make(runs, name):
                        return self.runs / name
        except OSError as exc:
            raise _unusable(self.runs, exc) from exc
        raise WorkspaceError(
            f"{shown(self.runs)} is full of runs of this moment; close the workspace."
        )

    def record(self, *records: Record) -> None:
        """Add records to the metadata, and write metadata.json."""
        try:
            with self.guard:
                self._save(self.metadata.with_records(*records))
        except OSError as exc:
            raise _unusable(self.path, exc) from exc

    def close(self) -> None:
        """Remove the workspace; what cannot be removed is left to the next process, with a warning.

        A second call does nothing, nor does a call in a forked copy of the process.
        """
        with self.guard:
            lock, self._lock = self._lock, None
        if lock is None or self._pid != os.getpid():
            return
        if not _remove(self.path.parent, self.path.name, lock):
            logger.warning("The workspace %s could not be removed.", self.path)

    def _save(self, metadata: WorkspaceMetadata) -> None:
        self.metadata = metadata
        with using(self.open()) as folder:
            save_metadata(folder, metadata)


class Workspaces:
    """The workspaces of a process, one per session. Calls may come from several threads."""

    def __init__(self, base: Path | None = None, *, limit: int = MAX_WORKSPACES) -> None:
        """Choose the folder, by default in the user's cache folder; nothing is made yet.

        Above the limit the least recently used workspaces are closed, except those that `using`
        holds.
        """
        self._base = base
        self._limit = limit
        self._guard = threading.Lock()
        self._is_clean = False
        self._of: OrderedDict[str, Workspace] = OrderedDict()
        self._users: Counter[str] = Counter()

    def of(self, session: str) -> Workspace:
        """Return the workspace of a session, made anew if it is missing or its folder vanished.

        The first call also removes the workspaces of processes that have ended.
        """
        with self._guard:
            workspace = self._of.get(session)
            if workspace is None or not workspace.exists():
                workspace = self._renew(session)
            self._of.move_to_end(session)
            surplus = self._surplus()
        for old in surplus:
            old.close()
        return workspace

    @contextmanager
    def using(self, session: str) -> Iterator[Workspace]:
        """Hold the workspace of a session, so that others cannot push it out meanwhile."""
        with self._guard:
            self._users[session] += 1
        try:
            yield self.of(session)
        finally:
            with self._guard:
                self._users[session] -= 1
                if not self._users[session]:
                    del self._users[session]

    def close(self, session: str) -> None:
        """Remove the workspace of a session, if it has one."""
        with self._guard:
            workspace = self._of.pop(session, None)
        if workspace is not None:
            workspace.close()

    def close_all(self) -> None:
        """Remove all workspaces; the next call of `of` makes new ones."""
        with self._guard:
            workspaces = list(self._of.values())
            self._of.clear()
        for workspace in workspaces:
            workspace.close()

    def __enter__(self) -> Workspaces:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close_all()

    def _renew(self, session: str) -> Workspace:
        """Make the workspace of a session, replacing one that has vanished."""
        base = self._base or cache_dir() / "workspaces"
        if not self._is_clean:
            remove_abandoned(make_base(base))
            self._is_clean = True
        if session in self._of:
            self._of.pop(session).close()
        self._of[session] = Workspace.create(base, session)
        return self._of[session]

    def _surplus(self) -> list[Workspace]:
        """Take out the workspaces that are too many, the least recently used first."""
        idle = [session for session in list(self._of)[:-1] if session not in self._users]
        return [self._of.pop(session) for session in idle[: max(0, len(self._of) - self._limit)]]


def make_base(base: Path) -> Path:
    """Make the folder of the workspaces if it is missing, and return its path without links.

    Raises a `WorkspaceError` if it cannot be made, is another user's, or others may enter it.
    """
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        resolved = base.resolve(strict=True)
        status = resolved.stat()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise WorkspaceError(
            f"The folder {shown(base)} for workspaces cannot be made: {reason}. Name another one."
        ) from exc
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise WorkspaceError(
            f"The folder {shown(base)} for workspaces is {stat.filemode(status.st_mode)} of user "
            f"{status.st_uid}: others could change what runs there, or run what a command leaves "
            "with your rights. Name one that only you can enter (chmod 700)."
        )
    return resolved


def remove_abandoned(base: Path) -> None:
    """Remove the workspaces of processes that have ended; several processes may do so at once."""
    with suppress(OSError):
        for path in list(base.iterdir()):
            if _LOCK_NAME.fullmatch(path.name):
                with suppress(OSError):
                    lock = _take(path)
                    if lock is not None:
                        _remove(base, path.name.removesuffix(_SUFFIX), lock)


def safe_id(session: str) -> str:
    """Return a session id as part of a file name: at most 40 ASCII letters, digits, ``_``, ``-``.

    An id that is not of that form is cut down to it and gets the beginning of its sha256.
    """
    safe = re.sub(r"[^A-Za-z0-9_-]", "", session[:_MAX_ID_CHARS])
    if safe and safe == session:
        return safe
    digest = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{safe}-{digest[:8]}"


def _new_name(base: Path, session: str) -> tuple[str, int]:
    """Return a free name for a workspace, and its lock: open and held until it is closed."""
    while True:
        name = f"ws_{safe_id(session)}_{secrets.token_hex(8)}"
        lock = _take(base / f"{name}{_SUFFIX}", os.O_CREAT | os.O_EXCL)
        if lock is not None:  # else another process that cleans up was quicker
            return name, lock


def _take(path: Path, flags: int = 0) -> int | None:
    """Open a lock and take it; None if another process has it, or has removed it."""
    fd = os.open(path, _LOCK_FLAGS | flags, 0o600)
    is_ours = False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = os.path.samestat(os.fstat(fd), path.lstat())
    except (BlockingIOError, FileNotFoundError):
        return None
    finally:
        if not is_ours:
            os.close(fd)
    return fd if is_ours else None


def _remove(base: Path, name: str, lock: int) -> bool:
    """Remove a workspace, then its open lock; if something is left, keep the lock for the next."""
    try:
        with using(open_folder(base)) as folder:
            is_gone = remove_tree(folder, name)
            if is_gone:
                os.unlink(f"{name}{_SUFFIX}", dir_fd=folder)
    except FileNotFoundError:
        return True  # somebody removed the lock, or all of them
    except OSError:
        return False
    finally:
        os.close(lock)
    return is_gone


def _make(folder: int, name: str) -> bool:
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        return False
    return True


def _restore(folder: int, name: str) -> None:
    """Ensure that an open folder holds a folder which we can read and write."""
    if _make(folder, name):
        return
    try:
        os.close(open_owned(folder, name))
    except OSError:
        remove_tree(folder, name)
        _make(folder, name)


def _unusable(path: Path, exc: OSError) -> WorkspaceError:
    return WorkspaceError(
        f"The workspace {shown(path)} cannot be used ({exc.strerror}); check that its disk has "
        "space, and that the folder is yours."
    )
