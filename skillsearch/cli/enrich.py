"""``skillsearch enrich``: example requests for skills that have none, by whatever writes them."""

from __future__ import annotations

import click

from skillsearch.cli import app
from skillsearch.cli.app import Asked, command, flag, option, refuse
from skillsearch.cli.selecting import selecting

_SECONDS = 300.0
_MODES = "--pending, --accept FILE, --command CMD, --list or --forget NAME"


@command("enrich")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@flag("--pending", "Print skills that have no examples, and what to write.")
@option("--accept FILE|-", "Check and keep what was written.", type=click.File("rb"))
@option("--command line CMD", "Have them written by this host or program, on stdin; no shell.")
@flag("--list listing", "List what is kept; stale is what fits no skill of the index.")
@flag("--forget", "Take away what is kept for NAMEs.")
@flag("--stale", "With --forget: all that fits no skill of the index.")
@option("-n count", "Skills at most. [default: 8; with --command all]", type=app.Count(1))
@option(
    "--seconds S",
    "With --command: how long one call may take.",
    type=click.FloatRange(min=0, min_open=True),
    default=_SECONDS,
    show_default=True,
)
@flag("--include-unvetted", "Skills of roots that nobody has vouched for, too.")
@selecting
@flag("--yes", "Do it without asking.")
@app.index_dir
@app.header
@app.as_json
def enrich_command(asked: Asked) -> int:
    """Have example requests written for the skills that have none.

    Examples are what people would ask of a skill, in other words than its author's, so that it is
    found by them. Either an agent reads --pending and hands its answer to --accept, or a command
    that you name reads the same on stdin, for eight skills at a time: a program, or a host, which
    is then called without tools. Nothing else is called.

    What was written is checked, shown, and kept once you agree, in a file of yours; no skill is
    touched. Whatever ends the command, what was kept stays, and the next run goes on.
    """
    modes = (asked.pending, asked.accept, asked.line is not None, asked.listing, asked.forget)
    refuse(sum(map(bool, modes)) != 1, f"Say what to do, one of {_MODES}.")
    refuse(bool(asked.names) and not asked.forget, "NAME is for --forget.")
    refuse(asked.stale and not asked.forget, "--stale is for --forget.")
    refuse(asked.forget and not (asked.names or asked.stale), "--forget what? NAMEs, or --stale.")
    # Help is shown without what writes, checks and keeps.
    from skillsearch.cli.enriching import enrich

    return enrich(asked)
