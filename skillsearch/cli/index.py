"""``skillsearch index`` and ``skillsearch watch``, and the choice of what an index is made of."""

from __future__ import annotations

import dataclasses
import shlex
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal

import click

from skillsearch import config
from skillsearch.cli import app
from skillsearch.cli.app import Asked, Root, command, flag, refuse, repeatable, setting
from skillsearch.cli.hook import forget_told
from skillsearch.cli.interrupts import INTERRUPTED
from skillsearch.cli.output import emit_json, progress_bars, say, show_diagnostics
from skillsearch.config import Settings
from skillsearch.errors import ConfigError, IndexNotFoundError, RootError
from skillsearch.index.request import (
    IndexRequest,
    join_roots,
    key_of,
    replace_command,
    resolve_roots,
    trust_by_root,
)
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.library import watcher
from skillsearch.reports.cache import prune_archives
from skillsearch.roots import sources
from skillsearch.roots.bundles import local_root
from skillsearch.text.provenance import VOUCH, tag_of
from skillsearch.text.safe_text import listed
from skillsearch.types import IndexReport, JsonValue, Progress, Trust

if TYPE_CHECKING:
    from skillsearch import types
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.remote.remote_index import RemoteIndex

Built = tuple[IndexReport, dict[str, JsonValue], list[str]]
"""The report of indexing, the present content of the index, and notes for the user."""
Use = Literal["add", "replace", "same", "apart"]
"""The roots to index beside those a user names: what was indexed before too; nothing else, nor the
settings' roots if there are any; only what was indexed before, if anything was; or nothing."""
Roots = Sequence[Root]

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
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
@app.as_json
def index_command(asked: Asked) -> None:
    """Add folders of skills to the index, or bring it up to date.

    ROOT is a folder, an archive (.zip, .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz), or the URL of an
    archive or of a SKILL.md. This command checks archives and URLs for changes; a query does not.
    Unpacked files are removed when no index needs them and they were not used for 30 days.

    Roots indexed before stay and come before new ROOTs; the folders of the settings come first.
    Without ROOT all of them are brought up to date; if there are none, the places where agents keep
    skills are indexed (.agents/skills and .claude/skills, here and in the home folder).
    """
    both = "--only updates part of the index, --replace all; use one of them."
    refuse(asked.replace and asked.only, both)
    how: Use = "replace" if asked.replace else "same" if asked.only else "add"
    request = choose_request(asked.roots, asked.settings, how, examples=asked.examples)
    build = _build_in_milvus if asked.settings.backend == "milvus" else _build
    with progress_bars() as bars:
        report, held, notes = build(request, asked, device=asked.flags["device"], progress=bars)
    if asked.as_json:
        emit_json({**report.to_dict(), **held})
    else:
        _show(report, held)
    prune_archives(config.cache_dir())
    for note in notes:
        say(f"note: {note}")


def _build(request: IndexRequest, asked: Asked, **how: Any) -> Built:
    from skillsearch.index.corpus import open_current
    from skillsearch.index.languages import advice
    from skillsearch.index.skill_index import SkillIndex

    settings = asked.settings
    folder = IndexFolder(settings.index_dir.absolute())
    before = open_current(folder) if asked.replace else None
    generation = folder.current()
    only = [path.absolute() for path in asked.only]
    index, report = SkillIndex.build(request, folder.path, verify=asked.verify, only=only, **how)
    report = replace(report, diagnostics=index.diagnostics())
    forget_told(folder.path)
    roots = [str(root.path) for root in index.opened.settings.roots]
    paths = {document.path for document in index.documents()} if before else set()
    held_before = before.corpus.documents if before else ()
    lost = (d.root for d in held_before if d.path not in paths and d.root not in roots)
    held = {
        "index_dir": str(folder.path),
        **_described(index.opened.settings.roots),
        "left": dict(Counter(lost)),
    }
    is_new = report.generation != generation
    notes = [advice(index), _unvetted(held)] if is_new else []
    return report, held, list(filter(None, [*notes, _outside(asked)]))


