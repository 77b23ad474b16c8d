"""``skillsearch run``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.app import Failure
from skillsearch.cli.browsing import complete_name
from skillsearch.cli.interrupts import INTERRUPTED
from skillsearch.cli.opening import open_index
from skillsearch.cli.options import CONTEXT, index_dir_option, json_option, verbose_option
from skillsearch.cli.output import emit_json, say
from skillsearch.cli.run_options import (
    read_command,
    read_inputs,
    read_output_dir,
    read_stdin,
    read_timeout,
    read_variables,
)
from skillsearch.cli.run_report import Collected, hints, keep_files, print_executors, print_result
from skillsearch.config import load_settings
from skillsearch.errors import IndexNotFoundError, RootError, SkillSearchError
from skillsearch.execution.commands import CommandPolicy
from skillsearch.execution.executors import EXECUTORS, executor_statuses, select_executor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.types import (
    CEILINGS,
    DEFAULT_TIMEOUT,
    MAX_TIMEOUT,
    Limits,
    OutputSpec,
    RunRequest,
)

if TYPE_CHECKING:
    from skillsearch.config import Settings
    from skillsearch.execution.types import Executor, RunResult
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.library.skill_library import SkillLibrary

TIMED_OUT = 124
FAILED = 125
NOT_STARTED = 127
MAX_STREAM_BYTES = 16 << 20
"""Kept of what the command writes to stdout, and as much of its stderr."""

_COMMAND = "skillsearch.command"


class _Command(click.Command):
    """A command that takes all that stands behind ``--`` as it is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Cut off what stands behind ``--``, then parse the rest."""
        place = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = tuple(args[place + 1 :])
        return super().parse_args(ctx, args[:place])


@click.command("run", cls=_Command, context_settings=CONTEXT)
@click.argument("name", required=False, metavar="NAME", shell_complete=complete_name)
@click.argument("misplaced", nargs=-1, metavar="-- COMMAND...")
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(),
    metavar="ROOT",
    help="Find NAME in this folder, archive or URL, not in the index. Repeatable.",
)
@index_dir_option
@click.option(
    "--cwd",
    metavar="DIR",
    default="",
    help="Where to run, below the skill's folder, which is read-only; work and out are not.",
)
@click.option(
    "--env", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable. Repeatable."
)
@click.option("-i", "--stdin", "takes_stdin", is_flag=True, help="Let it read our stdin, as text.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(),
    metavar="FROM[=TO]",
    help="Copy a file or folder to TO in the workspace. [default TO: work/inputs/] Repeatable.",
)
@click.option(
    "--output",
    "globs",
    multiple=True,
    metavar="GLOB",
    help="Keep files of the workspace, such as 'out/**'; hidden ones only by a name that begins"
    " with the dot, such as 'out/.env'. Repeatable.",
)
@click.option(
    "--output-dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where --output keeps them, under their paths. [default: this folder]",
)
@click.option("--force", is_flag=True, help="Let --output write over files.")
@click.option(
    "--timeout",
    type=float,
    callback=read_timeout,
    metavar="SECONDS",
    default=DEFAULT_TIMEOUT,
    help=f"When it is ended, at most {MAX_TIMEOUT:.0f}. [default: {DEFAULT_TIMEOUT:.0f}]",
)
@click.option(
    "--executor",
    type=click.Choice(EXECUTORS),
    default="auto",
    help="What runs it. [default: auto: namespace, or local where that does not work]",
)
@click.option("--image", metavar="IMAGE", help="What --executor container runs it in.")
@click.option("--require-isolation", is_flag=True, help="Do not run it where nothing isolates it.")
@click.option("--list-executors", is_flag=True, help="List the executors and exit.")
@json_option
@verbose_option
@click.pass_context
def run_command(
    context: click.Context,
    name: str | None,
    misplaced: tuple[str, ...],
    roots: tuple[str, ...],
    index_dir: Path | None,
    cwd: str,
    variables: tuple[str, ...],
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
) -> None:
    """Run a command of the skill called NAME, in a workspace with a copy of the skill.

    COMMAND runs in the copy of the skill's folder and without a shell; for one, write
    -- bash -c 'python3 scripts/fib.py 10 > out/fib.txt'. Its stdout and stderr become ours, as
    text; on stderr follows how it failed, if it did, and which files it left. Then the workspace
    is gone, but for what --output keeps.

    \b
    Exit codes:
      that of COMMAND, or
      2    wrong usage
      124  it timed out
      125  it could not be run, or what it gave not be kept
      127  its program could not be started
      130  interrupted
    """  # noqa: D301 - click reads the control character, not its escape
    if list_executors:
        print_executors(executor_statuses(), as_json=as_json)
        return
    words = read_command(context.meta[_COMMAND], name, misplaced)
    if image is not None and executor != "container":
        raise click.UsageError("--image is for --executor container.")
    specs, folders = read_inputs(inputs)
    env = read_variables(variables)
    collected = Collected()
    with _failing_as_ours():
        settings = load_settings(index_dir=index_dir)
        library = _library(roots, settings)
        document = library.find(name or "")
        chosen = select_executor(executor, require_isolation=require_isolation, image=image)
        kept_in = read_output_dir(output_dir, globs, force=force)
        request = RunRequest(
            skill=library.handle(document),
            folder=Path(document.path).parent,
            command=words,
            cwd=cwd,
            env=env,
            stdin=read_stdin() if takes_stdin else "",
            timeout=timeout,
            inputs=specs,
            outputs=_outputs(globs, inline=as_json) if globs else None,
        )
        policy = CommandPolicy(settings.allowed_commands, settings.denied_commands)
        with closing(_runner(chosen, library, policy, collected, folders)) as runner:
            result = runner.run(request)
        kept = keep_files(collected.files, kept_in, force=force)
    if as_json:
        emit_json(result.to_dict())
    else:
        print_result(result, kept if globs else None)
        for hint in hints(result, request, chosen.capabilities()):
            say(f"hint: {hint}")
    for problem in kept.problems:
        say(f"warning: {problem}")
    is_short = bool(globs) and len(kept.paths) < len(result.output_files)
    context.exit(_exit_code(result) or (FAILED if is_short else 0))


def _library(roots: Sequence[str], settings: Settings) -> SkillLibrary:
    """Return the skills of some roots, or else those of the index."""
    from skillsearch.library.skill_library import SkillLibrary
    from skillsearch.roots.bundles import local_roots

    folders, _ = local_roots(roots)
    if missing := [folder for folder in folders if not folder.is_dir()]:
        raise RootError(f"There is no folder {str(missing[0])!r}; name one for --root that exists.")
    if not folders:
        return SkillLibrary.of_index(_index(settings))
    library = SkillLibrary.from_roots(folders)
    if not library.list():
        raise RootError(
            f"There is no skill to read below {', '.join(map(str, folders))}; name a folder for"
            " --root that holds one with its SKILL.md."
        )
    return library


def _index(settings: Settings) -> SkillIndex:
    """Open the index, or say how to do without."""
    try:
        return open_index(settings)
    except IndexNotFoundError as exc:
        raise IndexNotFoundError(f"{exc}, or run the skill without one: --root FOLDER") from exc


def _runner(
    executor: Executor,
    library: SkillLibrary,
    policy: CommandPolicy,
    collected: Collected,
    folders: Sequence[Path],
) -> SkillRunner:
    """Return what runs the command, with inputs from what the user named and from any skill."""
    return SkillRunner(
        executor,
        artifacts=collected,
        host_folders=folders,
        skill_folder=lambda name: Path(library.find(name).path).parent,
        policy=policy,
        limits=Limits(output_bytes=MAX_STREAM_BYTES),
    )


def _outputs(globs: tuple[str, ...], *, inline: bool) -> OutputSpec:
    """Return what is to be collected, as much of it as can be.

    Hidden files only by a name with its dot: they steer shells, git and editors of the user.
    """
    return OutputSpec(
        globs,
        inline=inline,
        save=True,
        max_files=CEILINGS["max_files"],
        max_file_bytes=CEILINGS["max_file_bytes"],
        max_total_bytes=CEILINGS["max_total_bytes"],
        hidden=False,
    )


@contextmanager
def _failing_as_ours() -> Iterator[None]:
    """Let whatever goes wrong exit with a code that no command of a skill is likely to have."""
    try:
        yield
    except SkillSearchError as exc:
        raise Failure(str(exc), FAILED) from exc
    except KeyboardInterrupt as exc:
        raise Failure("Interrupted; the command was ended.", INTERRUPTED) from exc
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise Failure(f"{exc.strerror or exc}: {exc.filename or 'workspace'}", FAILED) from exc


def _exit_code(result: RunResult) -> int:
    """Return what a run exits with."""
    if result.timed_out:
        return TIMED_OUT
    return NOT_STARTED if result.exit_code < 0 else result.exit_code
