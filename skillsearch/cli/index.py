"""``skillsearch index``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse
from skillsearch.cli.indexing import (
    ask_to_vouch,
    build_index,
    check_settings,
    show_folders,
)
from skillsearch.cli.options import NamedRoot, SettingOption, read_flags, read_settings
from skillsearch.cli.output import emit_json, lost, progress_bars, say, show_diagnostics
from skillsearch.index.next_steps import index_option
from skillsearch.index.roots.held import held_roots, request_of
from skillsearch.index.roots.root_change import (
    SHOWN_ROOTS,
    How,
    RootChange,
    RootScope,
    default_follows,
)
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.reports import index_notes
from skillsearch.reports.cache import prune_archives
from skillsearch.settings import user_folders
from skillsearch.text.provenance import tag_of
from skillsearch.text.safe_text import counted, listed
from skillsearch.types.indexing import IndexReport

if TYPE_CHECKING:
    from skillsearch.reports.host_folders import FolderReport
    from skillsearch.types import skills


@click.command("index")
@options.roots()
@options.index_dir
@click.option("--model", cls=SettingOption, metavar="M")
@click.option("--fields", cls=SettingOption, type=click.Choice(("metadata", "full")))
@options.trust
@click.option("--device", cls=SettingOption, metavar="D")
@click.option(
    "--verify",
    is_flag=True,
    help="Hash every skill and every file of the index, whatever its size and time say, and "
    "rebuild what is damaged.",
)
@click.option(
    "--only",
    multiple=True,
    type=options.NamedPath(path_type=Path),
    metavar="PATH",
    help="Update only this SKILL.md or folder, even if it was deleted. Repeatable.",
)
@options.backend
@click.option("--examples", is_flag=True, help="Add the example skills of this package.")
@click.option(
    "--replace",
    "replaces",
    is_flag=True,
    help="Index only the named ROOTs, or without ROOT those of the settings or the usual places; "
    "report which skills leave the index.",
)
@click.option(
    "--remove",
    is_flag=True,
    help="Take the named ROOTs out of the index, even if their folders are gone.",
)
@click.option(
    "--scope",
    type=click.Choice(get_args(RootScope)),
    help="Who sees the skills of the ROOTs: user, from everywhere; project, from the project "
    "around each. [default: project for folders where hosts look for those of a project, else "
    "user]",
)
@options.as_json(lambda: options.models.INDEX)
def index_command(
    roots: tuple[NamedRoot, ...],
    verify: bool,
    only: tuple[Path, ...],
    examples: bool,
    replaces: bool,
    remove: bool,
    scope: RootScope | None,
    as_json: bool,
) -> None:
    """Add folders of skills to the index, or bring it up to date.

    ROOT is a folder, an archive (.zip, .skill, .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz), or the URL
    of an archive or of a SKILL.md. This command checks archives and URLs for changes; a query does
    not. Unpacked files are removed when no index needs them and they were not used for 30 days.

    Roots indexed before stay and come before new ROOTs; the folders of the settings come first.
    Without ROOT all of them are brought up to date, and the folders are indexed where hosts look
    for your skills, those of enabled plugins, and those of the project around this folder. From
    then on the index follows them by itself. What --remove or a host takes out stays out.
    """
    how = _how(only, remove=remove, replaces=replaces)
    is_named = bool(roots) or examples
    refuse(remove and not is_named, "--remove takes out ROOTs; name them.")
    is_adding = roots and how in ("add", "replace")
    refuse(scope and not is_adding, "--scope says who sees the ROOTs that are added; name them.")
    settings = read_settings()
    follows = default_follows(settings, how, request_of(settings), is_named=is_named)
    change = RootChange(
        roots, how, settings, follows=follows, folders=(Path.cwd(),), scope=scope, examples=examples
    )
    if how == "add" or (how == "replace" and not is_named):
        check_settings(settings)
    if settings.is_remote:
        _index_in_milvus(change, as_json=as_json)
        return
    _index(change, [path.absolute() for path in only], verify=verify, as_json=as_json)
    _say_note(index_notes.outside(settings, roots))


def _index(change: RootChange, only: Sequence[Path], *, verify: bool, as_json: bool) -> None:
    from skillsearch.reports.host_folders import report_folders

    folder = IndexFolder(change.settings.index_dir.absolute())
    before, generation = held_roots(change.settings), folder.current()
    index, report = build_index(change, only, verify=verify)
    report = replace(report, diagnostics=index.diagnostics())
    reports = report_folders(index, Path.cwd(), before) if change.follows == "hosts" else []
    index_roots = index.opened.settings.roots
    _show(report, {"index_dir": str(folder.path)}, index_roots, reports, as_json=as_json)
    if not as_json:
        show_folders(reports)
        ask_to_vouch(index, before)
    prune_archives(user_folders.cache_dir())
    _say_note(index_notes.below_no_root(only, index_roots))
    if change.how in ("add", "replace"):
        _say_note(index_notes.without_skills(change.roots, index, report.diagnostics))
    if report.generation != generation:
        _say_note(index_notes.unvetted(index_roots, index_option(folder.path, change.settings)))


def _how(only: Sequence[Path], *, remove: bool, replaces: bool) -> How:
    """Return the change of the held roots that the options name."""
    chosen: dict[How, bool] = {"keep": bool(only), "remove": remove, "replace": replaces}
    ways = [how for how, is_chosen in chosen.items() if is_chosen]
    refuse(
        len(ways) > 1,
        "--only updates part of the index, --replace all, --remove takes out; use one of them.",
    )
    return ways[0] if ways else "add"


def _say_note(text: str) -> None:
    say(f"note: {text}" if text else "")


def _index_in_milvus(change: RootChange, *, as_json: bool) -> None:
    from skillsearch.remote.opening import milvus_uri
    from skillsearch.remote.remote_index import RemoteIndex

    settings = change.settings
    with progress_bars() as bars:
        index, report = RemoteIndex.build(
            change,
            milvus_uri(settings),
            collection=settings.collection,
            device=read_flags()["device"],
            progress=bars,
        )
    with index:
        index_roots = index.settings.roots
    _show(report, {"collection": settings.collection}, index_roots, (), as_json=as_json)
    prune_archives(user_folders.cache_dir())


def _show(
    report: IndexReport,
    target: Mapping[str, str],
    roots: Sequence[skills.Root],
    folders: Sequence[FolderReport],
    *,
    as_json: bool,
) -> None:
    """Print the report on a target, the folder or the collection of the index."""
    names = [root.origin or str(root.path) for root in roots]
    if as_json:
        trust = [root.trust for root in roots]
        followed = {"folders": [each.to_dict() for each in folders]} if folders else {}
        emit_json({**report.to_dict(), **target, "roots": names, "trust": trust, **followed})
        return
    show_diagnostics(report.diagnostics)
    if report.healed:
        say(f"healed: {', '.join(report.healed)} of the index had been damaged")
    say(
        f"{lost(report.skipped)}{counted(report.indexed, 'skill')} in the index: "
        f"{report.indexed - report.reused:,} read, {report.reused:,} unchanged, "
        f"{report.removed:,} removed; {counted(report.embedded, 'text')} embedded, "
        f"{report.seconds:.2f} s",
        err=False,
    )
    for left_root, count in report.left.items():
        say(f"with {left_root}, {counted(count, 'skill')} left the index")
    where = target.get("index_dir") or f"collection {target['collection']}"
    tagged = (
        f"{name} {tag_of(root.trust)}".rstrip() for name, root in zip(names, roots, strict=True)
    )
    say(f"index: {where}; roots: {listed(tagged, SHOWN_ROOTS)}", err=False)
