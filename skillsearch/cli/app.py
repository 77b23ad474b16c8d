"""The commands: how each is declared, what several share, and how errors become exit codes."""

from __future__ import annotations

import difflib
import errno
import functools
import importlib
import io
import logging
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, TypeVar

import click

from skillsearch import errors
from skillsearch._version import __version__
from skillsearch.cli.interrupts import INTERRUPTED, leave_on_interrupt, raise_on_interrupt
from skillsearch.cli.output import StderrHandler, emit_json, prepare_streams, say
from skillsearch.config import Settings, home_dir, load_settings
from skillsearch.environ import use_one_blas_thread
from skillsearch.setting_values import BACKENDS, MAX_N, is_url
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import LANGUAGES

Root = Path | str
"""A folder or archive of skills by its absolute path, or a URL."""
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
LOGGER = logging.getLogger("skillsearch")
EXISTING = click.Path(exists=True, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)
_KINDS = {"FILE": click.Path(dir_okay=False, path_type=Path), "FOLDER": _FOLDER, "DIR": _FOLDER}
_MAX_STDIN_BYTES = 4 << 20
MANY_SKILLS = 5_000
_AGREED = "skillsearch.agreed"
_WHOLE = "a whole home folder or disk, not a folder of skills"
_OF_THE_SYSTEM = ("/dev", "/etc", "/proc", "/sys", "/usr", "/var")

COMMANDS = {
    "index": "index",
    "query": "query",
    "add": "sources",
    "remove": "sources",
    "update": "sources",
    "find": "interactive",
    "list": "browse",
    "families": "browse",
    "show": "browse",
    "ui": "interactive",
    "run": "run",
    "status": "upkeep",
    "doctor": "upkeep",
    "validate": "upkeep",
    "audit": "upkeep",
    "watch": "index",
    "mcp": "mcp",
    "setup": "setup",
    "mcp-config": "setup",
    "daemon": "upkeep",
    "cache": "upkeep",
    "env": "upkeep",
    "hook": "query",
    "prompt": "query",
    "budget": "browse",
    "library": "library",
    "enrich": "enrich",
    "eval": "eval",
    "tune": "eval",
    "completion": "interactive",
}
"""The module of each command, in the order of the help; only the one that runs is imported."""
ALIASES = {"search": "query"}
"""Other names of commands, which the help does not list."""
INTENTS = {
    "query": "ask look lookup find-skills grep",
    "add": "install get i clone fetch import",
    "remove": "uninstall delete rm del unlink",
    "update": "upgrade sync pull outdated refresh",
    "list": "ls all skills catalog",
    "show": "info cat view get-skill describe read load",
    "mcp": "serve server start-server",
    "setup": "init config configure connect",
    "validate": "lint check test",
    "doctor": "diagnose health fix",
    "index": "scan reindex build rebuild",
    "run": "exec execute",
    "ui": "web browse open",
}
"""What people type who mean a command, as in other tools."""
_KEPT = dict.fromkeys(("add", "eval", "index", "update", "watch"), "; embedded texts are kept")
_GO_ON = "; what you agreed to is kept, and the next run goes on"
INTERRUPTIBLE = {**_KEPT, "run": "", "enrich": _GO_ON, "tune": "; run it again to continue"}
"""Commands that clean up after Ctrl-C, and what the user should know about what is left."""
_WRONG_USAGE = (errors.ConfigError, errors.EvaluationError, errors.QueryError, errors.RootError)
_NO_INDEX = (errors.CacheError, errors.IndexNotFoundError, errors.UnreadableError)
_OUTPUT = frozenset({None, errno.EBADF, errno.EIO, errno.EPIPE})
"""Numbers of errors that stdout has, besides those of a full disk."""
EXIT_CODES = dict.fromkeys(_WRONG_USAGE, 2) | dict.fromkeys(_NO_INDEX, 4)
"""Exit codes of errors; the others exit with 1."""
EPILOG = """\b
Exit codes:
  0    success, including a query without a hit
  1    a failure of the model, the disk or a skill; also a negative answer
       from query --exit-code, status, doctor and eval --min
  2    wrong usage: an unknown option, a bad value, a missing folder
  3    validate or audit found errors
  4    there is no usable index
  130  interrupted
run exits with the code of the command it runs; see its help.
"""


