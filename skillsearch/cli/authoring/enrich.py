"""``skillsearch enrich``: example requests for skills that have none, by whatever writes them."""

from __future__ import annotations

from typing import BinaryIO

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse

_SECONDS = 300.0
_MODES = "--pending, --accept FILE, --command CMD, --list or --forget NAME"


@click.command("enrich")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--pending", is_flag=True, help="Print skills without examples, and how to write some."
)
@click.option(
    "--accept", type=click.File("rb"), metavar="FILE|-", help="Check and keep written examples."
)
@click.option(
    "--command",
    "command_line",
    metavar="CMD",
    help="Have them written by this host or program, on stdin; no shell.",
)
@click.option(
    "--list",
    "lists",
    is_flag=True,
    help="List the kept examples; stale ones fit no skill of the index.",
)
@click.option("--forget", is_flag=True, help="Remove the examples of NAMEs.")
@click.option("--stale", is_flag=True, help="With --forget: all that fits no skill of the index.")
@click.option("-n", type=options.Count(1), help="Skills at most. [default: 8; with --command all]")
@click.option(
    "--seconds",
    type=options.Number(min=0, min_open=True),
    metavar="S",
    default=_SECONDS,
    show_default=True,
    help="With --command: how long one call may take.",
)
@options.include_unvetted
@options.selecting
@options.yes
@options.index_dir
@options.header
@options.as_json(lambda: options.models.ENRICH)
def enrich_command(
    names: tuple[str, ...],
    pending: bool,
    accept: BinaryIO | None,
    command_line: str | None,
    lists: bool,
    forget: bool,
    stale: bool,
    n: int | None,
    seconds: float,
    include_unvetted: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Have example requests written for the skills that have none.

    Examples are what people would ask of a skill, in other words than its author's, so that it is
    found by them. Either an agent reads --pending and hands its answer to --accept, or a command
    that you name reads the same on stdin, for eight skills at a time: a program, or a host, which
    is then called without tools. Nothing else is called.

    What was written is checked, shown, and kept once you agree, in a file of yours; no skill is
    touched. Whatever ends the command, what was kept stays, and the next run goes on. With NAMEs,
    --pending and --command take these skills alone.
    """
    modes = (pending, accept, command_line is not None, lists, forget)
    refuse(sum(map(bool, modes)) != 1, f"Say what to do, one of {_MODES}.")
    refuse(
        bool(names) and not (pending or command_line is not None or forget),
        "NAMEs are for --pending, --command and --forget.",
    )
    refuse(stale and not forget, "--stale is for --forget.")
    refuse(forget and not (names or stale), "--forget what? NAMEs, or --stale.")
    # Help is shown without what writes, checks and keeps.
    from skillsearch.cli.authoring.enrich_steps import Enriching
    from skillsearch.library.example_writers import Writer

    writer = None if command_line is None else Writer.of(command_line)
    enriching = Enriching(() if forget else names, n, include_unvetted, yes, as_json)
    if lists:
        return enriching.list_entries()
    if forget:
        return enriching.forget(names, stale=stale)
    if accept:
        return enriching.accept(accept)
    if writer:
        return enriching.have_written(writer, seconds)
    return enriching.show_pending()
