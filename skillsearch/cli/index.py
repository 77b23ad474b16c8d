"""``skillsearch index``, and the choice of what an index is made of."""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from skillsearch.cli.hook import forget_told
from skillsearch.cli.options import (
    Flags,
    NamedPath,
    Root,
    backend_options,
    command,
    index_dir_option,
    json_option,
    languages_option,
    roots_argument,
    setting,
)
from skillsearch.cli.output import emit_json, progress_bars, say, show_diagnostics
from skillsearch.config import (
    Settings,
    cache_dir,
    index_option,
    load_settings,
    standard_roots,
    user_index_dir,
)
from skillsearch.errors import ConfigError, IndexNotFoundError, RootError
from skillsearch.text.safe_text import listed, one_line

if TYPE_CHECKING:
    from skillsearch.index.corpus import OpenedIndex
    from skillsearch.index.request import IndexRequest
    from skillsearch.remote.remote_index import RemoteIndex
    from skillsearch.types import IndexReport, JsonValue, Progress

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_SHOWN_ROOTS = 10


class _Built(NamedTuple):
    """What indexing did, what the index holds now, and what the user should know."""

    report: IndexReport
    held: dict[str, JsonValue]
    notes: Sequence[str] = ()


@command("index")
@roots_argument()
@index_dir_option
@setting(
    "--model", metavar="M", help="onnx (default), multilingual, hashing, onnx:FOLDER, st:NAME."
)
@setting(
    "--fields",
    type=click.Choice(("metadata", "full")),
    help="metadata: names and descriptions only; full (default): also the bodies, as words and as "
    "embedded chunks; the multilingual channel embeds the beginning of each body.",
)
@languages_option
@setting(
    "--device",
    metavar="D",
    help="Where an st: model runs: cpu, cuda, cuda:1, mps; auto (default): the best available.",
)
@click.option(
    "--verify",
    is_flag=True,
    help="Hash every skill and every file of the index, whatever its size and time say, and "
    "rebuild what is damaged.",
)
@click.option(
    "--only",
    "only",
    multiple=True,
    type=NamedPath(path_type=Path),
    metavar="PATH",
    help="Update only this SKILL.md or folder, even if it was deleted. Repeatable.",
)
@backend_options
@click.option("--examples", is_flag=True, help="Add the example skills of this package.")
@click.option(
    "--replace",
    is_flag=True,
    help="Index only the named ROOTs, or without ROOT those of the settings or the usual places; "
    "report which skills leave the index.",
)
@json_option
def index_command(
    flags: Flags,
    roots: tuple[Root, ...],
    verify: bool,
    only: tuple[Path, ...],
    examples: bool,
    replace: bool,
    as_json: bool,
) -> None:
    """Add folders of skills to the index, or bring it up to date.

    ROOT is a folder, an archive (.zip, .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz), or the URL of an
    archive or of a SKILL.md. This command checks archives and URLs for changes; a query does not.
    Unpacked files are removed when no index needs them and they were not used for 30 days.

    Roots indexed before stay and come before new ROOTs; the folders of the settings come first.
    Without ROOT all of them are brought up to date; if there are none, the places where agents keep
    skills are indexed (.agents/skills and .claude/skills, here and in the home folder).
    """
    from skillsearch.reports.cache import prune_archives

    if replace and only:
        raise click.UsageError("--only updates part of the index, --replace all; use one of them.")
    settings = load_settings(**flags)
    request = choose_request(roots, settings, examples=examples, replace=replace, same=bool(only))
    device = flags["device"]
    with progress_bars() as bars:
        if settings.backend == "milvus":
            built = _build_in_milvus(request, settings, device, bars)
        else:
            options = {"verify": verify, "only": [path.absolute() for path in only]}
            options |= {"device": device, "progress": bars}
            built = _build(request, settings, options, roots, replaces=replace)
    _show(built, as_json=as_json)
    prune_archives(cache_dir())
    for note in built.notes:
        say(f"note: {note}")


