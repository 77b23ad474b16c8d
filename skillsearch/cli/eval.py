"""``skillsearch eval`` and ``skillsearch tune``: how good the search is, and can get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skillsearch._version import __version__
from skillsearch.cli import app, output
from skillsearch.cli.app import Asked, Root, command, flag, option, refuse, repeatable, setting
from skillsearch.cli.index import planned
from skillsearch.config import Settings, cache_dir, load_settings
from skillsearch.errors import require_installed
from skillsearch.index.request import IndexRequest
from skillsearch.index.root_change import RootChange
from skillsearch.text.safe_text import counted

if TYPE_CHECKING:
    from skillsearch.evaluation.jobs import Job
    from skillsearch.evaluation.report import Outcome
    from skillsearch.evaluation.types import SystemSpec
    from skillsearch.training.reader_tuning import ReaderOptions
    from skillsearch.training.tuning import Tuned, TuneOptions

_NO_MEASURING = {"compare", "places", "system", "split", "html", "as_json", "header", "flags"}
_NAMES = {
    "held_out": "requests held out of the skills",
    "judged": "judged queries not used for training",
}


@command("eval")
@click.argument("places", nargs=-1, metavar="[COLLECTION]...", type=click.Path())
@repeatable(
    "--system TEXT",
    "A system to compare; the first is the baseline: hybrid, bm25, dense, rrf; NAME=key:value,... "
    "with system, model, fields, threshold, calibration, languages, reader; NAME=@FILE for a TREC "
    "run file. Repeatable. [default: hybrid, bm25, dense]",
)
@option("--split S", "Read qrels/S.tsv. [default: test]", default="test")
@repeatable(
    "--foreign DIR",
    "A collection of another domain, whose queries no skill should answer. Repeatable; none is "
    "foreign to itself.",
)
@flag("--drop-gold", "Ask every query again without the skills that answer it and their copies.")
@flag("--example", "Add the collection that comes with the package.")
@flag(
    "--self own",
    "COLLECTION is a folder of skills: judge them by their eval files and their own text.",
)
@flag(
    "--pool", "Ask the queries of each collection against the documents of all, as one collection."
)
@flag(
    "--compare",
    "COLLECTION is a file that eval --json printed: show several side by side, the oldest first, "
    "each by its first system or that of --system NAME.",
)
@option("--kinds LIST", "Queries that --self makes: trigger,task,example,heading. [default: all]")
@flag("--confusables", "Report which skills steal each other's queries.")
@repeatable(
    "--min minimum MEASURE=VALUE",
    "Exit with 1 if the mean of the first system over all queries and all collections is lower; "
    "such as nDCG@10=0.8.",
)
@option("--save-runs DIR", "Write the answers as run files.")
@option("--html FILE", "Write a self-contained page with tables and plots.")
@option("--work DIR", "Where indexes are kept for the next run. [default: in the user's cache]")
@option("--save-collection DIR", "Write what --self made as a collection.")
@app.header
@app.as_json
def eval_command(asked: Asked) -> int:
    """Compare ways to search on judged collections.

    COLLECTION is a folder with corpus.jsonl, queries.jsonl and qrels.tsv (the format of BEIR).
    Every system answers every query; the report shows how good the answers are, which differences
    are significant, and how well scores separate answerable from unanswerable queries.
    """
    from skillsearch.evaluation.history import read_history
    from skillsearch.evaluation.jobs import evaluate
    from skillsearch.evaluation.report import Outcome, shortfalls
    from skillsearch.evaluation.runs import save_runs

    minima = _check(asked)
    if asked.compare:
        system = next(iter(asked.system), None)
        reports = read_history([Path(place) for place in asked.places], system=system)
        _show_outcomes([Outcome(report, ()) for report in reports], asked)
        return 0
    specs, jobs = _load(asked)
    with output.progress_bars() as progress:
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
    _show_outcomes(outcomes, asked)
    for shortfall in (missed := shortfalls(outcomes, minima)):
        output.say(str(shortfall))
    return 1 if missed else 0


def _check(asked: Asked) -> list[tuple[str, float]]:
    """Refuse what is bound to fail before anything is indexed, and return the required minima."""
    refuse(
        not any((asked.places, asked.own, asked.example)),
        "Name a collection: skillsearch eval FOLDER, or look at the one of the package: "
        "skillsearch eval --example, or judge your own skills: skillsearch eval --self",
    )
    given = {name for name, value in vars(asked).items() if value}
    refuse(
        asked.compare and (given - _NO_MEASURING or len(asked.places) < 2 or len(asked.system) > 1),
        "--compare shows two or more results of eval --json and measures nothing: beside their "
        "files it takes one --system NAME, --html, --json and --header.",
    )
    refuse(
        asked.own and asked.example,
        "--example is a collection, --self judges skills; use one of the two.",
    )
    refuse(
        asked.pool and (asked.own or len(asked.places) + asked.example < 2),
        "--pool mixes the documents of collections: name at least two.",
    )
    refuse(
        asked.pool and asked.drop_gold,
        "--drop-gold goes without --pool: another collection may answer what was dropped.",
    )
    refuse(asked.kinds is not None and not asked.own, "--kinds goes with --self only.")
    refuse(asked.save_collection and not asked.own, "--save-collection goes with --self only.")
    refuse(
        asked.html and not asked.html.absolute().parent.is_dir(),
        f"The folder of --html {asked.html} does not exist; create it.",
    )
    refuse(
        asked.header and asked.confusables,
        "--header names the columns of figures, and --confusables prints others; use --json.",
    )
    if asked.html:
        require_installed("eval", "--html", "matplotlib", "jinja2")
    if asked.save_runs:
        asked.save_runs.mkdir(parents=True, exist_ok=True)
    from skillsearch.evaluation.runs import parse_minimum

    return list(map(parse_minimum, asked.minimum))


def _load(asked: Asked) -> tuple[tuple[SystemSpec, ...], tuple[Job, ...]]:
    from skillsearch.evaluation.collection import EXAMPLE, save_collection
    from skillsearch.evaluation.jobs import load_jobs, make_own_job, parse_systems
    from skillsearch.evaluation.own_skills import KINDS

    how = {"foreign": asked.foreign, "split": asked.split}
    settings = load_settings()
    if not asked.own:
        places = [*map(Path, asked.places), *([EXAMPLE] if asked.example else [])]
        made = {key: getattr(settings, key) for key in ("model", "fields", "languages", "reader")}
        return parse_systems(asked.system, **made), load_jobs(places, pool=asked.pool, **how)
    request = _request(asked.places, settings)
    model, fields = request.model, "full" if request.with_body else "metadata"
    made = {"model": model, "fields": fields, "languages": request.languages}
    specs = parse_systems(asked.system, reader=settings.reader, **made)
    kinds = KINDS if asked.kinds is None else [kind.strip() for kind in asked.kinds.split(",")]
    job = make_own_job(request.roots, kinds, **how)
    if asked.save_collection:
        save_collection(job.collection, asked.save_collection)
    output.show_diagnostics(job.diagnostics)
    return specs, (job,)


def _show_outcomes(outcomes: Sequence[Outcome], asked: Asked) -> None:
    from skillsearch.evaluation.report import mean_systems

    now = datetime.now().astimezone()
    if asked.html:
        from skillsearch.evaluation.page import save_page

        save_page(outcomes, asked.html, made=f"{now:%Y-%m-%d %H:%M %Z}", version=__version__)
    if asked.as_json:
        records = [outcome.to_dict() for outcome in outcomes]
        mean = mean_systems([outcome.report for outcome in outcomes])
        made = {"made": now.isoformat(timespec="seconds"), "version": __version__}
        several = {"collections": records, "mean": mean}
        output.emit_json(made | (several if len(records) > 1 else records[0]))
        return
    from skillsearch.cli.tables import print_blocks
    from skillsearch.evaluation.tables import FIGURES, figure_rows, outcome_blocks

    if output.is_terminal():
        print_blocks(outcome_blocks(outcomes))
        return
    output.emit_rows(figure_rows(outcomes), FIGURES)
    for report in (outcome.report for outcome in outcomes):
        for note in report.notes:
            output.say(f"note: {report.collection}: {note}")


@command("tune")
@app.roots()
@option("--out FOLDER", "Folder for the tuned model; new or empty.", required=True)
@setting(
    "--model M",
    "The model to begin with: onnx (default), minilm, the folder of a tuned model, st:FOLDER. With "
    "--reader: minilm (default), or the folder of a tuned reader.",
)
@flag("--reader", "Tune the reader, which judges the first hits, instead of the embedder.")
@option(
    "--queries PATH",
    'Judged queries: a collection as for "eval", or a file of lines like {"query": "...", '
    '"skill": "NAME"}. One in three is held out for measuring.',
    type=app.EXISTING,
)
@option(
    "--minutes N",
    "Time limit, including measuring.",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
)
@option("--seed", "Random seed.", type=int, default=0, show_default=True)
@option(
    "--teacher M",
    "A stronger embedder to learn from, such as st:FOLDER; each step then takes longer.",
)
@flag("--keep", "Write the model even if it is not better.")
@app.languages
@app.index_dir
@app.as_json
def tune_command(asked: Asked) -> None:
    """Tune the embedder on your own skills, and measure the gain.

    The skills are those below the ROOTs, or else those that "skillsearch index" would take. The
    model learns which requests each skill says it is for; some of them are held out to compare the
    model before and after. If the new one is significantly better, it is written; use it with:
    skillsearch index --model FOLDER.
    Otherwise nothing is written: keep the old one. The exit code is 0 either way.

    With --reader, the reader learns from the judged requests of --queries which of the first hits
    fit; use it with: skillsearch query --reader FOLDER.

    Nothing leaves this machine. An interrupted run continues when it is started again.
    """
    tune, wishes = (_reader_tuning if asked.reader else _model_tuning)(asked)
    # A caller that runs us in its own process may bring another way to tune.
    run = click.get_current_context().obj or tune
    with output.progress_bars() as progress:
        tuned = run(wishes, progress=progress, tell=output.say)
    if asked.as_json:
        output.emit_json(tuned.to_dict())
    else:
        _show_tuned(tuned, "query --reader" if asked.reader else "index --model")


def _model_tuning(asked: Asked) -> tuple[Callable[..., Tuned], TuneOptions]:
    from skillsearch.training.tuning import TuneOptions, tune

    return tune, TuneOptions(**_options_of_both(asked), teacher=asked.teacher)


def _reader_tuning(asked: Asked) -> tuple[Callable[..., Tuned], ReaderOptions]:
    """Refuse what makes no sense with a reader; --model is the reader, and no setting here."""
    from skillsearch.readers.reader import PACKAGED_SPEC

    reader = asked.flags.pop("model") or PACKAGED_SPEC
    refuse(
        asked.queries is None,
        "--reader learns from judged requests: name them with --queries PATH.",
    )
    refuse(
        asked.teacher,
        f"--teacher {asked.teacher} goes without --reader: a reader learns from --queries alone.",
    )
    refuse(
        reader != PACKAGED_SPEC and not Path(reader).is_dir(),
        f"--model {reader} is not a reader that can be tuned: name the folder of a tuned one, or "
        f"leave it out for {PACKAGED_SPEC}, the packaged one.",
    )
    from skillsearch.training.reader_tuning import ReaderOptions, tune_reader

    return tune_reader, ReaderOptions(**_options_of_both(asked), reader=reader)


def _request(roots: Sequence[Root], settings: Settings) -> IndexRequest:
    """Return a request for the named roots alone, or else for those of the index."""
    change = RootChange(roots, settings=settings)
    return change.applied_to(None) if roots else planned(change)


def _options_of_both(asked: Asked) -> dict[str, Any]:
    request = _request(asked.roots, asked.settings)
    found = {key: getattr(request, key) for key in ("roots", "model", "languages")}
    found |= {key: getattr(asked, key) for key in ("queries", "minutes", "seed", "keep")}
    return {**found, "out": asked.out.absolute()}


def _show_tuned(tuned: Tuned, use: str) -> None:
    for name, measured in tuned.measured.items():
        if output.is_terminal():
            from skillsearch.cli.tables import print_blocks
            from skillsearch.evaluation.tables import gains

            skills = counted(measured.documents, "skill")
            click.echo(f"{measured.queries:,} {_NAMES[name]}, among {skills}")
            print_blocks([gains(measured)])
            click.echo()
        else:
            output.emit_rows(
                (name, system, key, f"{before:.6f}", f"{change.after[key]:.6f}")
                for system, change in measured.changes.items()
                for key, before in change.before.items()
            )
    for note in tuned.notes:
        output.say(f"note: {note}")
    how = f"{counted(tuned.steps, 'step')} on {counted(tuned.skills, 'skill')}"
    how += f", {counted(round(tuned.seconds / 60), 'minute')}"
    if tuned.is_better:
        click.echo(f"Better ({how}). Use it: skillsearch {use} {tuned.folder}")
    else:
        written = f" It was written to {tuned.folder} anyway." if tuned.folder else ""
        click.echo(f"Not better ({how}): keep what you have.{written}")
