"""Where a question comes from, and which roots are seen from there.

A root is the user's, seen from everywhere, or a project's, seen from its folder and all below. The
folders that a question comes from are a part of its selection.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from skillsearch.types import SCOPE, Root, Selection


def folders_of(selection: Selection) -> tuple[str, ...]:
    """Return the folders that a question comes from; none if it asks all projects."""
    return tuple(folder for kind, given, *_ in selection if kind == SCOPE for folder in given)


def from_folders(selection: Selection, folders: Iterable[str | Path]) -> Selection:
    """Return a selection for a question that comes from some folders, and from no others.

    Without folders it comes from none, and sees the user's skills alone.
    """
    return (*without_scope(selection), (SCOPE, tuple(map(os.path.realpath, folders))))


def without_scope(selection: Selection) -> Selection:
    """Return what a selection says besides where the question comes from."""
    return tuple(test for test in selection if test[0] != SCOPE)


def is_in_scope(root: Root, folders: Sequence[str]) -> bool:
    """Return whether the skills of a root are seen from one of some folders, by real paths."""
    around = root.project.rstrip("/")
    return not around or any(f"{folder}/".startswith(f"{around}/") for folder in folders)


def scope_of(selection: Selection) -> Selection:
    """Return what a selection says of where the question comes from, and nothing else."""
    return tuple(test for test in selection if test[0] == SCOPE)
