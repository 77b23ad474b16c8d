"""``skillsearch index``."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.options import (
    NamedPath,
    Root,
    backend_options,
    command,
    index_dir_option,
    json_option,
    languages_option,
    roots_argument,
)
from skillsearch.cli.output import emit_json, say
from skillsearch.cli.prompt_hook import forget_told
from skillsearch.config import (
    Settings,
    cache_dir,
    index_option,
    load_settings,
    standard_roots,
    user_index_dir,
)
from skillsearch.environ import no_color
from skillsearch.errors import RootError
from skillsearch.text.safe_text import listed, one_line

if TYPE_CHECKING:
    from skillsearch.index.corpus import OpenedIndex
    from skillsearch.index.request import IndexRequest
    from skillsearch.types import Diagnostic, IndexReport, JsonValue, Languages, Progress, Severity

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_SHOWN_DIAGNOSTICS = 10
_SHOWN_ROOTS = 10
_STAGES = {
    "read": "Reading skills",
    "embed": "Embedding texts",
    "train": "Tuning",
    "search": "Searching",
}


@command("index")
@roots_argument()
@index_dir_option
@click.option(
    "--model", metavar="M", help="onnx (default), multilingual, hashing, onnx:FOLDER, st:NAME."
)
@click.option(
    "--fields",
    type=click.Choice(("metadata", "full")),
    help="metadata: names and descriptions only; full (default): the bodies too, as words and as "
    "embedded chunks; the multilingual channel embeds their heads as well.",
)
@languages_option
@click.option(
    "--device",
    metavar="D",
    help="Where an st: model runs: cpu, cuda, cuda:1, mps; auto (default): the best there is.",
)
@click.option(
    "--verify",
    is_flag=True,
    help="Hash every skill and every file of the index, whatever its size and time say; what is "
    "damaged is made anew.",
)
@click.option(
    "--only",
    "only",
    multiple=True,
    type=NamedPath(path_type=Path),
    metavar="PATH",
    help="Look at this SKILL.md or folder alone, there or gone; may be given several times.",
)
@backend_options
@click.option("--examples", is_flag=True, help="Add the example skills of this package.")
@click.option(
    "--replace",
    is_flag=True,
    help="Hold exactly the ROOTs named, or without ROOT those of the settings or the usual places; "
    "say which skills leave.",
)
@json_option
def index_command(
    roots: tuple[Root, ...],
    index_dir: Path | None,
    model: str | None,
    fields: str | None,
    languages: Languages | None,
    device: str | None,
    verify: bool,
    only: tuple[Path, ...],
    backend: str | None,
    uri: str | None,
    collection: str | None,
    examples: bool,
    replace: bool,
    as_json: bool,
) -> None:
    """Add folders of skills to the index, or bring it up to date.

    ROOT is a folder, an archive (.zip, .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz), or the URL of an
    archive or of a SKILL.md. Archives and URLs are looked at by this command, not by a query. What
    was unpacked is removed once no index is over it and it was not used for 30 days.

    What was indexed before stays, and comes before new ROOTs; the folders of the settings come
    first. Without ROOT all of them are brought up to date; if there are none, the places where
    agents keep skills are indexed (.agents/skills and .claude/skills, here and in the home folder).
    """
    from skillsearch.index.corpus import open_current
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.index.storage.cache import IndexFolder
    from skillsearch.reports.cache import prune_archives
    from skillsearch.reports.languages import advice
    from skillsearch.roots.sources import shown, unpacked_from

    if replace and only:
        raise click.UsageError("--only looks at a part of the index, --replace makes it another.")
    settings = load_settings(
        index_dir=index_dir,
        model=model,
        fields=fields,
        languages=languages,
        device=device,
        backend=backend,
        uri=uri,
        collection=collection,
    )
    request = choose_request(roots, settings, examples=examples, replace=replace, same=bool(only))
    if settings.backend == "milvus":
        from skillsearch.cli.remote import index_in_milvus

        with progress_bars() as progress:
            report = index_in_milvus(request, settings, device=device, progress=progress)
        names = [shown(str(root)) for root in request.named]
        held: dict[str, JsonValue] = {"collection": settings.collection, "roots": names}
        _report(report, held, as_json=as_json)
        prune_archives(cache_dir())
        return
    folder = IndexFolder(settings.index_dir.absolute())
    before = open_current(folder) if replace else None
    generation = folder.current()
    with progress_bars() as progress:
        index, report = SkillIndex.build(
            request,
            folder.path,
            verify=verify,
            only=[path.absolute() for path in only],
            device=device,
            progress=progress,
        )
    forget_told(folder.path)
    left = _left(before, index.opened) if before else {}
    names = [unpacked_from(root.path) or str(root.path) for root in index.opened.settings.roots]
    held = {"index_dir": str(folder.path), "roots": names, "left": left}
    _report(report, held, as_json=as_json)
    prune_archives(cache_dir())
    _say_whose(settings, roots)
    told = advice(index) if report.generation != generation else ""
    if told:
        say(f"note: {told}")


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

    Args:
        given: Roots that the user named.
        settings: The settings that hold.
        examples: Add the example skills, which always come last.
        replace: Leave out what was indexed before, and, if roots are given, those of the settings.
        same: Take what was indexed before, if anything was, and nothing else.
        apart: Take the roots given and nothing else: they are not for the index.

    Returns:
        Folders, and model, fields and languages: those of before, unless the settings name others.

    Raises:
        UsageError: When there is nothing to index.
        RootError: When a root cannot be indexed; says what to type instead.
    """
    from skillsearch.index.request import IndexRequest, join_roots

    before = None if apart else _request_before(settings, adds=bool(given) or examples)
    earlier = before.named if before and not replace else ()
    last = [EXAMPLES] if examples or str(EXAMPLES) in map(str, earlier) else []
    others = [root for root in earlier if str(root) != str(EXAMPLES)]
    usual = () if given or others else settings.roots or standard_roots()
    if same and earlier:
        named = join_roots(earlier)
    elif replace or apart:
        named = join_roots(given, usual, last)
    else:
        named = join_roots(settings.index_roots, others, usual, given, last)
    if not named:
        raise click.UsageError(
            "There is nothing to index. Name a folder (skillsearch index FOLDER), set roots in "
            "skillsearch.toml or SKILLSEARCH_ROOTS, or try the examples: skillsearch index "
            "--examples"
        )
    roots, sources = _folders(named, given, earlier, settings)
    model, with_body, languages = settings.model, settings.fields == "full", settings.languages
    if before is not None:
        model = model if "model" in settings.sources else before.model
        with_body = with_body if "fields" in settings.sources else before.with_body
        languages = languages if "languages" in settings.sources else before.languages
    return IndexRequest(roots, model, with_body, sources, languages)


