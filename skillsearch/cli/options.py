"""Arguments and options that several commands share, each declared once."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from skillsearch.setting_values import BACKENDS, MAX_N, is_url
from skillsearch.types import LANGUAGES

Root = Path | str
"""A folder or archive of skills by its absolute path, or a URL."""
Flags = dict[str, Any]
"""Settings from the command line, for `load_settings`; None if not given."""
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
LOGGER = logging.getLogger("skillsearch")
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
    """An option that overrides a setting; a `command` gets all of them as ``flags``."""


def setting(*names: str, **options: Any) -> Callable[[Decorated], Decorated]:
    """Add an option that overrides a setting."""
    return click.option(*names, cls=SettingOption, **options)


def command(
    name: str, kind: type[click.Command] = click.Command
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command with ``-h``, ``--verbose`` and its `SettingOption` values in ``flags``."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        """Wrap the function, and list ``--verbose`` after its own options."""

        @functools.wraps(function)
        def call(*args: Any, **values: Any) -> Any:
            """Call the function with its flags gathered."""
            flags = {key: values.pop(key) for key in settings}
            return function(*args, **values, **({"flags": flags} if flags else {}))

        made = click.command(name, kind, context_settings=CONTEXT)(verbose_option(call))
        made.params.append(made.params.pop(0))
        settings = [str(each.name) for each in made.params if isinstance(each, SettingOption)]
        return made

    return decorate


def _raise_verbosity(_context: click.Context, _option: click.Parameter, value: bool) -> None:
    """Show everything the package logs, until the group restores the level."""
    if value:
        LOGGER.setLevel(logging.DEBUG)


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_raise_verbosity,
    help="Report progress on stderr; after an unexpected error, show where it happened.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
index_dir_option = setting(
    "--index-dir",
    type=NamedPath(file_okay=False, readable=False, path_type=Path),
    help="Folder of the index. [default: SKILLSEARCH_INDEX_DIR, the settings, user cache]",
)
languages_option = setting(
    "--languages",
    type=click.Choice(LANGUAGES),
    help="Languages to index for: english; all (slower, needs the extra multilingual); auto "
    "(default): all if the skills, the locale or earlier queries need it and the extra is "
    "installed.",
)
n_option = setting("-n", "n", type=Count(1, MAX_N), help="Maximum number of hits. [default: 5]")
threshold_option = setting(
    "--threshold", type=float, metavar="T", help="Minimum score, 0 to 1. [default: 0.3]"
)
no_refresh_option = setting(
    "--no-refresh",
    "refresh",
    is_flag=True,
    callback=lambda _context, _option, value: False if value else None,
    help="Use the index as it is, even if files have changed.",
)


def backend_options(function: Decorated) -> Decorated:
    """Add ``--backend``, ``--uri`` and ``--collection``."""
    for option in (
        setting(
            "--collection", metavar="C", help="Name of the index in Milvus. [default: skillsearch]"
        ),
        setting("--uri", metavar="U", help="Address of Milvus, such as http://127.0.0.1:19530."),
        setting(
            "--backend",
            type=click.Choice(BACKENDS),
            help="local (default): a folder on this machine; milvus: a server (extra milvus).",
        ),
    ):
        function = option(function)
    return function


def roots_argument(*, must_exist: bool = False) -> Callable[[Decorated], Decorated]:
    """Add ``[ROOT]...``: folders, archives and URLs, each as a `Root`."""

    def read(
        _context: click.Context, _argument: click.Parameter, given: tuple[str, ...]
    ) -> tuple[Root, ...]:
        """Keep URLs as they are, and make paths absolute."""
        from skillsearch.roots.sources import is_bundle

        roots = tuple(text if is_url(text) else _absolute(text) for text in given)
        for path in (root for root in roots if must_exist and isinstance(root, Path)):
            if not (path.is_file() and is_bundle(path)) and not path.is_dir():
                raise click.BadParameter(f"There is no folder or archive {str(path)!r}.")
        return roots

    kind = NamedPath(readable=False)
    return click.argument("roots", nargs=-1, metavar="[ROOT]...", type=kind, callback=read)


def _absolute(path: str) -> Path:
    """Return a path that means the same from any folder, even if the one before a .. goes."""
    found = Path(path).absolute()
    return found.resolve() if ".." in found.parts else found


def request_text(words: Sequence[str]) -> str:
    """Return the request in the arguments of a command; a lone ``-`` stands for stdin."""
    if tuple(words) != ("-",):
        return " ".join(words)
    return sys.stdin.buffer.read(_MAX_STDIN_BYTES).decode("utf-8", "replace").strip()
