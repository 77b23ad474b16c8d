"""What a run of a skill's command gave: printed, and kept where the user wants it."""

from __future__ import annotations

import logging
import os
import re
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import click

from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say
from skillsearch.errors import ArtifactNotFoundError
from skillsearch.execution.artifacts import Artifact
from skillsearch.execution.executors import ExecutorStatus
from skillsearch.execution.staging import folder_name
from skillsearch.execution.types import LINKS, ArtifactRef, Capabilities, RunRequest, RunResult
from skillsearch.files.openat import CREATE_FLAGS, open_folder, using
from skillsearch.text.safe_text import one_line
from skillsearch.types import JsonValue

_REPLACE_FLAGS = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_UNSTARTED = (-1, 126, 127)
"""Exit codes: ours, and those of a shell, where a program cannot be started."""
_LAST_CHARS = 4000
"""Of what a command wrote; its end says why it failed."""
_WINDOWS_LINES = re.compile(r"\\r['\u2019]")
_MISSING_MODULE = re.compile("No module named")
_UNWRITABLE = re.compile("Permission denied|Read-only file system")
_UNREACHED = re.compile(
    "(not|n't) resolve|name resolution|Name or service not known|ENOTFOUND|EAI_AGAIN"
    "|Network is unreachable|ENETUNREACH|Connection refused|ECONNREFUSED|Failed to connect"
)
_MISSED = re.compile("not found|no such file|not exist|cannot open|ENOENT", re.IGNORECASE)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of the files that were to be kept.

    Attributes:
        paths: Those that were written.
        problems: What could not be written and why, a line each.
    """

    paths: tuple[Path, ...]
    problems: tuple[str, ...]


def print_result(result: RunResult, kept: Kept | None) -> None:
    """Print what a command wrote where it wrote it, and on stderr what else the user should know.

    Args:
        result: How the run ended.
        kept: Which files were kept; None if none were to be.
    """
    _write(result.stdout, to_stderr=False)
    _write(result.stderr, to_stderr=True)
    end = f"{_end(result)} after {result.duration_ms / 1000:.2f} s; run by: {result.executor}"
    if result.exit_code or result.timed_out:
        say(end)
    else:
        logger.info(end)
    if kept:
        _tell_kept(result, kept)
    else:
        _tell_lost(result)
    for warning in result.warnings:
        say(f"warning: {warning}")


def hints(result: RunResult, request: RunRequest, capabilities: Capabilities) -> list[str]:
    """Say what a command may have failed for that is a matter of how it was run.

    Args:
        result: How the run ended.
        request: What was run.
        capabilities: What the executor kept it from.

    Returns:
        A sentence or two each; none where nothing speaks for it.
    """
    said = result.stdout[-_LAST_CHARS:] + result.stderr[-_LAST_CHARS:]
    found = [] if result.timed_out else _unseen(request, said, capabilities)
    if result.timed_out or not result.exit_code:
        return found
    is_unstarted = result.exit_code in _UNSTARTED
    if is_unstarted:
        where = (
            "Programs are those of the image."
            if result.executor == "container"
            else "Programs are looked for beside skillsearch's Python, in /usr/local/bin, /usr/bin"
            " and /bin."
        )
        found.append(
            f"{where} A script that is not executable, or whose first line is wrong, is run by its"
            " interpreter: -- python3 SCRIPT"
        )
    elif _UNWRITABLE.search(said):
        found.append(
            "The skill's folder is read-only; work/ and out/ are not. To begin in work/ add"
            f" --cwd work; the skill is ../skills/{folder_name(request.skill)} from there."
        )
    if _WINDOWS_LINES.search(said):
        found.append(
            "A script has the line ends of Windows, and takes them for parts of its words; mend it."
        )
    if _MISSING_MODULE.search(said) and result.executor != "container":
        found.append(f"python3 has the modules of {sys.prefix}; install there what is missing.")
    if _UNREACHED.search(said) and not capabilities.network:
        found.append(
            f"The executor {result.executor} has no network: give what is needed by --input. With"
            " --executor local there is one, and no isolation."
        )
    return found


def print_executors(executors: Iterable[ExecutorStatus], *, as_json: bool) -> None:
    """Print which executors there are, and what each does not keep a command from.

    Args:
        executors: What is known of them.
        as_json: True for one JSON object.
    """
    if as_json:
        emit_json({"executors": [_record(each) for each in executors]})
        return
    rows = []
    for each in executors:
        word = "works here" if each.available else "does not work here"
        rows.append((each.name, word, each.reason or f"isolates by: {each.capabilities.isolation}"))
        rows += [(each.name, "not isolated", text) for text in each.capabilities.not_isolated]
    if is_terminal():
        from skillsearch.cli.tables import print_rows

        print_rows(rows)
    else:
        emit_rows(rows)


class Collected:
    """What a run saves as artifacts: held until it is written where the user wants it.

    Attributes:
        files: What each holds, by path below the workspace.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.files: dict[str, bytes] = {}

    def save(self, name: str, data: bytes, media_type: str) -> ArtifactRef:
        """Hold a file; see `ArtifactStore`."""
        self.files[name] = data
        return ArtifactRef(name, 0)

    def load(self, name: str, version: int | None) -> Artifact:
        """Refuse: nothing is kept from one run to the next; see `ArtifactStore`."""
        raise ArtifactNotFoundError(
            f"There is no artifact {one_line(name, 80)!r}: skillsearch run keeps none; name a file"
            " for --input."
        )


