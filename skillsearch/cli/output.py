"""Where output goes: data to stdout, everything else to stderr, both safe to show."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import logging
import os
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from skillsearch.settings.environ import no_color
from skillsearch.text.safe_text import all_visible, counted, one_line
from skillsearch.types.indexing import Progress
from skillsearch.types.skills import Diagnostic

_SHOWN_DIAGNOSTICS = 10
_STAGES = {
    "read": "Reading skills",
    "embed": "Embedding texts",
    "compare": "Comparing skills",
    "train": "Tuning",
    "search": "Searching",
}

FORMS = "skillsearch.forms"
"""The key of the names of ``--header`` and ``--json``, if used, in the context of click."""
SILENT_SECONDS = 30.0
"""A run without a terminal says how far it is this often."""


def prepare_streams() -> None:
    """Make output robust: characters the terminal cannot show are written as escapes.

    Reading from a closed stdin is wrong usage, writing to a closed stdout an error; what cannot be
    written to stderr is discarded. No file opened later gets the number of a closed stream.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Closed()))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed(), encoding="utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    if isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        raw, encoding = _Heedless(sys.stderr.fileno(), "w", closefd=False), sys.stderr.encoding
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), encoding, line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Heedless(io.FileIO):
    """A stderr that swallows write errors: a closed pipe or full disk does not stop a command."""

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            return super().write(data)
        return len(data)


class _Closed(io.RawIOBase):
    """A stream that was closed before the program began; only its use is an error."""

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, _buffer: object) -> NoReturn:
        raise click.UsageError("stdin is closed; connect it to a file or a pipe.")

    def write(self, _data: object) -> NoReturn:
        raise OSError(errno.EBADF, "stdout is closed")


def is_terminal() -> bool:
    """Return whether a person reads stdout, who wants tables and colours."""
    return sys.stdout.isatty()


def emit_json(record: object) -> None:
    """Print one JSON value on one line, without hidden characters in its texts."""
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    click.echo(json.dumps(all_visible(record), ensure_ascii=not is_unicode))


def with_header() -> bool:
    """Return whether lines for programs begin with the names of their columns."""
    context = click.get_current_context(silent=True)
    return context is not None and "header" in context.meta.get(FORMS, ())


def emit_rows(rows: Iterable[Sequence[object]], columns: Sequence[str] = ()) -> None:
    """Print rows for other programs: one row a line, columns separated by tabs.

    Blanks of any kind in a cell, tabs and line ends too, become single ones.
    """
    rows = [columns, *rows] if columns and with_header() else rows
    lines = ["\t".join(one_line(str(cell)) for cell in row) for row in rows]
    if lines:
        click.echo("\n".join(lines))


def show_rows(
    rows: Iterable[Sequence[object]],
    headers: Sequence[str] = (),
    *,
    is_cut: bool = False,
    columns: Sequence[str] = (),
) -> None:
    """Print rows as a table on a terminal, with ``is_cut`` a line each; else as `emit_rows`."""
    if is_terminal():
        from skillsearch.cli.tables import print_lines, print_rows

        (print_lines if is_cut else print_rows)(rows, headers)
    else:
        emit_rows(rows, columns)


def show_record(
    record: object,
    rows: Iterable[Sequence[object]],
    columns: Sequence[str] = ("key", "value"),
    *,
    as_json: bool,
) -> None:
    """Print one JSON object, or rows that say the same."""
    if as_json:
        emit_json(record)
    else:
        show_rows(rows, columns=columns)


def say(message: str, *, err: bool = True) -> None:
    """Print a message on stderr or stdout, wrapped on a terminal; nothing if it is empty."""
    line = one_line(message)
    if not line:
        return
    if (sys.stderr if err else sys.stdout).isatty():
        width = shutil.get_terminal_size().columns
        line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
    click.echo(line, err=err)


class StderrHandler(logging.Handler):
    """Shows the package's log records, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        say(f"{record.levelname.lower()}: {record.getMessage()}")


def describe(item: Diagnostic) -> str:
    """Format a diagnostic the way editors can jump to."""
    position = item.path if item.line is None else f"{item.path}:{item.line}"
    return f"{position}: {item.severity} {item.code} {item.message}"


def lost(count: int) -> str:
    """Return the beginning of a summary if skills are lost to the user."""
    return f"lost: {counted(count, 'skill')}; " if count else ""


def in_words(counts: Mapping[str, int]) -> str:
    """Return how many diagnostics of each severity there are, in words."""
    return ", ".join(f"{severity}s: {count}" for severity, count in counts.items())


def in_mb(size: int) -> str:
    """Return a number of bytes as it is shown."""
    return f"{size / 1e6:.1f} MB"


def show_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Show the first errors and the warnings whose code occurs once; count the rest."""
    kinds = Counter((diagnostic.severity, diagnostic.code) for diagnostic in diagnostics)
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    warnings = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "warning"]
    rare = [diagnostic for diagnostic in warnings if kinds["warning", diagnostic.code] == 1]
    for diagnostic in [*errors, *rare][:_SHOWN_DIAGNOSTICS]:
        say(describe(diagnostic))
        kinds[diagnostic.severity, diagnostic.code] -= 1
    for severity in ("error", "warning", "note"):
        counts = [
            f"{code} {n}" for (kind, code), n in kinds.most_common() if n and kind == severity
        ]
        if counts:
            say(f"{severity}s: {', '.join(counts)} (--json lists all)")


@contextlib.contextmanager
def progress_bars() -> Iterator[Progress]:
    """Show progress bars if stderr is a terminal; else a line there now and then."""
    if not sys.stderr.isatty():
        yield _progress_lines()
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description:<16}"),
        progress.BarColumn(bar_width=30),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(compact=True),
    )
    console = Console(stderr=True, no_color=no_color())
    with progress.Progress(*columns, console=console, transient=True) as bars:
        tasks = {stage: bars.add_task(text, visible=False) for stage, text in _STAGES.items()}

        def update(stage: str, done: int, total: int) -> None:
            bars.update(tasks[stage], completed=done, total=total, visible=True)

        yield update


def _progress_lines() -> Progress:
    """Return a callback that reports how far a long run is, so that a log shows it alive."""
    said_at = time.monotonic()

    def update(stage: str, done: int, total: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= SILENT_SECONDS:
            said_at = time.monotonic()
            say(f"{_STAGES[stage]}: {done:,} of {total:,}")

    return update
