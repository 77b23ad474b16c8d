"""The blocks of a report: built once as values, and shown by a terminal, a page or lines; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Cell(NamedTuple):
    """A text of a table, with an interval below it, whether it is the best, and where it leads."""

    text: str
    interval: str = ""
    is_best: bool = False
    link: str = ""


Value: TypeAlias = "Cell | str | int | float | None"
"""A value of a table; a float is a share, and None was not measured."""
Row: TypeAlias = Sequence[Value]


class RowGroup(NamedTuple):
    """Rows of a table below a title; a terminal shows `labels` in front of them instead."""

    rows: Sequence[Row]
    title: str = ""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table of rows in groups.

    Attributes:
        title: What it shows, in which unit.
        heads: The heads of its columns; the first names the rows.
        groups: The rows.
        labels: Heads of the columns with the labels of groups.
        texts: Heads of columns that hold text instead of numbers, other than the first.
        with_interval: Heads of columns whose intervals a terminal shows too.
        wide: Heads of columns that only a page has room for.
    """

    title: str
    heads: Sequence[str]
    groups: Sequence[RowGroup]
    labels: tuple[str, ...] = ()
    texts: Collection[str] = ()
    with_interval: Collection[str] = ()
    wide: Collection[str] = ()

    def __bool__(self) -> bool:
        """Whether it has a row."""
        return any(group.rows for group in self.groups)

    @property
    def rows(self) -> Iterator[Row]:
        """The rows of all groups."""
        return (row for group in self.groups for row in group.rows)


class TextLine(NamedTuple):
    """A line of text whose parts may have a style; it may begin a section of the report."""

    parts: Sequence[str | tuple[str, str]]
    indent: int = 0
    begins: bool = False


Block: TypeAlias = TextLine | Table


def shown(value: Value) -> str:
    """Return a value for a person: shares in whole percent, large numbers in groups."""
    if isinstance(value, Cell):
        return value.text
    if isinstance(value, float):
        return f"{100 * value:.0f} %"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else value


def plain(value: Value) -> str:
    """Return a value for other programs: shares with four digits, nothing for None."""
    if isinstance(value, Cell):
        return value.text
    return f"{value:.4f}" if isinstance(value, float) else str("" if value is None else value)