def _outside(asked: Asked) -> str:
    """Return what to do about new roots outside of the project, if its index is used."""
    if not asked.settings.is_project_index:
        return ""
    file = asked.settings.sources["index_dir"]
    outside = [root for root in asked.roots if not Path(root).is_relative_to(Path(file).parent)]
    own = ["--index-dir", str(config.user_index_dir())]
    note = f"this is the index of the project, which {file} names. To add to your own instead: "
    return note + shlex.join(["skillsearch", "index", *map(str, outside), *own]) if outside else ""


def _build_in_milvus(request: IndexRequest, asked: Asked, **how: Any) -> Built:
    from skillsearch.remote.remote_index import RemoteIndex

    collection = asked.settings.collection
    index, report = RemoteIndex.build(request, _uri(asked.settings), collection=collection, **how)
    roots = _described(index.settings.roots)
    index.close()
    return report, {"collection": collection, **roots}, []


def _described(roots: Sequence[types.Root]) -> dict[str, JsonValue]:
    names = [root.origin or str(root.path) for root in roots]
    return {"roots": names, "trust": [root.trust for root in roots]}


def _unvetted(held: dict[str, JsonValue]) -> str:
    """Return what to know about roots that nobody vouches for."""
    pairs = zip(held["roots"], held["trust"], strict=True)
    roots = listed((root for root, trust in pairs if trust != "vetted"), _SHOWN_ROOTS)
    offered = f"prompt and hook do not offer the skills of {roots}; to vouch for a root: {VOUCH}"
    return offered if roots else ""


def open_in_milvus(settings: Settings) -> RemoteIndex:
    """Open the index in Milvus that the settings name."""
    from skillsearch.remote.remote_index import RemoteIndex

    return RemoteIndex.open(_uri(settings), collection=settings.collection)


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
        f"{report.indexed:,} skills in the index: {report.indexed - report.reused:,} read, "
        f"{report.reused:,} unchanged, {report.removed:,} removed, {report.skipped:,} skipped; "
        f"{report.embedded:,} texts embedded, {report.seconds:.2f} s",
        err=False,
    )
    for root, count in held.get("left", {}).items():
        say(f"with {root}, {'1 skill' if count == 1 else f'{count:,} skills'} left the index")
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
    request = choose_request(asked.roots, settings)
    with _until_sigterm() as stop:
        with progress_bars() as bars:
            folder = settings.index_dir.absolute()
            index, report = SkillIndex.build(request, folder, progress=partial(_go_on, stop, bars))
        forget_told(index.folder)
        _show_again(report, as_json=asked.as_json)
        refresh = partial(_follow, index, stop, asked.as_json)
        try:
            watcher.watch(request.roots, refresh, stop=stop, leave_out=index.folder)
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
            f"{report.indexed:,} skills in the index: {report.indexed - report.reused:,} read, "
            f"{report.removed:,} removed, {report.skipped:,} skipped, {report.seconds:.2f} s"
        )


def _go_on(stop: Event, bars: Progress | None, stage: str, done: int, total: int) -> None:
    """End the program between two steps of indexing, or move the bar; embedded texts are kept."""
    if stop.is_set():
        raise click.exceptions.Exit(0)
    if bars:
        bars(stage, done, total)


def choose_request(
    given: Roots, settings: Settings, how: Use = "add", *, examples: bool = False
) -> IndexRequest:
    """Decide what to index: the roots of the settings, those indexed before, and those given.

    Model, fields and languages stay as before, unless the settings name others. The examples come
    last. A root that cannot be indexed raises RootError, which says what to type instead.
    """
    before = None if how == "apart" else _request_before(settings, adds=bool(given) or examples)
    earlier = before.named if before and how != "replace" else ()
    named = _named(given, earlier, settings, how, examples=examples)
    roots = _folders(named, given, earlier, settings)
    origins = tuple(map(sources.source_of, named)) if any(map(sources.is_bundle, named)) else ()
    made: dict[str, Any] = {key: getattr(settings, key) for key in ("model", "languages")}
    made["with_body"] = settings.fields == "full"
    for key, name in {"model": "model", "fields": "with_body", "languages": "languages"}.items():
        if before and key not in settings.sources:
            made[name] = getattr(before, name)
    trust, found = _trust(named, given, before, settings)
    return IndexRequest(roots, sources=origins, trust=trust, found=found, **made)


