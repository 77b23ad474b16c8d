"""``skillsearch run``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from skillsearch.cli import options, run_results
from skillsearch.cli.app import Failure, code_of, refuse
from skillsearch.cli.browse import complete_name
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import emit_json, say
from skillsearch.errors import (
    ExecutionError,
    IndexNotFoundError,
    RootError,
    SkillSearchError,
    WorkspaceError,
)
from skillsearch.execution import types
from skillsearch.execution.executors import FALLBACK, SAFEST, executor_names, select_executor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.workspaces.globs import check_patterns
from skillsearch.execution.workspaces.keeping import MemoryArtifactStore, keep_files
from skillsearch.index.opening import open_fresh
from skillsearch.settings.environ import INTERRUPTED
from skillsearch.text.safe_text import one_line

if TYPE_CHECKING:
    from skillsearch.library.skill_library import SkillLibrary

TIMED_OUT = 124
FAILED = 125
NOT_STARTED = 127
MAX_STREAM_BYTES = 16 << 20
"""Kept of the command's stdout, and as much of its stderr."""
MAX_STDIN_BYTES = 16 << 20
_HOST = "host://"
_WITH_IMAGE = " or ".join(executor_names(with_image=True))


class _Command(click.Command):
    """A command that takes everything after ``--`` as it is, as ``words``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Cut off everything after ``--``, and parse the rest."""
        end = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:end])
        ctx.params["words"] = tuple(args[end + 1 :])
        return rest


def _read_variables(
    _context: click.Context, _option: click.Parameter, texts: Sequence[str]
) -> dict[str, str]:
    """Read ``NAME=VALUE``, split at the first ``=``; of two with one name the last counts."""
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise click.BadParameter(f"{name!r} is not of the form NAME=VALUE.")
    return {name: value for name, _, value in pairs}


def _read_globs(
    _context: click.Context, _option: click.Parameter, globs: tuple[str, ...]
) -> tuple[str, ...]:
    try:
        check_patterns(globs)
    except WorkspaceError as exc:
        raise click.BadParameter(str(exc)) from exc
    return globs


