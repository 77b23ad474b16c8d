"""What commands that make an index share: consent, progress, and the request behind it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.options import NamedRoot, check_size, has_agreed, is_interactive, read_flags
from skillsearch.cli.output import progress_bars, say
from skillsearch.index.absence import forget_report
from skillsearch.index.roots.held import held_roots
from skillsearch.index.roots.request import IndexRequest, key_of
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.roots.scope import Viewpoint
from skillsearch.roots.sources import is_bundle
from skillsearch.settings.table import Settings
from skillsearch.text.safe_text import visible
from skillsearch.types.indexing import IndexReport

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.reports.host_folders import FolderReport


def check_settings(settings: Settings) -> None:
    """Do the same as `check_size` for the roots of the settings that are not held yet."""
    roots = [Path(root) for root in settings.roots if not is_bundle(root)]
    held = held_roots(settings) if roots and not settings.is_remote else ()
    for root in roots:
        if key_of(root) not in held:
            check_size(root, is_agreed=has_agreed())


def build_index(
    change: RootChange, only: Sequence[Path] = (), *, verify: bool = False
) -> tuple[SkillIndex, IndexReport]:
    """Change the index that the settings of the change name, behind a progress bar."""
    from skillsearch.index.indexing.options import IndexOptions
    from skillsearch.index.skill_index import SkillIndex

    folder = change.settings.index_dir.absolute()
    with progress_bars() as bars:
        device = read_flags()["device"]
        run = IndexOptions(verify=verify, only=only, device=device, progress=bars)
        built = SkillIndex.build(change, folder, run)
    forget_report(folder)
    return built


def show_folders(reports: Sequence[FolderReport]) -> None:
    """Report the state of each folder of a host."""
    for report in reports:
        say(report.summary)


def ask_to_vouch(index: SkillIndex, before: Collection[str]) -> None:
    """Ask on a terminal whether to vouch for projects whose skills came by themselves."""
    if not is_interactive():
        return
    roots = index.opened.settings.roots
    here = Viewpoint.of(Path.cwd())
    doubted = [root for root in roots if root.trust == "project" and str(root.path) not in before]
    for project in dict.fromkeys(filter(None, (here.project_of(root) for root in doubted))):
        question = (
            f"Do you vouch for the skills of {visible(project)}? Prompts there offer them then."
        )
        if click.confirm(question, err=True):
            settings = Settings(trust=(f"{project}=vetted",), sources={"trust": "flag"})
            index.apply(RootChange(how="keep", settings=settings))


def request_for(roots: Sequence[NamedRoot], settings: Settings) -> IndexRequest:
    """Return a request for the named roots alone, or else for those of the index."""
    change = RootChange(roots, settings=settings)
    from skillsearch.remote.opening import planned

    return change.applied_to(None) if roots else planned(change)
