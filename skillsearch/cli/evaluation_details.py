"""What stands beside the reports of an evaluation: parts of the queries, and confusable skills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from skillsearch.cli.output import emit_rows
from skillsearch.cli.tables import fitted, make_console, plain_table
from skillsearch.evaluation.report import (
    MAIN_MEASURE,
    against_baseline,
    percent,
    score_digits,
    spread,
)
from skillsearch.text.safe_text import one_line

if TYPE_CHECKING:
    from skillsearch.evaluation.confusables import Confusion
    from skillsearch.evaluation.types import Report

_PART_MEASURES = (MAIN_MEASURE, "Success@1", "R@5")
_MAX_PAIRS = 20
"""Pairs shown on a terminal; --json has all."""
_NAME_CHARS = 32
_EXAMPLE_CHARS = 120


def print_kinds(kinds: Mapping[str, Report], console: Console | None = None) -> None:
    """Print the main measures of the queries of each kind by themselves.

    Args:
        kinds: A report a kind.
        console: Where to print, stdout by default.
    """
    table = _parts_table("By kind of query, in percent", "kind")
    _add_parts(table, kinds)
    console = console or make_console()
    console.print(fitted(table, console.width))


def print_languages(report: Report, console: Console | None = None) -> None:
    """Print the main measures by the language of queries, then of those that cross languages.

    Args:
        report: A report with languages.
        console: Where to print, stdout by default.
    """
    table = _parts_table("By language of the query, in percent", "language")
    if len(report.systems) > 1:
        head = f"from {one_line(report.systems[0].name, _NAME_CHARS)}"
        table.add_column(Text(head, style="dim"))
    _add_parts(table, report.languages)
    if report.crossing:
        table.add_row()
    _add_parts(table, report.crossing)
    console = console or make_console()
    console.print(fitted(table, console.width))


def print_confusions(
    confusions: Sequence[Confusion], system: str, console: Console | None = None
) -> None:
    """Print which skills steal queries from which, how often, and by which words.

    Args:
        confusions: The pairs, those of most queries first.
        system: The system under which they do.
        console: Where to print, stdout by default.
    """
    console = console or make_console()
    name = one_line(system, _NAME_CHARS)
    if not confusions:
        console.print(Text(f"Under {name} no skill steals several queries from another one."))
        return
    console.print(Text(f"Skills that lose queries to others under {name}", style="bold"))
    for one in confusions[:_MAX_PAIRS]:
        console.print(_head(one))
        for label, text in _reasons(one):
            line = Text.assemble((f"{label}: ", "dim"), one_line(text))
            console.print(Padding(line, (0, 0, 0, 2)))
    if len(confusions) > _MAX_PAIRS:
        console.print(Text(f"and {len(confusions) - _MAX_PAIRS:,} more pairs (--json lists all)"))


def emit_confusions(collection: str, confusions: Sequence[Confusion]) -> None:
    """Print a row for each pair of skills.

    Collection, the word ``confusable``, id and name of the skill that is right and of the one that
    comes first, stolen queries, their share, mean lead, words, missing words, an example.

    Args:
        collection: Name of the collection.
        confusions: The pairs.
    """
    emit_rows(
        (
            collection,
            "confusable",
            one.loser,
            one.loser_name,
            one.winner,
            one.winner_name,
            one.queries,
            f"{one.share:.6f}",
            "" if one.lead is None else f"{one.lead:.6f}",
            " ".join(word.text for word in one.words),
            " ".join(word.text for word in one.missing),
            one.examples[0] if one.examples else "",
        )
        for one in confusions
    )


def _parts_table(title: str, head: str) -> Table:
    """Return an empty table for parts of the queries."""
    table = plain_table(
        (head, "queries", "system", *_PART_MEASURES[:1], "95 %", *_PART_MEASURES[1:]), title
    )
    for place in (1, *range(3, len(table.columns))):
        table.columns[place].justify = "right"
    return table


def _add_parts(table: Table, parts: Mapping[str, Report]) -> None:
    """Add a row for each part and system, with as many cells as the table has columns."""
    for part, report in parts.items():
        for place, system in enumerate(report.systems):
            first, *others = (percent(system.means.get(name)) for name in _PART_MEASURES)
            ends = Text(spread(system.intervals.get(MAIN_MEASURE)), style="dim")
            heads = ("", "") if place else (one_line(part), f"{report.queries:,}")
            name = Text(one_line(system.name, _NAME_CHARS))
            cells: list[str | Text] = [*map(Text, heads), name, first, ends, *others]
            cells.append(against_baseline(report, system.name))
            table.add_row(*cells[: len(table.columns)])


def _head(one: Confusion) -> Text:
    """Say of a pair who loses how much to whom."""
    loser, winner = (one_line(name, _NAME_CHARS) for name in (one.loser_name, one.winner_name))
    lead = "" if one.lead is None else f", lead {score_digits(one.lead)}"
    unranked = f", not found at all for {one.unranked:,}" if one.unranked else ""
    also = ", and the other way round" if one.is_mutual else ""
    return Text.assemble(
        (loser, "bold"),
        " loses to ",
        (winner, "bold"),
        f": {one.queries:,} queries, {percent(one.share)} % of its own{lead}{unranked}{also}",
    )


def _reasons(one: Confusion) -> Iterator[tuple[str, str]]:
    """Say which words win, and which the description of the loser lacks."""
    in_body = [word for word in one.missing if word.in_loser == "body"]
    nowhere = [word for word in one.missing if word.in_loser == "nowhere"]
    said = {"won by": one.words, "only in its body": in_body, "nowhere in it": nowhere}
    for label, words in said.items():
        if words:
            yield label, ", ".join(word.text for word in words)
    for example in one.examples[:1]:
        yield "query", one_line(example, _EXAMPLE_CHARS)