@click.command("run", _Command)
@click.argument("name", required=False, metavar="NAME", shell_complete=complete_name)
@click.argument("misplaced", nargs=-1, metavar="-- COMMAND...")
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=options.NamedPath(readable=False),
    metavar="ROOT",
    help="Find NAME in this folder, archive or URL, not in the index. Repeatable.",
)
@options.index_dir
@click.option(
    "--cwd",
    default="",
    metavar="DIR",
    help="Where to run, below the skill's folder, which is read-only; work and out are writable.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    callback=_read_variables,
    metavar="NAME=VALUE",
    help="Set a variable. Repeatable.",
)
@click.option("-i", "--stdin", "takes_stdin", is_flag=True, help="Pass our stdin on, as text.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=options.NamedPath(readable=False),
    metavar="FROM[=TO]",
    help="Copy a file or folder to TO in the workspace. [default TO: work/inputs/] Repeatable.",
)
@click.option(
    "--output",
    "globs",
    multiple=True,
    callback=_read_globs,
    metavar="GLOB",
    help="Keep files of the workspace, such as 'out/**'; hidden files only if GLOB has the dot,"
    " such as 'out/.env'. Repeatable.",
)
@click.option(
    "--output-dir",
    type=options.FOLDER,
    metavar="DIR",
    help="Where --output keeps them, under their paths. [default: this folder]",
)
@click.option("--force", is_flag=True, help="Let --output overwrite files.")
@click.option(
    "--timeout",
    type=options.Number(0, round(types.MAX_TIMEOUT), min_open=True),
    default=types.DEFAULT_TIMEOUT,
    metavar="SECONDS",
    help=f"Time limit. [default: {types.DEFAULT_TIMEOUT:.0f}]",
)
@click.option(
    "--executor",
    type=click.Choice(executor_names()),
    default="auto",
    help=f"Its executor. [default: auto: {SAFEST}, or {FALLBACK} if that does not work]",
)
@click.option("--image", metavar="IMAGE", help=f"Image for --executor {_WITH_IMAGE}.")
@click.option("--require-isolation", is_flag=True, help="Refuse to run without isolation.")
@click.option("--list-executors", is_flag=True, help="List the executors and exit.")
@options.as_json(lambda: options.models.RUN)
def run_command(
    name: str | None,
    misplaced: tuple[str, ...],
    words: tuple[str, ...],
    roots: tuple[str, ...],
    cwd: str,
    variables: dict[str, str],
    takes_stdin: bool,
    inputs: tuple[str, ...],
    globs: tuple[str, ...],
    output_dir: Path | None,
    force: bool,
    timeout: float,
    executor: str,
    image: str | None,
    require_isolation: bool,
    list_executors: bool,
    as_json: bool,
) -> int:
    """Run a command of the skill NAME in a workspace.

    COMMAND runs in a copy of the skill's folder and without a shell; to use a shell, write
    -- bash -c 'python3 scripts/fib.py 10 > out/fib.txt'. Its stdout and stderr become ours, as
    text; stderr then says how it failed, if it did, and which files it left. The workspace is
    removed, except for what --output keeps.

    \b
    Exit codes:
      the code of COMMAND, or
      2    wrong usage
      124  it timed out
      125  it could not be run, or its files could not be kept
      127  its program could not be started
      130  interrupted
    """  # noqa: D301 - click reads the control character, not its escape
    if list_executors:
        run_results.show_executors(as_json=as_json)
        return 0
    outputs = _Outputs(globs, output_dir, force)
    skill = _check_usage(name, misplaced, words, outputs, executor, image)
    with _failures():
        input_specs, folders = _read_inputs(inputs)
        library = _library(roots)
        document = library.find(skill)
        chosen = select_executor(executor, require_isolation=require_isolation, image=image)
        outputs.make_folder()
        request = types.RunRequest(
            skill=library.handle(document),
            folder=Path(document.path).parent,
            command=words,
            cwd=cwd,
            env=variables,
            stdin=read_stdin() if takes_stdin else "",
            timeout=timeout,
            inputs=input_specs,
            outputs=outputs.spec(inline=as_json),
        )
        outcome = _run(request, chosen, library, folders, outputs)
    return _show(outcome, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Which files of a run --output keeps, and where; none without a glob."""

    globs: tuple[str, ...]
    folder: Path | None
    force: bool

    def check(self) -> None:
        """Refuse options on how to keep files if none are kept."""
        refuse(
            not self.globs and (self.folder or self.force),
            "--output-dir and --force are for what --output GLOB keeps.",
        )

    def spec(self, *, inline: bool) -> types.OutputSpec | None:
        """Return which files to keep: as much as possible, hidden ones only if a glob has the dot.

        Hidden files configure shells and git.
        """
        if not self.globs:
            return None
        return types.OutputSpec(
            self.globs,
            inline=inline,
            save=True,
            hidden=False,
            max_files=types.CEILINGS["max_files"],
            max_file_bytes=types.CEILINGS["max_file_bytes"],
            max_total_bytes=types.CEILINGS["max_total_bytes"],
        )

    def make_folder(self) -> None:
        """Check that files can be kept in the folder, before the command takes its time."""
        if not self.globs:
            return
        folder = self.folder or Path()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            problem = "" if os.access(folder, os.W_OK | os.X_OK) else "it is not writable"
        except OSError as exc:
            problem = exc.strerror or str(exc)
        if problem:
            raise click.BadParameter(
                f"Nothing can be kept in {str(folder)!r}: {problem}. Name another folder.",
                param_hint="--output-dir",
            )


class _Outcome(NamedTuple):
    """What came of a run: its result, which files were kept, and what else to say."""

    result: types.RunResult
    written: list[Path] | None
    problems: list[str]
    hints: list[str]


def _check_usage(
    name: str | None,
    misplaced: Sequence[str],
    words: Sequence[str],
    outputs: _Outputs,
    executor: str,
    image: str | None,
) -> str:
    """Return the name of the skill to run; refuse arguments that cannot be meant."""
    if name is None or misplaced or not words:
        raise click.UsageError("Say what to run: skillsearch run NAME -- COMMAND...")
    refuse(
        len(words) == 1 and len(words[0].split()) > 1,
        f"{one_line(words[0], 60)!r} is one word, and would be the name of a program. Leave"
        " out the quotes, or let a shell read it: -- bash -c '...'",
    )
    refuse(
        image is not None and executor not in executor_names(with_image=True),
        f"--image is for --executor {_WITH_IMAGE}.",
    )
    outputs.check()
    return name


def _run(
    request: types.RunRequest,
    executor: types.Executor,
    library: SkillLibrary,
    folders: Sequence[Path],
    outputs: _Outputs,
) -> _Outcome:
    """Run a command, whose inputs may lie in some folders, and keep the files that it left."""
    collected = MemoryArtifactStore()
    runner = SkillRunner(
        executor,
        artifacts=collected,
        host_folders=folders,
        skill_folder=lambda skill: Path(library.find(skill).path).parent,
        limits=types.RunLimits(output_bytes=MAX_STREAM_BYTES),
    )
    with closing(runner):
        result = runner.run(request)
    folder = outputs.folder or Path()
    written, problems = keep_files(collected.files, folder, force=outputs.force)
    hints = run_results.find_hints(result, request, executor.capabilities())
    return _Outcome(result, written if outputs.globs else None, problems, hints)


def _show(outcome: _Outcome, *, as_json: bool) -> int:
    """Show the result of a run, and return its exit code."""
    result, written, problems, hints = outcome
    if as_json:
        emit_json(result.to_dict())
    else:
        run_results.show_result(result, written, hints)
    for problem in problems:
        say(f"warning: {problem}")
    if result.timed_out:
        return TIMED_OUT
    if result.exit_code < 0:
        return NOT_STARTED
    is_short = written is not None and len(written) < len(result.output_files)
    return FAILED if is_short and not result.exit_code else result.exit_code


@contextmanager
def _failures() -> Iterator[None]:
    """Exit on an error with a code that a command is unlikely to use, or with 2 for wrong usage."""
    try:
        yield
    except SkillSearchError as exc:
        raise Failure(str(exc), 2 if code_of(exc) == 2 else FAILED) from exc
    except KeyboardInterrupt as exc:
        raise Failure("Interrupted; the command was stopped.", INTERRUPTED) from exc
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise Failure(f"{exc.strerror or exc}: {exc.filename or 'workspace'}", FAILED) from exc


def _read_inputs(texts: Sequence[str]) -> tuple[tuple[types.InputSpec, ...], tuple[Path, ...]]:
    """Read ``FROM[=TO]``, split at the last ``=``: the inputs, and the folders they lie in."""
    specs, folders = [], []
    for text in texts:
        source, equals, to = text.rpartition("=")
        source = source if equals else text
        if "://" not in source or source.startswith(_HOST):
            source = source.removeprefix(_HOST)
            try:
                path = Path(source).resolve(strict=True)
            except (OSError, ValueError, RuntimeError):
                path = Path("/")
            if not source or not path.name:
                raise click.BadParameter(
                    f"{source!r} is neither a file nor a folder that can be copied; if its name "
                    "has an '=', add another at the end.",
                    param_hint="--input",
                )
            folders.append(path.parent)  # what a user names may be read
            source = f"{_HOST}{path}"
        specs.append(types.InputSpec(source, to if equals else ""))
    return tuple(specs), tuple(folders)


def _library(roots: Sequence[str]) -> SkillLibrary:
    from skillsearch.library.skill_library import SkillLibrary
    from skillsearch.roots.bundles import local_roots

    folders, _ = local_roots(roots)
    if missing := [folder for folder in folders if not folder.is_dir()]:
        raise RootError(f"There is no folder {str(missing[0])!r}; name one for --root that exists.")
    if not folders:
        try:
            return SkillLibrary.of_index(open_fresh(read_settings(), say))
        except IndexNotFoundError as exc:
            hint = "or run the skill without one: --root FOLDER"
            raise IndexNotFoundError(f"{exc}, {hint}") from exc
    library = SkillLibrary.from_roots(folders)
    if not library.list():
        raise RootError(
            f"There is no readable skill below {', '.join(map(str, folders))}; name a folder for"
            " --root that holds a skill with its SKILL.md."
        )
    return library


def read_stdin() -> str:
    """Return all of our stdin as text; empty if it is closed.

    An ExecutionError if it is too long or not UTF-8.
    """
    data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1) if sys.stdin else b""
    if len(data) > MAX_STDIN_BYTES:
        raise ExecutionError(f"stdin has more than {MAX_STDIN_BYTES:,} bytes; use --input FILE.")
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise ExecutionError("stdin is not UTF-8 text; use --input FILE.") from exc
