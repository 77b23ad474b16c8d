"""Spans of a run through the OpenTelemetry API, where that is installed; elsewhere nothing.

A run is never changed by its trace: whatever goes wrong in the API or in an exporter is dropped.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from contextlib import suppress
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


class span:
    """A step of a run, recorded as a span below the caller's own where there is one.

    It is a context manager that gives a function which adds attributes. An error inside is
    recorded as the status, by the name of its type alone: its message may hold paths and values of
    the run. It goes on as it was.
    """

    def __init__(self, name: str, **attributes: str | int | bool) -> None:
        """Name the step.

        Args:
            name: Name of the span, such as ``workspace.run``.
            **attributes: What is known when the step begins.
        """
        self._name = name
        self._attributes = attributes
        self._manager: Any = None
        self._span: Any = None

    def __enter__(self) -> Tell:
        """Begin."""
        api = _api()
        if api is not None:
            with suppress(Exception):
                self._manager = api.get_tracer("skillsearch").start_as_current_span(
                    self._name,
                    attributes=self._attributes,
                    record_exception=False,
                    set_status_on_exception=False,
                )
                self._span = self._manager.__enter__()
        return self._tell

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End."""
        if self._span is None:
            return
        if kind is not None:
            with suppress(Exception):
                self._span.set_status(_api().StatusCode.ERROR, kind.__name__)
        with suppress(Exception):
            self._manager.__exit__(None, None, None)

    def _tell(self, **attributes: str | int | bool) -> None:
        """Add attributes."""
        if self._span is not None:
            with suppress(Exception):
                self._span.set_attributes(attributes)


@functools.cache
def _api() -> Any:
    """Import the API at the first span, once; None where it is missing or broken."""
    with suppress(Exception):  # whatever a broken installation raises, the run goes on
        from opentelemetry import trace

        return trace
    return None
