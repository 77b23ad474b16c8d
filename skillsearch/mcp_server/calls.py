"""Calls of tools: begun and finished where the library is, waiting and slow elsewhere."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import anyio

from skillsearch.agents.tools.failures import INDEXING, failure_of
from skillsearch.agents.tools.tool import Deferred
from skillsearch.agents.tools.toolset import Toolset
from skillsearch.errors import SkillSearchError
from skillsearch.mcp_server.desk import Desk
from skillsearch.mcp_server.offers import Offers
from skillsearch.mcp_server.publishing import busy
from skillsearch.mcp_server.tools import refusal
from skillsearch.types import IndexProgress, JsonValue

INDEXING_PATIENCE = 10.0
"""Seconds for which a search waits for the first words, or for an index that is all but there."""
INDEXING_SECONDS = 0.05
"""How often is looked whether they are there."""
SOON_SECONDS = 3.0
"""A first index that takes no longer is worth waiting for, though there are words."""
FEW_FILES = 32
"""Fewer take about that long, as far as nothing else tells."""
TELLING_SECONDS = 0.5
"""How often a client that waits is told how far the index is."""
SEARCH = "search_skills"
"""The tool of all toolsets that searches."""
MAX_SLOW = 4
"""Commands of skills that may run at the same time, one of each session; others wait."""

Answer = dict[str, JsonValue]
Report = Callable[[float, float, str], Awaitable[None]]
"""Tells a client, if it asked for that, how much is done, of how much, and what that is."""


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

    async def answer(
        self,
        session: str,
        name: str,
        arguments: Mapping[str, Any],
        report: Report | None = None,
    ) -> Answer:
        """Answer a call.

        Args:
            session: What tells the client from others.
            name: Name of the tool.
            arguments: Its arguments.
            report: Called while the call waits for the first index; None to tell nobody.

        Returns:
            The answer as of `Toolset.call`; with how far the index is, as ``progress``, if words
            alone were searched.
        """
        refused = refusal(arguments)
        if refused is not None:
            return refused
        try:
            begun = await self._begin_once_indexed(session, name, arguments, Teller(report))
            if not isinstance(begun, _Begun):
                return begun
            outcome = await self._outcome(session, begun.deferred)
            return await self._desk.run(begun.toolset.finish, name, begun.deferred, outcome)
        except (TimeoutError, queue.Full) as exc:
            return busy(exc)

    async def _begin_once_indexed(
        self, session: str, name: str, arguments: Mapping[str, Any], teller: Teller
    ) -> Answer | _Begun:
        """Begin a call; one that needs an index that is just being made, again."""
        begun_at = anyio.current_time()
        while True:
            begun, progress = await self._desk.run(self._begin, session, name, arguments)
            if not progress or isinstance(begun, _Begun):
                return begun
            is_answer, waited = "result" in begun, anyio.current_time() - begun_at
            if waited > INDEXING_PATIENCE or (is_answer and not _is_soon(progress, waited)):
                return {**begun, "progress": progress} if is_answer else begun
            await teller.tell(progress)
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

    def _begin(
        self, session: str, name: str, arguments: Mapping[str, Any]
    ) -> tuple[Answer | _Begun, IndexProgress | None]:
        """Begin a call at the desk, and say how far the index is if the answer hangs on that."""
        try:
            toolset = self._offers.of(session).toolset
        except SkillSearchError as exc:
            return failure_of(exc), None
        begun = toolset.begin(name, arguments)
        if isinstance(begun, Deferred):
            return _Begun(toolset, begun), None
        is_open = begun["error"]["code"] == INDEXING if "error" in begun else name == SEARCH
        return begun, self._offers.progress if is_open else None


class Teller:
    """Tells a client that waits how far the first index is: now and then, and never less."""

    def __init__(self, report: Report | None, *, seconds: float = TELLING_SECONDS) -> None:
        """Tell it by `report`, at most once in so many seconds."""
        self._report = report
        self._seconds = seconds
        self._told = 0
        self._next = 0.0

    async def tell(self, progress: IndexProgress) -> None:
        """Tell it, unless that was done a moment ago or nothing was done since."""
        done = progress.read + progress.embedded
        if not self._report or done <= self._told or anyio.current_time() < self._next:
            return
        self._told, self._next = done, anyio.current_time() + self._seconds
        await self._report(done, progress.files + progress.texts, _message(progress))


def _is_soon(progress: IndexProgress, waited: float) -> bool:
    """Return whether the first index is worth waiting for, though there are words."""
    if progress.seconds_left is not None:
        return progress.seconds_left <= SOON_SECONDS
    return waited < SOON_SECONDS and progress.files < FEW_FILES


def _message(progress: IndexProgress) -> str:
    """Say how far the first index is."""
    if progress.texts:
        return f"Embedding texts: {progress.embedded:,} of about {progress.texts:,}"
    return f"Reading skills: {progress.read:,} of {progress.files:,}"
