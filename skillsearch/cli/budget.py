"""``skillsearch budget``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import click

from skillsearch.cli.options import (
    Count,
    Flags,
    Root,
    command,
    index_dir_option,
    json_option,
    roots_argument,
)
from skillsearch.cli.output import (
    describe,
    emit_json,
    emit_rows,
    is_terminal,
    progress_bars,
    say,
)
from skillsearch.config import Settings, load_settings
from skillsearch.index.opening import open_index
from skillsearch.text.safe_text import listed

if TYPE_CHECKING:
    from skillsearch.budget.costs import BudgetReport
    from skillsearch.budget.reading import Source
    from skillsearch.types import Diagnostic

WINDOW = 200_000
HOSTS = ("claude-code", "codex", "openclaw", "hermes", "deepagents")
"""Repeated here, so that the help does not import what measures them."""

_Cell: TypeAlias = "str | int | float | None"
"""A float is a share."""

_SHOWN_NAMES = 20
_SHOWN_PROBLEMS = 20
HEADS = {
    "level": ("level", "characters", "tokens", "of all", "median tokens", "most tokens", "in"),
    "claim": ("claim", "figure", "said", "measured", "holds", "compares"),
    "host": tuple("host,limit,of,uncut,whole,shortened,name only,omitted,hidden".split(",")),
}


@command("budget")
@roots_argument(must_exist=True)
@index_dir_option
@click.option(
    "--context",
    type=Count(0),
    default=WINDOW,
    show_default=True,
    metavar="TOKENS",
    help="Context window of the model; 0 if unknown.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    type=click.Choice(HOSTS),
    help="Only this host. Repeatable.",
)
@json_option
def budget_command(
    flags: Flags,
    roots: tuple[Root, ...],
    context: int,
    hosts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Measure what skills cost in a prompt.

    It also shows what hosts would cut from their listing. The skills are those below each ROOT,
    without an index, or those of the index.

    Levels: the overview is name and description of each skill that is not hidden, one a line;
    bodies are all SKILL.md files without frontmatter; all is bodies and .md and .txt documents.
    A search costs the overview of its hits and one body instead.

    Claims are the token savings that progressive loading promises. metadata: the overview instead
    of all bodies and documents saves 90 %. start: the overview is at most 20 % of all bodies. on
    demand: the overview and one body instead of all bodies saves 80 %. relevant: the overview of
    the hits instead of all saves 70 %. format: plain lines instead of XML with locations save 50 %.

    Hosts list a skill whole, with a shortened description, by name only, or not at all. If a host
    orders skills by use, the order of the roots and then of names is used instead.

    Characters are exact. Tokens are counted by the packaged tokenizer, except for Codex, which
    counts 4 bytes as one; the tokenizer of another model differs by some tens of percent.
    """
    if roots and flags["index_dir"] is not None:
        raise click.UsageError("ROOT and --index-dir name different skills; use one of them.")
    from skillsearch.budget.costs import report_budget
    from skillsearch.budget.reading import measure
    from skillsearch.embedders.token_counter import COUNTED_BY, TokenCounter

    settings = load_settings(**flags)
    sources, problems = _sources(roots, settings)
    with progress_bars() as progress:
        skills, more = measure(sources, TokenCounter.load(), progress)
    problems = (*problems, *more)
    report = report_budget(skills, n=settings.n, window=context or None, hosts=hosts or HOSTS)
    if as_json:
        found = [item.to_dict() for item in problems]
        emit_json({**report.to_dict(), "counted_by": COUNTED_BY, "diagnostics": found})
    elif not skills:
        say("There are no skills to measure.")
    else:
        _show(report)
        say(f"tokens are counted by {COUNTED_BY}; another model's differ by some tens of percent")
        for listing in report.listings:
            if listing.is_over:
                say(f"assuming that {listing.host} fills its listing by {listing.order}")
    _show_problems(problems)


def _sources(
    roots: Sequence[Root], settings: Settings
) -> tuple[list[Source], tuple[Diagnostic, ...]]:
    """Find the skills of roots, or else those of the index."""
    from skillsearch.budget.reading import sources_of_index, sources_of_roots
    from skillsearch.roots.bundles import local_roots

    if roots:
        return sources_of_roots(local_roots(roots)[0])
    return sources_of_index(open_index(settings)), ()


def _show_problems(problems: Sequence[Diagnostic]) -> None:
    """Name the first files that could not be read, and count all."""
    for item in problems[:_SHOWN_PROBLEMS]:
        say(describe(item))
    if len(problems) > _SHOWN_PROBLEMS:
        say(f"and {len(problems) - _SHOWN_PROBLEMS:,} more (--json lists all)")
    unread = sum(item.severity == "error" for item in problems)
    if problems:
        say(f"not measured: {unread:,} skills or folders, {len(problems) - unread:,} documents")


def _show(report: BudgetReport) -> None:
    """Print a report: as tables on a terminal, else as rows whose first cell names the table."""
    tables = {
        "level": _level_rows(report),
        "claim": _claim_rows(report),
        "host": _host_rows(report),
    }
    cut = list(_cut_rows(report))
    if not is_terminal():
        for kind, rows in tables.items():
            emit_rows((kind, *map(_plain, row)) for row in rows)
        emit_rows(("cut", *row) for row in cut)
        return
    from skillsearch.cli.tables import print_rows

    for kind, rows in tables.items():
        print_rows([[_readable(cell) for cell in row] for row in rows], HEADS[kind])
        click.echo()
    cuts = [(host, fate, listed(names, _SHOWN_NAMES)) for host, fate, *names in cut]
    print_rows(cuts, ("host", "fate", "skills"))


def _level_rows(report: BudgetReport) -> Iterator[tuple[_Cell, ...]]:
    """Yield a row for each level and for each part of a search."""
    for level in report.levels:
        total, median, most = level.total, level.median.tokens, level.largest.tokens
        name = level.largest_skill
        yield level.name, total.characters, total.tokens, level.share, median, most, name
    search = report.search
    everything = report.levels[-1].total.tokens
    for part, size in ((f"{search.n} hits", search.listing), ("one body", search.body)):
        share = size.tokens / everything if everything else None
        yield f"search: {part}", size.characters, size.tokens, share, "", "", ""


def _claim_rows(report: BudgetReport) -> Iterator[tuple[_Cell, ...]]:
    words = {True: "yes", False: "no", None: "nothing to compare"}
    for claim in report.claims:
        figures = (claim.figure, claim.claimed, claim.measured)
        yield claim.name, *figures, words[claim.holds], claim.compares


def _host_rows(report: BudgetReport) -> Iterator[tuple[_Cell, ...]]:
    """Yield a row for each host: its limit, and how many skills have each fate."""
    for listing in report.listings:
        counts = (len(names) for names in listing.fates.values())
        yield listing.host, listing.limit, listing.unit, listing.needed, *counts


def _cut_rows(report: BudgetReport) -> Iterator[tuple[str, ...]]:
    """Yield a row for each host and fate except whole: the names of the skills."""
    for listing in report.listings:
        for fate, names in listing.fates.items():
            if names and fate != "whole":
                yield listing.host, fate, *names


def _plain(cell: _Cell) -> str:
    """Format a cell for a program; empty if nothing was measured."""
    if isinstance(cell, float):
        return f"{cell:.4f}"
    return "" if cell is None else str(cell)


def _readable(cell: _Cell) -> str:
    """Format a cell for a person: shares in percent, with thousands separators."""
    if isinstance(cell, float):
        return f"{100 * cell:.0f} %"
    if cell is None:
        return "-"
    return f"{cell:,}" if isinstance(cell, int) else cell
