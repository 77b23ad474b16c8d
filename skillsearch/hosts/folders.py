"""The folders of the user and of a project in which hosts look for skills now."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.hosts.plugins import plugins_of
from skillsearch.hosts.table import folder_of, library_folder, with_key
from skillsearch.settings.user_folders import home_dir


@dataclass(frozen=True, slots=True)
class HostFolder:
    """A folder in which hosts look for skills, and which is there.

    Attributes:
        path: As hosts name it, absolute.
        project: The folder from which its skills are seen; None if they are the user's.
        plugin: The id of the plugin that it is a part of, else empty; `version` is the plugin's.
        is_enabled: Whether the host uses it: False for a plugin that is turned off, by the user or
            in the project, for a version that is not the installed one, and for what is outside.
        is_outside: Whether a link leads to it out of the project, so that it is not looked into.
    """

    path: Path
    hosts: tuple[str, ...]
    project: Path | None
    plugin: str = ""
    is_enabled: bool = True
    version: str = ""
    is_outside: bool = False

    def with_hosts(self, names: Iterable[str]) -> HostFolder:
        """Return the same folder with more hosts that look into it."""
        return replace(self, hosts=tuple(dict.fromkeys((*self.hosts, *names))))


def user_folders() -> tuple[HostFolder, ...]:
    """Return the user's folders in the order of the table, then those of plugins, and the library.

    The library holds skills that no host is to list; nothing in it was not the user's before.
    """
    library = library_folder()
    is_used = library.is_dir() and any(library.iterdir())
    own = [HostFolder(library, (), None)] if is_used else []
    return (*_own_folders(), *_of_plugins(None), *own)


def has_host_folders(folder: Path) -> bool:
    """Return whether hosts look for skills anywhere, of the user or in the project of a folder."""
    return any(looked.is_enabled for looked in (*user_folders(), *project_folders(folder)))


def _own_folders() -> tuple[HostFolder, ...]:
    folders: dict[str, HostFolder] = {}
    for template, names in _readers("skills").items():
        path = folder_of(template)
        if path[:1] == "/" and os.path.isdir(path):  # noqa: PTH112  # five times as fast
            real = os.path.realpath(path)
            folders[real] = folders.get(real, HostFolder(Path(path), (), None)).with_hosts(names)
    return tuple(folders.values())


def project_of(folder: Path) -> Path | None:
    """Return the folder of the project around a folder, by its real path, or None.

    It is the nearest one with a ``.git``, else the nearest in which a host looks for skills. The
    home folder, the folders above it, and folders that other users can write, such as ``/tmp``,
    are never projects.
    """
    return next(reversed(up_to_project(folder)), None)


def project_folder_names() -> tuple[str, ...]:
    """Return the folders of a project in which hosts look for skills, in the order of the table."""
    return tuple(_readers("project"))


def up_to_project(folder: Path) -> list[Path]:
    """Return a folder and those above it, by their real paths, up to its project; none without."""
    around = list(_around(folder))
    projects = (path for path in around if os.path.lexists(f"{path}/.git"))
    names = _readers("project")
    others = (path for path in around if any(os.path.isdir(f"{path}/{name}") for name in names))  # noqa: PTH112
    project = next(projects, None) or next(others, None)
    return around[: around.index(project) + 1] if project else []


def project_folders(folder: Path) -> tuple[HostFolder, ...]:
    """Return the folders of the project around a folder, the nearest first.

    A nested one belongs to the folder that holds it. What a link leads to outside of the project
    is not enabled.
    """
    within = up_to_project(folder)
    if not within:
        return ()
    project = within[-1]
    mine = {os.path.realpath(looked.path) for looked in _own_folders()}
    folders: dict[str, HostFolder] = {}
    for around in within:
        for name, readers in _readers("project").items():
            path = f"{around}/{name}"
            if not os.path.isdir(path):  # noqa: PTH112
                continue
            real = os.path.realpath(path)
            if real not in mine:
                is_outside = not real.startswith(f"{project}/")
                new = HostFolder(
                    Path(path), (), around, is_enabled=not is_outside, is_outside=is_outside
                )
                folders[real] = folders.get(real, new).with_hosts(readers)
    return (*folders.values(), *_of_plugins(project))


def _of_plugins(project: Path | None) -> Iterator[HostFolder]:
    for host in with_key("plugins"):
        for plugin in plugins_of(host, project):
            for path in plugin.skills:
                yield HostFolder(
                    path, (host,), project, plugin.name, plugin.is_enabled, plugin.version
                )


@cache
def _readers(key: Literal["skills", "project"]) -> dict[str, tuple[str, ...]]:
    """Return the folders of the table under a key, and the hosts that look into each."""
    readers: dict[str, list[str]] = {}
    for name, row in with_key(key).items():
        for folder in row[key]:
            readers.setdefault(folder, []).append(name)
    return {folder: tuple(names) for folder, names in readers.items()}


def _around(folder: Path) -> Iterator[Path]:
    """Yield a folder and those above it that may be its project."""
    first, home = Path(os.path.realpath(folder)), Path(os.path.realpath(home_dir()))
    for around in (first, *first.parents):
        if around in (home, around.parent):
            return
        try:
            mode = around.stat().st_mode
        except OSError:
            continue
        if around != first and mode & stat.S_IWOTH:
            return
        yield around