def _build(
    request: IndexRequest,
    settings: Settings,
    options: dict[str, JsonValue],
    given: Sequence[Root],
    *,
    replaces: bool,
) -> _Built:
    """Bring the index on this machine up to date."""
    from skillsearch.index.corpus import open_current
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.index.storage.cache import IndexFolder
    from skillsearch.reports.languages import advice
    from skillsearch.roots.sources import unpacked_from

    folder = IndexFolder(settings.index_dir.absolute())
    before = open_current(folder) if replaces else None
    generation = folder.current()
    index, report = SkillIndex.build(request, folder.path, **options)
    forget_told(folder.path)
    left = _left(before, index.opened) if before else {}
    names = [unpacked_from(root.path) or str(root.path) for root in index.opened.settings.roots]
    held = {"index_dir": str(folder.path), "roots": names, "left": left}
    notes = [_note_project(settings, given)]
    if report.generation != generation:
        notes.append(advice(index))
    return _Built(report, held, list(filter(None, notes)))


def _build_in_milvus(
    request: IndexRequest, settings: Settings, device: str | None, progress: Progress | None
) -> _Built:
    """Bring an index in Milvus up to date."""
    from skillsearch.remote.remote_index import RemoteIndex
    from skillsearch.roots.sources import shown

    collection = settings.collection
    index, report = RemoteIndex.build(
        request, _uri(settings), collection=collection, device=device, progress=progress
    )
    index.close()
    names = [shown(str(root)) for root in request.named]
    return _Built(report, {"collection": collection, "roots": names})


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


def _left(before: OpenedIndex, after: OpenedIndex) -> dict[str, int]:
    """Count the skills that left an index together with their root, by root."""
    roots = {str(root.path) for root in after.settings.roots}
    paths = {document.path for document in after.corpus.documents}
    gone = (d.root for d in before.corpus.documents if d.root not in roots and d.path not in paths)
    return dict(Counter(gone))


def _note_project(settings: Settings, given: Sequence[Root]) -> str:
    """Note that roots outside the project went into its index; empty if none did."""
    if not settings.is_project_index:
        return ""
    file = settings.sources["index_dir"]
    outside = [root for root in given if not Path(root).is_relative_to(Path(file).parent)]
    names = " ".join(shlex.quote(str(root)) for root in outside)
    own = shlex.quote(str(user_index_dir()))
    note = (
        f"this is the index of the project, which {file} names. To add to your own instead: "
        f"skillsearch index {names} --index-dir {own}"
    )
    return note if outside else ""


def _show(built: _Built, *, as_json: bool) -> None:
    """Print what was done, and what the index holds now."""
    report, held, _ = built
    if as_json:
        emit_json({**report.to_dict(), **held})
        return
    show_diagnostics(report.diagnostics)
    if report.healed:
        say(f"healed: {', '.join(report.healed)} of the index had been damaged")
    click.echo(
        f"{report.indexed:,} skills in the index: {report.indexed - report.reused:,} read, "
        f"{report.reused:,} unchanged, {report.removed:,} removed, {report.skipped:,} skipped; "
        f"{report.embedded:,} texts embedded, {report.seconds:.2f} s"
    )
    for root, count in held.get("left", {}).items():
        say(f"with {root}, {'1 skill' if count == 1 else f'{count:,} skills'} left the index")
    place = held["index_dir"] if "index_dir" in held else f"collection {held['collection']}"
    click.echo(one_line(f"index: {place}; roots: {listed(held['roots'], _SHOWN_ROOTS)}"))


def choose_request(
    given: Sequence[Root],
    settings: Settings,
    *,
    examples: bool = False,
    replace: bool = False,
    same: bool = False,
    apart: bool = False,
) -> IndexRequest:
    """Decide what to index: the roots of the settings, those indexed before, and those given.

    Model, fields and languages are those of before, unless the settings name others.

    Args:
        given: Roots that the user named.
        settings: The settings in effect.
        examples: Add the example skills, which always come last.
        replace: Leave out what was indexed before, and, if roots are given, those of the settings.
        same: Take what was indexed before, if anything was, and nothing else.
        apart: Take the roots given and nothing else: they are not for the index.

    Returns:
        What to index, and how.

    Raises:
        UsageError: When there is nothing to index.
        RootError: When a root cannot be indexed; says what to type instead.
    """
    from skillsearch.index.request import IndexRequest, join_roots

    before = None if apart else _request_before(settings, adds=bool(given) or examples)
    earlier = before.named if before and not replace else ()
    if same and earlier:
        named = join_roots(earlier)
    else:
        named = _in_order(given, earlier, settings, examples=examples, only=replace or apart)
    roots, sources = _folders(named, given, earlier, settings)
    with_body = settings.fields == "full"
    request = IndexRequest(roots, settings.model, with_body, sources, settings.languages)
    if before is None:
        return request
    fields = {"model": "model", "fields": "with_body", "languages": "languages"}
    kept = {
        name: getattr(before, name) for key, name in fields.items() if key not in settings.sources
    }
    return dataclasses.replace(request, **kept)


