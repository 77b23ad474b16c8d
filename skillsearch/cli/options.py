"""Options that several commands share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
LOGGER = logging.getLogger("skillsearch")


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


def json_option(function: Decorated) -> Decorated:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(function)


def index_dir_option(function: Decorated) -> Decorated:
    """Add ``--index-dir``."""
    return click.option(
        "--index-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the index. [default: SKILLSEARCH_INDEX_DIR, the settings, user cache]",
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
