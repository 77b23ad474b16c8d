"""Tables for a person at a terminal; with the progress bars, all that is printed with rich.

Texts go in as `rich.text.Text`, never as markup, so a skill cannot style what is printed.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from skillsearch.cli.explaining import explanation
from skillsearch.config import no_color
from skillsearch.safe_text import one_line
from skillsearch.types import Hit, SearchResult

_DESCRIPTION_LINES = 3
_HIT_INDENT = 10
"""Columns left of a hit's text: rank, score and the gaps behind them."""
_STYLES = {
    "ok": "green",
    "warning": "yellow",
    "error": "bold red",
    "added": "green",
    "changed": "yellow",
    "removed": "red",
    "missing root": "bold red",
}
"""Words that are coloured where they stand in the first column."""


def make_console() -> Console:
    """Return the console of stdout, without colours where the user wants none."""
    return Console(no_color=no_color() or None, highlight=False)


def print_hits(result: SearchResult, console: Console | None = None) -> None:
    """Print the hits of a query: rank and score beside name, description and path.

    Args:
        result: The answer; it has hits.
        console: Where to print, stdout by default.
    """
    console = console or make_console()
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim")
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for hit in result:
        end = [Text()] if hit.rank < len(result) else []
        parts = [*_hit_lines(hit, console), *end]
        table.add_row(str(hit.rank), Text(f"{hit.score:.2f}", style="cyan"), Group(*parts))
    console.print(table)


def print_rows(
    rows: Iterable[Sequence[object]],
    headers: Sequence[str] = (),
    *,
    is_cut: bool = False,
    console: Console | None = None,
) -> None:
    """Print rows as a table that fits the width.

    Args:
        rows: Cells of any kind.
        headers: A title for each column, or none at all.
        is_cut: True to give each row one line, the last column cut; else that is wrapped.
        console: Where to print, stdout by default.
    """
    console = console or make_console()
    table = Table(
        box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=bool(headers), expand=True
    )
    texts = [[one_line(str(cell)) for cell in row] for row in rows]
    width = len(texts[0]) if texts else 0
    for place in range(width):
        is_last = place == width - 1
        table.add_column(
            headers[place] if headers else "",
            header_style="dim",
            overflow="ellipsis" if is_cut else "fold",
            no_wrap=is_cut,
            max_width=None if is_last else console.width // 3,
            ratio=1 if is_last else None,
        )
    for row in texts:
        first = Text(row[0], style=_STYLES.get(row[0], "bold"))
        table.add_row(first, *map(Text, row[1:]))
    if texts:
        console.print(table)


def _hit_lines(hit: Hit, console: Console) -> list[Text]:
    """Return what stands beside rank and score."""
    name = Text(one_line(hit.name), style="bold")
    lines = [name, _cut(hit.description, console)]
    if hit.chunk:
        lines.append(Text.assemble(("chunk: ", "magenta"), one_line(hit.chunk)))
    if hit.explain:
        for label, text in explanation(hit.explain):
            lines.append(Text.assemble((f"{label}: ", "magenta"), one_line(text)))
    lines += [Text(_short(path), style="dim") for path in (hit.path, *hit.duplicates)]
    return lines


def _cut(description: str, console: Console) -> Text:
    """Return the first lines of a description, as wide as the console allows."""
    lines = Text(one_line(description)).wrap(console, max(console.width - _HIT_INDENT, 20))
    if len(lines) <= _DESCRIPTION_LINES:
        return Text("\n").join(lines)
    kept = list(lines[:_DESCRIPTION_LINES])
    kept[-1].truncate(max(console.width - _HIT_INDENT, 20) - 2)
    kept[-1].rstrip()
    return Text("\n").join(kept).append(" …")


def _short(path: str) -> str:
    """Return a path relative to the working folder where it lies in it."""
    inside = Path(path).is_relative_to(Path.cwd())
    return one_line(os.path.relpath(path) if inside else path)
