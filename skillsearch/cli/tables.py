"""Tables for a person: `rich.text.Text`, never markup, so a skill cannot style what is printed."""

from __future__ import annotations

import os.path
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, count, islice, zip_longest
from pathlib import Path
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from skillsearch.rendering.blocks import Block, Cell, Table, Value, shown
from skillsearch.settings.environ import no_color
from skillsearch.text.provenance import shown_name, source_tag, tag_of
from skillsearch.text.safe_text import one_line
from skillsearch.text.states import MAY_FIT, ONLY_MAY_FIT
from skillsearch.types.answers import Hit, SearchResult

_DESCRIPTION_LINES = 3
_HIT_INDENT = 10
"""Columns left of a hit's text: rank, score and gaps."""
_STYLES = {
    "ok": "green",
    "warning": "yellow",
    "error": "bold red",
    "added": "green",
    "changed": "yellow",
    "removed": "red",
    "missing root": "bold red",
}
"""Colours of words in the first column."""
_VERDICT_STYLES = {"better": "bold green", "worse": "bold red"}
_MAX_CELL = 40
"""Characters of a cell in a table of a report."""
_SHORT_CELL = 12
"""Characters of a cell that is wrapped later than long ones: "100 %", "index folder"."""


def make_console() -> Console:
    """Return the console of stdout, without colours if the user wants none."""
    return Console(no_color=no_color() or None, highlight=False)


def print_hits(result: SearchResult, console: Console | None = None) -> None:
    """Print the hits of a query: rank, score, name, description and path."""
    if not result:
        return
    console = console or make_console()
    table = Grid.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim")
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for hit in result:
        end = [Text()] if hit.rank < len(result) else []
        parts = [*_hit_lines(hit, console), *end]
        table.add_row(str(hit.rank), Text(f"{hit.score:.2f}", style="cyan"), Group(*parts))
    console.print(table)


def print_perhaps(result: SearchResult) -> None:
    """Print skills that may fit, a line each: score, name and description, cut to the width."""
    if not result.perhaps:
        return
    console = make_console()
    if result:
        console.print()
    console.print(Text(f"{MAY_FIT if result else ONLY_MAY_FIT}:", style="yellow"))
    table = Grid.grid(padding=(0, 2), expand=True)
    table.add_column(justify="right")
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=console.width // 2)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for hit in result.perhaps:
        score = Text(f"{hit.score:.2f}", style="cyan")
        tag = f"{source_tag(hit)} ".lstrip()
        about = Text.assemble((tag, "yellow"), one_line(hit.description))
        table.add_row(score, Text(shown_name(hit), style="bold"), about)
    console.print(table)


def print_blocks(blocks: Iterable[Block], console: Console | None = None) -> None:
    """Print the blocks of a report, a blank line before each table and each section."""
    console = console or make_console()
    is_first = True
    for block in blocks:
        if not block:
            continue
        if not is_first and (isinstance(block, Table) or block.begins):
            console.print()
        is_first = False
        if isinstance(block, Table):
            _print_table(block, console)
        else:
            text = Text.assemble(*block.parts)
            console.print(Padding(text, (0, 0, 0, block.indent)) if block.indent else text)


def _print_table(table: Table, console: Console) -> None:
    """Print a table without its wide columns, the labels of groups before their first row."""
    heads = [*table.labels]
    for head in table.heads:
        if head not in table.wide:
            heads += [head, "95 %"] if head in table.with_interval else [head]
    rows = list(_text_rows(table))
    texts = {*table.labels[:1], table.heads[0], *table.texts}
    numbers = [number for number, head in enumerate(heads) if head not in texts]
    heads = [one_line(head, _MAX_CELL) for head in heads]
    if table.title:
        console.print(Text(one_line(table.title), style="bold"))
    print_rows(rows, heads, numbers=numbers, console=console)


def _text_rows(table: Table) -> Iterator[list[Text]]:
    for group in table.groups:
        labels = group.labels or (group.title,) * len(table.labels)
        for number, row in enumerate(group.rows):
            cells = [_text(label) for label in labels] if not number else [Text() for _ in labels]
            for head, value in zip(table.heads, row, strict=True):
                if head not in table.wide:
                    cells.append(_text(value))
                if head in table.with_interval and isinstance(value, Cell):
                    cells.append(Text(value.interval, style="dim"))
            yield cells


def _text(value: Value) -> Text:
    text = one_line(shown(value), _MAX_CELL)
    is_best = isinstance(value, Cell) and value.is_best
    return Text(text, style="bold" if is_best else _VERDICT_STYLES.get(text, ""))


