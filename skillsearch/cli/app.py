"""The group of all commands, shell completion, and the one place that maps errors to exit codes."""

from __future__ import annotations

import difflib
import importlib
import io
import logging
import sys
import traceback
from typing import IO, Any

import click
from click.shell_completion import get_completion_class

from skillsearch import errors
from skillsearch._version import __version__
from skillsearch.cli.interrupts import INTERRUPTED, leave_on_interrupt, raise_on_interrupt
from skillsearch.cli.options import CONTEXT, LOGGER, Asked, command, verbose
from skillsearch.cli.output import StderrHandler, is_terminal, prepare_streams, say
from skillsearch.environ import use_one_blas_thread
from skillsearch.text.safe_text import one_line

COMMANDS = {
    "index": "index",
    "query": "query",
    "list": "browse",
    "show": "browse",
    "run": "run",
    "status": "upkeep",
    "doctor": "upkeep",
    "validate": "upkeep",
    "watch": "index",
    "mcp": "mcp",
    "mcp-config": "mcp",
    "daemon": "upkeep",
    "cache": "upkeep",
    "hook": "query",
    "prompt": "query",
    "budget": "budget",
    "eval": "eval",
    "tune": "eval",
    "completion": "app",
}
"""The module of each command, in the order of the help; only the one that runs is imported."""
INTERRUPTIBLE = {
    "eval": "; embedded texts are kept",
    "index": "; embedded texts are kept",
    "run": "",
    "tune": "; run it again to continue",
    "watch": "; embedded texts are kept",
}
"""Commands that clean up after Ctrl-C, and what the user should know about what is left."""
EXIT_CODES: dict[type[errors.SkillSearchError], int] = {
    errors.ConfigError: 2,
    errors.EvaluationError: 2,
    errors.QueryError: 2,
    errors.RootError: 2,
    errors.CacheError: 4,
    errors.IndexNotFoundError: 4,
}
"""Exit codes of errors; the others exit with 1."""
EPILOG = """\b
Exit codes:
  0    success, including a query without a hit
  1    a failure of the model, the disk or a skill; also a negative answer
       from query --exit-code, status, doctor and eval --min
  2    wrong usage: an unknown option, a bad value, a missing folder
  3    validate found errors
  4    there is no usable index
  130  interrupted
run exits with the code of the command it runs; see its help.
"""
_COMPLETION = {
    "bash": 'Add to ~/.bashrc: eval "$(skillsearch completion bash)"',
    "zsh": 'Add to ~/.zshrc: eval "$(skillsearch completion zsh)"',
    "fish": "Add to ~/.config/fish/config.fish: skillsearch completion fish | source",
}


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
    """A group that imports commands lazily, suggests similar names and never shows a traceback."""

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
        """Find the command named by the first argument."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=2, cutoff=0.5)
            hint = f" Did you mean: {', '.join(near)}?" if near else ""
            ctx.fail(f"There is no command {one_line(name, 80)!r}.{hint}")
        found = super().resolve_command(ctx, args)
        if found[0] in INTERRUPTIBLE:
            raise_on_interrupt()
        return found

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command line; an OSError, even while printing help, becomes one line."""
        prepare_streams()
        try:
            return super().main(*args, **options)
        except OSError as exc:
            # Python must not retry the failed write at exit: that would change the exit code.
            sys.stdout = io.StringIO()
            reason = exc.strerror or str(exc)
            place = f"{reason}: {exc.filename}" if exc.filename else f"Output stopped: {reason}"
            Failure(place).show()
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and turn any error into one line and an exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as exc:
            raise _interrupted(ctx) from exc
        except errors.SkillSearchError as exc:
            code = next((EXIT_CODES[kind] for kind in type(exc).__mro__ if kind in EXIT_CODES), 1)
            raise Failure(str(exc), code) from exc
        except (click.ClickException, click.Abort, click.exceptions.Exit, OSError):
            raise
        except Exception as exc:  # The outermost edge: a user is owed a line, not a traceback.
            cause: BaseException | None = exc
            while cause is not None and not isinstance(cause, KeyboardInterrupt):
                cause = cause.__cause__ or cause.__context__
            if cause is not None:  # a library turned an interrupt into another error
                raise _interrupted(ctx) from exc
            if LOGGER.isEnabledFor(logging.DEBUG):
                traceback.print_exception(exc)
            raise Failure(
                f"This is a bug in skillsearch, please report it: {type(exc).__name__}: {exc} "
                "(-v shows where it happened)"
            ) from exc


def _interrupted(ctx: click.Context) -> Failure:
    kept = INTERRUPTIBLE.get(ctx.invoked_subcommand or "", "")
    return Failure(f"Interrupted{kept}.", INTERRUPTED)


@click.group(cls=Commands, context_settings=CONTEXT, epilog=EPILOG)
@click.version_option(__version__, prog_name="skillsearch")
@verbose
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
    # A caller may run us in its own process.
    context.call_on_close(lambda: LOGGER.removeHandler(handler))
    context.call_on_close(lambda: LOGGER.setLevel(before))


@command("completion")
@click.argument("shell", type=click.Choice(tuple(_COMPLETION)))
def completion_command(asked: Asked) -> None:
    """Print the completion script for a shell.

    It completes commands, options and skill names.

    \b
    bash, in ~/.bashrc:    eval "$(skillsearch completion bash)"
    zsh, in ~/.zshrc:      eval "$(skillsearch completion zsh)"
    fish, in config.fish:  skillsearch completion fish | source
    """  # noqa: D301 - click reads the control character, not its escape
    kind = get_completion_class(asked.shell)
    if kind is None:
        raise click.UsageError(f"This version of click has no completion for {asked.shell}.")
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "skillsearch", "_SKILLSEARCH_COMPLETE").source())
    if is_terminal():
        say(_COMPLETION[asked.shell])


def main() -> None:
    """Run the command line."""
    use_one_blas_thread()
    try:
        app(prog_name="skillsearch")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        leave_on_interrupt()
