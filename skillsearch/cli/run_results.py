"""The results of a run of a skill's command: printed, and its files kept for the user."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

import click

from skillsearch.cli.options import LOGGER
from skillsearch.cli.output import say, show_record
from skillsearch.execution.executors import FALLBACK, executor_statuses
from skillsearch.execution.types import LINKS, Capabilities, RunRequest, RunResult
from skillsearch.execution.workspaces.staging import folder_name
from skillsearch.text.safe_text import counted
from skillsearch.types.json_values import Json

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
