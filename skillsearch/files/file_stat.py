"""The stat of a file, which tells cheaply whether it may have changed."""

from __future__ import annotations

import os
from typing import NamedTuple, Self

RACY_NS = 2_000_000_000
"""File systems' clocks tick every few milliseconds, some only every two seconds."""


class FileStat(NamedTuple):
    """Size in bytes, modification time in nanoseconds since the epoch, and inode of a file."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Take it from the result of a system call."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


UNKNOWN_STAT = FileStat(-1, -1, -1)
"""Equal to the stat of no file, so that the file is looked at again."""


def is_racy(mtime_ns: int, seen_at_ns: int, within_ns: int = RACY_NS) -> bool:
    """Return whether a later change may share the timestamp of one seen at `seen_at_ns`."""
    return abs(mtime_ns - seen_at_ns) <= within_ns
