"""Whether usage is kept, as the user has said: a line of the user's settings."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from pathlib import Path
from typing import Literal

from skillsearch.errors import ConfigError, explained
from skillsearch.files.atomic_files import replace_unchanged
from skillsearch.files.openat import read_regular
from skillsearch.files.private import make_private
from skillsearch.settings.config import MAX_FILE_BYTES
from skillsearch.settings.user_folders import user_file
from skillsearch.text.safe_text import visible


def turn_on() -> str:
    """Return the next step for who wants usage to be kept."""
    file = visible(str(user_file()))
    return f'To turn it on: usage = "hashes" in {file}, or SKILLSEARCH_USAGE=hashes'


def set_usage(choice: Literal["hashes", "off"]) -> Path:
    """Say in the user's settings whether usage is kept; return their file.

    A ConfigError if it cannot be written, or is changed meanwhile.
    """
    path = Path(os.path.realpath(user_file()))
    with explained(ConfigError, f"{path} cannot be written: %s. {turn_on()}"):
        make_private(path.parent)
        line = f'usage = "{choice}"\n'.encode()
        room = MAX_FILE_BYTES - len(line)
        before = read_regular(path, room)[0] if path.exists() else None
        after = line + (before or b"").removeprefix(BOM_UTF8)
        if not replace_unchanged(path, before, after):
            raise ConfigError(f"{path} was changed by another program meanwhile. {turn_on()}.")
    return path
