"""``skillsearch budget``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import click

from skillsearch.cli import options
from skillsearch.cli.output import describe, emit_json, emit_rows, is_terminal, progress_bars, say
from skillsearch.index.opening import open_index
from skillsearch.text.safe_text import listed

if TYPE_CHECKING:
    from skillsearch.budget.costs import BudgetReport

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


@options.command("budget")
@options.roots(must_exist=True)
@options.index_dir
@options.option(
    "--context TOKENS",
    "Context window of the model; 0 if unknown.",
    type=options.Count(0),
    default=WINDOW,
    show_default=True,
)
@options.repeatable("--host hosts", "Only this host. Repeatable.", type=click.Choice(HOSTS))
@options.as_json
def budget_command(asked: options.Asked) -> None:
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
    if asked.roots and asked.flags["index_dir"] is not None:
        raise click.UsageError("ROOT and --index-dir name different skills; use one of them.")
    from skillsearch.budget.costs import measure, report_budget, sources_of_index, sources_of_roots
    from skillsearch.embedders.embedder import COUNTED_BY, TokenCounter
    from skillsearch.roots.bundles import local_roots

    settings = asked.settings
    if asked.roots:
        sources, problems = sources_of_roots(local_roots(asked.roots)[0])
    else:
        sources, problems = sources_of_index(open_index(settings)), ()
    with progress_bars() as progress:
        skills, more = measure(sources, TokenCounter.load(), progress)
    problems = (*problems, *more)
    report = report_budget(
        skills, n=settings.n, window=asked.context or None, hosts=asked.hosts or HOSTS
    )
    if asked.as_json:
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
    for item in problems[:_SHOWN_PROBLEMS]:
        say(describe(item))
    if len(problems) > _SHOWN_PROBLEMS:
        say(f"and {len(problems) - _SHOWN_PROBLEMS:,} more (--json lists all)")
    unread = sum(item.severity == "error" for item in problems)
    if problems:
        say(f"not measured: {unread:,} skills or folders, {len(problems) - unread:,} documents")


def _show(report: BudgetReport) -> None:
    words = {True: "yes", False: "no", None: "nothing to compare"}
    cuts = [
        (each.host, fate, *names)
        for each in report.listings
        for fate, names in each.fates.items()
        if names and fate != "whole"
    ]
    tables: dict[str, list[tuple[_Cell, ...]]] = {
        "level": list(_level_rows(report)),
        "claim": [
            (one.name, one.figure, one.claimed, one.measured, words[one.holds], one.compares)
            for one in report.claims
        ],
        "host": [
            (one.host, one.limit, one.unit, one.needed, *map(len, one.fates.values()))
            for one in report.listings
        ],
    }
    for_person = is_terminal()
    texts = {
        kind: [[_cell(cell, for_person=for_person) for cell in row] for row in rows]
        for kind, rows in tables.items()
    }
    if not for_person:
        for kind, rows in texts.items():
            emit_rows((kind, *row) for row in rows)
        emit_rows(("cut", *row) for row in cuts)
        return
    from skillsearch.cli.tables import print_rows

    for kind, rows in texts.items():
        print_rows(rows, HEADS[kind])
        click.echo()
    shown = [(host, fate, listed(names, _SHOWN_NAMES)) for host, fate, *names in cuts]
    print_rows(shown, ("host", "fate", "skills"))


def _level_rows(report: BudgetReport) -> Iterator[tuple[_Cell, ...]]:
    for level in report.levels:
        total, median, most = level.total, level.median.tokens, level.largest.tokens
        name = level.largest_skill
        yield level.name, total.characters, total.tokens, level.share, median, most, name
    search = report.search
    everything = report.levels[-1].total.tokens
    for part, size in ((f"{search.n} hits", search.listing), ("one body", search.body)):
        share = size.tokens / everything if everything else None
        yield f"search: {part}", size.characters, size.tokens, share, "", "", ""


def _cell(value: _Cell, *, for_person: bool) -> str:
    """Format a cell: for a person shares in percent and large numbers in groups."""
    if value is None:
        return "-" if for_person else ""
    if isinstance(value, float):
        return f"{100 * value:.0f} %" if for_person else f"{value:.4f}"
    return f"{value:,}" if for_person and isinstance(value, int) else str(value)