def _request_before(settings: Settings, *, adds: bool) -> IndexRequest | None:
    """Return what the index in use was asked to hold; None if there is none.

    To add to it, what another process is adding is waited for: it would be lost.
    """
    if settings.backend == "milvus":
        from skillsearch.cli.remote import request_in_milvus

        return request_in_milvus(settings)
    from skillsearch.index.corpus import last_request
    from skillsearch.index.storage.cache import IndexFolder

    folder = IndexFolder(settings.index_dir.absolute())
    if adds and folder.path.is_dir():
        with folder.lock():
            pass
    return last_request(folder)


def _folders(
    named: Sequence[Root], given: Sequence[Root], earlier: Sequence[Root], settings: Settings
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the folders of roots and what they come from, as `local_roots` does.

    If one cannot be indexed all are refused, and told what to type instead.
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
        way_on = _way_on(root, rest, given, earlier, settings)
        raise RootError(f"{problems[root]} {way_on}") from problems[root]
    return tuple(folders), tuple(map(source_of, named)) if any(map(is_bundle, named)) else ()


def _way_on(
    root: Root,
    rest: Sequence[Root],
    given: Sequence[Root],
    earlier: Sequence[Root],
    settings: Settings,
) -> str:
    """Say what to do about a root that cannot be indexed.

    Args:
        root: The root.
        rest: The roots that can be indexed.
        given: Those that the user named.
        earlier: Those that were indexed before.
        settings: The settings that hold.

    Returns:
        A sentence.
    """
    from skillsearch.index.request import replace_command
    from skillsearch.roots.sources import archive_url

    if root in earlier:
        option = index_option(settings.index_dir.absolute(), settings)
        if settings.backend == "milvus":
            told = {"backend": "milvus", "uri": "URI", "collection": settings.collection}
            flags = (key for key in told if settings.sources.get(key) == "flag")
            option = "".join(f" --{key} {told[key]}" for key in flags)
        command = replace_command(rest, option)
        return f"It was indexed before: bring it back, or leave its skills out: {command}"
    if root not in given:
        return f"It is a root of the settings ({settings.sources.get('roots', 'default')})."
    here = f"{Path.cwd()}/"
    if url := archive_url(str(root).removeprefix(here)):
        return f"For a repository, name its archive: {url}"
    others = " ".join(shlex.quote(str(other)) for other in given if other in rest)
    return f"Without it: skillsearch index {others}" if others else ""


@contextlib.contextmanager
def progress_bars() -> Iterator[Progress | None]:
    """Show bars on stderr while a terminal is there to show them."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True, no_color=no_color())
    columns = (
        TextColumn("{task.description:<16}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks = {stage: bars.add_task(text, visible=False) for stage, text in _STAGES.items()}

        def update(stage: str, done: int, total: int) -> None:
            """Move the bar of one stage."""
            bars.update(tasks[stage], completed=done, total=total, visible=True)

        yield update


def _left(before: OpenedIndex, after: OpenedIndex) -> dict[str, int]:
    """Count the skills that left an index, by the root that they left with."""
    roots = {str(root.path) for root in after.settings.roots}
    paths = {document.path for document in after.corpus.documents}
    gone = (d.root for d in before.corpus.documents if d.root not in roots and d.path not in paths)
    return dict(Counter(gone))


def _report(report: IndexReport, held: Mapping[str, JsonValue], *, as_json: bool) -> None:
    """Tell what was done, and what the index holds now."""
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


def _say_whose(settings: Settings, given: Sequence[Root]) -> None:
    """Say that roots which lie elsewhere went into the index of a project."""
    if not settings.is_project_index:
        return
    file = settings.sources["index_dir"]
    project = Path(file).parent
    outside = [root for root in given if not Path(root).is_relative_to(project)]
    if outside:
        names = " ".join(shlex.quote(str(root)) for root in outside)
        own = shlex.quote(str(user_index_dir()))
        say(
            f"note: this is the index of the project, which {file} names. To add to your own "
            f"instead: skillsearch index {names} --index-dir {own}"
        )


def show_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Show the first errors, which each cost a skill, and warnings of their kind; count all else.

    Args:
        diagnostics: All that was found.
    """
    kinds = Counter((item.severity, item.code) for item in diagnostics)
    for item in _worth_a_line(diagnostics, kinds)[:_SHOWN_DIAGNOSTICS]:
        say(describe(item))
        kinds[item.severity, item.code] -= 1
    for severity in ("error", "warning", "note"):
        counts = [
            f"{code} {n}" for (kind, code), n in kinds.most_common() if n and kind == severity
        ]
        if counts:
            say(f"{severity}s: {', '.join(counts)} (--json lists all)")


def _worth_a_line(
    diagnostics: Sequence[Diagnostic], kinds: Counter[tuple[Severity, str]]
) -> list[Diagnostic]:
    """Return all errors and then the warnings whose code occurs once."""
    errors = [item for item in diagnostics if item.severity == "error"]
    warnings = [item for item in diagnostics if item.severity == "warning"]
    return errors + [item for item in warnings if kinds[item.severity, item.code] == 1]


def describe(item: Diagnostic) -> str:
    """Write a diagnostic in the form that editors can jump to."""
    place = item.path if item.line is None else f"{item.path}:{item.line}"
    return f"{place}: {item.severity} {item.code} {item.message}"
