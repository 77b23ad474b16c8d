"""The folders where hosts look for skills from a folder, and the state of each in an index."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skillsearch.hosts.folders import HostFolder, project_folders, user_folders
from skillsearch.index.roots.host_roots import count_skills
from skillsearch.index.roots.request import IndexRequest, key_of
from skillsearch.index.skill_index import SkillIndex
from skillsearch.text.safe_text import counted, listed
from skillsearch.types.json_values import Record

FolderState = Literal["new", "indexed", "disabled", "outside", "left out", "not indexed"]
MOST_COUNTED = 9_999


@dataclass(frozen=True, slots=True)
class FolderReport(Record):
    """A folder where hosts look, the number of its skills, and their state in an index.

    new: indexed, and not so before; disabled: the user has turned off its plugin, or another
    version is the installed one; outside: a link leads to it out of the project, and its skills are
    not counted; left out: taken out of the index by the user.
    """

    path: str
    hosts: tuple[str, ...]
    project: str
    plugin: str
    state: FolderState
    skills: int

    @property
    def summary(self) -> str:
        """One line with state, folder, number of skills, and owner."""
        whose = self.plugin or listed(self.hosts, 3) or "your library"
        is_outside = self.state == "outside"
        what = "a link out of the project" if is_outside else counted(self.skills, "skill")
        return f"{self.state}: {self.path} ({what}; {whose})"


def _state(
    host_folder: HostFolder, around: str, request: IndexRequest | None, before: Collection[str]
) -> FolderState:
    """Return whether an index has the skills of a folder by a root `around` it, or why not."""
    if around and (host_folder.is_enabled or host_folder.is_outside):
        return "indexed" if around in before else "new"
    if host_folder.is_outside:
        return "outside"
    if not host_folder.is_enabled:
        return "disabled"
    return "left out" if request and key_of(host_folder.path) in request.left_out else "not indexed"


def report_folders(
    index: SkillIndex | None, folder: Path, before: Collection[str] = ()
) -> list[FolderReport]:
    """Report what hosts look for from a folder, the user's first; `before` are roots held then."""
    request = IndexRequest.load(index.folder) if index is not None else None
    held = index.opened.settings.roots if index is not None else ()
    roots = {str(root.path): root for root in held}
    reports = []
    for host_folder in (*user_folders(), *project_folders(folder)):
        key = key_of(host_folder.path)
        parents = (key, *map(str, Path(key).parents))
        around = next((parent for parent in parents if parent in roots), "")
        state = _state(host_folder, around, request, before)
        skills = count_skills([] if state == "outside" else [host_folder.path], MOST_COUNTED)
        if index is not None and around == key and host_folder.is_enabled:
            skills = len(index.opened.corpus.documents.of_roots([roots[key].alias]))
        project = str(host_folder.project or "")
        report = FolderReport(
            str(host_folder.path), host_folder.hosts, project, host_folder.plugin, state, skills
        )
        reports.append(report)
    return reports
