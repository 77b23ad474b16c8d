"""The stats of folders and files → the few places where a walk would find anything new.

A walk over a hundred thousand folders lists each of them. Where a folder still has the time that
it had, it has the same entries, so only those whose time or file changed need to be listed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from skillsearch.files.paths import is_plain
from skillsearch.index.build.snapshot import Snapshot
from skillsearch.skills.discovery import MAX_DEPTH, Scope
from skillsearch.skills.listing import SKIPPED_FOLDERS
from skillsearch.types import Diagnostic, Root

MOST_PLACES = 3_000
"""Changed folders and files from which on a walk is the simpler way."""
_NOT_AGAIN = frozenset({"folder-unreadable", "link-leaves-root"})
"""What a walk reports of an entry of a folder without being told it by listing that folder."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is not as a snapshot has it.

    Attributes:
        snapshot: The snapshot.
        folders: Folders whose time changed, or that are gone.
        files: SKILL.md files whose stat changed, or that are gone.
        is_whole: False where more changed than is told.
    """

    snapshot: Snapshot
    folders: tuple[str, ...]
    files: tuple[str, ...]
    is_whole: bool

    def __bool__(self) -> bool:
        return bool(self.folders or self.files)


def sweep(snapshot: Snapshot, most: int = MOST_PLACES) -> Sweep:
    """Compare the stat of every folder and file with a snapshot.

    Args:
        snapshot: How the disk looked.
        most: How many changes to tell at most.

    Returns:
        What is not as it was; false where all is.
    """
    folders = tuple(islice(snapshot.changed_folders(), most + 1))
    files = tuple(islice(snapshot.changed_files(), most + 1 - len(folders)))
    return Sweep(snapshot, folders, files, len(folders) + len(files) <= most)


def scopes_of(
    swept: Sweep, roots: Sequence[Root], reported: Iterable[Diagnostic], left_out: Path
) -> tuple[Scope, ...] | None:
    """Return the folders to look at so that all is known that a walk over the roots would find.

    Args:
        swept: What changed.
        roots: The roots of the snapshot.
        reported: The diagnostics of the walk before.
        left_out: A folder that is not looked into.

    Returns:
        The folders; None where only a walk can tell: too much changed, links to folders have a
        part in it, or something was reported that looking at these alone would not report again.
    """
    known, changed = swept.snapshot.folders, frozenset(swept.folders)
    if not swept.is_whole or not _is_reached_by_names(known, roots):
        return None
    if any(_is_lost(one, changed) for one in reported):
        return None
    places = {path.rpartition("/")[0]: False for path in swept.files}
    try:
        for folder in swept.folders:
            if os.path.lexists(folder):
                places.setdefault(folder, False)
                places |= {path: True for path in _subfolders(folder) if path not in known}
            else:
                places[folder] = True
        places.pop(os.path.realpath(left_out), None)
        return tuple(_scope(roots, path, is_deep=deep) for path, deep in sorted(places.items()))
    except (_WalkNeededError, OSError):
        return None


class _WalkNeededError(Exception):
    """A folder holds what only a walk over the roots treats as it should."""


def _is_reached_by_names(folders: Collection[str], roots: Sequence[Root]) -> bool:
    """Tell whether every folder was found in the one above it, and none by a link alone."""
    tops = {str(root.path) for root in roots}
    return all(path.rpartition("/")[0] in folders or path in tops for path in folders)


def _is_lost(found: Diagnostic, changed: Collection[str]) -> bool:
    """Tell whether a diagnostic would be dropped and not be found again."""
    if found.code in _NOT_AGAIN:
        return found.path.rpartition("/")[0] in changed
    return found.code == "too-many-folders"


def _subfolders(folder: str) -> list[str]:
    """Return the folders in a folder that a walk would look into."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in SKIPPED_FOLDERS:
                continue
            if entry.is_dir(follow_symlinks=False):
                found.append(entry.path)
            elif entry.is_symlink() and entry.is_dir():
                raise _WalkNeededError
    return found


def _scope(roots: Sequence[Root], path: str, *, is_deep: bool) -> Scope:
    """Return a folder of a root as a place to look at."""
    place = Path(path)
    inner = max(
        (root for root in roots if place.is_relative_to(root.path)),
        key=lambda root: len(root.path.parts),
    )
    below = place.relative_to(inner.path).parts
    # A walk does not look into these, and reports them.
    if len(below) > MAX_DEPTH or not is_plain(path):
        raise _WalkNeededError
    return Scope(inner, "/".join(below), is_deep)
