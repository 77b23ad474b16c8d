"""``skillsearch eval``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from importlib import util
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from skillsearch._version import __version__
from skillsearch.cli.index import choose_request
from skillsearch.cli.options import command, json_option
from skillsearch.cli.output import emit_json, is_terminal, progress_bars, say, show_diagnostics
from skillsearch.config import cache_dir, load_settings
from skillsearch.errors import MissingDependencyError

if TYPE_CHECKING:
    from skillsearch.evaluation.jobs import Job
    from skillsearch.evaluation.report import Outcome
    from skillsearch.evaluation.types import SystemSpec

_FOLDER = click.Path(file_okay=False, path_type=Path)


@command("eval")
@click.argument("places", nargs=-1, metavar="[COLLECTION]...", type=click.Path())
@click.option(
    "--system",
    multiple=True,
    metavar="TEXT",
    help="A system to compare; the first is the baseline: hybrid, bm25, dense, rrf; "
    "NAME=key:value,... with system, model, fields, threshold, calibration, languages; NAME=@FILE "
    "for a TREC run file. Repeatable. [default: hybrid, bm25, dense]",
)
@click.option("--split", default="test", metavar="S", help="Read qrels/S.tsv. [default: test]")
@click.option(
    "--foreign",
    multiple=True,
    type=_FOLDER,
    metavar="DIR",
    help="A collection of another domain, whose queries no skill should answer. Repeatable; "
    "none is foreign to itself.",
)
@click.option(
    "--drop-gold",
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
    "--kinds",
    metavar="LIST",
    help="Queries that --self makes: trigger,task,example,heading. [default: all]",
)
@click.option("--confusables", is_flag=True, help="Report which skills steal each other's queries.")
@click.option(
    "--min",
    "minimum",
    multiple=True,
    metavar="MEASURE=VALUE",
    help="Exit with 1 if the mean of the first system over all queries and all collections is "
    "lower; such as nDCG@10=0.8.",
)
@click.option("--save-runs", type=_FOLDER, metavar="DIR", help="Write the answers as run files.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a self-contained page with tables and plots.",
)
@click.option(
    "--work",
    type=_FOLDER,
    metavar="DIR",
    help="Where indexes are kept for the next run. [default: in the user's cache]",
)
@click.option(
    "--save-collection", type=_FOLDER, metavar="DIR", help="Write what --self made as a collection."
)
@json_option
@click.pass_context
def eval_command(context: click.Context, /, **options: Any) -> None:
    """Compare ways to search on judged collections.

    COLLECTION is a folder with corpus.jsonl, queries.jsonl and qrels.tsv (the format of BEIR).
    Every system answers every query; the report shows how good the answers are, which differences
    are significant, and how well scores separate answerable from unanswerable queries.
    """
    from skillsearch.evaluation.report import shortfalls
    from skillsearch.evaluation.runs import parse_minimum

    asked = SimpleNamespace(**options)
    _check(asked)
    minima = [parse_minimum(text) for text in asked.minimum]
    specs, jobs = _own_jobs(asked) if asked.own else _judged_jobs(asked)
    outcomes = _evaluate(jobs, specs, asked)
    _show(outcomes, as_json=asked.as_json)
    missed = shortfalls(outcomes, minima)
    for shortfall in missed:
        say(shortfall)
    if missed:
        context.exit(1)


def _check(asked: SimpleNamespace) -> None:
    """Refuse what is bound to fail before anything is read or indexed."""
    conflicts = {
        "Name a collection: skillsearch eval FOLDER, or look at the one of the package: "
        "skillsearch eval --example, or judge your own skills: skillsearch eval --self": not (
            asked.places or asked.own or asked.example
        ),
        "--example is a collection, --self judges skills; use one of the two.": (
            asked.own and asked.example
        ),
        "--pool mixes the documents of collections: name at least two.": (
            asked.pool and (asked.own or len(asked.places) + asked.example < 2)
        ),
        "--drop-gold goes without --pool: another collection may answer what was dropped.": (
            asked.pool and asked.drop_gold
        ),
        "--kinds goes with --self only.": asked.kinds is not None and not asked.own,
        "--save-collection goes with --self only.": bool(asked.save_collection) and not asked.own,
        f"The folder of --html {asked.html} does not exist; create it.": (
            asked.html is not None and not asked.html.absolute().parent.is_dir()
        ),
    }
    for message, is_wrong in conflicts.items():
        if is_wrong:
            raise click.UsageError(message)
    needed = {"ir_measures": "Measuring"} | ({"matplotlib": "--html"} if asked.html else {})
    for module, purpose in needed.items():
        if util.find_spec(module) is None:
            raise MissingDependencyError(module, "eval", purpose)
    if asked.save_runs:
        asked.save_runs.mkdir(parents=True, exist_ok=True)


def _judged_jobs(asked: SimpleNamespace) -> tuple[tuple[SystemSpec, ...], tuple[Job, ...]]:
    from skillsearch.evaluation.jobs import EXAMPLE, load_jobs
    from skillsearch.evaluation.systems import parse_systems

    chosen = load_settings()
    places = (*map(Path, asked.places), *([EXAMPLE] if asked.example else []))
    specs = parse_systems(
        asked.system, model=chosen.model, fields=chosen.fields, languages=chosen.languages
    )
    return specs, load_jobs(places, foreign=asked.foreign, split=asked.split, pool=asked.pool)


def _own_jobs(asked: SimpleNamespace) -> tuple[tuple[SystemSpec, ...], tuple[Job, ...]]:
    """Load the systems, and make a collection of the user's own skills."""
    from skillsearch.evaluation.collection import save_collection
    from skillsearch.evaluation.jobs import make_own_job
    from skillsearch.evaluation.own_skills import KINDS
    from skillsearch.evaluation.systems import parse_systems

    request = choose_request(asked.places, load_settings(), apart=bool(asked.places))
    fields = "full" if request.with_body else "metadata"
    specs = parse_systems(
        asked.system, model=request.model, fields=fields, languages=request.languages
    )
    kinds = KINDS if asked.kinds is None else [kind.strip() for kind in asked.kinds.split(",")]
    job = make_own_job(request.roots, kinds, foreign=asked.foreign, split=asked.split)
    if asked.save_collection:
        save_collection(job.collection, asked.save_collection)
    show_diagnostics(job.diagnostics)
    return specs, (job,)


