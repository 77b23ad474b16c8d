"""``skillsearch index`` and ``skillsearch watch``."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, get_args

import click

from skillsearch import config
from skillsearch.cli import app
from skillsearch.cli.app import Asked, command, flag, option, refuse, repeatable, setting
from skillsearch.cli.hook import forget_told
from skillsearch.cli.interrupts import INTERRUPTED
from skillsearch.cli.output import emit_json, lost, progress_bars, say, show_diagnostics
from skillsearch.config import Settings
from skillsearch.errors import ConfigError, IndexNotFoundError
from skillsearch.index.request import Follows, IndexRequest, key_of
from skillsearch.index.root_change import How, RootChange, Scope
from skillsearch.index.scope import View, is_in_scope
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.library import watcher
from skillsearch.reports.cache import prune_archives
from skillsearch.roots.sources import is_bundle
from skillsearch.text.provenance import tag_of
from skillsearch.text.safe_text import counted, listed, visible
from skillsearch.types import IndexReport, JsonValue, Progress

if TYPE_CHECKING:
    from skillsearch import types
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.remote.remote_index import RemoteIndex
    from skillsearch.reports.places import PlaceReport

Built = tuple[IndexReport, dict[str, JsonValue], list[str], "SkillIndex | None"]
"""The report of indexing, the content of the index now, notes for the user, and a local index."""
_SHOWN_ROOTS = 10


@command("index")
@app.roots()
@app.index_dir
@setting("--model M", "onnx (default), multilingual, hashing, onnx:FOLDER, st:NAME.")
@setting(
    "--fields",
    "metadata: names and descriptions only; full (default): also the bodies, as words and as "
    "embedded chunks; the multilingual channel embeds the beginning of each body.",
    type=click.Choice(("metadata", "full")),
)
@app.languages
@app.trust
@setting(
    "--device D",
    "Where an st: model runs: cpu, cuda, cuda:1, mps; auto (default): the best available.",
)
@flag(
    "--verify",
    "Hash every skill and every file of the index, whatever its size and time say, and rebuild "
    "what is damaged.",
)
@repeatable(
    "--only PATH",
    "Update only this SKILL.md or folder, even if it was deleted. Repeatable.",
    type=app.NamedPath(path_type=Path),
)
@app.backend
@flag("--examples", "Add the example skills of this package.")
@flag(
    "--replace",
    "Index only the named ROOTs, or without ROOT those of the settings or the usual places; "
    "report which skills leave the index.",
)
@flag("--remove", "Take the named ROOTs out of the index, even if their folders are gone.")
@option(
    "--scope",
    "Who sees the skills of the ROOTs: user, from everywhere; project, from the project around "
    "each. [default: project for folders where hosts look for those of a project, else user]",
    type=click.Choice(get_args(Scope)),
)
@app.as_json
def index_command(asked: Asked) -> None:
    """Add folders of skills to the index, or bring it up to date.

    ROOT is a folder, an archive (.zip, .skill, .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz), or the URL
    of an archive or of a SKILL.md. This command checks archives and URLs for changes; a query does
    not. Unpacked files are removed when no index needs them and they were not used for 30 days.

    Roots indexed before stay and come before new ROOTs; the folders of the settings come first.
    Without ROOT all of them are brought up to date, and the folders are indexed where hosts look
    for your skills, those of enabled plugins, and those of the project around this folder. From
    then on the index follows them by itself. What --remove or a host takes out stays out.
    """
    refuse(
        [asked.replace, asked.remove, bool(asked.only)].count(True) > 1,
        "--only updates part of the index, --replace all, --remove takes out; use one of them.",
    )
    is_named = asked.roots or asked.examples
    refuse(asked.remove and not is_named, "--remove takes out ROOTs; name them.")
    is_scoped = asked.scope and (asked.remove or asked.only or not asked.roots)
    refuse(is_scoped, "--scope says who sees the ROOTs that are added; name them.")
    how: How = "keep" if asked.only else "remove" if asked.remove else "add"
    how = "replace" if asked.replace else how
    follows = _follows(asked, how)
    change = RootChange(
        asked.roots,
        how,
        asked.settings,
        follows=follows,
        folders=(Path.cwd(),),
        scope=asked.scope,
        examples=asked.examples,
    )
    from skillsearch.reports.places import report_places

    if how == "add" or (how == "replace" and not is_named):
        check_settings(asked.settings)
    is_local = asked.settings.backend != "milvus"
    before = held_roots(asked.settings) if is_local else frozenset()
    generation = IndexFolder(asked.settings.index_dir.absolute()).current() if is_local else None
    with progress_bars() as bars:
        build = _build if is_local else _build_in_milvus
        report, held, notes, index = build(
            change, asked, device=asked.flags["device"], progress=bars
        )
    is_followed = index is not None and follows == "hosts"
    places = report_places(index, Path.cwd(), before) if is_followed else []
    if asked.as_json:
        records = {"places": [place.to_dict() for place in places]} if places else {}
        emit_json({**report.to_dict(), **held, **records})
    else:
        _show(report, held)
        show_places(places)
        if index is not None:
            ask_to_vouch(index, before)
    prune_archives(config.cache_dir())
    if index is not None:
        roots = index.opened.settings.roots
        notes += [_unvetted(roots)] if report.generation != generation else []
        notes.append(_outside(asked))
    for note in filter(None, notes):
        say(f"note: {note}")


def _follows(asked: Asked, how: How) -> Follows | None:
    """Return which folders the index is to take up by itself: none if it is not the user's."""
    settings = asked.settings
    if settings.backend == "milvus" or settings.is_project_index or how in ("keep", "remove"):
        return None
    is_asked = asked.roots or getattr(asked, "examples", False)
    is_named = is_asked or settings.roots
    if how == "replace" and is_named:
        return "named"
    is_other = settings.sources.get("index_dir") == "flag"
    if is_other and (is_named or (how == "add" and held_roots(settings))):
        return None
    is_users = settings.own_roots or not settings.index_roots  # else a project adds some, no more
    return "projects" if is_asked or (settings.roots and is_users) else "hosts"


