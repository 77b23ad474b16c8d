"""The results of a run of a skill's command: printed, and its files kept for the user."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from shlex import quote

import click

from skillsearch.cli.options import LOGGER
from skillsearch.cli.output import say, show_record
from skillsearch.errors import ArtifactNotFoundError
from skillsearch.execution.executors import FALLBACK, executor_statuses
from skillsearch.execution.types import LINKS, ArtifactRef, Capabilities, RunRequest, RunResult
from skillsearch.execution.workspaces.artifacts import Artifact
from skillsearch.execution.workspaces.files import replacing
from skillsearch.execution.workspaces.staging import folder_name
from skillsearch.files.openat import CREATE_FLAGS, open_folder, using
from skillsearch.text.safe_text import counted, one_line
from skillsearch.types.json_values import Json

_FORCE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_UNSTARTED = (-1, 126, 127)
"""Exit codes if a program cannot be started: ours, and a shell's."""
_LAST_CHARS = 4000
"""The end of a command's output says why it failed."""
_WINDOWS_LINES = re.compile(r"\\r['\u2019]")
_MISSING_MODULE = re.compile("No module named")
_UNWRITABLE = re.compile("Permission denied|Read-only file system")
_UNREACHED = re.compile(
    "(not|n't) resolve|name resolution|Name or service not known|ENOTFOUND|EAI_AGAIN"
    "|Network is unreachable|ENETUNREACH|Connection refused|ECONNREFUSED|Failed to connect"
)
_MISSED = re.compile("not found|no such file|not exist|cannot open|ENOENT", re.IGNORECASE)


class MemoryArtifactStore:
    """An `ArtifactStore` that holds the files of one run, by path below the workspace."""

    def __init__(self) -> None:
        """Begin without files."""
        self.files: dict[str, bytes] = {}

    def save(self, name: str, data: bytes, media_type: str) -> ArtifactRef:
        """Hold a file."""
        self.files[name] = data
        return ArtifactRef(name, 0)

    def load(self, name: str, version: int | None) -> Artifact:
        """Raise an ArtifactNotFoundError: nothing is kept from one run to the next."""
        raise ArtifactNotFoundError(
            f"There is no artifact {one_line(name, 80)!r}: skillsearch run keeps none; name a file"
            " for --input."
        )


def show_result(result: RunResult, written: list[Path] | None, hints: Iterable[str]) -> None:
    """Print the output of a command, and on stderr how it ended and which files were `written`."""
    for text, stream in ((result.stdout, sys.stdout), (result.stderr, sys.stderr)):
        needs_end = bool(text) and not text.endswith("\n") and stream.isatty()
        click.echo(text, nl=needs_end, err=stream is sys.stderr)
    end = "not started," if result.exit_code < 0 else f"exit code {result.exit_code}"
    end = "timed out" if result.timed_out else end
    tell = say if result.exit_code or result.timed_out else LOGGER.info
    tell(f"{end} after {result.duration_ms / 1000:.2f} s; run by: {result.executor}")
    lines = [*_files(result, written), *(f"warning: {warning}" for warning in result.warnings)]
    for line in (*lines, *(f"hint: {hint}" for hint in hints)):
        say(line)


def _files(result: RunResult, written: list[Path] | None) -> list[str]:
    if written is not None:
        none = "warning: No file matches --output; the files below a folder are 'FOLDER/**'."
        return [f"kept: {path}" for path in written] + ([] if result.output_files else [none])
    lines = [
        f"not kept: {file.name} ({file.mime_type}, {counted(file.size_bytes, 'byte')})"
        for file in result.output_files
        if "/." not in file.name
    ]
    return lines + (["To keep files add: --output 'out/**'"] if lines else [])


