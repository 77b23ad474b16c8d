"""Workspaces: the one folder that the commands of a session write to, one per session.

A lock file beside each, made before and removed after it, is released when its process ends. So a
folder without a lock is not ours and is never touched, and one whose lock is free was abandoned.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import secrets
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, TypedDict
from weakref import WeakValueDictionary

from skillsearch.errors import WorkspaceError
from skillsearch.execution.types import ArtifactRef, Parts, StagedSkill
from skillsearch.execution.workspaces.files import (
    distinct_name,
    explained,
    open_owned,
    remove_tree,
    replace_file,
)
from skillsearch.files.openat import LOCK_FLAGS, open_folder, using
from skillsearch.files.paths import shown
from skillsearch.files.private import make_private
from skillsearch.settings.user_folders import cache_dir
from skillsearch.types.json_values import JsonObject

FOLDERS = (("skills",), ("work",), ("work", "inputs"), ("runs",), ("out",))
METADATA = "metadata.json"
METADATA_VERSION = 1
MAX_RECORDS, MAX_WORKSPACES = 100, 64

MAX_SAME_TIME = 1_000
_SUFFIX = ".lock"
_LOCK_NAME = re.compile(r"ws_[A-Za-z0-9_-]{1,49}_[0-9a-f]{16}\.lock")
_MAX_ID_CHARS = 40

logger = logging.getLogger(__name__)


class Metadata(TypedDict):
    """What metadata.json says of a workspace, each time in ISO 8601."""

    version: int
    created_at: str
    updated_at: str
    last_access: str
    skills: dict[str, JsonObject]
    inputs: list[JsonObject]
    outputs: list[JsonObject]


class Workspace:
    """The folder of one session, and this process's knowledge of it.

    A command may have replaced anything in it by anything. So metadata.json, for people and other
    tools, is never read back: each save replaces it.
    """

    def __init__(self, path: Path, lock: int) -> None:
        """Take over a new, empty folder and its open lock; use `create`."""
        self.path = path
        self.skills, self.work = path / "skills", path / "work"
        self.runs, self.out = path / "runs", path / "out"
        self.guard = threading.RLock()  # to be held while skills or inputs are put into it
        self.staged: dict[str, StagedSkill] = {}  # by name
        self.inputs: dict[Parts, ArtifactRef] = {}  # the first at each path
        now = _now()
        self.metadata: Metadata = {
            "version": METADATA_VERSION,
            "created_at": now,
            "updated_at": now,
            "last_access": now,
            "skills": {},
            "inputs": [],
            "outputs": [],
        }
        self._lock: int | None = lock
        self._pid = os.getpid()
        self._status = path.lstat()

    @classmethod
    def create(cls, base: Path, session: str) -> Workspace:
        """Make a workspace in a folder as by `make_base`; the caller closes it."""
        base = make_base(base)
        lock = None
        with _usable(base):
            while lock is None:  # if another process that cleans up was quicker
                name = f"ws_{safe_id(session)}_{secrets.token_hex(8)}"
                lock = _take(base / f"{name}{_SUFFIX}", os.O_CREAT | os.O_EXCL)
        try:
            with _usable(base / name):
                (base / name).mkdir(mode=0o700)
                workspace = cls(base / name, lock)
                workspace.restore()
                workspace._save()
                return workspace
        except WorkspaceError:
            _remove(base, name, lock)
            raise

    def exists(self) -> bool:
        """Return whether the folder is still there, and still the one that was made."""
        with suppress(OSError):
            return self._lock is not None and os.path.samestat(self.path.lstat(), self._status)
        return False

    def open(self, *parts: str, make: bool = False) -> int:
        """Open a folder of the workspace without following any link; the parts have no ``..``.

        A WorkspaceError if the workspace is gone, or another folder has replaced it.
        """
        if not self.exists():
            message = f"The workspace {shown(self.path)} is gone; run the command once more."
            raise WorkspaceError(message)
        with using(open_folder(self.path.parent)) as base:
            top = open_owned(base, self.path.name)
        with using(top):
            if not os.path.samestat(os.fstat(top), self._status):
                raise WorkspaceError(
                    f"The workspace {shown(self.path)} was replaced by another folder; move that "
                    "away, and run the command once more."
                )
            return open_folder(top, parts, make=make)

    def has_folder(self, *parts: str) -> bool:
        """Return whether a folder is there, as `open` would open it."""
        with suppress(OSError):
            os.close(self.open(*parts))
            return True
        return False

    def restore(self) -> None:
        """Recreate its own folders that a command removed, replaced or locked."""
        with _usable(self.path), using(self.open()) as top:
            for *above, name in FOLDERS:
                with using(open_folder(top, above)) as folder:
                    if not _make(folder, name):
                        try:
                            os.close(open_owned(folder, name))
                        except OSError:
                            remove_tree(folder, name)
                            _make(folder, name)

    def new_run_dir(self) -> Path:
        """Make a folder for one run, named by the time, and undo what commands did to our own.

        A WorkspaceError if the folder cannot be made, or too many have the same time.
        """
        self.restore()
        at = datetime.now(UTC)
        with _usable(self.runs):
            with self.guard:
                self._save("last_access")
            with using(self.open("runs")) as runs:
                for later in range(MAX_SAME_TIME):
                    time = at + timedelta(milliseconds=later)
                    name = f"run_{time:%Y%m%dT%H%M%S}.{time.microsecond // 1000:03}"
                    if _make(runs, name):
                        return self.runs / name
        message = f"{shown(self.runs)} is full of runs of this moment; close the workspace."
        raise WorkspaceError(message)

    def record(self, kind: Literal["inputs", "outputs"], *records: JsonObject) -> None:
        """Add records of what was put in or taken out to the metadata, and write metadata.json."""
        with _usable(self.path), self.guard:
            dated: list[JsonObject] = [{**record, "ts": _now()} for record in records]
            self.metadata[kind] = [*self.metadata[kind], *dated][-MAX_RECORDS:]
            self._save("updated_at", "last_access")

    def record_skill(self, name: str, skill: StagedSkill) -> None:
        """Add the record of a staged skill, in place of its previous one."""
        entry = {"name": name, "rel_path": skill.rel_path, "digest": skill.digest}
        with _usable(self.path), self.guard:
            others = {key: old for key, old in self.metadata["skills"].items() if key != name}
            others[name] = {**entry, "mounted": False, "staged_at": _now()}
            self.metadata["skills"] = dict([*others.items()][-MAX_RECORDS:])
            self._save("updated_at", "last_access")

    def close(self) -> None:
        """Remove the workspace, once and not in a forked copy of the process."""
        with self.guard:
            lock, self._lock = self._lock, None
        if lock is None or self._pid != os.getpid():
            return
        if not _remove(self.path.parent, self.path.name, lock):
            logger.warning("The workspace %s could not be removed.", self.path)

    def _save(self, *times: Literal["updated_at", "last_access"]) -> None:
        """Write metadata.json with these times set to now, in place of anything of that name."""
        now = _now()
        for time in times:
            self.metadata[time] = now
        data = (json.dumps(self.metadata).encode(),)
        with using(self.open()) as folder:
            try:
                replace_file(folder, METADATA, data, 0o600)
            except IsADirectoryError:
                remove_tree(folder, METADATA)
                replace_file(folder, METADATA, data, 0o600)


class Workspaces(AbstractContextManager["Workspaces"]):
    """The workspaces of a process, one per session. Calls may come from several threads."""

    def __init__(self, base: Path | None = None, *, limit: int = MAX_WORKSPACES) -> None:
        """Choose the folder, by default in the cache, and how many sessions not `held` to keep."""
        self._base = base
        self._limit = limit
        self._guard = threading.Lock()
        self._is_clean = False
        self._of: OrderedDict[str, Workspace] = OrderedDict()
        self._turns: WeakValueDictionary[str, threading.RLock] = WeakValueDictionary()

    def of(self, session: str) -> Workspace:
        """Return the workspace of a session, made anew if it is missing or its folder vanished."""
        with self._guard:
            workspace = self._of.get(session)
            if workspace is None or not workspace.exists():
                base = self._base or cache_dir() / "workspaces"
                if not self._is_clean:
                    remove_abandoned(make_base(base))
                    self._is_clean = True
                if workspace is not None:
                    self._of.pop(session).close()
                workspace = self._of[session] = Workspace.create(base, session)
            self._of.move_to_end(session)
            idle = [other for other in list(self._of)[:-1] if other not in self._turns]
            surplus = [self._of.pop(old) for old in idle[: max(0, len(self._of) - self._limit)]]
        for old in surplus:
            old.close()
        return workspace

    @contextmanager
    def held(self, session: str) -> Iterator[None]:
        """Hold a session: others wait for their turn, and its workspace is not pushed out."""
        with self._guard:
            turn = self._turns.setdefault(session, threading.RLock())
        with turn:  # it is forgotten with the last run that holds it or waits for it
            yield

    def close(self, *sessions: str) -> None:
        """Remove the workspaces of some sessions, by default of all; `of` makes new ones."""
        with self._guard:
            closed = [self._of.pop(key) for key in sessions or tuple(self._of) if key in self._of]
        for workspace in closed:
            workspace.close()

    def __exit__(self, *_exception: object) -> None:
        self.close()


def make_base(base: Path) -> Path:
    """Make a folder of workspaces that only this user may enter; return its path without links.

    A WorkspaceError if it cannot be made, or others may enter it.
    """
    try:
        make_private(base)
        resolved = base.resolve(strict=True)
        status = resolved.stat()
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", exc)
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
    """Remove the workspaces of processes that have ended; several may do so at once."""
    with suppress(OSError):
        for path in [path for path in base.iterdir() if _LOCK_NAME.fullmatch(path.name)]:
            with suppress(OSError):
                if (lock := _take(path)) is not None:
                    _remove(base, path.name.removesuffix(_SUFFIX), lock)


def safe_id(session: str) -> str:
    """Return a session id as part of a file name, with a hash if that is not all of the id."""
    return distinct_name(re.sub(r"[^A-Za-z0-9_-]", "", session[:_MAX_ID_CHARS]), session)


def _take(path: Path, flags: int = 0) -> int | None:
    """Open a lock and take it; None if another process has it, or has removed it."""
    fd = os.open(path, LOCK_FLAGS | flags, 0o600)
    is_ours = False
    try:
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.fstat(fd), path.lstat())
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
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
        return True
    return False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _usable(path: Path) -> AbstractContextManager[None]:
    return explained(
        f"The workspace {shown(path)} cannot be used (%s); check that its disk has space, and that"
        " the folder is yours."
    )
