"""Where a command runs: what was asked for → a folder of the workspace. Opens nothing."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import PurePosixPath

from skillsearch.execution.globs import take_variable
from skillsearch.execution.tree import LINKS

_TOP = ("skills", "work", "out", "runs")
"""What an absolute path may begin with."""


def working_folder(cwd: str, skill: str, variables: Mapping[str, str]) -> PurePosixPath | None:
    """Say which folder of a workspace was asked for.

    Empty is the skill's own folder, and what is relative lies below it. ``$WORK_DIR``,
    ``${OUTPUT_DIR}`` and the other folders that a run has a variable for may come first. Absolute
    paths begin at the workspace. Whether the folder exists is for the caller to see.

    Args:
        cwd: What was asked for.
        skill: Folder of the skill, from the workspace.
        variables: Names of variables, and the folder of each, from the workspace.

    Returns:
        The folder from the workspace, without ``..`` and without the links of a staged skill; None
        where the path leads elsewhere, or cannot be the name of a folder.
    """
    if not cwd.isprintable():
        return None
    base, rest = _split(cwd, skill, variables)
    below = posixpath.normpath(rest or ".")
    if below == ".." or below.startswith("../"):
        return None
    if cwd.startswith("/") and below.split("/")[0] not in _TOP:
        return None
    return _without_links(PurePosixPath(base, below))


def _split(cwd: str, skill: str, variables: Mapping[str, str]) -> tuple[str, str]:
    """Return the folder that a path begins at, and the rest of it."""
    if cwd.startswith("/"):
        return ".", posixpath.normpath(cwd).lstrip("/")
    base, rest = take_variable(cwd, variables) or (skill, cwd)
    return base, rest.lstrip("/")


def _without_links(path: PurePosixPath) -> PurePosixPath:
    """Return where a path leads to that goes through a link of a staged skill."""
    parts = path.parts
    if len(parts) > 2 and parts[0] == "skills" and parts[2] in LINKS:
        return PurePosixPath(LINKS[parts[2]].removeprefix("../../"), *parts[3:])
    return path
