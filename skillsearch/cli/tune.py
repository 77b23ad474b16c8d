"""``skillsearch tune``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.index import choose_request
from skillsearch.cli.options import (
    Flags,
    Root,
    command,
    index_dir_option,
    json_option,
    languages_option,
    roots_argument,
    setting,
)
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, progress_bars, say
from skillsearch.config import load_settings

if TYPE_CHECKING:
    from skillsearch.training.measuring import Measured
    from skillsearch.training.tuning import Tuned

_NAMES = {
    "held_out": "requests held out of the skills",
    "judged": "judged queries not used for training",
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
@setting(
    "--model",
    metavar="M",
    help="The model to begin with: onnx (default), minilm, the folder of a tuned model, st:FOLDER.",
)
@click.option(
    "--queries",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help='Judged queries: a collection as for "eval", or a file of lines like {"query": "...", '
    '"skill": "NAME"}. One in three is held out for measuring.',
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="N",
    help="Time limit, including measuring.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option(
    "--teacher",
    metavar="M",
    help="A stronger embedder to learn from, such as st:FOLDER; each step then takes longer.",
)
@click.option("--keep", is_flag=True, help="Write the model even if it is not better.")
@languages_option
@index_dir_option
@json_option
def tune_command(
    flags: Flags,
    roots: tuple[Root, ...],
    out: Path,
    queries: Path | None,
    minutes: float,
    seed: int,
    teacher: str | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Tune the embedder on your own skills, and measure the gain.

    The skills are those below the ROOTs, or else those that "skillsearch index" would take. The
    model learns which requests each skill says it is for; some of them are held out to compare the
    model before and after. If the new one is significantly better, it is written; use it with:
    skillsearch index --model FOLDER.
    Otherwise nothing is written: keep the old one. The exit code is 0 either way.

    Nothing leaves this machine. An interrupted run continues when it is started again.

    --json prints: better, folder (null if none was written), skills, judged, steps,
    share (of the tuned weights in the model), seconds, notes; and measured: for held_out, and for
    judged if there are judged queries, queries and documents, and for dense and hybrid the means
    before and after, with difference, interval and p_value of nDCG@10.
    """
    from skillsearch.training.tuning import TuneOptions, tune

    request = choose_request(roots, load_settings(**flags), apart=bool(roots))
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
        tuned = tune(wishes, progress=progress or (lambda _stage, _done, _total: None), tell=say)
    if as_json:
        emit_json(tuned.to_dict())
    else:
        _show(tuned)


def _show(tuned: Tuned) -> None:
    """Print what was gained, and what to do now."""
    for name, measured in tuned.measured.items():
        if is_terminal():
            _print_table(name, measured)
        else:
            emit_rows(_rows(name, measured))
    for note in tuned.notes:
        say(f"note: {note}")
    how = f"{tuned.steps:,} steps on {tuned.skills:,} skills, {tuned.seconds / 60:.0f} minutes"
    if tuned.is_better:
        click.echo(f"Better ({how}). Use it: skillsearch index --model {tuned.folder}")
    else:
        written = f" It was written to {tuned.folder} anyway." if tuned.folder else ""
        click.echo(f"Not better ({how}): keep what you have.{written}")


def _rows(name: str, measured: Measured) -> Iterator[tuple[str, ...]]:
    """Yield queries, system, measure, mean before and mean after."""
    for system, change in measured.changes.items():
        for measure, before in change.before.items():
            yield name, system, measure, f"{before:.6f}", f"{change.after[measure]:.6f}"


def _print_table(name: str, measured: Measured) -> None:
    """Print a table for one set of queries."""
    from skillsearch.cli.tables import fitted, make_console, plain_table
    from skillsearch.evaluation.report import percent, points, probability

    console = make_console()
    table = plain_table(("", "measure", "before", "after", "points", "p"))
    for column in table.columns[2:]:
        column.justify = "right"
    for system, change in measured.changes.items():
        for place, (measure, before) in enumerate(change.before.items()):
            after = change.after[measure]
            chance = "" if place else probability(change.test.p_value)
            cells = (measure, percent(before), percent(after), points(after - before), chance)
            table.add_row("" if place else system, *cells)
    click.echo(f"{measured.queries:,} {_NAMES[name]}, among {measured.documents:,} skills")
    console.print(fitted(table, console.width))
    click.echo()
