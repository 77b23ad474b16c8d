"""The roots that an index takes up by itself: folders where hosts look for skills, as they are now.

Those of the user come and go as hosts have them: with a plugin, or a folder. Those of a project
come when a question is asked from there, and stay until they are gone.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from skillsearch.hosts.places import (
    Place,
    project_folders,
    project_of,
    project_places,
    user_places,
)
from skillsearch.index.request import Follows, IndexRequest, key_of
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.text.safe_text import visible

_MAX_LABEL = 64
_FOLDERS_A_SKILL = 50
"""Folders that are looked into for each skill that may be counted."""


def followed_places(
    held: IndexRequest | None, follows: Follows | None, folders: Iterable[str | Path]
) -> dict[str, Place]:
    """Return what an index is to take up for questions from some folders, by the key of the root.

    It may be among the roots that somebody has named, or have been taken out by the user.
    """
    if follows not in ("projects", "hosts"):
        return {}
    places, looked_at = list(user_places() if follows == "hosts" else ()), set[str]()
    for folder in map(Path, folders):
        places += project_places(folder)
        looked_at |= set(map(str, _up_to_project(folder)))
    found = _enabled(places)
    for key in held.followed if held else ():
        project = held.projects.get(key, "") if held else ""
        if project and project not in looked_at and os.path.isdir(key):  # noqa: PTH112  # many
            found.setdefault(key, Place(Path(key), (), Path(project)))
    return found


def in_order(places: Mapping[str, Place]) -> list[Place]:
    """Return places, by the keys of their roots, in the order of their skills of one name.

    The user's come first, as they are given. Those of projects follow, whatever came before: the
    nearest first, each in the order of the table, plugins last.
    """

    def rank(item: tuple[str, Place]) -> tuple[object, ...]:
        key, place = item
        if place.project is None:
            return ()
        folders = [os.path.realpath(place.project / name) for name in project_folders()]
        number = folders.index(key) if key in folders else len(folders)
        is_plugin = number == len(folders)
        return is_plugin, -len(place.project.parts), str(place.project), number, key

    return [place for _, place in sorted(places.items(), key=rank)]


def is_followed(held: IndexRequest, folders: Iterable[str | Path]) -> bool:
    """Return, in a moment, whether an index holds what it is to take up, and nothing else."""
    wanted = followed_places(held, held.follows, folders).keys()
    return wanted <= held.aliases.keys() | set(held.left_out) and set(held.followed) <= wanted


def usual_places() -> dict[str, Place]:
    """Return where hosts look for skills from the working folder, its project's before the user's.

    They are by the key of the root.
    """
    return _enabled((*project_places(Path.cwd()), *user_places()))


def project_around(root: str | Path) -> str:
    """Return the folder from which hosts see a root, if that is one of a project; else nothing."""
    places = _enabled(project_places(Path(root)))
    place = places.get(key_of(root))
    return str(place.project) if place and place.project else ""


def with_projects(held: IndexRequest) -> IndexRequest:
    """Return a request of before roots had projects with those that were taken up in one."""
    if held.follows is not None:
        return held
    projects = {key: around for key in held.found if (around := project_around(key))}
    found = tuple(key for key in held.found if key not in projects)
    return replace(held, found=found, followed=tuple(projects), projects=projects)


def labels(places: Mapping[str, Place], taken: Collection[str]) -> dict[str, str]:
    """Return aliases for the roots of plugins, by their keys: the names of the plugins."""
    found: dict[str, str] = {}
    for key, place in places.items():
        name = visible(place.plugin.partition("@")[0]).replace(":", "_").replace("/", "-")
        if name and len(name) <= _MAX_LABEL and name not in (*found.values(), *taken):
            found[key] = name
    return found


def _enabled(places: Sequence[Place]) -> dict[str, Place]:
    found: dict[str, Place] = {}
    for place in places:
        if place.is_enabled:
            found.setdefault(key_of(place.path), place)
    return found


def _up_to_project(folder: Path) -> Iterator[Path]:
    project = project_of(folder)
    for around in (folder, *folder.parents) if project else ():
        yield around
        if around == project:
            return


def count_skills(roots: Iterable[Path], most: int) -> int:
    """Return how many SKILL.md files lie below some folders, or one more than the most."""
    count = 0
    for root in make_roots(roots)[0]:
        count += len(discover([root], max_folders=(most + 1) * _FOLDERS_A_SKILL).files)
        if count > most:
            return most + 1
    return count
