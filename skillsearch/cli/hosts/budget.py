"""``skillsearch budget``: what skills cost in a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse
from skillsearch.cli.options import NamedRoot, read_flags, read_settings
from skillsearch.cli.output import (
    emit_json,
    emit_rows,
    is_terminal,
    progress_bars,
    say,
    show_diagnostics,
    show_rows,
)
from skillsearch.hosts.table import library_folder, with_key
from skillsearch.index.opening import open_index
from skillsearch.index.roots.scope import scope_of
from skillsearch.rendering.blocks import plain
from skillsearch.settings.table import Settings
from skillsearch.text.safe_text import counted, listed
from skillsearch.types.skills import Diagnostic, SkillFile

if TYPE_CHECKING:
    from skillsearch.budget.costs import BudgetReport

WINDOW = 200_000
HOSTS = tuple(with_key("listing"))
"""Hosts whose listing is measured."""
_SHOWN = 20


@click.command("budget")
@options.roots(must_exist=True)
@options.index_dir
@click.option(
    "--context",
    "window",
    type=options.Count(0),
    metavar="TOKENS",
    default=WINDOW,
    show_default=True,
    help="Context window of the model; 0 if unknown.",
)
@click.option(
    "--host", "hosts", multiple=True, type=options.Choice(HOSTS), help="Only this host. Repeatable."
)
@options.all_projects
@options.as_json(lambda: options.models.BUDGET)
def budget_command(
    roots: tuple[NamedRoot, ...], window: int, hosts: tuple[str, ...], as_json: bool
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
    the hits instead of all saves 70 %. format: plain lines, long descriptions cut, not XML with
    locations save 50 %.

    Hosts list a skill whole, with a shortened description, by name only, or not at all. If a host
    orders skills by use, the order of the roots and then of names is used instead.

    Characters are exact. Tokens are counted by the packaged tokenizer, except for Codex, which
    counts 4 bytes as one; the tokenizer of another model differs by some tens of percent.
    """
    refuse(
        roots and read_flags()["index_dir"],
        "ROOT and --index-dir name different skills; use one of them.",
    )
    from skillsearch.budget.costs import measure, report_budget
    from skillsearch.embedders.embedder import COUNTED_BY, TokenCounter

    settings = read_settings()
    sources, problems = _sources(roots, settings)
    with progress_bars() as progress:
        skills, more = measure(sources, TokenCounter.load(), progress)
    report = report_budget(skills, n=settings.n, window=window or None, hosts=hosts or HOSTS)
    problems = (*problems, *more)
    if as_json:
        diagnostics = [problem.to_dict() for problem in problems]
        emit_json({**report.to_dict(), "counted_by": COUNTED_BY, "diagnostics": diagnostics})
    elif not skills:
        say("There are no skills to measure.")
    else:
        say(report.headline())
        _show_budget(report)
    if problems:
        show_diagnostics(problems)
        unread = sum(problem.severity == "error" for problem in problems)
        say(f"not measured: skills or folders: {unread:,}, documents: {len(problems) - unread:,}")


def _sources(
    roots: Sequence[NamedRoot], settings: Settings
) -> tuple[list[SkillFile], tuple[Diagnostic, ...]]:
    from skillsearch.budget.costs import sources_of_index, sources_of_roots
    from skillsearch.roots.bundles import local_roots

    if roots:
        return sources_of_roots(local_roots(roots)[0])
    sources = sources_of_index(open_index(settings), scope_of(settings.selection))
    library = library_folder().resolve()
    listed_by_hosts = [source for source in sources if source.root.path != library]
    if away := len(sources) - len(listed_by_hosts):
        say(f"note: {counted(away, 'skill')} of your library: found by search, listed by no host")
    return listed_by_hosts, ()


def _show_budget(report: BudgetReport) -> None:
    from skillsearch.budget.tables import claims, cut_skills, levels, listings
    from skillsearch.embedders.embedder import COUNTED_BY

    tables = levels(report), claims(report), listings(report)
    cuts = list(cut_skills(report))
    if is_terminal():
        from skillsearch.cli.tables import print_blocks

        print_blocks(tables)
        cut_rows = [(host, fate, listed(names, _SHOWN)) for host, fate, names in cuts]
        show_rows(cut_rows, ("host", "fate", "skills"))
    else:
        for table in tables:
            emit_rows((table.heads[0], *map(plain, row)) for row in table.rows)
        emit_rows(("cut", host, fate, *names) for host, fate, names in cuts)
    say(f"tokens are counted by {COUNTED_BY}; another model's differ by some tens of percent")
    for listing in (listing for listing in report.listings if listing.is_over):
        say(f"assuming that {listing.host} fills its listing by {listing.order}")
