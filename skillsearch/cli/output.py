"""Where output goes: data to stdout, everything else to stderr, both safe to show."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import click

from skillsearch.text.safe_text import all_visible, one_line
from skillsearch.types import JsonValue


def prepare_streams() -> None:
    """Let nothing stop the output: what the terminal cannot show is written as an escape.

    Reading from a closed stdin is wrong usage, writing to a closed stdout a fault; a closed stderr
    leads nowhere. No file that is opened later takes the number of a closed stream.
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Closed(io.RawIOBase):
    """Stands for a stream that was closed before the program began."""

    def readable(self) -> bool:
        """Return True: only who reads is told."""
        return True

    def writable(self) -> bool:
        """Return True: only who writes is told."""
        return True

    def readinto(self, _buffer: object) -> NoReturn:
        """Refuse to read."""
        raise click.UsageError("stdin is closed; connect it to a file or a pipe.")

    def write(self, _data: object) -> NoReturn:
        """Refuse to write."""
        raise OSError(errno.EBADF, "stdout is closed")


def is_terminal() -> bool:
    """Return whether a person reads stdout, who wants tables and colours."""
    return sys.stdout.isatty()


def emit_json(record: JsonValue, *, indent: int | None = None) -> None:
    """Print one JSON value on a line of its own, without hidden characters in its texts."""
    record = all_visible(record)
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    click.echo(json.dumps(record, ensure_ascii=not is_unicode, indent=indent))


def emit_rows(rows: Iterable[Sequence[object]]) -> None:
    """Print rows for other programs: columns parted by tabs, one row a line."""
    lines = ["\t".join(one_line(str(cell)) for cell in row) for row in rows]
    if lines:
        click.echo("\n".join(lines))


def say(message: str) -> None:
    """Tell the user something that is no data, wrapped where a terminal shows it."""
    line = one_line(message)
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
    click.echo(line, err=True)


class StderrHandler(logging.Handler):
    """Shows what the package logs."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line for a record."""
        say(f"{record.levelname.lower()}: {record.getMessage()}")
