"""Compare added sources with the lock file and with the index."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from skillsearch.index.roots.request import IndexRequest
from skillsearch.roots.bundles import content_digest
from skillsearch.roots.lock import LockedSource
from skillsearch.roots.sources import folder_of, is_bundle, shown


def check_sources(
    entries: Iterable[LockedSource], request: IndexRequest | None
) -> list[tuple[LockedSource, str]]:
    """Return each locked source with its problem, empty if there is none.

    Its copy is hashed, and it must be a root of the index.
    """
    held = set(request.sources) if request else set()
    checked = []
    for entry in entries:
        folder, source = folder_of(entry.source), shlex.quote(entry.text)
        again = f"skillsearch update {source}"
        problem = ""
        if entry.source not in held:
            problem = f"it is not in the index: skillsearch add {source}"
        elif not folder.is_dir():
            problem = f"its copy is gone: {again}"
        elif content_digest(folder) != entry.digest:
            problem = f"its copy is not what was added on {entry.date}: {again}"
        checked.append((entry, problem))
    return checked


def unlocked(entries: Iterable[LockedSource], request: IndexRequest | None) -> list[str]:
    """Return the downloaded roots of an index that no entry of the lock file pins."""
    locked = {entry.source for entry in entries}
    sources = request.sources if request else ()
    return [shown(source) for source in sources if is_bundle(source) and source not in locked]
