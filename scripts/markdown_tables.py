"""Tables in Markdown, for pages and the terminal; a part of other scripts, and pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Iterable[str]] = ()) -> list[str]:
    """Return the lines of a table; without rows, those of its head."""
    return [line(heads), "|---" * len(heads) + "|", *map(line, rows)]


def text(heads: Sequence[str], rows: Iterable[Iterable[str]] = ()) -> str:
    """Return a table as it stands in a page."""
    return "\n".join(table(heads, rows))


def line(cells: Iterable[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"
