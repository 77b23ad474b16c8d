"""Arguments and options of commands: how they are declared, and those that several share."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import click

from skillsearch.config import Settings, load_settings
from skillsearch.setting_values import BACKENDS, MAX_N, is_url
from skillsearch.types import LANGUAGES

Root = Path | str
"""A folder or archive of skills by its absolute path, or a URL."""
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
LOGGER = logging.getLogger("skillsearch")
EXISTING = click.Path(exists=True, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
_MAX_STDIN_BYTES = 4 << 20


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

    A name without dashes is its attribute of `Asked` in lower case, else what its value is called.
    """
    words = names.split()
    called = [word for word in words if word[0] != "-" and not word.islower()]
    attributes |= {"metavar": called[0]} if called else {}
    return click.option(*(word for word in words if word not in called), help=text, **attributes)


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
as_json = flag("--json as_json", "Print one JSON object.")
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
n = setting("-n n", "Maximum number of hits. [default: 5]", type=Count(1, MAX_N))
threshold = setting("--threshold", "Minimum score, 0 to 1. [default: 0.3]", type=float, metavar="T")
no_refresh = setting_flag(
    "--no-refresh refresh", False, "Use the index as it is, even if files have changed."
)


def backend(function: Decorated) -> Decorated:
    """Add ``--backend``, ``--uri`` and ``--collection``."""
    text = "Name of the index in Milvus. [default: skillsearch]"
    function = setting("--collection C", text)(function)
    text = "Address of Milvus, such as http://127.0.0.1:19530."
    function = setting("--uri U", text)(function)
    text = "local (default): a folder on this machine; milvus: a server (extra milvus)."
    return setting("--backend", text, type=click.Choice(BACKENDS))(function)


def roots(*, must_exist: bool = False) -> Callable[[Decorated], Decorated]:
    """Add ``[ROOT]...``: folders, archives and URLs, each as a `Root`."""

    def read(
        _context: click.Context, _argument: click.Parameter, given: tuple[str, ...]
    ) -> tuple[Root, ...]:
        from skillsearch.roots.sources import is_bundle

        paths = [text if is_url(text) else Path(text).absolute() for text in given]
        # A path must mean the same from any folder, even if the one before a .. goes.
        found = tuple(p.resolve() if isinstance(p, Path) and ".." in p.parts else p for p in paths)
        for path in (root for root in found if must_exist and isinstance(root, Path)):
            if not (path.is_file() and is_bundle(path)) and not path.is_dir():
                raise click.BadParameter(f"There is no folder or archive {str(path)!r}.")
        return found

    kind = NamedPath(readable=False)
    return click.argument("roots", nargs=-1, metavar="[ROOT]...", type=kind, callback=read)


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


def refuse(*conflicts: tuple[object, str]) -> None:
    """Raise the message of the first conflict that there is as wrong usage."""
    for is_wrong, message in conflicts:
        if is_wrong:
            raise click.UsageError(message)


def request_text(words: Sequence[str]) -> str:
    """Return the request in the arguments of a command; a lone ``-`` stands for stdin."""
    if tuple(words) != ("-",):
        return " ".join(words)
    return sys.stdin.buffer.read(_MAX_STDIN_BYTES).decode("utf-8", "replace").strip()
