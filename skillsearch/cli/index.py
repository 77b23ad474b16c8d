"""``skillsearch index``."""

from __future__ import annotations

import shlex
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
from skillsearch.index.roots.request import key_of
from skillsearch.index.roots.root_change import (
    SHOWN_ROOTS,
    How,
    RootChange,
    RootScope,
    default_follows,
)
from skillsearch.index.roots.scope import Viewpoint, is_in_scope
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.reports.cache import prune_archives
from skillsearch.settings import config, user_folders
from skillsearch.settings.table import Settings
from skillsearch.text.provenance import tag_of
from skillsearch.text.safe_text import counted, listed
from skillsearch.types.indexing import IndexReport

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex
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
    _say_note(_outside(settings, roots))


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
    _say_note(_below_no_root(only, index_roots))
    if change.how in ("add", "replace"):
        _say_note(_without_skills(change.roots, index, report.diagnostics))
    if report.generation != generation:
        _say_note(_unvetted(index_roots, index_option(folder.path, change.settings)))


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


def _outside(settings: Settings, roots: Sequence[NamedRoot]) -> str:
    """Return the next step for new roots outside of the project, if its index is used."""
    if not settings.is_project_index:
        return ""
    file = settings.sources["index_dir"]
    outside = [root for root in roots if not Path(root).is_relative_to(Path(file).parent)]
    own = ["--index-dir", str(config.user_index_dir())]
    note = f"this is the index of the project, which {file} names. To add to your own instead: "
    return note + shlex.join(["skillsearch", "index", *map(str, outside), *own]) if outside else ""


def _below_no_root(only: Sequence[Path], roots: Sequence[skills.Root]) -> str:
    """Return a note on paths to look at that no root of the index holds or lies below."""
    folders = [folder for root in roots for folder in (root.path, root.path.resolve())]

    def is_known(path: Path) -> bool:
        return any(path.is_relative_to(each) or each.is_relative_to(path) for each in folders)

    stray = [path for path in only if not (is_known(path) or is_known(path.resolve()))]
    names = listed(map(str, stray), SHOWN_ROOTS)
    next_step = "correct the path, or add its folder: skillsearch index FOLDER"
    return f"no root of this index holds {names}; {next_step}" if stray else ""


def _without_skills(
    named: Sequence[NamedRoot], index: SkillIndex, diagnostics: Sequence[skills.Diagnostic]
) -> str:
    """Return a note on named roots below which there is no SKILL.md, not even a broken one."""
    reported = [Path(diagnostic.path) for diagnostic in diagnostics]

    def has_skills(folder: Path) -> bool:
        inner = [root for root in index.opened.settings.roots if root.path.is_relative_to(folder)]
        documents = index.opened.corpus.documents
        is_read = any(next(documents.with_prefix(f"{root.alias}:"), None) for root in inner)
        return is_read or any(path.is_relative_to(folder) for path in reported)

    empty = [str(root) for root in named if not has_skills(Path(key_of(root)))]
    next_step = "correct the path, or put skills there"
    return f"no SKILL.md lies below {listed(empty, SHOWN_ROOTS)}; {next_step}" if empty else ""


def _unvetted(roots: Sequence[skills.Root], option: str) -> str:
    """Return a note on roots that nobody vouches for and that are seen from here.

    The `option` names the index in commands, if it has to.
    """
    here = Viewpoint.of(Path.cwd())
    doubted = [root for root in roots if root.trust != "vetted" and is_in_scope(root, [here])]
    names = listed((root.origin or str(root.path) for root in doubted), SHOWN_ROOTS)
    if not doubted:
        return ""
    first = here.project_of(doubted[0]) or doubted[0].origin or str(doubted[0].path)
    command = f"skillsearch index --trust {shlex.quote(f'{first}=vetted')}{option}"
    return f"prompt and hook do not offer the skills of {names}; to vouch: {command}"


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