class NamedPath(click.Path):
    """A path that is not empty: an empty one would mean the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and return the path."""
        if value == "":
            self.fail("it is empty; name a path, or . for this folder.", param, ctx)
        return super().convert(value, param, ctx)


class Count(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and return the number."""
        try:
            int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number, such as 5.", param, ctx)
        return super().convert(value, param, ctx)


class Choice(click.Choice[str]):
    """One of some names; for another, the nearest is told."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and return the name."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as exc:
            near = difflib.get_close_matches(str(value).lower(), self.choices, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.BadParameter(exc.message + hint, ctx, param) from exc


class SettingOption(click.Option):
    """An option that overrides a setting."""


class Asked(SimpleNamespace):
    """A command's arguments and options by name; ``flags`` are the settings among them."""

    flags: dict[str, Any]
    """Settings by name, for `load_settings`; None if not given."""

    @functools.cached_property
    def settings(self) -> Settings:
        """The settings that these flags override."""
        return load_settings(**self.flags)


def option(names: str, text: str, **attributes: Any) -> Callable[[Decorated], Decorated]:
    """Declare an option by its help and its names, separated by blanks.

    A name without dashes is its attribute of `Asked` in lower case, else what its value is called;
    a FILE or FOLDER is a path.
    """
    words = names.split()
    called = [word for word in words if word[0] != "-" and not word.islower()]
    if called:
        attributes = {"type": _KINDS.get(called[0]), **attributes, "metavar": called[0]}
    return click.option(*(word for word in words if word not in called), help=text, **attributes)


def _alone(context: click.Context, _option: click.Parameter, on: bool) -> bool:
    """Refuse ``--header`` beside ``--json``; whichever comes last sees the other."""
    given = [context.params.get(name) for name in ("as_json", "header")]
    refuse(on and any(given), "--header is for lines, --json prints none; use one of them.")
    return on


def _print_schema(context: click.Context, _option: click.Parameter, on: bool) -> None:
    if on and not context.resilient_parsing:
        from skillsearch.cli.models import schema_of

        emit_json(schema_of(context.command.name or ""))
        context.exit()


flag = functools.partial(option, is_flag=True)
repeatable = functools.partial(option, multiple=True)
setting = functools.partial(option, cls=SettingOption)


def setting_flag(names: str, value: Any, text: str) -> Callable[[Decorated], Decorated]:
    """Declare an option that gives a setting a value."""
    return setting(
        names, text, is_flag=True, callback=lambda _context, _option, on: value if on else None
    )


verbose = flag(
    "-v --verbose",
    "Report progress on stderr; after an unexpected error, show where it happened.",
    expose_value=False,
    # Everything the package logs, until the group restores the level.
    callback=lambda _context, _option, on: LOGGER.setLevel(logging.DEBUG) if on else None,
)
header = flag(
    "--header", "Begin the lines for programs with the names of the columns.", callback=_alone
)
index_dir = setting(
    "--index-dir",
    "Folder of the index. [default: SKILLSEARCH_INDEX_DIR, the settings, user cache]",
    type=NamedPath(file_okay=False, readable=False, path_type=Path),
)
languages = setting(
    "--languages",
    "Languages to index for: english; all (slower, needs the extra multilingual); auto (default): "
    "all if the skills, the locale or earlier queries need it and the extra is installed.",
    type=click.Choice(LANGUAGES),
)
trust = setting(
    "--trust [ROOT=]LEVEL",
    "Who vouches for the ROOTs, or for one of them: vetted (you), project or fetched (nobody). "
    "Repeatable; kept until another is given. [default: fetched for archives and URLs, project for "
    "what is found in a project, else vetted]",
    multiple=True,
    callback=lambda _context, _option, given: given or None,
)
n = setting("-n n", "Maximum number of hits. [default: 5]", type=Count(1, MAX_N))
threshold = setting(
    "--threshold", "Minimum score, 0 to 1. [default: 0.65]", type=float, metavar="T"
)
reader = setting(
    "--reader",
    "When a second model reads the best hits beside the request: auto (default), if the answer is "
    "in doubt; always; off; or another model, which always reads: st:NAME, a folder.",
    metavar="R",
)
no_refresh = setting_flag(
    "--no-refresh refresh", False, "Use the index as it is, even if files have changed."
)

all_projects = setting_flag(
    "--all-projects all_projects",
    True,
    "Skills of every project, not only of the user and of the project around this folder.",
)


def as_json(function: Decorated) -> Decorated:
    """Add ``--json`` and ``--json-schema``."""
    how = {"is_eager": True, "expose_value": False, "callback": _print_schema}
    schema = flag("--json-schema", "Print the JSON Schema of that object.", **how)
    return flag("--json as_json", "Print one JSON object.", callback=_alone)(schema(function))


def backend(function: Decorated) -> Decorated:
    """Add ``--backend``, ``--uri`` and ``--collection``."""
    text = "local (default): a folder on this machine; milvus: a server (extra milvus)."
    where = setting("--uri U", "Address of Milvus, such as http://127.0.0.1:19530.")
    which = setting("--collection C", "Name of the index in Milvus. [default: skillsearch]")
    return setting("--backend", text, type=click.Choice(BACKENDS))(where(which(function)))


def _agree_to_all(context: click.Context, _option: click.Parameter, on: bool) -> None:
    context.meta[_AGREED] = on


def has_agreed() -> bool:
    """Return whether the user has said ``--yes`` to a whole home folder or disk."""
    return bool(click.get_current_context().meta.get(_AGREED))


def check_size(root: Path, *, is_agreed: bool, may_agree: bool = True) -> None:
    """Ask before a whole home folder or disk is taken for a folder of skills, or refuse it.

    Also before many thousands of skills, on a terminal: that takes minutes, but may be meant.
    """
    from skillsearch.index.followed import count_skills

    real, home = Path(os.path.realpath(root)), Path(os.path.realpath(home_dir()))
    is_all = home.is_relative_to(real) or str(real) in _OF_THE_SYSTEM
    if is_agreed or not real.is_dir():
        return
    is_asked = sys.stdin.isatty() and sys.stderr.isatty()
    if is_all and not (is_asked and may_agree):
        raise click.BadParameter(
            f"{visible(str(root))} is {_WHOLE}. Name the folder that holds the skills; without a "
            "ROOT, index takes the folders where hosts look for them. To take it all: "
            f"skillsearch index --yes {shlex.quote(visible(str(root)))}"
        )
    count = count_skills([real], MANY_SKILLS) if is_asked and not is_all else 0
    what = _WHOLE if is_all else f"more than {MANY_SKILLS:,} skills, which takes minutes"
    if is_all or count > MANY_SKILLS:
        click.confirm(f"{visible(str(root))} is {what}. Go on?", err=True, abort=True)


def roots(*, must_exist: bool = False) -> Callable[[Decorated], Decorated]:
    """Add ``[ROOT]...``: folders, archives and URLs, each as a `Root`; and ``--yes``."""

    def read(
        context: click.Context, _argument: click.Parameter, given: tuple[str, ...]
    ) -> tuple[Root, ...]:
        from skillsearch.roots.sources import is_bundle

        paths = [text if is_url(text) else Path(text).absolute() for text in given]
        # A path must mean the same from any folder, even if the one before a .. goes.
        found = tuple(p.resolve() if isinstance(p, Path) and ".." in p.parts else p for p in paths)
        for path in (root for root in found if must_exist and isinstance(root, Path)):
            if not (path.is_file() and is_bundle(path)) and not path.is_dir():
                raise click.BadParameter(f"There is no folder or archive {str(path)!r}.")
        is_taken_out = context.params.get("remove", False)
        for root in found if not is_taken_out else ():
            if isinstance(root, Path):
                check_size(root, is_agreed=has_agreed())
        return found

    kind = NamedPath(readable=False)
    argument = click.argument("roots", nargs=-1, metavar="[ROOT]...", type=kind, callback=read)
    how = {"is_eager": True, "expose_value": False, "callback": _agree_to_all}
    agree = flag("--yes", "Take a ROOT that is a whole home folder or disk.", **how)
    return lambda function: agree(argument(function))


def command(
    name: str, kind: type[click.Command] = click.Command
) -> Callable[[Callable[[Asked], int | None]], click.Command]:
    """Make a command with ``-h`` and ``--verbose`` of a function that returns the exit code."""

    def decorate(function: Callable[[Asked], int | None]) -> click.Command:
        @functools.wraps(function)
        def call(**values: Any) -> None:
            flags = {key: values.pop(key) for key in settings}
            if code := function(Asked(**values, flags=flags)):
                click.get_current_context().exit(code)

        made = click.command(name, kind, context_settings=CONTEXT)(verbose(call))
        made.params.append(made.params.pop(0))
        settings = [str(each.name) for each in made.params if isinstance(each, SettingOption)]
        return made

    return decorate


def refuse(is_wrong: object, message: str) -> None:
    """Raise the message as wrong usage if it is."""
    if is_wrong:
        raise click.UsageError(message)


def agrees(is_agreed: bool, otherwise: str) -> bool:
    """Return whether something may be done: asked on a terminal, else by ``--yes``; or say so."""
    if is_agreed or (sys.stdin.isatty() and sys.stderr.isatty()):
        return is_agreed or click.confirm("Do this?", err=True)
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
    """A group that imports commands lazily, suggests similar names and never shows a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        cmd_name = ALIASES.get(cmd_name, cmd_name)
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
            folded = name.lower().replace("_", "-")
            near = ", ".join(_meant_by(folded, [*self.list_commands(ctx), *ALIASES]))
            hint = f" Did you mean: {near}?" if near else ""
            ctx.fail(f"There is no command {one_line(name, 80)!r}.{hint}")
        found = super().resolve_command(ctx, [ALIASES.get(name, name), *args[1:]])
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
            is_output = exc.errno in errors.DISK_FULL | _OUTPUT and not exc.filename
            stopped = f"Output stopped: {exc.strerror or exc}"
            Failure(stopped if is_output else errors.machine_problem(exc)).show()
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
        except click.UsageError as exc:
            if ctx.invoked_subcommand == "hook":  # hosts take 2 for "block the prompt"
                exc.exit_code = 1  # type: ignore[misc]  # click declares it for the class
            raise
        except (click.ClickException, click.Abort, click.exceptions.Exit, OSError):
            raise
        except Exception as exc:  # The outermost edge: a user is owed a line, not a traceback.
            if _is_interrupt(exc):
                raise _interrupted(ctx) from exc
            if LOGGER.isEnabledFor(logging.DEBUG):
                traceback.print_exception(exc)
            raise Failure(
                errors.machine_problem(exc)
                or f"This is a bug in skillsearch, please report it: {type(exc).__name__}: {exc} "
                "(-v shows where it happened)"
            ) from exc


def _meant_by(word: str, commands: Sequence[str]) -> list[str]:
    """Return the commands that a word means, in other tools too, or that one like it means."""
    meant = {one: name for name, words in INTENTS.items() for one in words.split()}
    if word in meant:
        return [meant[word]]
    meant = {one: name for one, name in meant.items() if len(one) > 2}
    meant |= {name: name for name in commands}
    near = difflib.get_close_matches(word, meant, n=3, cutoff=0.6)
    return list(dict.fromkeys(meant[one] for one in near))[:2]


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether a library turned an interrupt into another error."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


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


def main() -> None:
    """Run the command line."""
    use_one_blas_thread()
    try:
        app(prog_name="skillsearch")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        leave_on_interrupt()
