"""Spans of a run through the OpenTelemetry API if that is installed; no fault of it matters."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from skillsearch.errors import answered

SpanAttributes = Mapping[str, str | int | bool]
AddAttributes = Callable[[SpanAttributes], None]  # adds attributes to the open span

_PROGRAM = re.compile(r"[\w./+-]{1,100}")


def command_name(command: str | tuple[str, ...]) -> str:
    """Return the part of a command that can hold no secret: the program that it begins with."""
    words = command.split(None, 1) if isinstance(command, str) else command
    return words[0] if words and _PROGRAM.fullmatch(words[0]) else ""


@contextmanager
def span(name: str, attributes: Mapping[str, str | int | bool] = {}) -> Iterator[AddAttributes]:
    """Trace a step of a run; of an error inside only the type, as its message may hold secrets."""

    def make_manager() -> Any:
        tracer = _api().get_tracer("skillsearch")
        return tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        )

    manager = _harmless(make_manager)
    current = _harmless(lambda: manager.__enter__())

    def tell(more: SpanAttributes) -> None:
        _harmless(lambda: current.set_attributes(more))

    def end(kind: type[BaseException] | None, *_: object) -> None:
        if kind:
            _harmless(lambda: current.set_status(_api().StatusCode.ERROR, kind.__name__))
        _harmless(lambda: manager.__exit__(None, None, None))

    with ExitStack() as stack:
        stack.push(end)
        yield tell


@functools.cache
def _api() -> Any:
    """Import the API at the first span, once; None if it is missing or broken."""

    def imported() -> Any:
        from opentelemetry import trace

        return trace

    return _harmless(imported)


def _harmless(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or None: whatever a broken API raises, the run goes on."""
    return answered(call, lambda _: None)
