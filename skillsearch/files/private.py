"""Folders for the user alone; imports nothing, since the hook of a host makes one too."""

from __future__ import annotations

import os


def make_private(folder: str | os.PathLike[str]) -> None:
    """Make a folder and those above it that are missing, for the user alone whatever the umask."""
    try:
        os.mkdir(folder, 0o700)  # noqa: PTH102  # pathlib is slow to import
    except FileExistsError:
        if not os.path.isdir(folder):  # noqa: PTH112
            raise
    except FileNotFoundError:
        above = os.path.dirname(folder)  # noqa: PTH120
        if above in ("", folder):
            raise
        make_private(above)
        make_private(folder)
