"""``skillsearch eval``: how good the search is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch._version import __version__
from skillsearch.cli import options, output
from skillsearch.cli.app import refuse
from skillsearch.cli.indexing import request_for
from skillsearch.cli.options import read_settings
from skillsearch.errors import require_installed
from skillsearch.index.roots.request import IndexRequest
from skillsearch.settings.table import Settings
from skillsearch.settings.user_folders import cache_dir
from skillsearch.types.json_values import Json

if TYPE_CHECKING:
    from skillsearch.evaluation.reporting.report import Outcome
    from skillsearch.evaluation.types import Job, SystemSpec

_NOTHING = (
    "Name a collection: skillsearch eval FOLDER, or look at the one of the package: "
    "skillsearch eval --example, or judge your own skills: skillsearch eval --self"
)
_COMPARING = (
    "--compare shows two or more results of eval --json and measures nothing: besides their "
    "files it takes only one --system NAME, --html, --json and --header."
)


@click.command("eval")
@click.argument("collections", nargs=-1, metavar="[COLLECTION]...", type=options.NamedPath())
@click.option(
    "--system",
    "systems",
    multiple=True,
    metavar="TEXT",
    help="A system to compare; the first is the baseline: hybrid, bm25, dense, rrf; "
    "NAME=key:value,... with system, model, fields, threshold, calibration, reader; "
    "NAME=@FILE for a TREC run file, or NAME=run:FILE,threshold:N,perhaps:N if its scores say what "
    "fits and what may. Repeatable. [default: hybrid, bm25, dense]",
)
@click.option("--split", default="test", metavar="S", help="Read qrels/S.tsv. [default: test]")
@click.option(
    "--foreign",
    multiple=True,
    type=options.FOLDER,
    metavar="DIR",
    help="A collection of another domain, whose queries no skill should answer. Repeatable; none "
    "is foreign to itself.",
)
@click.option(
    "--drop-relevant",
    is_flag=True,
    help="Ask every query again without the skills that answer it and their copies.",
)
@click.option("--example", is_flag=True, help="Add the collection that comes with the package.")
@click.option(
    "--self",
    "own",
    is_flag=True,
    help="COLLECTION is a folder of skills: judge them by their eval files and their own text.",
)
@click.option(
    "--pool",
    is_flag=True,
    help="Ask the queries of each collection against the documents of all, as one collection.",
)
@click.option(
    "--compare",
    is_flag=True,
    help="COLLECTION is a file that eval --json printed: show several side by side, the oldest "
    "first, each by its first system or that of --system NAME.",
)
@click.option(
    "--kinds",
    metavar="LIST",
    help="Queries that --self makes: trigger,task,example,heading. [default: all]",
)
@click.option("--confusables", is_flag=True, help="Report which skills steal each other's queries.")
@click.option(
    "--min",
    "minima",
    multiple=True,
    metavar="MEASURE=VALUE",
    help="Exit with 1 if the mean of the first system over all queries and all collections is "
    "lower; such as nDCG@10=0.8.",
)
@click.option(
    "--save-runs", type=options.FOLDER, metavar="DIR", help="Write the answers as run files."
)
@click.option(
    "--html",
    type=options.NamedPath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a self-contained page with tables and plots.",
)
@click.option(
    "--work",
    type=options.FOLDER,
    metavar="DIR",
    help="Where indexes are kept for the next run. [default: in the user's cache]",
)
@click.option(
    "--save-collection",
    type=options.FOLDER,
    metavar="DIR",
    help="Write the queries that --self made as a collection.",
)
@options.header
@options.as_json(lambda: options.models.EVAL)
def eval_command(
    collections: tuple[str, ...],
    systems: tuple[str, ...],
    split: str,
    foreign: tuple[Path, ...],
    drop_relevant: bool,
    example: bool,
    own: bool,
    pool: bool,
    compare: bool,
    kinds: str | None,
    confusables: bool,
    minima: tuple[str, ...],
    save_runs: Path | None,
    html: Path | None,
    work: Path | None,
    save_collection: Path | None,
    as_json: bool,
) -> int:
    """Compare ways to search on judged collections.

    COLLECTION is a folder with corpus.jsonl, queries.jsonl and qrels.tsv (the format of BEIR).
    Every system answers every query; the report shows how good the answers are, which differences
    are significant, and how well scores separate answerable from unanswerable queries.
    """
    refuse(not any((collections, own, example)), _NOTHING)
    measuring = (foreign, drop_relevant, example, own, pool, kinds, confusables, minima)
    is_measuring = any((*measuring, save_runs, work, save_collection))
    if compare:
        refuse(is_measuring or len(collections) < 2 or len(systems) > 1, _COMPARING)
    _check_own(kinds, save_collection, own=own, example=example)
    _check_pool(len(collections) + example, pool=pool, own=own, drop_relevant=drop_relevant)
    _check_output(html, confusables=confusables)
    if save_runs:
        save_runs.mkdir(parents=True, exist_ok=True)
    from skillsearch.evaluation.measures import parse_minimum

    least = list(map(parse_minimum, minima))
    if compare:
        _compare(collections, next(iter(systems), None), html, as_json=as_json)
        return 0
    settings = read_settings()
    request = request_for(collections, settings) if own else None
    specs = _specs(systems, settings, request)
    if request:
        jobs = [_own_job(request, kinds, foreign, split, save_collection)]
    else:
        jobs = _jobs(collections, foreign, split, example=example, pool=pool)
    outcomes = _evaluate(jobs, specs, work, drop_relevant=drop_relevant, confusables=confusables)
    return _finish(outcomes, least, save_runs, html, as_json=as_json)


def _jobs(
    collections: Sequence[str], foreign: Sequence[Path], split: str, *, example: bool, pool: bool
) -> list[Job]:
    """Return the jobs of measuring on collections, that of the package last if it is wanted."""
    from skillsearch.evaluation.collection import EXAMPLE
    from skillsearch.evaluation.jobs import load_jobs

    folders = [*map(Path, collections), *[EXAMPLE] * example]
    return list(load_jobs(folders, foreign=foreign, split=split, pool=pool))


def _evaluate(
    jobs: Sequence[Job],
    specs: Sequence[SystemSpec],
    work: Path | None,
    *,
    drop_relevant: bool,
    confusables: bool,
) -> Sequence[Outcome]:
    from skillsearch.evaluation.jobs import evaluate

    with output.progress_bars() as progress:
        return evaluate(
            jobs,
            specs,
            work=work or cache_dir() / "evaluation",
            drop_relevant=drop_relevant,
            with_confusions=confusables,
            progress=progress,
        )


def _finish(
    outcomes: Sequence[Outcome],
    least: Sequence[tuple[str, float]],
    runs: Path | None,
    html: Path | None,
    *,
    as_json: bool,
) -> int:
    """Save and show the measurements; return 1 if a mean is too low."""
    from skillsearch.evaluation.reporting.report import shortfalls
    from skillsearch.evaluation.runs import save_runs

    if runs:
        save_runs(outcomes, runs)
    _show_outcomes(outcomes, html, as_json=as_json)
    missed = shortfalls(outcomes, least)
    for shortfall in missed:
        output.say(shortfall)
    return int(bool(missed))


def _check_output(html: Path | None, *, confusables: bool) -> None:
    refuse(
        html and not html.absolute().parent.is_dir(),
        f"The folder of --html {html} does not exist; create it.",
    )
    refuse(
        output.with_header() and confusables,
        "--header names the columns of figures, and --confusables prints others; use --json.",
    )
    if html:
        require_installed("eval", "--html", "matplotlib", "jinja2")


def _check_own(
    kinds: str | None, save_collection: Path | None, *, own: bool, example: bool
) -> None:
    refuse(own and example, "--example is a collection, --self judges skills; use one of the two.")
    refuse(kinds is not None and not own, "--kinds goes with --self only.")
    refuse(save_collection and not own, "--save-collection goes with --self only.")


def _check_pool(collections: int, *, pool: bool, own: bool, drop_relevant: bool) -> None:
    refuse(
        pool and (own or collections < 2),
        "--pool mixes the documents of collections: name at least two.",
    )
    refuse(
        pool and drop_relevant,
        "--drop-relevant goes without --pool: another collection may answer what was dropped.",
    )


def _compare(files: Sequence[str], system: str | None, html: Path | None, *, as_json: bool) -> None:
    """Show saved results, each by the named system, or else by its first."""
    from skillsearch.evaluation.reporting.history import read_history
    from skillsearch.evaluation.reporting.report import Outcome

    reports = read_history(list(map(Path, files)), system=system)
    _show_outcomes([Outcome(report, ()) for report in reports], html, as_json=as_json)


def _specs(
    systems: Sequence[str], settings: Settings, request: IndexRequest | None
) -> tuple[SystemSpec, ...]:
    """Parse the systems; what one does not say is as in the request, if any, or the settings."""
    from skillsearch.evaluation.systems import parse_systems
    from skillsearch.evaluation.types import SystemSpec

    model, fields = settings.model, settings.fields
    if request:
        model, fields = request.model, "full" if request.with_body else "metadata"
    default = SystemSpec("", model=model, fields=fields, reader=settings.reader)
    return parse_systems(systems, default)


def _own_job(
    request: IndexRequest,
    kinds: str | None,
    foreign: Sequence[Path],
    split: str,
    save_collection: Path | None,
) -> Job:
    """Return the job of judging the user's own skills, after its diagnostics were shown."""
    from skillsearch.evaluation import collection
    from skillsearch.evaluation.jobs import make_own_job
    from skillsearch.evaluation.own_skills import KINDS

    names = KINDS if kinds is None else [kind.strip() for kind in kinds.split(",")]
    job = make_own_job(request.roots, names, foreign=foreign, split=split)
    if save_collection:
        collection.save_collection(job.collection, save_collection)
    output.show_diagnostics(job.diagnostics)
    return job


def _show_outcomes(outcomes: Sequence[Outcome], html: Path | None, *, as_json: bool) -> None:
    from skillsearch.evaluation.reporting.report import mean_systems

    now = datetime.now().astimezone()
    if html:
        from skillsearch.evaluation.reporting.page import save_page

        save_page(outcomes, html, made=f"{now:%Y-%m-%d %H:%M %Z}", version=__version__)
    if as_json:
        records = [outcome.to_dict() for outcome in outcomes]
        mean = mean_systems([outcome.report for outcome in outcomes])
        made = {"made": now.isoformat(timespec="seconds"), "version": __version__}
        several: dict[str, Json] = {"collections": records, "mean": mean}
        output.emit_json({**made, **(several if len(records) > 1 else records[0])})
        return
    from skillsearch.cli.tables import print_blocks
    from skillsearch.evaluation.reporting.figures import FIGURES, figure_rows
    from skillsearch.evaluation.reporting.tables import outcome_blocks

    if output.is_terminal():
        print_blocks(outcome_blocks(outcomes))
        return
    output.emit_rows(figure_rows(outcomes), FIGURES)
    for report in (outcome.report for outcome in outcomes):
        for note in report.notes:
            output.say(f"note: {report.collection}: {note}")
