"""The group of commands, and how errors become exit codes."""

from __future__ import annotations

import errno
import importlib
import io
import logging
import sys
import textwrap
import traceback
from collections.abc import Sequence
from functools import partial
from typing import IO, Any, NoReturn

import click

from skillsearch import errors, system_errors
from skillsearch._version import __version__
from skillsearch.cli.commands import COMMANDS
from skillsearch.cli.interrupts import leave_on_interrupt, raise_on_interrupt
from skillsearch.cli.options import LOGGER, VerboseOption, is_interactive
from skillsearch.cli.output import StderrHandler, prepare_streams, say
from skillsearch.settings.environ import INTERRUPTED, use_one_blas_thread
from skillsearch.text.near import near
from skillsearch.text.safe_text import one_line

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_MAX_STDIN_BYTES = 4 << 20
_WHOLE = 1 << 20
"""More characters than the help of a command has."""
_ALIASES = {row.alias: name for name, row in COMMANDS.items() if row.alias}
_INTENTS = {word: name for name, row in COMMANDS.items() for word in row.intents.split()}
_INTENTS |= {"help": "--help", "version": "--version"}
_WRONG_USAGE = (errors.ConfigError, errors.EvaluationError, errors.QueryError, errors.RootError)
_NO_INDEX = (errors.CacheError, errors.IndexNotFoundError, errors.UnreadableError)
_OUTPUT = frozenset({None, errno.EBADF, errno.EIO, errno.EPIPE})
"""Numbers of errors that stdout has, besides those of a full disk."""
EXIT_CODES = dict.fromkeys(_WRONG_USAGE, 2) | dict.fromkeys(_NO_INDEX, 4)
"""Exit codes of errors; the others exit with 1."""
EXIT_MEANINGS = {
    0: "success, including a query without a hit",
    1: "a failure of the model, the disk or a skill; a change that nobody agreed to; also a "
    "negative answer from query --exit-code, why, status, doctor and eval --min",
    2: "wrong usage: an unknown option, a bad value, a missing folder",
    3: "validate or audit found errors",
    4: "there is no usable index",
    INTERRUPTED: "interrupted",
}
"""What exit codes mean, in the help and on the page of the command line."""
_ROWS = (
    textwrap.fill(f"  {code:<5}{text}", 76, subsequent_indent=" " * 7)
    for code, text in EXIT_MEANINGS.items()
)
EPILOG = "\n".join(
    ("\b\nExit codes:", *_ROWS, "run exits with the code of the command it runs; see its help.\n")
)


def refuse(is_wrong: object, message: str) -> None:
    """Raise the message as wrong usage if it is."""
    if is_wrong:
        raise click.UsageError(message)


def has_consent(otherwise: str, *, yes: bool) -> bool:
    """Return whether the user agrees, by ``--yes`` or on a terminal; else say `otherwise`."""
    if yes or is_interactive():
        return yes or click.confirm("Do this?", err=True)
    say(otherwise)
    return False


def request_text(words: Sequence[str]) -> str:
    """Return the request in the arguments of a command; a lone ``-`` stands for stdin."""
    if tuple(words) != ("-",):
        return " ".join(words)
    return sys.stdin.buffer.read(_MAX_STDIN_BYTES).decode("utf-8", "replace").strip()


class Failure(click.ClickException):
    """An error that ends the program with one line on stderr."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(one_line(message))
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it; without "Error:" if the user interrupted the program."""
        if self.exit_code == INTERRUPTED:
            click.echo(self.message, file=file, err=True)
        else:
            super().show(file)


