"""Questions to the library's thread, and what a client is told where they have no answer."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from skillsearch.agents.tools.failures import failure, failure_of
from skillsearch.errors import SkillSearchError
from skillsearch.library.publication import Publisher
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.desk import Desk
from skillsearch.mcp_server.faces import Record
from skillsearch.mcp_server.served_library import ServedLibrary

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def ask(desk: Desk, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Have something done at the desk for a request that can only fail as a whole.

    Args:
        desk: The desk.
        function: What to call.
        *args: Its arguments.
        **kwargs: Its arguments by name.

    Returns:
        What it returns.

    Raises:
        MCPError: When it cannot be done, or not in time; says the next step.
    """
    try:
        return await desk.run(function, *args, **kwargs)
    except SkillSearchError as exc:
        raise _internal(failure_of(exc)) from exc
    except (TimeoutError, queue.Full) as exc:
        raise _internal(busy(exc)) from exc


def busy(error: TimeoutError | queue.Full) -> dict[str, Record]:
    """Return the answer to a call that could not be done in time."""
    if isinstance(error, queue.Full):
        return failure("busy", "Too many calls are waiting.", "Call again when others are done.")
    return failure("timeout", "The call took too long.", "Go on without, or call again later.")


class PublisherDesk:
    """The publisher of the library that is served now."""

    def __init__(self, desk: Desk, served: ServedLibrary) -> None:
        """Take the library and the place where it is used."""
        self._desk = desk
        self._served = served
        self._library: SkillLibrary | None = None
        self._publisher: Publisher | None = None

    async def ask(self, function: Callable[[Publisher], _T]) -> _T:
        """Ask the publisher, brought up to date with its library.

        Args:
            function: The question; it may raise an `MCPError` of its own.

        Returns:
            Its answer.

        Raises:
            MCPError: When there is no library, or no answer in time.
        """
        return await ask(self._desk, self._answer, function)

    def _answer(self, function: Callable[[Publisher], _T]) -> _T:
        """Answer at the desk."""
        library = self._served.get()
        if self._publisher is None or library is not self._library:
            self._library, self._publisher = library, Publisher(library)
        self._publisher.refresh()
        return function(self._publisher)


def _internal(answer: dict[str, Record]) -> MCPError:
    """Return an error of the protocol that says what a failed tool would."""
    error = answer["error"]
    return MCPError(INTERNAL_ERROR, f"{error['message']} {error['next_step']}")
