"""The options that several commands share, and how those that override settings are read."""

from __future__ import annotations

import logging
import math
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, cast

import click
from click.core import ParameterSource

from skillsearch.cli.output import FORMS, emit_json
from skillsearch.settings.config import load_settings
from skillsearch.settings.table import Flags, Settings, text_of
from skillsearch.settings.user_folders import home_dir
from skillsearch.settings.values import BACKENDS, MAX_N, is_url
from skillsearch.text.near import near
from skillsearch.text.safe_text import visible

if TYPE_CHECKING:
    from skillsearch.cli import models as models
else:

    class _Models:
        """Stands for the models, which take long to import, until a schema is printed."""

        def __getattr__(self, name: str) -> object:
            from skillsearch.cli import models

            return getattr(models, name)

    models = _Models()

NamedRoot = Path | str
"""A folder or archive of skills by its absolute path, or a URL."""
Function = TypeVar("Function", bound=Callable[..., object])
LOGGER = logging.getLogger("skillsearch")
MANY_SKILLS = 5_000
_FLAGS, _AGREED = "skillsearch.flags", "skillsearch.agreed"
_WHOLE = "a whole home folder or disk, not a folder of skills"
_OF_THE_SYSTEM = ("/dev", "/etc", "/proc", "/sys", "/usr", "/var")


class NamedPath(click.Path):
    """A path that is not empty: an empty one would mean the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and return the path."""
        if value == "":
            self.fail("it is empty; name a path, or . for this folder.", param, ctx)
        return super().convert(value, param, ctx)


EXISTING = NamedPath(exists=True, path_type=Path)
FOLDER = NamedPath(file_okay=False, path_type=Path)