class Commands(click.Group):
    """A group that imports commands lazily, suggests similar names and never shows a traceback.

    A command is a plain function that returns its exit code, or None for 0.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, and give it ``--verbose``."""
        cmd_name = _ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"skillsearch.cli.{COMMANDS[cmd_name].module}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        if not any(isinstance(parameter, VerboseOption) for parameter in command.params):
            command.params.append(VerboseOption())
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List all commands with what they do, wrapped and not cut."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, row.get_short_help_str(_WHOLE)) for name, row in commands.items() if row]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command named by the first argument."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            nearest = ", ".join(_nearest_commands(name.lower().replace("_", "-")))
            other = "To find skills: skillsearch query TEXT"
            hint = f"Did you mean: {nearest}?" if nearest else other
            ctx.fail(f"There is no command {one_line(name, 80)!r}. {hint}")
        resolved = super().resolve_command(ctx, [_ALIASES.get(name, name), *args[1:]])
        if COMMANDS[resolved[0] or ""].after_interrupt is not None:
            raise_on_interrupt()
        return resolved

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command line; an OSError, even while printing help, becomes one line."""
        prepare_streams()
        try:
            return super().main(*args, **options)
        except OSError as exc:
            # Python must not retry the failed write at exit: that would change the exit code.
            sys.stdout = io.StringIO()
            is_output = exc.errno in system_errors.DISK_FULL | _OUTPUT and not exc.filename
            stopped = f"Output stopped: {exc.strerror or exc}"
            Failure(stopped if is_output else system_errors.machine_problem(exc)).show()
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and turn any error into one line and an exit code."""
        try:
            if code := errors.answered(partial(super().invoke, ctx), partial(_fail, ctx)):
                ctx.exit(code)
        except KeyboardInterrupt as exc:
            raise _interrupted(ctx) from exc


def _fail(ctx: click.Context, error: Exception) -> NoReturn:
    """Raise an error as a line for the user of a command, not a traceback."""
    if isinstance(error, errors.SkillSearchError):
        raise Failure(str(error), code_of(error)) from error
    if isinstance(error, click.UsageError) and ctx.invoked_subcommand == "hook":
        # Hosts take 2 for "block the prompt"; click declares the code for the class.
        error.exit_code = 1  # type: ignore[misc]
    if isinstance(error, click.ClickException | click.Abort | click.exceptions.Exit | OSError):
        raise error
    if _is_interrupt(error):
        raise _interrupted(ctx) from error
    if LOGGER.isEnabledFor(logging.DEBUG):
        traceback.print_exception(error)
    raise Failure(system_errors.unexpected(error, " (-v shows where it happened)")) from error


def code_of(error: errors.SkillSearchError) -> int:
    """Return the exit code of an error."""
    return next((EXIT_CODES[each] for each in type(error).__mro__ if each in EXIT_CODES), 1)


def _nearest_commands(word: str) -> list[str]:
    """Return the commands that a word means, in other tools too, or that one like it means."""
    if word in _INTENTS:
        return [_INTENTS[word]]
    names = {intent: name for intent, name in _INTENTS.items() if len(intent) > 2}
    names |= {name: name for name in (*COMMANDS, *_ALIASES)}
    return list(dict.fromkeys(names[name] for name in near(word, names)))[:2]


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether a library turned an interrupt into another error."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _interrupted(ctx: click.Context) -> Failure:
    row = COMMANDS.get(ctx.invoked_subcommand or "")
    return Failure(f"Interrupted{(row and row.after_interrupt) or ''}.", INTERRUPTED)


@click.group(cls=Commands, context_settings=CONTEXT, epilog=EPILOG)
@click.version_option(__version__, prog_name="skillsearch")
@click.pass_context
def app(context: click.Context) -> None:
    """Find the right skill among many folders with a SKILL.md, or learn that none fits.

    Begin with "skillsearch index", which takes the skills of your hosts, or "skillsearch index
    FOLDER". Then ask: skillsearch query "fill in a PDF form".
    """
    handler = StderrHandler()
    LOGGER.addHandler(handler)
    before = LOGGER.level if LOGGER.level != logging.DEBUG else logging.NOTSET
    if LOGGER.level == logging.NOTSET:
        LOGGER.setLevel(logging.WARNING)
    # A caller may run us in its own process.
    context.call_on_close(lambda: LOGGER.removeHandler(handler))
    context.call_on_close(lambda: LOGGER.setLevel(before))


app.params.append(VerboseOption())


def main() -> None:
    """Run the command line."""
    use_one_blas_thread()
    try:
        app(prog_name="skillsearch")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        leave_on_interrupt()