def keep_files(files: Mapping[str, bytes], folder: Path, *, force: bool) -> Kept:
    """Write files into a folder of the user.

    Args:
        files: What each holds, by path below the folder; not trusted.
        folder: The folder; made where it is missing.
        force: True to write over files that are there.

    Returns:
        What became of them.
    """
    paths, problems = [], []
    for name, data in files.items():
        try:
            _keep(folder, name, data, force=force)
        except FileExistsError:
            problems.append(f"{name} is there already and was not written; --force does that")
        except OSError as exc:
            problems.append(f"{name} was not written: {exc.strerror or exc}")
        else:
            paths.append(folder / name)
    return Kept(tuple(paths), tuple(problems))


def _end(result: RunResult) -> str:
    """Say how a run ended."""
    if result.timed_out:
        return "timed out"
    return "not started," if result.exit_code < 0 else f"exit code {result.exit_code}"


def _tell_kept(result: RunResult, kept: Kept) -> None:
    """Say where files were written, or that there were none."""
    for path in kept.paths:
        say(f"kept: {path}")
    if not result.output_files:
        say("warning: No file matches --output; the files below a folder are 'FOLDER/**'.")


def _tell_lost(result: RunResult) -> None:
    """Say which files nobody wanted, and how to get them; hidden ones are not meant to be seen."""
    left = [file for file in result.output_files if "/." not in file.name]
    for file in left:
        say(f"not kept: {file.name} ({file.mime_type}, {file.size_bytes:,} bytes)")
    if left:
        say("To keep files add: --output 'out/**'")


def _record(executor: ExecutorStatus) -> dict[str, JsonValue]:
    """Return the JSON form of what is known of an executor."""
    known: dict[str, JsonValue] = {"available": executor.available, "reason": executor.reason}
    return {"name": executor.name, **known, **executor.capabilities.to_dict()}


def _keep(folder: Path, name: str, data: bytes, *, force: bool) -> None:
    """Write a file below a folder, through no link and not out of it."""
    parts = name.split("/")
    if not all(parts) or {".", ".."} & set(parts):
        raise PermissionError(f"its path leads out of {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    with using(open_folder(folder, parts[:-1], make=True)) as inner:
        try:
            _write_new(inner, parts[-1], data)
        except FileExistsError:
            if not force:
                raise
            _replace(inner, parts[-1], data)


def _write_new(folder: int, name: str, data: bytes) -> None:
    """Write a file that is not there yet; the whole of it or nothing."""
    fd = os.open(name, CREATE_FLAGS, 0o666, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except BaseException:
        os.unlink(name, dir_fd=folder)
        raise


def _replace(folder: int, name: str, data: bytes) -> None:
    """Write over a file that is no link; until all is written the old one stays."""
    os.close(os.open(name, _REPLACE_FLAGS, dir_fd=folder))
    temporary = f".{secrets.token_hex(8)}.temporary"
    _write_new(folder, temporary, data)
    try:
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(temporary, dir_fd=folder)
        raise


def _unseen(request: RunRequest, said: str, capabilities: Capabilities) -> list[str]:
    """Return how to give a command those files of the user that it did not find."""
    paths = [Path(word) for word in request.command[1:]] if _MISSED.search(said) else []
    return [
        f"It does not see {path} of yours: add --input {quote(str(path))}, and in the command name"
        f" it inputs/{path.name}."
        for path in paths
        if path.name and path.name in said and _is_unseen(path, request.folder, capabilities)
    ]


def _is_unseen(path: Path, skill: Path, capabilities: Capabilities) -> bool:
    """Tell whether there is a file of the user at a path, and none where a command looks."""
    try:
        if path.is_absolute():
            return path.exists() and not capabilities.reads_outside
        is_its_own = set(path.parts[:1]) <= LINKS.keys() or (skill / path).exists()
        return path.exists() and not is_its_own
    except OSError:  # too long to be a name
        return False


def _write(text: str, *, to_stderr: bool) -> None:
    """Print what a command wrote, a terminal's last line ended for what follows."""
    stream = sys.stderr if to_stderr else sys.stdout
    needs_end = bool(text) and not text.endswith("\n") and stream.isatty()
    click.echo(text, nl=needs_end, err=to_stderr)