def _trust(
    named: Roots, given: Roots, before: IndexRequest | None, settings: Settings
) -> tuple[dict[str, Trust], tuple[str, ...]]:
    """Return what the user says of roots, or said before, and those in a project left unnamed."""
    keys = list(map(key_of, named))
    said = trust_by_root(settings.trust, given or named)
    strange = [key for key in said if key not in keys]
    refuse(
        strange and settings.sources.get("trust") == "flag",
        f"--trust names {listed(strange, 1)}, which is not a root of this index. Its roots: "
        f"{listed(map(sources.shown, map(sources.source_of, named)), _SHOWN_ROOTS)}",
    )
    found = set(map(key_of, settings.project_roots))
    if before:
        found = set(before.found) | (found - set(map(key_of, before.named)))
        said = {**before.trust, **said}
    found -= set(map(key_of, (*given, *settings.own_roots)))
    trust = {key: level for key, level in said.items() if key in keys}
    return trust, tuple(key for key in keys if key in found)


def _named(
    given: Roots, earlier: Roots, settings: Settings, how: Use, *, examples: bool
) -> tuple[Root, ...]:
    others = [root for root in earlier if str(root) != str(EXAMPLES)]
    last = [EXAMPLES] if examples or len(others) < len(earlier) else []
    usual = () if given or others else settings.roots or config.standard_roots()
    first = (*settings.index_roots, *others) if how in ("add", "same") else ()
    named = join_roots(earlier if how == "same" and earlier else (*first, *usual, *given, *last))
    refuse(
        not named,
        "There is nothing to index. Name a folder (skillsearch index FOLDER), set roots in "
        "skillsearch.toml or SKILLSEARCH_ROOTS, or try the examples: skillsearch index --examples",
    )
    return named


def _request_before(settings: Settings, *, adds: bool) -> IndexRequest | None:
    """Return what the index was asked to hold; None if there is none.

    Whoever adds to it first waits for other processes, whose additions would be lost. Archives and
    URLs of an index in Milvus are as they were named if they were unpacked on this machine.
    """
    from skillsearch.index.corpus import last_request

    if settings.backend != "milvus":
        folder = IndexFolder(settings.index_dir.absolute())
        if adds and folder.path.is_dir():
            with folder.lock():
                pass
        return last_request(folder)
    try:
        with open_in_milvus(settings) as index:
            request = index.settings.request()
    except IndexNotFoundError:
        return None
    behind = tuple(sources.source_behind(root) for root in request.roots)
    named = tuple(source or str(root) for source, root in zip(behind, request.roots, strict=True))
    return dataclasses.replace(request, sources=named) if any(behind) else request


def _folders(named: Roots, given: Roots, earlier: Roots, settings: Settings) -> tuple[Path, ...]:
    folders: list[Path] = []
    problems: dict[Root, RootError] = {}
    for root in named:
        try:
            folders.append(local_root(root))
            resolve_roots(folders[-1:])
        except RootError as exc:
            problems[root] = exc
    if problems:
        root = min(problems, key=lambda root: root not in given)
        usable = [other for other in named if other not in problems]
        hint = _hint(root, usable, given, earlier, settings)
        raise RootError(f"{problems[root]} {hint}") from problems[root]
    return tuple(folders)


def _hint(root: Root, usable: Roots, given: Roots, earlier: Roots, settings: Settings) -> str:
    """Return what to do about a root that cannot be indexed."""
    if root in earlier:
        option = config.index_option(settings.index_dir.absolute(), settings)
        if settings.backend == "milvus":
            values = {"backend": "milvus", "uri": "URI", "collection": settings.collection}
            given_so = [key for key in values if settings.sources.get(key) == "flag"]
            option = "".join(f" --{key} {values[key]}" for key in given_so)
        command = replace_command(usable, option)
        return f"It was indexed before: bring it back, or leave its skills out: {command}"
    if root not in given:
        return f"It is a root of the settings ({settings.sources.get('roots', 'default')})."
    if url := sources.archive_url(str(root).removeprefix(f"{Path.cwd()}/")):
        return f"For a repository, name its archive: {url}"
    others = " ".join(shlex.quote(str(other)) for other in given if other in usable)
    return f"Without it: skillsearch index {others}" if others else ""
