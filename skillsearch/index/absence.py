"""When the user of a host is told that there is no index: once a day for each."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from pathlib import Path

from skillsearch.files.private import make_private
from skillsearch.index.next_steps import no_index
from skillsearch.settings.config import load_settings
from skillsearch.settings.user_folders import cache_dir

_SILENT_SECONDS = 86_400


def first_report(index_dir: str | None) -> str:
    """Return why there is no index; empty if there is one, or this was said in the last 24 hours.

    Fails as `load_settings` does.
    """
    settings = load_settings(index_dir=index_dir)
    folder = settings.index_dir.absolute()
    if (folder / "CURRENT").exists():
        return ""
    mark = _mark_of(folder)
    with suppress(OSError):  # no mark, or none can be made: better report twice than never
        if 0 <= time.time() - mark.stat().st_mtime < _SILENT_SECONDS:
            return ""
    with suppress(OSError):
        make_private(mark.parent)
        mark.touch()
    return no_index(folder, settings)


def forget_report(folder: Path) -> None:
    """Have the next loss of an index that was made in a folder reported at once."""
    with suppress(OSError):
        _mark_of(folder).unlink()


def _mark_of(folder: Path) -> Path:
    """Return the file that marks the lack of an index as reported."""
    digest = hashlib.sha256(str(folder).encode("utf-8", "surrogatepass")).hexdigest()
    return cache_dir() / "told" / digest[:16]
