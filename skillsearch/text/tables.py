"""Tables of words, and templates, in text files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path


def rows_of(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the lines of a file: the title above each, its first word, and all that follows.

    A line in brackets is a title; lines that are empty or begin with ``#`` do not count.
    """
    title = ""
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.startswith("["):
            title = line.strip("[]")
        elif line and not line.startswith("#"):
            key, *rest = line.split(maxsplit=1)
            yield title, key, "".join(rest)


def read_tables(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return the tables of a file by title: the first word of each line, and the others."""
    tables: dict[str, dict[str, list[str]]] = {}
    for title, key, rest in rows_of(path):
        tables.setdefault(title, {})[key] = rest.split()
    return tables


def filled(path: Path, values: Mapping[str, object]) -> str:
    """Return the template in a file, in which ``$name`` stands for a value."""
    from string import Template  # few need it, and it compiles an expression

    return Template(path.read_text(encoding="utf-8")).substitute(values)


def as_expression(phrases: Iterable[str]) -> str:
    """Return one expression for phrases, in which ``_`` is a blank; the longest counts."""
    longest_first = sorted(phrases, key=len, reverse=True)
    return "|".join(longest_first).replace("_", r"[ \t\n]{1,3}").replace("'", "['\u2019]")
