"""``skillsearch eval``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skillsearch._version import __version__
from skillsearch.cli.indexing import choose_request, progress_bars, show_diagnostics
from skillsearch.cli.options import command, json_option
from skillsearch.cli.output import emit_json, is_terminal, say
from skillsearch.config import cache_dir, load_settings
from skillsearch.errors import MissingDependencyError

if TYPE_CHECKING:
    from skillsearch.evaluation.jobs import Job
    from skillsearch.evaluation.report import Outcome
    from skillsearch.evaluation.systems import SystemSpec

_FOLDER = click.Path(file_okay=False, path_type=Path)
_LEAST_POOLED = 2


@dataclass(frozen=True, slots=True)
class _Wishes:
    """The arguments of the command, which explains them."""

    places: tuple[str, ...]
    split: str
    system: tuple[str, ...]
    foreign: tuple[Path, ...]
    drop_gold: bool
    example: bool
    own: bool
    pool: bool
    kinds: str | None
    confusables: bool
    minimum: tuple[str, ...]
    save_runs: Path | None
    html: Path | None
    work: Path | None
    save_collection: Path | None
    as_json: bool


@command("eval")
@click.argument("places", nargs=-1, metavar="[COLLECTION]...", type=click.Path())
@click.option(
    "--system",
    multiple=True,
    metavar="TEXT",
    help="What to compare, the first being the baseline: hybrid, bm25, dense, rrf; "
    "NAME=key:value,... with system, model, fields, threshold, calibration, languages; NAME=@FILE "
    "for a TREC run file. Give it several times. [default: hybrid, bm25, dense]",
)
@click.option("--split", default="test", metavar="S", help="Read qrels/S.tsv. [default: test]")
@click.option(
    "--foreign",
    multiple=True,
    type=_FOLDER,
    metavar="DIR",
    help="A collection of another domain: nothing may answer its queries. Several are allowed; "
    "none is foreign to itself.",
)
@click.option(
    "--drop-gold",
    is_flag=True,
    help="Ask every query again without the skills that answer it and their copies.",
)
@click.option("--example", is_flag=True, help="The collection that comes with the package, too.")
@click.option(
    "--self",
    "own",
    is_flag=True,
    help="COLLECTION is a folder of skills: judge them by their eval files and their own text.",
)
@click.option(
    "--pool",
    is_flag=True,
    help="Ask the queries of each collection among the documents of all, as if they were one.",
)
@click.option(
    "--kinds",
    metavar="LIST",
    help="Queries that --self makes: trigger,task,example,heading. [default: all]",
)
@click.option("--confusables", is_flag=True, help="Tell which skills steal each other's queries.")
@click.option(
    "--min",
    "minimum",
    multiple=True,
    metavar="MEASURE=VALUE",
    help="Exit with 1 where the mean of the first system over all queries, and over all "
    "collections, is lower; such as nDCG@10=0.8.",
)
@click.option("--save-runs", type=_FOLDER, metavar="DIR", help="Write the answers as run files.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page with tables and plots that needs nothing else.",
)
@click.option(
    "--work",
    type=_FOLDER,
    metavar="DIR",
    help="Where indexes are kept for the next time. [default: in the user's cache]",
)
@click.option(
    "--save-collection", type=_FOLDER, metavar="DIR", help="Write what --self made as a collection."
)
@json_option
@click.pass_context
def eval_command(context: click.Context, /, **options: Any) -> None:
    """Compare ways to search on judged collections.

    COLLECTION is a folder with corpus.jsonl, queries.jsonl and qrels.tsv (the form of BEIR). Every
    system answers every query; the report tells how good the answers are, which differences are
    more than chance, and how well scores tell what nothing answers.
    """
    from skillsearch.evaluation.report import shortfalls
    from skillsearch.evaluation.runs import parse_minimum

    wishes = _Wishes(**options)
    _check(wishes)
    minima = [parse_minimum(text) for text in wishes.minimum]
    specs, jobs = _own_jobs(wishes) if wishes.own else _judged_jobs(wishes)
    outcomes = _evaluate(jobs, specs, wishes)
    _show(outcomes, wishes)
    lacking = shortfalls(outcomes, minima)
    for one in lacking:
        say(str(one))
    if lacking:
        context.exit(1)


def _check(wishes: _Wishes) -> None:
    """Refuse what can be known to fail before anything was read or indexed."""
    if not wishes.places and not wishes.own and not wishes.example:
        raise click.UsageError(
            "Name a collection: skillsearch eval FOLDER, or look at the one of the package: "
            "skillsearch eval --example, or judge your own skills: skillsearch eval --self"
        )
    if wishes.own and wishes.example:
        raise click.UsageError("--example is a collection, --self judges skills; one of the two.")
    if wishes.pool:
        _check_pool(wishes)
    for name, value in (("--kinds", wishes.kinds), ("--save-collection", wishes.save_collection)):
        if value is not None and not wishes.own:
            raise click.UsageError(f"{name} goes with --self alone.")
    if wishes.html and not wishes.html.absolute().parent.is_dir():
        raise click.UsageError(f"The folder of --html {wishes.html} does not exist; create it.")
    needed = {"ir_measures": "Measuring"} | ({"matplotlib": "--html"} if wishes.html else {})
    for module, purpose in needed.items():
        if util.find_spec(module) is None:
            raise MissingDependencyError(module, "eval", purpose)
    if wishes.save_runs:
        wishes.save_runs.mkdir(parents=True, exist_ok=True)


def _check_pool(wishes: _Wishes) -> None:
    """Refuse a pool of one, and what means nothing in a pool."""
    if wishes.own or len(wishes.places) + wishes.example < _LEAST_POOLED:
        raise click.UsageError("--pool mixes the documents of collections: name at least two.")
    if wishes.drop_gold:
        raise click.UsageError(
            "--drop-gold goes without --pool: another collection may answer what was dropped."
        )


def _judged_jobs(wishes: _Wishes) -> tuple[tuple[SystemSpec, ...], tuple[Job, ...]]:
    """Load the systems and collections that were named."""
    from skillsearch.evaluation.jobs import EXAMPLE, load_jobs
    from skillsearch.evaluation.systems import parse_systems

    settings = load_settings()
    named = map(Path, wishes.places)
    places = (*named, EXAMPLE) if wishes.example else tuple(named)
    specs = parse_systems(
        wishes.system,
        model=settings.model,
        fields=settings.fields,
        languages=settings.languages,
    )
    return specs, load_jobs(places, foreign=wishes.foreign, split=wishes.split, pool=wishes.pool)


def _own_jobs(wishes: _Wishes) -> tuple[tuple[SystemSpec, ...], tuple[Job, ...]]:
    """Load the systems, and make a collection of the user's own skills."""
    from skillsearch.evaluation.collection import save_collection
    from skillsearch.evaluation.jobs import make_own_job
    from skillsearch.evaluation.own_skills import KINDS
    from skillsearch.evaluation.systems import parse_systems

    request = choose_request(wishes.places, load_settings(), apart=bool(wishes.places))
    fields = "full" if request.with_body else "metadata"
    specs = parse_systems(
        wishes.system, model=request.model, fields=fields, languages=request.languages
    )
    kinds = KINDS if wishes.kinds is None else [kind.strip() for kind in wishes.kinds.split(",")]
    job = make_own_job(request.roots, kinds, foreign=wishes.foreign, split=wishes.split)
    if wishes.save_collection:
        save_collection(job.collection, wishes.save_collection)
    show_diagnostics(job.diagnostics)
    return specs, (job,)


