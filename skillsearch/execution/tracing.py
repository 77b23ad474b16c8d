"""Spans of a run through the OpenTelemetry API, where that is installed; elsewhere nothing.

A run is never changed by its trace: whatever goes wrong in the API or in an exporter is dropped.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

Tell = Callable[..., None]
"""Adds attributes, given by keyword, to the span that is open."""

_PROGRAM = re.compile(r"[\w./+-]{1,100}")


def command_name(command: str | tuple[str, ...]) -> str:
    """Return what a span may hold of a command: the program that it begins with.

    The rest may hold secrets, and so may a beginning such as ``KEY=value``, which gives nothing.

    Args:
        command: Shell text, or a program with its arguments.

    Returns:
        One word, or an empty text.
    """
    words = command.split(None, 1) if isinstance(command, str) else command
    return words[0] if words and _PROGRAM.fullmatch(words[0]) else ""


@contextmanager
def span(name: str, **attributes: str | int | bool) -> Iterator[Tell]:
    """Record a step of a run as a span, below the caller's own where there is one.

    An error inside is recorded as the status, by the name of its type alone: its message may hold
    paths and values of the run. It goes on as it was.

    Args:
        name: Name of the span, such as ``workspace.run``.
        **attributes: What is known when the step begins.

    Yields:
        A function that adds attributes.
    """
    api = _api()
    manager: AbstractContextManager[Any] | None = None
    current: Any = None
    if api is not None:
        with suppress(Exception):
            manager = api.get_tracer("skillsearch").start_as_current_span(
                name, attributes=attributes, record_exception=False, set_status_on_exception=False
            )
            current = manager.__enter__()
    try:
        yield functools.partial(_tell, current)
    except BaseException as error:
        with suppress(Exception):
            current.set_status(api.StatusCode.ERROR, type(error).__name__)
        raise
    finally:
        if current is not None and manager is not None:
            with suppress(Exception):
                manager.__exit__(None, None, None)


@functools.cache
def _api() -> Any:
    """Import the API at the first span, once; None where it is missing or broken."""
    try:
        from opentelemetry import trace
    except Exception:  # noqa: BLE001 - whatever a broken installation raises, the run goes on
        return None
    return trace


def _tell(current: Any, **attributes: str | int | bool) -> None:
    """Add attributes to a span."""
    if current is not None:
        with suppress(Exception):
            current.set_attributes(attributes)
