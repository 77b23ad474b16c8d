"""Lock files between processes; the one importer of filelock."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