def find_hints(result: RunResult, request: RunRequest, capabilities: Capabilities) -> list[str]:
    """Return possible reasons of a failure that depend on how the command was run, a text each."""
    output = result.stdout[-_LAST_CHARS:] + result.stderr[-_LAST_CHARS:]
    unseen = []
    if not result.timed_out and _MISSED.search(output):
        unseen = [
            f"The command cannot see your {path}: add --input {quote(str(path))}, and in the"
            f" command call it inputs/{path.name}."
            for path in map(Path, request.command[1:])
            if path.name and path.name in output and _is_unseen(path, request.folder, capabilities)
        ]
    if result.timed_out or not result.exit_code:
        return unseen
    in_container = capabilities.isolation == "container"
    where = "looked for next to skillsearch's Python, in /usr/local/bin, /usr/bin and /bin"
    where = "those of the image" if in_container else where
    is_unstarted = result.exit_code in _UNSTARTED
    hints = {
        f"Programs are {where}. If a script is not executable or its first line is wrong, run it "
        "by its interpreter: -- python3 SCRIPT": is_unstarted,
        "The skill's folder is read-only; work/ and out/ are not. To begin in work/ add --cwd work;"
        f" the skill is ../skills/{folder_name(request.skill)} from there.": not is_unstarted
        and _UNWRITABLE.search(output),
        "A script has Windows line endings, which Unix programs misread; fix it.": (
            _WINDOWS_LINES.search(output)
        ),
        f"python3 has the modules of {sys.prefix}; install there what is missing.": (
            not in_container and _MISSING_MODULE.search(output)
        ),
        f"The executor {result.executor} has no network: pass what is needed by --input. With"
        f" --executor {FALLBACK} there is one, and no isolation.": not capabilities.network
        and _UNREACHED.search(output),
    }
    return unseen + [hint for hint, fits in hints.items() if fits]


def _is_unseen(path: Path, skill: Path, capabilities: Capabilities) -> bool:
    """Return whether the user has a file at a path, and the command has none there."""
    try:
        if path.is_absolute():
            return path.exists() and not capabilities.reads_outside
        is_its_own = set(path.parts[:1]) <= LINKS.keys() or (skill / path).exists()
        return path.exists() and not is_its_own
    except OSError:  # too long to be a name
        return False


def show_executors(*, as_json: bool) -> None:
    """Print which executors there are, and what each does not isolate a command from."""
    records: list[Json] = []
    rows = []
    for name, available, reason, reach in executor_statuses():
        records.append({"name": name, "available": available, "reason": reason, **reach.to_dict()})
        state = "works here" if available else "does not work here"
        rows.append((name, state, reason or f"isolates by: {reach.isolation}"))
        rows += [(name, "not isolated", text) for text in reach.not_isolated]
    show_record({"executors": records}, rows, as_json=as_json)


def keep_files(
    files: Mapping[str, bytes], folder: Path, *, force: bool
) -> tuple[list[Path], list[str]]:
    """Write files, by untrusted paths, into a folder of the user; with ``force`` over others.

    Returns the paths that were written, and why others were not.
    """
    written, problems = [], []
    for name, data in files.items():
        try:
            _keep(folder, name, data, force=force)
            written.append(folder / name)
        except FileExistsError:
            problems.append(f"{name} was not written: it exists; --force overwrites it")
        except OSError as exc:
            problems.append(f"{name} was not written: {exc.strerror or exc}")
    return written, problems


def _keep(folder: Path, name: str, data: bytes, *, force: bool) -> None:
    """Write a file below a folder in one step, through no link and not out of it."""
    parts = name.split("/")
    if not all(parts) or {".", ".."} & set(parts):
        raise PermissionError(f"its path leads out of {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    with (
        using(open_folder(folder, parts[:-1], make=True)) as inner,
        replacing(inner, parts[-1]) as temporary,
    ):
        with os.fdopen(os.open(temporary, CREATE_FLAGS, 0o666, dir_fd=inner), "wb") as file:
            file.write(data)
        # What is replaced is an empty file of ours, or with force neither link nor folder.
        flags = _FORCE_FLAGS if force else CREATE_FLAGS
        os.close(os.open(parts[-1], flags, 0o666, dir_fd=inner))
