"""Calls of tools: begun and finished where the library is, waiting and slow elsewhere."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import anyio

from skillsearch.errors import SkillSearchError
from skillsearch.mcp_server.desk import Desk
from skillsearch.mcp_server.offers import Offers
from skillsearch.mcp_server.publishing import busy
from skillsearch.mcp_server.tools import refusal
from skillsearch.tools.failures import INDEXING, failure_of
from skillsearch.tools.tool import Deferred
from skillsearch.tools.toolset import Toolset
from skillsearch.types import JsonValue

INDEXING_PATIENCE = 20.0
"""Seconds for which a search waits for the first index; clients give up after a minute."""
INDEXING_SECONDS = 0.05
"""How often is looked whether it is there."""
MAX_SLOW = 4
"""Commands of skills that may run at the same time, one of each session; others wait."""

Answer = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class _Begun:
    """A call that has something slow to do, and whose it is."""

    toolset: Toolset
    deferred: Deferred


class Calls:
    """Answers the calls of all clients."""

    def __init__(self, desk: Desk, offers: Offers) -> None:
        """Take the place where the library is used, and what is offered there."""
        self._desk = desk
        self._offers = offers
        self._slow = ThreadPoolExecutor(MAX_SLOW, thread_name_prefix="skillsearch-run")
        self._running: dict[str, Future[Any]] = {}

    async def answer(self, session: str, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Answer a call.

        Args:
            session: What tells the client from others.
            name: Name of the tool.
            arguments: Its arguments.

        Returns:
            The answer as of `Toolset.call`.
        """
        refused = refusal(arguments)
        if refused is not None:
            return refused
        try:
            begun = await self._begin_once_indexed(session, name, arguments)
            if not isinstance(begun, _Begun):
                return begun
            outcome = await self._outcome(session, begun.deferred)
            return await self._desk.run(begun.toolset.finish, name, begun.deferred, outcome)
        except (TimeoutError, queue.Full) as exc:
            return busy(exc)

    async def _begin_once_indexed(
        self, session: str, name: str, arguments: Mapping[str, Any]
    ) -> Answer | _Begun:
        """Begin a call; one that needs an index that is just being made, again."""
        deadline = anyio.current_time() + INDEXING_PATIENCE
        while True:
            begun = await self._desk.run(self._begin, session, name, arguments)
            if not _is_indexing(begun) or anyio.current_time() > deadline:
                return begun
            await anyio.sleep(INDEXING_SECONDS)

    async def _outcome(self, session: str, deferred: Deferred) -> Any:
        """Do the slow part of a call, when that of the session's call before is done.

        Cancelled before, it is never begun; later it goes on, and the next one waits for it.
        """
        while (before := self._running.get(session)) and not before.done():
            await asyncio.wait({asyncio.wrap_future(before)})
        self._running = {key: one for key, one in self._running.items() if not one.done()}
        self._running[session] = self._slow.submit(deferred.outcome)
        return await asyncio.wrap_future(self._running[session])

    def _begin(self, session: str, name: str, arguments: Mapping[str, Any]) -> Answer | _Begun:
        """Begin a call at the desk; where a client has no toolset, say why."""
        try:
            toolset = self._offers.of(session).toolset
        except SkillSearchError as exc:
            return failure_of(exc)
        begun = toolset.begin(name, arguments)
        return _Begun(toolset, begun) if isinstance(begun, Deferred) else begun


def _is_indexing(begun: Answer | _Begun) -> bool:
    """Tell whether a tool could not answer because the first index is still being made."""
    if isinstance(begun, _Begun) or "error" not in begun:
        return False
    return bool(begun["error"]["code"] == INDEXING)
