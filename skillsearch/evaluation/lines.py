"""Text files read line by line or replaced in one step, and errors that name a line."""

from __future__ import annotations

import codecs
import json
import os
import re
import reprlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from skillsearch.errors import EvaluationError
from skillsearch.system_errors import reason_of

MAX_FILE_BYTES = 1 << 30
MAX_LINE_BYTES = 16 << 20

_MAX_IDS_COMPARED, _MAX_CHARS_COMPARED, _LEAST_LIKENESS = 5000, 120, 0.8
"""Bounds of the search for the nearest id: difflib takes some seconds for this much, at worst."""

_MAX_NAME_BYTES = 80  # so two names, a number and a suffix fit into the 255 bytes of a file name
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80
_REPR.maxlevel = 1


def numbered_lines(path: Path, hint: str = "") -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a UTF-8 file that are not blank, with their numbers from 1.

    Only ``\n`` and ``\r\n`` end a line, a byte order mark is skipped. Raises EvaluationError for a
    file that cannot be used; `hint` is added if it is missing.
    """
    if not path.is_file():
        raise EvaluationError(f"{path} is missing or not a file. {hint}".strip())
    with path.open("rb") as file:
        if (size := os.fstat(file.fileno()).st_size) > MAX_FILE_BYTES:
            most = f"{MAX_FILE_BYTES:,}"
            raise EvaluationError(f"{path} has {size:,} bytes, more than {most}; split it.")
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


def numbered_objects(path: Path, hint: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of a file, one a line, with their numbers; fails as the above does."""
    for number, text in numbered_lines(path, hint):
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as exc:
            problem = f"{shown(text)} is not JSON ({getattr(exc, 'msg', exc)})"
            raise line_error(path, number, f"{problem}; write one object a line") from exc
        if not isinstance(record, dict):
            problem = f'{shown(record)} is not an object like {{"key": …}}; write one a line'
            raise line_error(path, number, problem)
        yield number, record


def replace_file(path: Path, parts: Iterable[str]) -> None:
    """Write a text file, given in pieces, in one step.

    It keeps its mode, and is written to where a link leads; what is no file, such as a pipe, gets
    the text as it comes. An EvaluationError if it cannot be written; the old one is then left.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(parts)
            return
        target = Path(os.path.realpath(path))
        with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as folder:
            temporary = Path(folder) / target.name
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(parts)
            with suppress(FileNotFoundError):
                shutil.copymode(target, temporary)
            temporary.replace(target)
    except (OSError, ValueError) as exc:
        problem = f"{path} cannot be written: {reason_of(exc)}"
        raise EvaluationError(f"{problem}; correct that, or name another folder.") from exc


def file_name(text: str) -> str:
    """Return a name that every file system accepts; different names may become equal."""
    plain = re.sub(r"[^\w.-]+", "_", text).encode()[:_MAX_NAME_BYTES].decode("utf-8", "ignore")
    return plain.strip("._") or "_"


def line_error(path: Path, number: int, problem: str) -> EvaluationError:
    """Return an error that names a line; `problem` has no full stop."""
    return EvaluationError(f"{path}:{number}: {problem}.")


def unknown_id(value: str, ids: AbstractSet[str], file: str) -> str:
    """Return a sentence without a full stop: an id is unknown, and which known one is like it."""
    nearest: Sequence[str] = ()
    if len(ids) <= _MAX_IDS_COMPARED and len(value) <= _MAX_CHARS_COMPARED:
        nearest = get_close_matches(value, ids, 1, _LEAST_LIKENESS)
    hint = f" (nearest: {shown(nearest[0])})" if nearest else ""
    return f"{shown(value)} is not an _id in {file}{hint}"


def shown(value: object) -> str:
    """Return the repr of a value for an error message, shortened."""
    return _REPR.repr(value)