def _evaluate(
    jobs: Sequence[Job], specs: Sequence[SystemSpec], asked: SimpleNamespace
) -> tuple[Outcome, ...]:
    from skillsearch.evaluation.jobs import evaluate
    from skillsearch.evaluation.page import save_page
    from skillsearch.evaluation.runs import save_runs

    with progress_bars() as progress:
        outcomes = evaluate(
            jobs,
            specs,
            work=asked.work or cache_dir() / "evaluation",
            drop_gold=asked.drop_gold,
            with_confusions=asked.confusables,
            progress=progress,
        )
    if asked.save_runs:
        save_runs(outcomes, asked.save_runs)
    if asked.html:
        made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
        save_page(outcomes, asked.html, made=made, version=__version__)
    return outcomes


def _show(outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    """Print the results: as JSON, as tables for a person, or as rows for other programs."""
    if as_json:
        from skillsearch.evaluation.report import mean_systems

        records = [outcome.to_dict() for outcome in outcomes]
        mean = mean_systems([outcome.report for outcome in outcomes])
        emit_json({"collections": records, "mean": mean} if len(records) > 1 else records[0])
        return
    from skillsearch.cli.eval_tables import emit_outcomes, print_outcomes

    if is_terminal():
        print_outcomes(outcomes)
        return
    emit_outcomes(outcomes)
    for outcome in outcomes:
        for note in outcome.report.notes:
            say(f"note: {outcome.report.collection}: {note}")