def _in_order(
    given: Sequence[Root],
    earlier: Sequence[Root],
    settings: Settings,
    *,
    examples: bool,
    only: bool,
) -> tuple[Root, ...]:
    """Return all roots in order of precedence; with ``only``, without those of the settings."""
    from skillsearch.index.request import join_roots

    last = [EXAMPLES] if examples or str(EXAMPLES) in map(str, earlier) else []
    others = [root for root in earlier if str(root) != str(EXAMPLES)]
    usual = () if given or others else settings.roots or standard_roots()
    first = () if only else (*settings.index_roots, *others)
    named = join_roots(first, usual, given, last)
    if named:
        return named
    raise click.UsageError(
        "There is nothing to index. Name a folder (skillsearch index FOLDER), set roots in "
        "skillsearch.toml or SKILLSEARCH_ROOTS, or try the examples: skillsearch index --examples"
    )


def _request_before(settings: Settings, *, adds: bool) -> IndexRequest | None:
    """Return what the index was asked to hold; None if there is none.

    Whoever adds to it first waits for other processes, whose additions would be lost.
    """
    if settings.backend == "milvus":
        return _request_in_milvus(settings)
    from skillsearch.index.corpus import last_request
    from skillsearch.index.storage.cache import IndexFolder

    folder = IndexFolder(settings.index_dir.absolute())
    if adds and folder.path.is_dir():
        with folder.lock():
            pass
    return last_request(folder)


def _request_in_milvus(settings: Settings) -> IndexRequest | None:
    """Return what an index in Milvus was asked to hold; None if there is none.

    Archives and URLs are as they were named if they were unpacked on this machine.
    """
    from skillsearch.roots.sources import source_behind

    try:
        with open_in_milvus(settings) as index:
            request = index.settings.request()
    except IndexNotFoundError:
        return None
    sources = tuple(source_behind(root) for root in request.roots)
    named = tuple(source or str(root) for source, root in zip(sources, request.roots, strict=True))
    return dataclasses.replace(request, sources=named) if any(sources) else request


def _folders(
    named: Sequence[Root], given: Sequence[Root], earlier: Sequence[Root], settings: Settings
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the folders of roots and their sources, as `local_roots` does.

    If one cannot be indexed, all are refused, with what to type instead.
    """
    from skillsearch.index.request import resolve_roots
    from skillsearch.roots.bundles import local_root
    from skillsearch.roots.sources import is_bundle, source_of

    folders: list[Path] = []
    problems: dict[Root, RootError] = {}
    for root in named:
        try:
            folders.append(local_root(root))
            resolve_roots(folders[-1:])
        except RootError as exc:
            problems[root] = exc
    for root in sorted(problems, key=lambda root: root not in given):
        rest = [other for other in named if other not in problems]
        hint = _hint(root, rest, given, earlier, settings)
        raise RootError(f"{problems[root]} {hint}") from problems[root]
    return tuple(folders), tuple(map(source_of, named)) if any(map(is_bundle, named)) else ()


def _hint(
    root: Root,
    rest: Sequence[Root],
    given: Sequence[Root],
    earlier: Sequence[Root],
    settings: Settings,
) -> str:
    """Return a sentence on what to do about a root that cannot be indexed; ``rest`` can be."""
    from skillsearch.index.request import replace_command
    from skillsearch.roots.sources import archive_url

    if root in earlier:
        command = replace_command(rest, _index_option(settings))
        return f"It was indexed before: bring it back, or leave its skills out: {command}"
    if root not in given:
        return f"It is a root of the settings ({settings.sources.get('roots', 'default')})."
    here = f"{Path.cwd()}/"
    if url := archive_url(str(root).removeprefix(here)):
        return f"For a repository, name its archive: {url}"
    others = " ".join(shlex.quote(str(other)) for other in given if other in rest)
    return f"Without it: skillsearch index {others}" if others else ""


def _index_option(settings: Settings) -> str:
    """Return the options that name the index in use again."""
    if settings.backend != "milvus":
        return index_option(settings.index_dir.absolute(), settings)
    named = {"backend": "milvus", "uri": "URI", "collection": settings.collection}
    given = (key for key in named if settings.sources.get(key) == "flag")
    return "".join(f" --{key} {named[key]}" for key in given)