def _build(change: RootChange, asked: Asked, **how: Any) -> Built:
    from skillsearch.index.languages import advice
    from skillsearch.index.skill_index import SkillIndex

    settings = asked.settings
    folder = IndexFolder(settings.index_dir.absolute())
    generation = folder.current()
    only = [path.absolute() for path in asked.only]
    index, report = SkillIndex.build(change, folder.path, verify=asked.verify, only=only, **how)
    report = replace(report, diagnostics=index.diagnostics())
    forget_told(folder.path)
    held = {"index_dir": str(folder.path), **_described(index.opened.settings.roots)}
    is_new = report.generation != generation
    return report, held, [advice(index)] if is_new else [], index


def check_settings(settings: Settings) -> None:
    """Do the same as `app.check_size` for the roots of the settings that are not held yet."""
    roots = [Path(root) for root in settings.roots if not is_bundle(root)]
    held = held_roots(settings) if roots and settings.backend != "milvus" else ()
    for root in roots:
        if key_of(root) not in held:
            app.check_size(root, is_agreed=app.has_agreed())


def held_roots(settings: Settings) -> frozenset[str]:
    """Return the keys of the roots that the index of some settings holds."""
    from skillsearch.index.corpus import last_request

    held = last_request(IndexFolder(settings.index_dir.absolute()))
    return frozenset(map(key_of, held.roots)) if held else frozenset()


def show_places(places: Sequence[PlaceReport]) -> None:
    """Say of each folder of a host what has become of it."""
    for place in places:
        say(place.told)