def print_rows(
    rows: Iterable[Sequence[object]],
    headers: Sequence[str] = (),
    *,
    numbers: Collection[int] = (),
    console: Console | None = None,
) -> None:
    """Print rows as a table that fits the width, its cells wrapped; `numbers` are aligned right."""
    console = console or make_console()
    lines = [list(map(_cell, row, count())) for row in rows]
    if not lines:
        return
    heads = [Text(head, style="dim") for head in headers or [""] * len(lines[0])]
    columns = [list(column) for column in zip_longest(heads, *lines, fillvalue=Text())]
    gap, widths = _fit(columns, console.width)
    table = Grid(box=None, padding=(0, gap, 0, 0), pad_edge=False, show_header=bool(headers))
    for number, (cells, wide) in enumerate(zip(columns, widths, strict=True)):
        justify: Literal["left", "right"] = "right" if number in numbers else "left"
        table.add_column(cells[0], width=wide, overflow="fold", justify=justify)
    for row in islice(zip(*columns, strict=True), 1, None):
        table.add_row(*row)
    console.print(table)


def print_lines(
    rows: Iterable[Sequence[object]], headers: Sequence[str], console: Console | None = None
) -> None:
    """Print rows as a table with a line for each, whose cells are cut; the last has the rest."""
    console = console or make_console()
    table = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=True)
    for number, head in enumerate(headers):  # names, which come first, are what `show` takes
        most = console.width // (4 if number else 2)
        table.add_column(Text(head, style="dim"), no_wrap=True, max_width=most)
    table.columns[-1].max_width, table.columns[-1].ratio = None, 1
    for row in rows:
        table.add_row(*(_cell(cell, number, console.width) for number, cell in enumerate(row)))
    if table.rows:
        console.print(table)


def _cell(cell: object, column: int, limit: int | None = None) -> Text:
    if isinstance(cell, Text):
        return cell
    text = one_line(str(cell), limit)
    return Text(text, style="" if column else _STYLES.get(text, "bold"))


def _fit(columns: Sequence[list[Text]], width: int) -> tuple[int, list[int]]:
    """Return the gap between columns and their widths, breaking words only as a last resort."""
    gaps = len(columns) - 1
    if sum(map(_widest, columns)) + 2 * gaps > width:
        for cells in columns:  # heads, which come first, are broken before an @
            cells[0] = Text(cells[0].plain.replace("@", "\n@"), style=cells[0].style)
    # Each column gets what its longest word needs, then its longest short cell, then all that it
    # needs; where that is too much, the narrow ones do, and the others get the same. If some word
    # is broken anyway, short cells are not.
    words = [list(chain.from_iterable(map(_words, cells))) for cells in columns]
    short = [[cell for cell in body if len(cell) <= _SHORT_CELL] for _, *body in columns]
    wishes = [list(map(_widest, parts)) for parts in (words, short, columns)]
    needed = sum(wishes[0]) + gaps
    gap = 1 if needed <= width < needed + gaps else 2
    if needed > width:
        wishes[0] = list(map(max, *wishes[:2]))
    return gap, _widths(wishes, width - gap * gaps)


def _widths(wishes: Sequence[Sequence[int]], room: int) -> list[int]:
    """Return the widths of columns that together have some room: narrow ones grow first."""
    widths = [1] * len(wishes[0])
    for wish in wishes:
        while sum(widths) < room and (
            lacking := [column for column, most in enumerate(wish) if widths[column] < most]
        ):
            widths[min(lacking, key=widths.__getitem__)] += 1
    return widths


def _words(cell: Text) -> list[Text]:
    return [Text(word) for word in cell.plain.split()]


def _widest(cells: Iterable[Text]) -> int:
    """Return the width of the widest line of some cells."""
    lines = (line for cell in cells for line in cell.plain.split("\n"))
    return max(map(cell_len, lines), default=0)


def _hit_lines(hit: Hit, console: Console) -> list[Text]:
    room = max(console.width - _HIT_INDENT, 20)
    name = Text(shown_name(hit), style="bold")
    if tag := tag_of(hit.trust, hit.origin):
        name.append(f"  {tag}", style="not bold yellow")
    described = Text(one_line(hit.description)).wrap(console, room)
    shown = list(described[:_DESCRIPTION_LINES])
    if len(described) > len(shown):
        shown[-1].truncate(room - 2)
        shown[-1].rstrip()
        shown[-1].append(" …")
    lines = [name, Text("\n").join(shown)]
    more = [("chunk", hit.chunk)] if hit.chunk else []
    more += hit.explain.summary if hit.explain else []
    lines += [Text.assemble((f"{label}: ", "magenta"), one_line(text)) for label, text in more]
    inside = Path(hit.path).is_relative_to(Path.cwd())
    lines.append(Text(one_line(os.path.relpath(hit.path) if inside else hit.path), style="dim"))
    if hit.family:
        lines.append(Text(one_line(f"{hit.family}: {hit.family.names}"), style="dim"))
    return lines
