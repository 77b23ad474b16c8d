"""Which hosts list which skills, and what moving a skill of the user would take along."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from skillsearch.errors import SkillError
from skillsearch.hosts.files import switched_off
from skillsearch.hosts.folders import HostFolder, project_folders, user_folders
from skillsearch.hosts.table import hosts, library_folder, with_key
from skillsearch.text.safe_text import listed, visible

_SHOWN = 10


class Listings:
    """The folders in which hosts look for skills, of the user by default, and the links in them.

    Skills are given by the real path of their folder.
    """

    def __init__(self, around: Path | None = None) -> None:
        """Look at the folders, also those of the project around one, and at the hosts' switches."""
        folders = (*user_folders(), *(project_folders(around) if around else ()))
        self._host_folders = {Path(os.path.realpath(each.path)): each for each in folders}
        library = library_folder()
        self._host_folders.setdefault(library.resolve(), HostFolder(library, (), None))
        self._links: dict[Path, dict[Path, HostFolder]] = {}
        self._off = {(host, name) for host in with_key("switch") for name in switched_off(host)}
        for folder, looked in self._host_folders.items():
            if looked.hosts and not looked.plugin and os.access(folder, os.R_OK):
                for link in filter(Path.is_symlink, folder.iterdir()):
                    self._links.setdefault(Path(os.path.realpath(link)), {})[link] = looked

    def hosts_of(self, folder: Path, name: str) -> tuple[str, ...]:
        """Return the hosts that list a skill of the user now, plugins aside."""
        return tuple(host for host in self.readers(folder) if not self.is_off(host, name))

    def counts(self, skills: Iterable[tuple[Path, str]]) -> dict[str, int]:
        """Return how many skills of the user each host lists, plugins aside, given with names."""
        counts = Counter(host for folder, name in skills for host in self.hosts_of(folder, name))
        return {host: counts[host] for host in hosts()}

    def is_off(self, host: str, name: str) -> bool:
        """Return whether a host's own switch turns off the skill of a name, of no plugin."""
        return (host, name) in self._off

    def readers(self, folder: Path, *, with_plugins: bool = False) -> tuple[str, ...]:
        """Return the hosts that look into a folder, even if a switch hides it.

        Those of plugins that are enabled look into theirs too, if that is wanted.
        """
        around = self._around((folder, *folder.parents))
        is_wanted = not around or not around[0].plugin or (with_plugins and around[0].is_enabled)
        own = around if is_wanted else []
        host_folders = (*own, *self._links.get(folder, {}).values())
        return tuple(dict.fromkeys(host for looked in host_folders for host in looked.hosts))

    def movable(self, folder: Path, name: str) -> tuple[Path, ...]:
        """Return the paths to move so that no host lists a skill: its folder, or links to it.

        A SkillError for a skill that is not the user's, and for one with which folders of hosts
        would go.
        """
        if library_folder().resolve() in folder.parents:
            raise SkillError(f"{name} is in your library already; leave it out.")
        nearest = next(iter(self._around(folder.parents)), None)
        if nearest and nearest.hosts and not nearest.plugin:
            self._refuse_folder_of_hosts(folder, name)
            return (folder,)
        if links := self._links.get(folder):
            return tuple(links)
        self._refuse_folder_of_hosts(folder, name)
        raise SkillError(
            f"{name} ({visible(str(folder))}) lies in no folder where hosts look for skills of "
            "yours, so it is not moved. Those of plugins and projects are the hosts' to turn off."
        )

    def _around(self, folders: Iterable[Path]) -> list[HostFolder]:
        return [self._host_folders[folder] for folder in folders if folder in self._host_folders]

    def _refuse_folder_of_hosts(self, folder: Path, name: str) -> None:
        for path, looked in self._host_folders.items():
            if folder in (path, *path.parents):
                titles = [hosts()[host]["title"] for host in looked.hosts]
                where = f"where {listed(titles, _SHOWN)} look for skills"
                raise SkillError(
                    f"{visible(str(path))}, {where if titles else 'your library'}, would be moved "
                    f"with {name}, and all in it; give {name} a folder of its own there first."
                )
