"""Folders for the user alone; imports next to nothing, since the hook of a host makes one too."""

from __future__ import annotations

import os
import stat


def make_private(folder: str | os.PathLike[str]) -> None:
    """Make a folder and those above it that are missing, for the user alone whatever the umask."""
    try:
        _make(folder)
    except FileNotFoundError:
        above = os.path.dirname(folder)  # noqa: PTH120
        if above in ("", folder):
            raise
        make_private(above)
        _make(folder)  # it fails again in a folder that takes nothing, such as /proc


def _make(folder: str | os.PathLike[str]) -> None:
    try:
        os.mkdir(folder, 0o700)  # noqa: PTH102  # pathlib is slow to import
    except FileExistsError:
        if not os.path.isdir(folder):  # noqa: PTH112
            raise


def tighten(folder: str | os.PathLike[str]) -> None:
    """Close a folder of ours to others if it is open to all, as other programs make it."""
    try:
        status = os.lstat(folder)
        is_ours = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        if is_ours and status.st_mode == stat.S_IFDIR | 0o777:
            os.chmod(folder, 0o700)  # noqa: PTH101
    except OSError:
        return  # it is missing, or its file system knows no modes
