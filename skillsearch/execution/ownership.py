"""Which process owns which workspace: a lock file beside each, held as long as the process lives.

The lock is there before the folder, and is removed after it. So a folder without one is not ours,
and is never touched; and one whose lock is free was left by a process that has ended.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from skillsearch.errors import WorkspaceError
from skillsearch.execution.removal import remove_tree
from skillsearch.files.openat import open_folder, using
from skillsearch.files.paths import shown

_SUFFIX = ".lock"
_LOCK_NAME = re.compile(r"ws_[A-Za-z0-9_-]{1,49}_[0-9a-f]{16}\.lock")
_MAX_ID_CHARS = 40
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def prepare(base: Path) -> Path:
    """Make the folder of the workspaces where it is missing, and make sure that it is ours alone.

    Args:
        base: The folder.

    Returns:
        Its absolute path, without links.

    Raises:
        WorkspaceError: When it cannot be made, is another user's, or others may enter it.
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


def new_name(base: Path, session: str) -> tuple[str, int]:
    """Find a name for a workspace, and make and take its lock.

    Args:
        base: The folder of the workspaces.
        session: Id of the session, any text.

    Returns:
        The name, and the open lock: it is free as soon as this is closed.

    Raises:
        OSError: When the lock cannot be made.
    """
    while True:
        name = f"ws_{safe_id(session)}_{secrets.token_hex(8)}"
        lock = _take(base / f"{name}{_SUFFIX}", os.O_CREAT | os.O_EXCL)
        if lock is not None:  # else another process sweeps, and was quicker
            return name, lock


def remove(base: Path, name: str, lock: int) -> bool:
    """Remove a workspace, then its lock.

    Args:
        base: The folder of the workspaces.
        name: Name of the workspace.
        lock: Its open lock, which is closed.

    Returns:
        Whether all is gone; else the lock stays too, for the next sweep.
    """
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


def sweep(base: Path) -> None:
    """Remove the workspaces that processes left which have ended.

    Several processes may do so at once.

    Args:
        base: The folder of the workspaces.
    """
    with suppress(OSError):
        for path in list(base.iterdir()):
            if _LOCK_NAME.fullmatch(path.name):
                with suppress(OSError):
                    lock = _take(path)
                    if lock is not None:
                        remove(base, path.name.removesuffix(_SUFFIX), lock)


def safe_id(session: str) -> str:
    """Return a text that can be part of a file name, and still tells sessions apart.

    Args:
        session: Id of a session, any text.

    Returns:
        The id itself, if it is 1 to 40 ASCII letters, digits, ``_`` and ``-``; else what it begins
        with of these, and the beginning of its sha256.
    """
    safe = re.sub(r"[^A-Za-z0-9_-]", "", session[:_MAX_ID_CHARS])
    if safe and safe == session:
        return safe
    digest = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{safe}-{digest[:8]}"


def _take(path: Path, flags: int = 0) -> int | None:
    """Open a lock and take it; None where another process has it, or has removed it."""
    fd = os.open(path, _FLAGS | flags, 0o600)
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
