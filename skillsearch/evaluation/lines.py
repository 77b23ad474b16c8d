"""Files read line by line, written in one step, and what is said of a line that cannot be used."""

from __future__ import annotations

import codecs
import os
import reprlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from pathlib import Path

from skillsearch.errors import EvaluationError

MAX_FILE_BYTES = 1 << 30
MAX_LINE_BYTES = 16 << 20

_MAX_IDS_COMPARED, _MAX_CHARS_COMPARED, _LEAST_LIKENESS = 5000, 120, 0.8
"""Bounds of the search for the nearest id: difflib takes some seconds for this much, at worst."""

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80
_REPR.maxlevel = 1


def numbered_lines(path: Path, hint: str = "") -> Iterator[tuple[int, str]]:
    r"""Read the lines of a UTF-8 file that are not blank, with their numbers.

    Only ``\n`` and ``\r\n`` end a line. A byte order mark is passed over.

    Args:
        path: The file.
        hint: What to say where it is missing.

    Yields:
        Number, counted from 1, and text without its end.

    Raises:
        EvaluationError: When it is missing or no file, too large, or not UTF-8.
        OSError: When it cannot be read.
    """
    if not path.is_file():
        raise EvaluationError(f"{path} is missing, or no file. {hint}".strip())
    with path.open("rb") as file:
        if (size := os.fstat(file.fileno()).st_size) > MAX_FILE_BYTES:
            raise EvaluationError(
                f"{path} has {size:,} bytes, more than {MAX_FILE_BYTES:,}; split it."
            )
        for number, data in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
            if len(data) > MAX_LINE_BYTES:
                problem = f"this line has more than {MAX_LINE_BYTES:,} bytes; shorten or remove it"
                raise line_error(path, number, problem)
            try:
                text = (data.removeprefix(codecs.BOM_UTF8) if number == 1 else data).decode()
            except UnicodeDecodeError as exc:
                problem = f"{shown(data[:60])} is not UTF-8; save the file as UTF-8"
                raise line_error(path, number, problem) from exc
            if text.strip():
                yield number, text.rstrip("\r\n")


def replace_file(path: Path, parts: Iterable[str]) -> None:
    """Write a text file beside where it belongs and move it there, over one that is there.

    Args:
        path: The file.
        parts: Its text in pieces.

    Raises:
        OSError: When it cannot be written; what was there stays.
    """
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
        temporary = Path(folder) / path.name
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(parts)
        temporary.replace(path)


def line_error(path: Path, number: int, problem: str) -> EvaluationError:
    """Make an error that says where it is; the problem has no full stop."""
    return EvaluationError(f"{path}:{number}: {problem}.")


def unknown_id(value: str, known: AbstractSet[str], place: str) -> str:
    """Say, without a full stop, that an id is none of those known, and which looks like it."""
    nearest: Sequence[str] = ()
    if len(known) <= _MAX_IDS_COMPARED and len(value) <= _MAX_CHARS_COMPARED:
        nearest = get_close_matches(value, known, 1, _LEAST_LIKENESS)
    hint = f" (nearest: {shown(nearest[0])})" if nearest else ""
    return f"{shown(value)} is no _id in {place}{hint}"


def shown(value: object) -> str:
    """Return the repr of a value for an error, cut where it is long."""
    return _REPR.repr(value)
