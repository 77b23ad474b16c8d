"""Where a question comes from, and which roots are seen from there.

A root is the user's, seen from everywhere, or a project's, seen from its folder and all below, but
for another project within it. The folders that a question comes from are a part of its selection.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from skillsearch.hosts.folders import project_of
from skillsearch.types.answers import EVERYWHERE, SCOPE, Selection
from skillsearch.types.skills import Root


class Viewpoint(NamedTuple):
    """A folder that a question comes from, and how far up it looks: to the top of its project.

    Both are real paths; the top ends with a slash, and is ``/`` without a project.
    """

    folder: str
    top: str

    @classmethod
    def of(cls, folder: str | Path) -> Viewpoint:
        """Find the project around a folder, if there is one."""
        real = os.path.realpath(folder)
        project = project_of(Path(real))
        return cls(real, f"{str(project).rstrip('/')}/" if project else "/")

    def is_in(self, folder: str) -> bool:
        """Return whether a folder, by its real path, is around this one, in the same project."""
        around = f"{folder.rstrip('/')}/"
        return f"{self.folder}/".startswith(around) and around.startswith(self.top)

    def project_of(self, root: Root) -> str:
        """Return the top of the project around this folder if a root is seen as one of its."""
        project = next(filter(self.is_in, root.projects), "")
        return (self.top.rstrip("/") or project) if project else ""

    @property
    def parts(self) -> list[str]:
        """The names of the folders from the top down to the folder; none without a project."""
        below = f"{self.folder}/".removeprefix(self.top) if self.top != "/" else ""
        return [part for part in below.split("/") if part]


_NOWHERE = Viewpoint("", "/")
"""Where a question comes from that names no folder; no project is there."""


def folders_of(selection: Selection) -> tuple[str, ...]:
    """Return the folders that a question comes from, even if it asks all projects."""
    return tuple(folder for kind, paths, *_ in selection if kind == SCOPE for folder in paths)


def from_folders(selection: Selection, folders: Iterable[str | Path]) -> Selection:
    """Return a selection for a question that comes from some folders, and from no others.

    Without folders it comes from none, and sees the user's skills alone.
    """
    return (*without_scope(selection), (SCOPE, tuple(map(os.path.realpath, folders))))


def everywhere(selection: Selection) -> Selection:
    """Return a selection that leaves out no project, for a question from the same folders."""
    return (*without_scope(selection), (SCOPE, folders_of(selection), EVERYWHERE))


def is_bounded(selection: Selection) -> bool:
    """Return whether only what is seen from the folders of a selection is left."""
    return any(kind == SCOPE and EVERYWHERE not in more for kind, _, *more in selection)


def without_scope(selection: Selection) -> Selection:
    """Return a selection without the folders that the query comes from."""
    return tuple(test for test in selection if test[0] != SCOPE)


def is_in_scope(root: Root, views: Iterable[Viewpoint]) -> bool:
    """Return whether the skills of a root are seen by one of some views, or from everywhere."""
    return any(
        (not root.projects or any(map(view.is_in, root.projects)))
        and not any(map(view.is_in, root.hidden_from))
        for view in (tuple(views) or (_NOWHERE,))
    )


def scope_of(selection: Selection) -> Selection:
    """Return the part of a selection that names the folders the query comes from."""
    return tuple(test for test in selection if test[0] == SCOPE)
