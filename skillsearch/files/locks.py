"""Lock files between processes; the one importer of filelock."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from skillsearch.files.private import make_private

_POLL_SECONDS = 0.001


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Keep other processes out while the context lasts.

    The modification time of the file is the time of its last use. A TimeoutError if another
    process holds the lock for longer than `seconds`, other OSErrors if the file cannot be made.
    """
    from filelock import FileLock

    # Where the disk has no locks, a file that stands for one would outlive a killed process.
    with FileLock(path, timeout=seconds, mode=0o600, fallback_to_soft=False):
        with suppress(OSError):
            os.utime(path)
        yield


@contextmanager
def exclusive(
    path: Path, seconds: float, failed: AbstractContextManager[None], busy: Exception
) -> Iterator[None]:
    """Hold a lock as `locked` does, in a folder that is made for the user alone.

    If another process holds it, `busy` is raised; any other `OSError` is what `failed` makes of it.
    """
    with failed:
        try:
            make_private(path.parent)
            with locked(path, seconds):
                yield
        except TimeoutError as exc:
            raise busy from exc


@contextmanager
def briefly_locked(path: Path, seconds: float) -> Iterator[None]:
    """Keep other processes out for some milliseconds, as `locked` does; imports no library.

    A TimeoutError if another process holds the lock for longer than `seconds`, other OSErrors if
    the file cannot be made, or its disk knows no locks.
    """
    end = time.monotonic() + seconds
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while not (is_held := try_lock(handle)):
            if is_held is None:
                raise OSError(errno.ENOLCK, "no locks here", str(path))
            if time.monotonic() > end:
                raise TimeoutError(errno.ETIMEDOUT, "another process holds it", str(path))
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(handle)


def try_lock(file: int) -> bool | None:
    """Take the lock of an open file, and hold it until it is closed; False if another has it.

    None if the system or the disk has no such locks.
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True