class Count(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and return the number."""
        try:
            int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number, such as 5.", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """A number within bounds, whole or not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and return the number."""
        try:
            is_number = not math.isnan(float(value))
        except ValueError:
            is_number = False
        if not is_number:
            self.fail(f"{value!r} is not a number, such as 0.5.", param, ctx)
        return super().convert(value, param, ctx)


class Choice(click.Choice[str]):
    """A choice of names; the error about any other names the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and return the name."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as exc:
            nearest = near(str(value), self.choices, 1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise click.BadParameter(exc.message + hint, ctx, param) from exc


def read_flags(context: click.Context | None = None) -> Flags:
    """Return the settings that the running command's options override; None if one was not used."""
    unused = dict.fromkeys(Flags.__annotations__)
    flags: Flags = (context or click.get_current_context()).meta.setdefault(_FLAGS, unused)
    return flags


def read_settings() -> Settings:
    """Return the settings of the running command: its options, then variables, files, defaults."""
    return load_settings(**read_flags())


class _Attributes(TypedDict, total=False):
    """What an option of a setting may say of itself."""

    type: click.ParamType[Any]
    metavar: str
    multiple: bool
    is_flag: bool
    flag_value: bool | str
    help: str


class SettingOption(click.Option):
    """An option that overrides the setting of its name; commands get it by `read_settings`.

    Its help is what the setting says, unless it has its own.
    """

    def __init__(self, names: Sequence[str], **attributes: Unpack[_Attributes]) -> None:
        super().__init__(names, expose_value=False, callback=_keep_flag, **attributes)
        self.help = self.help or text_of(str(self.name))


def _keep_flag(context: click.Context, option: click.Parameter, value: object) -> None:
    name = str(option.name)
    if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        cast(dict[str, object], read_flags(context))[name] = value


index_dir = click.option(
    "--index-dir",
    cls=SettingOption,
    type=NamedPath(file_okay=False, readable=False, path_type=Path),
)
trust = click.option("--trust", cls=SettingOption, multiple=True, metavar="[ROOT=]LEVEL")
n = click.option("-n", cls=SettingOption, type=Count(1, MAX_N), metavar="N")
threshold = click.option("--threshold", cls=SettingOption, type=Number(0, 1), metavar="T")
reader = click.option("--reader", cls=SettingOption, metavar="R")
no_refresh = click.option(
    "--no-refresh",
    "refresh",
    cls=SettingOption,
    flag_value=False,
    help="Use the index as it is, even if files have changed.",
)
all_projects = click.option("--all-projects", cls=SettingOption, is_flag=True)


def _all(*added: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Return what adds several options to a command; the first stands first in its help."""

    def add(function: Function) -> Function:
        for option in reversed(added):
            function = option(function)
        return function

    return add


backend = _all(
    click.option("--backend", cls=SettingOption, type=click.Choice(BACKENDS)),
    click.option("--uri", cls=SettingOption, metavar="U"),
    click.option("--collection", cls=SettingOption, metavar="C"),
)
_SELECTING = (
    ("--include", "include", "PATTERN"),
    ("--exclude", "exclude", "PATTERN"),
    ("--tag", "tags", "TAG"),
    ("--root", "in_roots", "ROOT"),
)
selecting = _all(
    *(
        click.option(name, setting, cls=SettingOption, multiple=True, metavar=metavar)
        for name, setting, metavar in _SELECTING
    ),
    click.option("--strict", cls=SettingOption, is_flag=True),
    click.option("--profile", cls=SettingOption, metavar="NAME"),
    all_projects,
)
"""What says which skills a command searches, offers or lists."""


def selecting_words(flags: Flags) -> list[str]:
    """Return the words of a command line that select the same skills as some flags."""
    lists = (flags["include"], flags["exclude"], flags["tags"], flags["in_roots"])
    words = []
    for (name, *_), values in zip(_SELECTING, lists, strict=True):
        words += [word for value in values or () for word in (name, value)]
    words += ["--profile", flags["profile"]] if flags["profile"] else []
    words += ["--strict"] if flags["strict"] else []
    return words + (["--all-projects"] if flags["all_projects"] else [])


yes = click.option("--yes", is_flag=True, help="Do it without asking.")
include_unvetted = click.option(
    "--include-unvetted",
    is_flag=True,
    help="Offer skills of roots that nobody has vouched for, too.",
)


def _note_form(context: click.Context, option: click.Parameter, on: bool) -> bool:
    """Note ``--header`` or ``--json``, and refuse both together."""
    used = context.meta.setdefault(FORMS, set())
    used |= {option.name} if on else set()
    if len(used) > 1:
        raise click.UsageError(
            "--header is for lines, --json prints none; use one of them.", context
        )
    return on


header = click.option(
    "--header",
    is_flag=True,
    expose_value=False,
    callback=_note_form,
    help="Begin the lines for programs with the names of the columns.",
)


def as_json(model: Callable[[], object]) -> Callable[[Function], Function]:
    """Add ``--json``, and ``--json-schema``, which prints the schema of one of the `models`."""

    def print_schema(context: click.Context, _option: click.Parameter, on: bool) -> None:
        if on and not context.resilient_parsing:
            emit_json(models.schema_of(context.command.name or "", model()))
            context.exit()

    schema = click.option(
        "--json-schema",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=print_schema,
        help="Print the JSON Schema of that object.",
    )
    json = click.option(
        "--json", "as_json", is_flag=True, callback=_note_form, help="Print one JSON object."
    )
    return _all(json, schema)


def _set_agreed(context: click.Context, _option: click.Parameter, on: bool) -> None:
    context.meta[_AGREED] = on


def has_agreed() -> bool:
    """Return whether the user has said ``--yes`` to a whole home folder or disk."""
    return bool(click.get_current_context().meta.get(_AGREED))


def is_interactive() -> bool:
    """Return whether a person can be asked: stdin and stderr are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def check_size(root: Path, *, is_agreed: bool, may_agree: bool = True) -> None:
    """Ask before a whole home folder or disk is taken for a folder of skills, or refuse it.

    Also before many thousands of skills, on a terminal: that takes minutes, but may be meant.
    """
    from skillsearch.index.roots.host_roots import count_skills

    real, home = Path(os.path.realpath(root)), Path(os.path.realpath(home_dir()))
    is_all = home.is_relative_to(real) or str(real) in _OF_THE_SYSTEM
    if is_agreed or not real.is_dir():
        return
    if is_all and not (is_interactive() and may_agree):
        raise click.BadParameter(
            f"{visible(str(root))} is {_WHOLE}. Name the folder that holds the skills; without a "
            "ROOT, index takes the folders where hosts look for them. To take it all: "
            f"skillsearch index --yes {shlex.quote(visible(str(root)))}"
        )
    count = count_skills([real], MANY_SKILLS) if is_interactive() and not is_all else 0
    what = _WHOLE if is_all else f"more than {MANY_SKILLS:,} skills, which takes minutes"
    if is_all or count > MANY_SKILLS:
        click.confirm(f"{visible(str(root))} is {what}. Go on?", err=True, abort=True)


def roots(*, must_exist: bool = False) -> Callable[[Function], Function]:
    """Add ``[ROOT]...``: folders, archives and URLs, each as a `NamedRoot`; and ``--yes``."""

    def read(
        context: click.Context, _argument: click.Parameter, texts: tuple[str, ...]
    ) -> tuple[NamedRoot, ...]:
        from skillsearch.roots.sources import is_bundle

        read_roots: list[NamedRoot] = []
        for text in texts:
            if is_url(text):
                read_roots.append(text)
                continue
            path = Path(text).absolute()
            # A path must mean the same from any folder, even if the one before a .. goes.
            path = path.resolve() if ".." in path.parts else path
            if must_exist and not path.is_dir() and not (path.is_file() and is_bundle(path)):
                raise click.BadParameter(
                    f"There is no folder or archive {str(path)!r}; name one that exists."
                )
            read_roots.append(path)
        for root in read_roots if not context.params.get("remove", False) else ():
            if isinstance(root, Path):
                check_size(root, is_agreed=has_agreed())
        return tuple(read_roots)

    path_type = NamedPath(readable=False)
    argument = click.argument("roots", nargs=-1, metavar="[ROOT]...", type=path_type, callback=read)
    agree = click.option(
        "--yes",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_set_agreed,
        help="Take a ROOT that is a whole home folder or disk.",
    )
    return _all(agree, argument)


class VerboseOption(click.Option):
    """``--verbose``, which every command has."""

    def __init__(self) -> None:
        super().__init__(
            ["-v", "--verbose"],
            is_flag=True,
            expose_value=False,
            # Everything the package logs, until the group restores the level.
            callback=lambda _context, _option, on: LOGGER.setLevel(logging.DEBUG) if on else None,
            help="Report progress on stderr; after an unexpected error, show where it happened.",
        )