def ask_to_vouch(index: SkillIndex, before: Collection[str]) -> None:
    """Ask on a terminal whether to vouch for projects whose skills came by themselves."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    roots, here = index.opened.settings.roots, View.of(Path.cwd())
    doubted = [root for root in roots if root.trust == "project" and str(root.path) not in before]
    for project in dict.fromkeys(filter(None, (here.project_of(root) for root in doubted))):
        question = (
            f"Do you vouch for the skills of {visible(project)}? Prompts there offer them then."
        )
        if click.confirm(question, err=True):
            settings = Settings(trust=(f"{project}=vetted",), sources={"trust": "flag"})
            index.apply(RootChange(how="keep", settings=settings))


def _outside(asked: Asked) -> str:
    """Return what to do about new roots outside of the project, if its index is used."""
    if not asked.settings.is_project_index:
        return ""
    file = asked.settings.sources["index_dir"]
    outside = [root for root in asked.roots if not Path(root).is_relative_to(Path(file).parent)]
    own = ["--index-dir", str(config.user_index_dir())]
    note = f"this is the index of the project, which {file} names. To add to your own instead: "
    return note + shlex.join(["skillsearch", "index", *map(str, outside), *own]) if outside else ""


def _build_in_milvus(change: RootChange, asked: Asked, **how: Any) -> Built:
    from skillsearch.remote.remote_index import RemoteIndex

    collection = asked.settings.collection
    index, report = RemoteIndex.build(change, _uri(asked.settings), collection=collection, **how)
    roots = _described(index.settings.roots)
    index.close()
    return report, {"collection": collection, **roots}, [], None


def _described(roots: Sequence[types.Root]) -> dict[str, JsonValue]:
    names = [root.origin or str(root.path) for root in roots]
    return {"roots": names, "trust": [root.trust for root in roots]}


def _unvetted(roots: Sequence[types.Root]) -> str:
    """Return what to know about roots that nobody vouches for and that are seen from here."""
    here = View.of(Path.cwd())
    doubted = [root for root in roots if root.trust != "vetted" and is_in_scope(root, [here])]
    names = listed((root.origin or str(root.path) for root in doubted), _SHOWN_ROOTS)
    if not doubted:
        return ""
    first = here.project_of(doubted[0]) or doubted[0].origin or str(doubted[0].path)
    command = f"skillsearch index --trust {shlex.quote(f'{first}=vetted')}"
    return f"prompt and hook do not offer the skills of {names}; to vouch: {command}"


def open_in_milvus(settings: Settings) -> RemoteIndex:
    """Open the index in Milvus that the settings name."""
    from skillsearch.remote.remote_index import RemoteIndex

    return RemoteIndex.open(_uri(settings), collection=settings.collection)


def planned(change: RootChange) -> IndexRequest:
    """Return what the index of the settings would hold after a change; nothing is written."""
    from skillsearch.index.corpus import last_request

    settings, held = change.settings, None
    if settings.backend != "milvus":
        return change.applied_to(last_request(IndexFolder(settings.index_dir.absolute())))
    with suppress(IndexNotFoundError), open_in_milvus(settings) as index:
        held = index.settings.request()
    return change.applied_to(held)


def _uri(settings: Settings) -> str:
    if not settings.uri:
        raise ConfigError(
            "The backend milvus needs the address of a server: --uri http://127.0.0.1:19530, or "
            "SKILLSEARCH_URI."
        )
    return settings.uri


def _show(report: IndexReport, held: dict[str, JsonValue]) -> None:
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
    for root, count in report.left.items():
        say(f"with {root}, {counted(count, 'skill')} left the index")
    place = held["index_dir"] if "index_dir" in held else f"collection {held['collection']}"
    pairs = zip(held["roots"], held["trust"], strict=True)
    roots = (f"{root} {tag_of(trust)}".rstrip() for root, trust in pairs)
    say(f"index: {place}; roots: {listed(roots, _SHOWN_ROOTS)}", err=False)


@command("watch")
@app.roots()
@app.index_dir
@app.languages
@app.trust
@app.as_json
def watch_command(asked: Asked) -> None:
    """Keep the index up to date until interrupted.

    Indexes first, as "skillsearch index [ROOT]..." does, and again whenever skills change: one line
    on stderr each time, with --json one JSON object a line on stdout. If a folder disappears, its
    skills stay in the index until it is back.
    """
    watcher.require_watchfiles()
    from skillsearch.index.skill_index import SkillIndex

    settings = asked.settings
    follows = _follows(asked, "add")
    check_settings(settings)
    change = RootChange(asked.roots, settings=settings, follows=follows, folders=(Path.cwd(),))
    with _until_sigterm() as stop:
        with progress_bars() as bars:
            folder = settings.index_dir.absolute()
            index, report = SkillIndex.build(change, folder, progress=partial(_go_on, stop, bars))
        forget_told(index.folder)
        _show_again(report, as_json=asked.as_json)
        refresh = partial(_follow, index, stop, asked.as_json)
        try:
            roots = [root.path for root in index.opened.settings.roots]
            watcher.watch(roots, refresh, stop=stop, leave_out=index.folder)
        except KeyboardInterrupt:
            say("Stopped watching.")
            raise click.exceptions.Exit(INTERRUPTED) from None


@contextmanager
def _until_sigterm() -> Iterator[Event]:
    """Give an event that SIGTERM sets."""
    stop = Event()
    handler = signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, handler)


def _follow(index: SkillIndex, stop: Event, as_json: bool, changed: frozenset[Path] | None) -> None:
    before = index.generation
    if changed or not index.is_current():
        report = index.refresh(only=sorted(changed or ()), progress=partial(_go_on, stop, None))
        if index.generation != before:
            _show_again(report, as_json=as_json)


def _show_again(report: IndexReport, *, as_json: bool) -> None:
    if as_json:
        emit_json(report.to_dict())
    else:
        say(
            f"{lost(report.skipped)}{counted(report.indexed, 'skill')} in the index: "
            f"{report.indexed - report.reused:,} read, {report.removed:,} removed, "
            f"{report.seconds:.2f} s"
        )


def _go_on(stop: Event, bars: Progress | None, stage: str, done: int, total: int) -> None:
    """End the program between two steps of indexing, or move the bar; embedded texts are kept."""
    if stop.is_set():
        raise click.exceptions.Exit(0)
    if bars:
        bars(stage, done, total)
