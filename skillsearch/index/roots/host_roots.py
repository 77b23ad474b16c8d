"""The roots that an index takes up by itself: folders where hosts look for skills, as they are now.

Those of the user come and go as hosts have them: with a plugin, or a folder. Those of a project
come when a question is asked from there, and stay until they are gone.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from skillsearch.hosts.folders import (
    HostFolder,
    project_folder_names,
    project_folders,
    up_to_project,
    user_folders,
)
from skillsearch.index.roots.request import Follows, IndexRequest, SeenBy, key_of
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.text.safe_text import visible

_MAX_LABEL = 64
_FOLDERS_A_SKILL = 50
"""Folders that are looked into for each skill that may be counted."""


class Followed(NamedTuple):
    """A folder that an index takes up, and who sees it: see `IndexRequest.seen_by`."""

    path: Path
    plugin: str
    seen_by: SeenBy

    @classmethod
    def of(cls, enabled: Sequence[HostFolder], host_folders: Sequence[HostFolder]) -> Followed:
        """Join what the user and projects have in one folder; the user's is everybody's."""
        is_mine = any(location.project is None for location in enabled)
        projects = () if is_mine else _projects_of(enabled)
        hidden = [location for location in host_folders if is_mine and not location.is_enabled]
        return cls(enabled[0].path, enabled[0].plugin, (projects, _projects_of(hidden)))

    @property
    def projects(self) -> tuple[str, ...]:
        """The projects that it is seen from; none if that is everywhere."""
        return self.seen_by[0]


def _projects_of(host_folders: Sequence[HostFolder]) -> tuple[str, ...]:
    return tuple(sorted({key_of(each.project) for each in host_folders if each.project}))


def followed_folders(
    held: IndexRequest | None, follows: Follows | None, folders: Iterable[str | Path]
) -> dict[str, Followed]:
    """Return what an index takes up for questions from these folders, by the key of the root.

    It may be among the roots that somebody has named, or have been taken out by the user.
    """
    if follows not in ("projects", "hosts"):
        return {}
    host_folders, looked_at = list(user_folders() if follows == "hosts" else ()), set[str]()
    for folder in map(Path, folders):
        host_folders += project_folders(folder)
        looked_at |= set(map(str, up_to_project(folder)))
    if held:
        host_folders += _elsewhere(held, looked_at)
    return _joined(host_folders)


def _elsewhere(held: IndexRequest, looked_at: Collection[str]) -> Iterator[HostFolder]:
    """Yield what an index has learned of projects that are not looked at now."""
    for key in filter(os.path.isdir, held.followed):  # many
        for is_enabled, projects in zip((True, False), held.seen_by(key), strict=True):
            for project in filter(os.path.isdir, projects):
                if project not in looked_at:
                    yield HostFolder(Path(key), (), Path(project), is_enabled=is_enabled)


def followed_in_order(host_folders: Mapping[str, Followed]) -> list[Followed]:
    """Return folders, by the keys of their roots, in the order of their skills of one name.

    The user's come first, as they are given. Those of projects follow, whatever came before: the
    nearest first, each in the order of the table, plugins last.
    """

    def rank(item: tuple[str, Followed]) -> tuple[object, ...]:
        key, location = item
        if not location.projects:
            return ()
        project = max(map(Path, location.projects), key=lambda path: (len(path.parts), str(path)))
        folders = [os.path.realpath(project / name) for name in project_folder_names()]
        number = folders.index(key) if key in folders else len(folders)
        is_plugin = number == len(folders)
        return is_plugin, -len(project.parts), str(project), number, key

    return [location for _, location in sorted(host_folders.items(), key=rank)]


def is_followed(held: IndexRequest, folders: Iterable[str | Path]) -> bool:
    """Return, in a moment, whether an index holds what it is to take up, and nothing else."""
    wanted, followed = followed_folders(held, held.follows, folders), set(held.followed)
    is_held = wanted.keys() <= held.aliases.keys() | set(held.left_out)
    is_known = all(held.seen_by(key) == wanted[key].seen_by for key in followed & wanted.keys())
    return is_held and followed <= wanted.keys() and is_known


def usual_folders() -> dict[str, Followed]:
    """Return where hosts look for skills from the working folder, its project's before the user's.

    They are by the key of the root.
    """
    return _joined((*project_folders(Path.cwd()), *user_folders()))


def project_around(root: str | Path) -> str:
    """Return the folder from which hosts see a root, if that is one of a project; else nothing."""
    location = _joined(project_folders(Path(root))).get(key_of(root))
    return location.projects[0] if location else ""


def with_projects(held: IndexRequest) -> IndexRequest:
    """Add the projects to a request saved by a version that did not record them."""
    if held.follows is not None:
        return held
    projects = {key: (around,) for key in held.found if (around := project_around(key))}
    unnamed = tuple(key for key in held.found if key not in projects)
    all_projects = {**held.projects, **projects}
    return replace(held, found=unnamed, followed=tuple(projects), projects=all_projects)


def labels(host_folders: Mapping[str, Followed], taken: Collection[str]) -> dict[str, str]:
    """Return aliases for the roots of plugins, by their keys: the names of the plugins."""
    names: dict[str, str] = {}
    for key, location in host_folders.items():
        name = visible(location.plugin.partition("@")[0]).replace(":", "_").replace("/", "-")
        if name and len(name) <= _MAX_LABEL and name not in (*names.values(), *taken):
            names[key] = name
    return names


def _joined(host_folders: Iterable[HostFolder]) -> dict[str, Followed]:
    by_key: dict[str, list[HostFolder]] = {}
    for location in host_folders:
        if not location.is_outside:
            by_key.setdefault(key_of(location.path), []).append(location)
    enabled = {key: [each for each in some if each.is_enabled] for key, some in by_key.items()}
    return {key: Followed.of(some, by_key[key]) for key, some in enabled.items() if some}


def count_skills(roots: Iterable[Path], most: int) -> int:
    """Return how many SKILL.md files lie below the roots, or `most` + 1 if there are more."""
    count = 0
    for root in make_roots(roots)[0]:
        count += len(discover([root], max_folders=(most + 1) * _FOLDERS_A_SKILL).files)
        if count > most:
            return most + 1
    return count
