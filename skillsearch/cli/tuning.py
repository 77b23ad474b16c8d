"""``skillsearch tune``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.indexing import choose_request, progress_bars
from skillsearch.cli.options import (
    Root,
    command,
    index_dir_option,
    json_option,
    languages_option,
    roots_argument,
)
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say
from skillsearch.config import load_settings

if TYPE_CHECKING:
    from skillsearch.training.measuring import Measured
    from skillsearch.training.tuning import Tuned
    from skillsearch.types import Languages

_NAMES = {
    "held_out": "requests held out of the skills",
    "judged": "judged queries that were not trained",
}


@command("tune")
@roots_argument()
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder for the tuned model; new or empty.",
)
@click.option(
    "--model",
    metavar="M",
    help="What to begin with: onnx (default), minilm, the folder of a tuned model, st:FOLDER.",
)
@click.option(
    "--queries",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help='Judged queries: a collection as "eval" takes it, or a file with a line {"query": "...", '
    '"skill": "NAME"} for each choice. One in three is kept to measure by.',
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="N",
    help="How long it may take, measuring included.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of all choices.")
@click.option(
    "--teacher",
    metavar="M",
    help="A stronger embedder to learn from, such as st:FOLDER; each step then takes longer.",
)
@click.option("--keep", is_flag=True, help="Write the model even where it is not better.")
@languages_option
@index_dir_option
@json_option
def tune_command(
    roots: tuple[Root, ...],
    out: Path,
    model: str | None,
    queries: Path | None,
    minutes: float,
    seed: int,
    teacher: str | None,
    keep: bool,
    languages: Languages | None,
    index_dir: Path | None,
    as_json: bool,
) -> None:
    """Tune the embedder on your own skills, and measure what that gains.

    The skills are those below the ROOTs, or else those that "skillsearch index" would take. What
    skills say of the requests they are for is learned, and some of it is held out to compare the
    model before and after. If the new one is better beyond chance it is written; use it with:
    skillsearch index --model FOLDER.
    Else nothing is written, and the old one is the one to keep. The exit code is 0 either way.

    Nothing leaves this machine. An interrupted run goes on when it is begun again.

    --json prints: better, folder (null where none was written), skills, judged, steps,
    share (of the tuned weights in the model), seconds, notes; and measured: for held_out, and for
    judged where there are judged queries, queries and documents, and for dense and hybrid the means
    before and after, with difference, interval and p_value of nDCG@10.
    """
    from skillsearch.training.tuning import TuneOptions, tune

    settings = load_settings(index_dir=index_dir, model=model, languages=languages)
    request = choose_request(roots, settings, apart=bool(roots))
    wishes = TuneOptions(
        roots=request.roots,
        out=out.absolute(),
        model=request.model,
        queries=queries,
        minutes=minutes,
        seed=seed,
        teacher=teacher,
        languages=request.languages,
        keep=keep,
    )
    with progress_bars() as progress:
        tuned = tune(wishes, progress=progress or _silent, tell=say)
    if as_json:
        emit_json(tuned.to_dict())
    else:
        _show(tuned)


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Take no notice of progress."""


def _show(tuned: Tuned) -> None:
    """Print what was gained, and what to do now."""
    if is_terminal():
        _print_tables(tuned)
    else:
        emit_rows(row for name, one in tuned.measured.items() for row in _rows(name, one))
    for note in tuned.notes:
        say(f"note: {note}")
    click.echo(_advice(tuned))


def _rows(name: str, measured: Measured) -> Iterator[tuple[str, ...]]:
    """Yield queries, system, measure, mean before and mean after."""
    for system, change in measured.changes.items():
        for measure, before in change.before.items():
            yield name, system, measure, f"{before:.6f}", f"{change.after[measure]:.6f}"


def _print_tables(tuned: Tuned) -> None:
    """Print a table for each set of queries."""
    from skillsearch.cli.tables import fitted, make_console, plain_table
    from skillsearch.evaluation.report import percent, points, probability

    console = make_console()
    for name, measured in tuned.measured.items():
        asked = f"{measured.queries:,} {_NAMES[name]}, among {measured.documents:,} skills"
        table = plain_table(("", "measure", "before", "after", "points", "p"))
        for column in table.columns[2:]:
            column.justify = "right"
        for system, change in measured.changes.items():
            for place, (measure, before) in enumerate(change.before.items()):
                after = change.after[measure]
                chance = "" if place else probability(change.test.p_value)
                cells = (measure, percent(before), percent(after), points(after - before), chance)
                table.add_row("" if place else system, *cells)
        click.echo(asked)
        console.print(fitted(table, console.width))
        click.echo()


def _advice(tuned: Tuned) -> str:
    """Say whether to use the model."""
    how = f"{tuned.steps:,} steps on {tuned.skills:,} skills, {tuned.seconds / 60:.0f} minutes"
    if tuned.is_better:
        return f"Better ({how}). Use it: skillsearch index --model {tuned.folder}"
    written = f" It was written to {tuned.folder} all the same." if tuned.folder else ""
    return f"Not better ({how}): keep what you have.{written}"
