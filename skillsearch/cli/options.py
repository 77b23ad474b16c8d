"""Options that several commands share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from skillsearch.setting_values import BACKENDS, is_url
from skillsearch.types import LANGUAGES

Root = Path | str
"""A folder or archive of skills, by its absolute path, or a URL."""
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
LOGGER = logging.getLogger("skillsearch")


class NamedPath(click.Path):
    """A path that is not empty: that would mean the working folder."""

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


def _raise_verbosity(_context: click.Context, _option: click.Parameter, value: bool) -> None:
    """Show all that the package logs; the group's teardown undoes it."""
    if value:
        LOGGER.setLevel(logging.DEBUG)


def verbose_option(function: Decorated) -> Decorated:
    """Add ``--verbose``."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_raise_verbosity,
        help="Tell on stderr what is done; with an unexpected error, show where it happened.",
    )(function)


def roots_argument(*, must_be: bool = False) -> Callable[[Decorated], Decorated]:
    """Add ``[ROOT]...``: folders, archives and URLs, each as a `Root`.

    Args:
        must_be: True to refuse folders and archives that are not there.

    Returns:
        The decorator.
    """

    def read(
        _context: click.Context, _argument: click.Parameter, given: tuple[str, ...]
    ) -> tuple[Root, ...]:
        """Keep URLs as they are, and make paths absolute."""
        from skillsearch.roots.sources import is_bundle

        roots = tuple(text if is_url(text) else _absolute(text) for text in given)
        for path in (root for root in roots if must_be and isinstance(root, Path)):
            if not (path.is_file() and is_bundle(path)) and not path.is_dir():
                raise click.BadParameter(f"There is no folder or archive {str(path)!r}.")
        return roots

    kind = NamedPath(readable=False)
    return click.argument("roots", nargs=-1, metavar="[ROOT]...", type=kind, callback=read)


def _absolute(path: str) -> Path:
    """Return a path that means the same from any folder, even if the one before a .. goes."""
    found = Path(path).absolute()
    return found.resolve() if ".." in found.parts else found


def json_option(function: Decorated) -> Decorated:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(function)


def index_dir_option(function: Decorated) -> Decorated:
    """Add ``--index-dir``."""
    return click.option(
        "--index-dir",
        type=NamedPath(file_okay=False, readable=False, path_type=Path),
        help="Folder of the index. [default: SKILLSEARCH_INDEX_DIR, the settings, user cache]",
    )(function)


def backend_options(function: Decorated) -> Decorated:
    """Add ``--backend``, ``--uri`` and ``--collection``."""
    for option in (
        click.option(
            "--collection", metavar="C", help="Name of the index in Milvus. [default: skillsearch]"
        ),
        click.option(
            "--uri", metavar="U", help="Address of Milvus, such as http://127.0.0.1:19530."
        ),
        click.option(
            "--backend",
            type=click.Choice(BACKENDS),
            help="local (default): a folder on this machine; milvus: a server (extra milvus).",
        ),
    ):
        function = option(function)
    return function


def languages_option(function: Decorated) -> Decorated:
    """Add ``--languages``."""
    return click.option(
        "--languages",
        type=click.Choice(LANGUAGES),
        help="Which to index for: english; all (slower, needs the extra multilingual); auto "
        "(default): all where skills, locale or earlier queries need it and the extra is there.",
    )(function)


def command(
    name: str, kind: type[click.Command] = click.Command
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command with the options that every command has."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        """Add ``-h`` and, behind the options of the command itself, ``--verbose``."""
        made = click.command(name, kind, context_settings=CONTEXT)(verbose_option(function))
        made.params.append(made.params.pop(0))
        return made

    return decorate
