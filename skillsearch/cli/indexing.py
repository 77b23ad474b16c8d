"""``skillsearch index``."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.options import (
    Root,
    backend_options,
    command,
    index_dir_option,
    json_option,
    languages_option,
    roots_argument,
)
from skillsearch.cli.output import emit_json, say
from skillsearch.config import Settings, load_settings, no_color, standard_roots

if TYPE_CHECKING:
    from skillsearch.index.request import IndexRequest
    from skillsearch.types import Diagnostic, IndexReport, Languages, Progress

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_SHOWN_DIAGNOSTICS = 10
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
@click.option("--verify", is_flag=True, help="Hash every file, whatever its size and time say.")
@click.option(
    "--only",
    "only",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Look at this SKILL.md or folder alone, there or gone; may be given several times.",
)
@backend_options
@click.option("--examples", is_flag=True, help="Index the example skills of this package.")
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
    as_json: bool,
) -> None:
    """Index folders of skills, or bring their index up to date.

    ROOT is a folder, an archive (.zip, .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz), or the URL of an
    archive or of a SKILL.md. Archives and URLs are looked at by this command, not by a query.

    Without ROOT: the folders of the settings, or those indexed before, or the places where agents
    keep skills (.agents/skills and .claude/skills, here and in the home folder).
    """
    from skillsearch.index.cache import IndexFolder
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.reports.languages import advice

    given = (*roots, EXAMPLES) if examples else roots
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
    request = choose_request(given, settings, same=bool(only))
    if settings.backend == "milvus":
        from skillsearch.cli.remote import index_in_milvus

        with progress_bars() as progress:
            report = index_in_milvus(request, settings, device=device, progress=progress)
        _report(report, as_json=as_json)
        return
    folder = settings.index_dir.absolute()
    before = IndexFolder(folder).current()
    with progress_bars() as progress:
        index, report = SkillIndex.build(
            request,
            folder,
            verify=verify,
            only=[path.absolute() for path in only],
            device=device,
            progress=progress,
        )
    _report(report, as_json=as_json)
    told = advice(index) if report.generation != before else ""
    if told:
        say(f"note: {told}")


def choose_request(
    given: Sequence[Root], settings: Settings, *, same: bool = False
) -> IndexRequest:
    """Decide what to index: arguments, settings, what was indexed before, or the usual places.

    Args:
        given: Roots that the user named.
        settings: The settings that hold.
        same: Take what was indexed before, where anything was, rather than the roots of settings.

    Returns:
        Folders, model, fields and languages.

    Raises:
        UsageError: When there is nothing to index.
        RootError: When an archive or URL cannot be unpacked.
    """
    from skillsearch.index.request import IndexRequest
    from skillsearch.roots.bundles import local_roots

    named = tuple(given) or settings.roots
    with_body = settings.fields == "full"
    asks_before = not given and (same or not named)
    before = IndexRequest.load(settings.index_dir.absolute()) if asks_before else None
    if before is not None:
        model = settings.model if "model" in settings.sources else before.model
        with_body = with_body if "fields" in settings.sources else before.with_body
        languages = settings.languages if "languages" in settings.sources else before.languages
        roots, sources = local_roots(before.sources or before.roots)
        return IndexRequest(roots, model, with_body, sources, languages)
    named = named or standard_roots()
    if not named:
        raise click.UsageError(
            "There is nothing to index. Name a folder (skillsearch index FOLDER), set roots in "
            "skillsearch.toml or SKILLSEARCH_ROOTS, or try the examples: skillsearch index "
            "--examples"
        )
    roots, sources = local_roots(named)
    return IndexRequest(roots, settings.model, with_body, sources, settings.languages)


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


def _report(report: IndexReport, *, as_json: bool) -> None:
    """Tell what was done."""
    if as_json:
        emit_json(report.to_dict())
        return
    show_diagnostics(report.diagnostics)
    click.echo(
        f"{report.indexed:,} skills in the index: {report.indexed - report.reused:,} read, "
        f"{report.reused:,} unchanged, {report.removed:,} removed, {report.skipped:,} skipped; "
        f"{report.embedded:,} texts embedded, {report.seconds:.2f} s"
    )


def show_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Show the gravest problems and count the rest.

    Args:
        diagnostics: All that was found; notes are only counted.
    """
    order = ("error", "warning", "note")
    ranked = sorted(diagnostics, key=lambda item: order.index(item.severity))
    shown = [item for item in ranked if item.severity != "note"][:_SHOWN_DIAGNOSTICS]
    for item in shown:
        say(describe(item))
    rest = Counter(item.code for item in ranked[len(shown) :])
    if rest:
        counts = ", ".join(f"{code} {count}" for code, count in rest.most_common())
        say(f"{'also' if shown else 'noted'}: {counts} (--json lists all)")


def describe(item: Diagnostic) -> str:
    """Write a diagnostic in the form that editors can jump to."""
    place = item.path if item.line is None else f"{item.path}:{item.line}"
    return f"{place}: {item.severity} {item.code} {item.message}"
