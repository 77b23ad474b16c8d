"""The command ``skillsearch why``."""

from __future__ import annotations

from dataclasses import replace

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse, request_text
from skillsearch.cli.browse import complete_name
from skillsearch.cli.hosts.budget import WINDOW
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import say, show_record
from skillsearch.index.opening import open_fresh
from skillsearch.index.search.options import SearchOptions


@click.command("why")
@click.argument("name", shell_complete=complete_name)
@click.argument("words", nargs=-1, metavar="[REQUEST|-]")
@options.n
@options.threshold
@options.reader
@options.selecting
@options.index_dir
@options.no_refresh
@options.header
@options.as_json(lambda: options.models.WHY)
def why_command(name: str, words: tuple[str, ...], as_json: bool) -> int:
    """Say why a skill does not come.

    Without REQUEST: whether the index has the skill NAME, or what keeps it out; what stands before
    it; who may be offered it; whether hosts list it. With REQUEST also how it ranks and scores,
    what the skill that comes first has more of, and what would change that; "-" reads it from
    stdin. The figures are log-odds, whose sum gives the score.

    Exits with 1 if something keeps the skill out, or it does not surely fit REQUEST.
    """
    from skillsearch.reports.why import explain_skill

    request = request_text(words)
    refuse(words and not request.strip(), "The REQUEST is empty; say in words what is to be done.")
    settings = read_settings()
    index = open_fresh(settings, say)
    how = replace(SearchOptions.of(settings), face="terminal")
    answer = explain_skill(index, name, how, request=request, window=WINDOW, settings=settings)
    rows = [(check.verdict, check.name, check.detail) for check in answer.told]
    show_record(answer.to_dict(), rows, ("verdict", "name", "detail"), as_json=as_json)
    return int(answer.is_out)
