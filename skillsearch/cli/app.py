"""The group of all commands, and the one place where an error becomes an exit code."""

from __future__ import annotations

import difflib
import importlib
import io
import logging
import sys
import traceback
from typing import IO, Any

import click

from skillsearch._version import __version__
from skillsearch.cli.interrupts import INTERRUPTED, leave_on_interrupt, raise_on_interrupt
from skillsearch.cli.options import CONTEXT, LOGGER, verbose_option
from skillsearch.cli.output import StderrHandler, prepare_streams
from skillsearch.environ import use_one_blas_thread
from skillsearch.errors import (
    CacheError,
    ConfigError,
    EvaluationError,
    IndexNotFoundError,
    QueryError,
    RootError,
    SkillSearchError,
)
from skillsearch.text.safe_text import one_line

KEPT = {
    "eval": "what was embedded is kept",
    "index": "what was embedded is kept",
    "run": "",
    "tune": "begun again, it goes on",
    "watch": "what was embedded is kept",
}
"""The commands that an interrupt leaves something of, or that have something to end first."""
EXIT_CODES: dict[type[SkillSearchError], int] = {
    ConfigError: 2,
    EvaluationError: 2,
    QueryError: 2,
    RootError: 2,
    CacheError: 4,
    IndexNotFoundError: 4,
}
"""Exit codes of the errors that do not exit with 1."""

EPILOG = """\b
Exit codes:
  0    done; a query without a hit included
  1    a fault of the model, the disk or a skill; also the "no" of query
       --exit-code, status, doctor and eval --min
  2    wrong usage: an unknown option, a bad value, a missing folder
  3    validate found errors
  4    there is no usable index
  130  interrupted
run exits as the command that it runs does; its help has more.
"""


COMMANDS = {
    "index": "indexing",
    "query": "querying",
    "list": "browsing",
    "show": "browsing",
    "run": "running",
    "status": "checking",
    "doctor": "checking",
    "validate": "checking",
    "watch": "watching",
    "mcp": "serving",
    "mcp-config": "configuring",
    "daemon": "daemon_control",
    "cache": "caching",
    "hook": "hooking",
    "prompt": "prompting",
    "budget": "budgeting",
    "eval": "evaluating",
    "tune": "tuning",
    "completion": "completion",
}
"""The module of each command, in the order of the help; only the one that runs is imported."""


class Failure(click.ClickException):
    """An error that ends the program with one line on stderr."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(one_line(message))
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it; the user ending the program is not an error."""
        if self.exit_code != INTERRUPTED:
            super().show(file)
            return
        click.echo(self.message, file=file, err=True)


class Commands(click.Group):
    """A group that imports commands late, suggests near ones and lets no traceback through."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"skillsearch.cli.{COMMANDS[cmd_name]}")
        found: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=2, cutoff=0.5)
            hint = f" Did you mean: {', '.join(near)}?" if near else ""
            ctx.fail(f"There is no command {one_line(name, 80)!r}.{hint}")
        found = super().resolve_command(ctx, args)
        if found[0] in KEPT:
            raise_on_interrupt()
        return found

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command line; where the system fails it, even in its help, say so in one line."""
        prepare_streams()
        try:
            return super().main(*args, **options)
        except OSError as exc:
            # What could not be written is not tried again at exit, which would change the code.
            sys.stdout = io.StringIO()
            reason = exc.strerror or str(exc)
            where = (
                f"{reason}: {exc.filename}" if exc.filename else f"The output ends here: {reason}"
            )
            Failure(where).show()
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and turn what it raises into one line and an exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as exc:
            raise _interrupted(ctx) from exc
        except SkillSearchError as exc:
            code = next((EXIT_CODES[kind] for kind in type(exc).__mro__ if kind in EXIT_CODES), 1)
            raise Failure(str(exc), code) from exc
        except (click.ClickException, click.Abort, click.exceptions.Exit, OSError):
            raise
        except Exception as exc:  # The outermost edge: a user is owed a line, not a traceback.
            if _comes_of_interrupt(exc):
                raise _interrupted(ctx) from exc
            raise _unexpected(exc) from exc


def _interrupted(ctx: click.Context) -> Failure:
    """Say that the user ended a command, and what is left of it."""
    kept = KEPT.get(ctx.invoked_subcommand or "", "")
    return Failure(f"Interrupted{'; ' if kept else ''}{kept}.", INTERRUPTED)


def _comes_of_interrupt(error: BaseException | None) -> bool:
    """Return whether a library turned an interrupt into another error, as imports do."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _unexpected(error: Exception) -> Failure:
    """Say that an error is our fault; with ``-v`` show where it happened."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        traceback.print_exception(error)
    return Failure(
        f"This is a bug in skillsearch, please report it: {type(error).__name__}: {error} "
        "(-v shows where it happened)"
    )


@click.group(cls=Commands, context_settings=CONTEXT, epilog=EPILOG)
@click.version_option(__version__, prog_name="skillsearch")
@verbose_option
@click.pass_context
def app(context: click.Context) -> None:
    """Find the right skill among many folders with a SKILL.md, or learn that none fits.

    Begin with "skillsearch index FOLDER", then ask: skillsearch query "fill in a PDF form".
    """
    handler = StderrHandler()
    LOGGER.addHandler(handler)
    before = LOGGER.level if LOGGER.level != logging.DEBUG else logging.NOTSET
    if LOGGER.level == logging.NOTSET:
        LOGGER.setLevel(logging.WARNING)

    def restore() -> None:
        """Leave logging as it was for whoever called us in their process."""
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)

    context.call_on_close(restore)


def main() -> None:
    """Run the command line."""
    use_one_blas_thread()
    try:
        app(prog_name="skillsearch")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        leave_on_interrupt()
