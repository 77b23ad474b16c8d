"""``skillsearch tune``: make the search better by your own skills and requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options, output
from skillsearch.cli.app import refuse
from skillsearch.cli.indexing import request_for
from skillsearch.cli.options import NamedRoot, SettingOption, read_flags, read_settings
from skillsearch.text.safe_text import counted

if TYPE_CHECKING:
    from skillsearch.training.tuning import Tune, Tuned

_NAMES = {
    "held_out": "requests held out of the skills",
    "judged": "judged queries not used for training",
}


@click.command("tune")
@options.roots()
@click.option(
    "--out",
    type=options.FOLDER,
    metavar="FOLDER",
    required=True,
    help="Folder for the tuned model; new or empty.",
)
@click.option(
    "--model",
    cls=SettingOption,
    metavar="M",
    help="The model to begin with: onnx (default), or the folder of a tuned model. "
    "With --reader: packaged (default), or the folder of a tuned reader.",
)
@click.option(
    "--reader",
    "tunes_reader",
    is_flag=True,
    help="Tune the reader, which judges the first hits, instead of the embedder.",
)
@click.option(
    "--queries",
    type=options.EXISTING,
    metavar="PATH",
    help='Judged queries: a collection as for "eval", or a file of lines like {"query": "...", '
    '"skill": "NAME"}. One in three is held out for measuring.',
)
@click.option(
    "--minutes",
    type=options.Number(min=0, min_open=True),
    metavar="N",
    default=20.0,
    show_default=True,
    help="Time limit, including measuring.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option(
    "--teacher",
    metavar="M",
    help="A stronger embedder to learn from, such as st:FOLDER; each step then takes longer.",
)
@click.option("--keep", is_flag=True, help="Write the model even if it is not better.")
@options.index_dir
@options.as_json(lambda: options.models.TUNED)
def tune_command(
    roots: tuple[NamedRoot, ...],
    out: Path,
    tunes_reader: bool,
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

    With --reader, the reader learns from the judged requests of --queries which of the first hits
    fit; use it with: skillsearch query --reader FOLDER.

    Nothing leaves this machine. An interrupted run continues when it is started again.
    """
    from skillsearch.training.tuning import TuneOptions

    reader = _reader_to_tune(queries, teacher) if tunes_reader else ""
    request = request_for(roots, read_settings())
    wishes = TuneOptions(
        request.roots, out.absolute(), request.model, queries, minutes, seed, teacher, keep, reader
    )
    # A caller that runs us in its own process may bring another way to tune.
    run: Tune = click.get_current_context().obj or _tuning(reader)
    with output.progress_bars() as progress:
        tuned = run(wishes, progress=progress, tell=output.say)
    if as_json:
        output.emit_json(tuned.to_dict())
    else:
        _show_tuned(tuned, "query --reader" if reader else "index --model")


def _tuning(reader: str) -> Tune:
    """Return the function that tunes a reader, or else the embedder."""
    if reader:
        from skillsearch.training.reader_tuning import tune_reader

        return tune_reader
    from skillsearch.training.tuning import tune

    return tune


def _reader_to_tune(queries: Path | None, teacher: str | None) -> str:
    """Return what ``--model`` names, which here is a reader, not the setting of the index."""
    from skillsearch.readers.loading import PACKAGED_SPEC

    flags = read_flags()
    reader = flags["model"] or PACKAGED_SPEC
    flags["model"] = None
    refuse(queries is None, "--reader learns from judged requests: name them with --queries PATH.")
    refuse(
        teacher, f"--teacher {teacher} goes without --reader: a reader learns from --queries alone."
    )
    refuse(
        reader != PACKAGED_SPEC and not Path(reader).is_dir(),
        f"--model {reader} is not a reader that can be tuned: name the folder of a tuned one, "
        f"or leave it out for {PACKAGED_SPEC}, the packaged one.",
    )
    return reader


def _show_tuned(tuned: Tuned, use: str) -> None:
    for name, measured in tuned.measured.items():
        if output.is_terminal():
            from skillsearch.cli.tables import print_blocks
            from skillsearch.evaluation.reporting.tables import gains

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
