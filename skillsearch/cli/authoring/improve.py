"""``skillsearch improve``: a better description for a skill, and what it does to the search."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import click

from skillsearch.cli import options
from skillsearch.cli.app import has_consent, refuse
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import emit_json, say
from skillsearch.index.opening import open_fresh

if TYPE_CHECKING:
    from skillsearch.reports.proposal_trials import Improvement

_MAX_BYTES = 1 << 20


@click.command("improve")
@click.argument("name")
@click.option(
    "--requests",
    "file",
    type=click.File("rb"),
    metavar="FILE|-",
    help="Requests for the skill: a line each, or JSON lines.",
)
@click.option("--write", is_flag=True, help="Write the new description, once you agree.")
@options.yes
@options.reader
@options.index_dir
@options.as_json(lambda: options.models.IMPROVED)
def improve_command(name: str, file: BinaryIO | None, write: bool, yes: bool, as_json: bool) -> int:
    """Propose a better description for a skill, and measure it.

    It is to be found by its requests: those in FILE, its example requests, and those that its body
    lists. Every second one makes the proposals, from words that stand in the requests and in the
    body; the others measure them, in a copy of the index without any example requests. One that
    costs a rival a request of its own is not proposed. Prints the best as a diff, if one helps, and
    says what it does to the skill and its rivals. Only --write touches a file.
    """
    refuse(yes and not write, "--yes is for --write.")
    data = file.read(_MAX_BYTES + 1) if file else b""
    refuse(len(data) > _MAX_BYTES, f"--requests takes {_MAX_BYTES >> 20} MiB at most.")
    # Help is shown without what tries and measures.
    from skillsearch.reports.improve_run import Improving, read_requests

    settings = read_settings()
    index = open_fresh(settings, say)
    improving = Improving.of(index, name, settings)
    if write and improving.why_not:
        raise improving.refusal()
    improvement = improving.improve(read_requests(data), settings.reader)
    diff = improving.diff(improvement)
    if not as_json:
        click.echo(diff, nl=False)
        _say(improvement, improving.why_not)
    is_wanted = write and improvement.is_proposed
    is_written = is_wanted and has_consent("Nothing was written. To write it, add --yes.", yes=yes)
    if is_written:
        improving.write(improvement)
        say(f"written: {improving.document.path}")
    if as_json:
        emit_json(improvement.to_dict() | {"diff": diff, "written": is_written})
    return int(is_wanted and not is_written)


def _say(improvement: Improvement, why_not: str) -> None:
    for effect in (improvement.own, *improvement.rivals):
        if effect.before.requests or effect.taken:
            say(effect.summary)
    say(improvement.summary)
    say(why_not and f"note: it is not yours to edit: {why_not}")
