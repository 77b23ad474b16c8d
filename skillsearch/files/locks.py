"""Lock files between processes; the one importer of filelock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Keep other processes out while the context lasts.

    The time of the file is that of its last use. A TimeoutError if another process holds the lock
    for longer than `seconds`, and other OSErrors if the file cannot be made.
    """
    from filelock import FileLock

    with FileLock(path, timeout=seconds, mode=0o600):
        with suppress(OSError):
            os.utime(path)
        yield
