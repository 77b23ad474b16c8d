"""What ``skillsearch run`` is asked for, as typed → as `RunRequest` has it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from skillsearch.errors import ExecutionError
from skillsearch.execution.types import MAX_TIMEOUT, InputSpec
from skillsearch.text.safe_text import one_line

MAX_STDIN_BYTES = 16 << 20

_HOST = "host://"


def read_command(
    words: tuple[str, ...], name: str | None, misplaced: Sequence[str]
) -> tuple[str, ...]:
    """Check that there is a command, and that its first word can be a program.

    Args:
        words: What stands behind ``--``.
        name: The skill.
        misplaced: What stands between the two.

    Returns:
        The words.

    Raises:
        UsageError: When something is missing, misplaced or quoted for a shell.
    """
    if name is None or misplaced or not words:
        raise click.UsageError("Say what to run: skillsearch run NAME -- COMMAND...")
    if len(words) == 1 and len(words[0].split()) > 1:
        raise click.UsageError(
            f"{one_line(words[0], 60)!r} is one word, and would be the name of a program. Leave out"
            " the quotes, or let a shell read it: -- bash -c '...'"
        )
    return words


def read_inputs(texts: Sequence[str]) -> tuple[tuple[InputSpec, ...], tuple[Path, ...]]:
    """Read ``FROM[=TO]``; the last ``=`` is the one that parts them.

    Args:
        texts: What the user named: paths, or references with a scheme.

    Returns:
        The inputs, and the folders of this machine that they lie in: what a user names may be read.

    Raises:
        BadParameter: When a file or folder is not there.
    """
    specs, folders = [], []
    for text in texts:
        source, parted, to = text.rpartition("=")
        source = source if parted else text
        if "://" not in source or source.startswith(_HOST):
            path = _existing(source.removeprefix(_HOST))
            folders.append(path.parent)
            source = f"{_HOST}{path}"
        specs.append(InputSpec(source, to if parted else ""))
    return tuple(specs), tuple(folders)


def read_variables(texts: Sequence[str]) -> dict[str, str]:
    """Read ``NAME=VALUE``; the first ``=`` is the one that parts them.

    Args:
        texts: What the user wrote.

    Returns:
        Values by name; of two with one name the last.

    Raises:
        BadParameter: When a name or the sign is missing.
    """
    pairs = [text.partition("=") for text in texts]
    for name, parted, _ in pairs:
        if not (name and parted):
            raise click.BadParameter(f"{name!r} wants NAME=VALUE.", param_hint="--env")
    return {name: value for name, _, value in pairs}


def read_timeout(_context: click.Context, _option: click.Parameter, seconds: float) -> float:
    """Refuse what is no time to wait, ``nan`` included."""
    if 0 < seconds <= MAX_TIMEOUT:
        return seconds
    raise click.BadParameter(f"{seconds:g} is not above 0 and at most {MAX_TIMEOUT:g}.")


def read_output_dir(folder: Path | None, globs: Sequence[str], *, force: bool) -> Path:
    """Check that outputs can be kept in a folder, before the command takes its time.

    Args:
        folder: The folder, made where it is missing; None for the current one.
        globs: What is to be kept there.
        force: Whether files may be written over.

    Returns:
        The folder.

    Raises:
        UsageError: When nothing is to be kept, but how is said.
        BadParameter: When the folder cannot be made or written to.
    """
    if not globs and (folder or force):
        raise click.UsageError("--output-dir and --force are for what --output GLOB keeps.")
    if not globs:
        return Path()
    folder = folder or Path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problem = "" if os.access(folder, os.W_OK | os.X_OK) else "it cannot be written to"
    except OSError as exc:
        problem = exc.strerror or str(exc)
    if problem:
        raise click.BadParameter(
            f"Nothing can be kept in {str(folder)!r}: {problem}. Name another folder.",
            param_hint="--output-dir",
        )
    return folder


def read_stdin() -> str:
    """Read our stdin to its end.

    Returns:
        Its text; none where it is closed.

    Raises:
        ExecutionError: When it is no text, or more than a command can be given so.
    """
    data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1) if sys.stdin else b""
    if len(data) > MAX_STDIN_BYTES:
        raise ExecutionError(f"stdin has more than {MAX_STDIN_BYTES:,} bytes; use --input FILE.")
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise ExecutionError("stdin is no UTF-8 text; use --input FILE.") from exc


def _existing(text: str) -> Path:
    """Return the path of a file or folder that the user named, links resolved."""
    try:
        path = Path(text).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        path = Path("/")
    if text and path.name:
        return path
    raise click.BadParameter(
        f"{text!r} cannot be copied; name a file or folder, and for an '=' in its name add"
        " another at the end.",
        param_hint="--input",
    )
