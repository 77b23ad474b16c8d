"""Spans of a run through the OpenTelemetry API if that is installed; no fault of it matters."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

Tell = Callable[..., None]  # adds attributes, given by keyword, to the open span

_PROGRAM = re.compile(r"[\w./+-]{1,100}")


def command_name(command: str | tuple[str, ...]) -> str:
    """Return the part of a command that can hold no secret: the program that it begins with."""
    words = command.split(None, 1) if isinstance(command, str) else command
    return words[0] if words and _PROGRAM.fullmatch(words[0]) else ""


@contextmanager
def span(name: str, **attributes: str | int | bool) -> Iterator[Tell]:
    """Trace a step of a run; of an error inside only the type, as its message may hold secrets."""
    manager: Any = None
    current: Any = None
    with suppress(Exception):
        tracer = _api().get_tracer("skillsearch")
        manager = tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        )
        current = manager.__enter__()

    def tell(**more: str | int | bool) -> None:
        with suppress(Exception):
            current.set_attributes(more)

    def end(kind: type[BaseException] | None, *_: object) -> None:
        with suppress(Exception):
            if kind:
                current.set_status(_api().StatusCode.ERROR, kind.__name__)
        with suppress(Exception):
            manager.__exit__(None, None, None)

    with ExitStack() as stack:
        stack.push(end)
        yield tell


@functools.cache
def _api() -> Any:
    """Import the API at the first span, once; None if it is missing or broken."""
    with suppress(Exception):  # whatever a broken installation raises, the run goes on
        from opentelemetry import trace

        return trace
    return None