def _evaluate(
    jobs: Sequence[Job], specs: Sequence[SystemSpec], wishes: _Wishes
) -> tuple[Outcome, ...]:
    """Let all systems answer, measure what they answered, and write what was asked for."""
    from skillsearch.evaluation import jobs as tasks

    with progress_bars() as progress:
        outcomes = tasks.evaluate(
            jobs,
            specs,
            work=wishes.work or cache_dir() / "evaluation",
            drop_gold=wishes.drop_gold,
            with_confusions=wishes.confusables,
            progress=progress,
        )
    if wishes.save_runs:
        tasks.save_runs(outcomes, wishes.save_runs)
    if wishes.html:
        made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
        tasks.save_page(outcomes, wishes.html, made=made, version=__version__)
    return outcomes


def _show(outcomes: Sequence[Outcome], wishes: _Wishes) -> None:
    """Print what was found: as JSON, as tables for a person, or as rows for other programs."""
    from skillsearch.evaluation.report import mean_systems

    if not wishes.as_json:
        (_print if is_terminal() else _emit)(outcomes)
    elif len(outcomes) == 1:
        emit_json(outcomes[0].to_dict())
    else:
        mean = mean_systems([outcome.report for outcome in outcomes])
        emit_json({"collections": [outcome.to_dict() for outcome in outcomes], "mean": mean})


def _print(outcomes: Sequence[Outcome]) -> None:
    """Print tables."""
    from skillsearch.cli.evaluation_details import print_confusions, print_kinds, print_languages
    from skillsearch.cli.evaluation_tables import print_report, print_summary

    for outcome in outcomes:
        print_report(outcome.report)
        if outcome.report.languages:
            click.echo()
            print_languages(outcome.report)
        if outcome.kinds:
            click.echo()
            print_kinds(outcome.kinds)
        if outcome.confusions is not None:
            click.echo()
            print_confusions(outcome.confusions, outcome.answers[0].name)
        if len(outcomes) > 1:
            click.echo()
    if len(outcomes) > 1:
        print_summary([outcome.report for outcome in outcomes])


def _emit(outcomes: Sequence[Outcome]) -> None:
    """Print rows, and on stderr what a reader of them should know."""
    from skillsearch.cli.evaluation_details import emit_confusions
    from skillsearch.cli.evaluation_tables import emit_report, emit_summary

    for outcome in outcomes:
        parts = (outcome.kinds, outcome.report.languages, outcome.report.crossing)
        for report in (outcome.report, *(part for of in parts for part in of.values())):
            emit_report(report)
        emit_confusions(outcome.report.collection, outcome.confusions or ())
        for note in outcome.report.notes:
            say(f"note: {outcome.report.collection}: {note}")
    if len(outcomes) > 1:
        emit_summary([outcome.report for outcome in outcomes])
