"""Spans of a run through the OpenTelemetry API if that is installed; else nothing.

Tracing never affects a run: any fault in the API or in an exporter is dropped.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

Tell = Callable[..., None]
"""Adds attributes, given by keyword, to the open span."""

_PROGRAM = re.compile(r"[\w./+-]{1,100}")


def command_name(command: str | tuple[str, ...]) -> str:
    """Return the part of a command that a span may hold: the program that it begins with.

    The rest may hold secrets. So may a beginning such as ``KEY=value``, which yields an empty text.
    """
    words = command.split(None, 1) if isinstance(command, str) else command
    return words[0] if words and _PROGRAM.fullmatch(words[0]) else ""


class span:
    """A step of a run, recorded as a child of the caller's own span; enter it for a `Tell`.

    An error inside sets the status to the name of its type, because its message may hold paths
    and values of the run. The error itself passes through.
    """

    def __init__(self, name: str, **attributes: str | int | bool) -> None:
        """Name the step, with the attributes that are known when it begins."""
        self._name = name
        self._attributes = attributes
        self._manager: Any = None
        self._span: Any = None

    def __enter__(self) -> Tell:
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
        if self._span is None:
            return
        if kind is not None:
            with suppress(Exception):
                self._span.set_status(_api().StatusCode.ERROR, kind.__name__)
        with suppress(Exception):
            self._manager.__exit__(None, None, None)

    def _tell(self, **attributes: str | int | bool) -> None:
        if self._span is not None:
            with suppress(Exception):
                self._span.set_attributes(attributes)


@functools.cache
def _api() -> Any:
    """Import the API at the first span, once; None if it is missing or broken."""
    with suppress(Exception):  # whatever a broken installation raises, the run goes on
        from opentelemetry import trace

        return trace
    return None
