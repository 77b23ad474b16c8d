"""Calls of tools, begun and finished in the library's thread, and the texts of their answers."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple, TypeVar

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, CallToolResult, TextContent

from skillsearch.agents.failures import (
    INDEXING,
    ToolAnswer,
    failure,
    failure_of,
    problem_in,
    without_folders,
)
from skillsearch.agents.tool import Begun, Deferred, Text, Tool, Toolset
from skillsearch.errors import SkillSearchError
from skillsearch.execution.isolation.capture import STOP
from skillsearch.library.thread import LibraryThread
from skillsearch.mcp_server.session_tools import SessionTools
from skillsearch.types.indexing import IndexProgress
from skillsearch.types.json_values import Json, JsonObject, object_of

INDEXING_SECONDS = 0.05  # how often a waiting call looks at the index
FEW_FILES = 32  # fewer files take about `Patience.soon`, as long as nothing else tells
TELLING_SECONDS = 0.5  # how often a waiting client is told the progress of the index
MAX_SLOW = 4  # commands of skills that may run at the same time, one of each session; others wait
MAX_QUERY_BYTES = 4096  # some 600 words: a task, not the document it is about
FOUND_BY_WORDS = "Found by words alone"
ERROR_KEY = "skillsearch/error"  # where the metadata of a failed call hold the error for programs

ReportProgress = Callable[[float, float, str], Awaitable[None]]
"""Tells a client that asked for it how much is done, of how much, and what that is."""
Context = ServerRequestContext[Any, Any]

_T = TypeVar("_T")


class Patience(NamedTuple):
    """Seconds that a search waits for words, and with words for an index that is soon there."""

    most: float = 10.0
    soon: float = 3.0

    def lasts(self, waited: float, progress: IndexProgress, *, has_words: bool) -> bool:
        """Return whether to go on waiting; how long an index takes may be unknown."""
        left = progress.seconds_left
        is_new = waited < self.soon and progress.files < FEW_FILES
        is_soon = is_new if left is None else left <= self.soon
        return waited <= self.most and (is_soon or not has_words)


PATIENCE = Patience()


class Calls:
    """Answers the calls of all clients."""

    def __init__(
        self, thread: LibraryThread, tools: SessionTools, patience: Patience = PATIENCE
    ) -> None:
        self._thread = thread
        self._tools = tools
        self._patience = patience
        self._slow = ThreadPoolExecutor(MAX_SLOW, thread_name_prefix="skillsearch-run")
        self._running: dict[str, Future[Any]] = {}

    async def result(
        self, ctx: Context, name: str, arguments: Mapping[str, Json]
    ) -> CallToolResult:
        """Answer a call as text with structured content, or an error as text with metadata."""
        report = ctx.session.report_progress
        tool, answer = await self.answer(session_of(ctx), name, arguments, report)
        if "error" not in answer:
            return _success(answer, tool.text if tool else None)
        error = problem_in(answer)
        lines = [f"{error['message']} {error['next_step']}"]
        for key, value in list(error.items())[3:]:  # after code, message and next step
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            lines.append(f"{key}: {shown}")
        text = TextContent(type="text", text="\n".join(lines))
        return CallToolResult(content=[text], is_error=True, _meta={ERROR_KEY: error})

    async def answer(
        self,
        session: str,
        name: str,
        arguments: Mapping[str, Json],
        report: ReportProgress | None = None,
    ) -> tuple[Tool | None, ToolAnswer]:
        """Answer a call as `Toolset.call` does; `report` is called while it waits for an index.

        If only words were searched, the answer says so as ``progress``; if the index is not like
        the disk, it says why as ``problem``, once.
        """
        query = arguments.get("query")
        if isinstance(query, str) and len(query.encode("utf-8", "replace")) > MAX_QUERY_BYTES:
            message = f"query is longer than {MAX_QUERY_BYTES:,} bytes."
            next_step = "Say in a sentence what is to be done."
            return None, failure("invalid-arguments", message, next_step)
        teller, begun_at = Teller(report), anyio.current_time()
        try:
            while True:
                toolset, begun, progress = await self._thread.run(
                    self._begin, session, name, arguments
                )
                tool, answer = begun.tool, begun.outcome
                if isinstance(answer, Deferred):
                    future = await self._run(session, answer)
                    finish = partial(toolset.finish, name, answer, future.result)
                    return tool, await self._thread.run(finish)
                if not progress:
                    return tool, answer
                has_words = "result" in answer
                waited = anyio.current_time() - begun_at
                if not self._patience.lasts(waited, progress, has_words=has_words):
                    if has_words:
                        answer = {**answer, "progress": _words_only(progress, tool, answer)}
                    return tool, answer
                await teller.tell(progress)
                await anyio.sleep(INDEXING_SECONDS)
        except (SkillSearchError, TimeoutError, queue.Full) as exc:
            return None, _failure(exc)

    async def _run(self, session: str, deferred: Deferred) -> Future[Any]:
        """Do the slow part of a call after the session's call before; end it if it is cancelled."""
        while (before := self._running.get(session)) and not before.done():
            await asyncio.wait({asyncio.wrap_future(before)})
        self._running = {key: call for key, call in self._running.items() if not call.done()}
        context = copy_context()
        stop = threading.Event()
        context.run(STOP.set, stop)
        future = self._running[session] = self._slow.submit(context.run, deferred.run)
        try:
            await asyncio.gather(asyncio.wrap_future(future), return_exceptions=True)
        finally:
            stop.set()
        return future

    def _begin(
        self, session: str, name: str, arguments: Mapping[str, Json]
    ) -> tuple[Toolset, Begun, IndexProgress | None]:
        """Begin a call; return the progress of the index if the answer depends on it."""
        toolset = self._tools.of(session).toolset
        begun = toolset.begin(name, arguments)
        tool, answer = begun.tool, begun.outcome
        if isinstance(answer, Deferred) or tool is None:
            return toolset, begun, None
        error = answer.get("error")
        is_open = problem_in(answer)["code"] == INDEXING if error else tool.searches
        progress = self._tools.served.progress if is_open else None
        if not (progress or error) and (note := self._tools.served.take_note()):
            begun = begun._replace(outcome={**answer, "problem": without_folders(note)})
        return toolset, begun, progress


class Teller:
    """Tells a waiting client the progress of the first index: now and then, and never less."""

    def __init__(self, report: ReportProgress | None, *, seconds: float = TELLING_SECONDS) -> None:
        self._report, self._seconds = report, seconds
        self._told, self._next = 0, 0.0

    async def tell(self, progress: IndexProgress) -> None:
        """Tell it, unless it was told a moment ago or there is no progress since."""
        done = progress.read + progress.embedded
        if not self._report or done <= self._told or anyio.current_time() < self._next:
            return
        self._told, self._next = done, anyio.current_time() + self._seconds
        message = f"Reading skills: {progress.read:,} of {progress.files:,}"
        if progress.texts:
            message = f"Embedding texts: {progress.embedded:,} of about {progress.texts:,}"
        await self._report(done, progress.files + progress.texts, message)


async def in_thread(thread: LibraryThread, function: Callable[[], _T]) -> _T:
    """Await a function in the library's thread; its failure is an `MCPError` with the next step."""
    try:
        return await thread.run(function)
    except (SkillSearchError, TimeoutError, queue.Full) as exc:
        error = problem_in(_failure(exc))
        raise MCPError(INTERNAL_ERROR, f"{error['message']} {error['next_step']}") from exc


def session_of(ctx: Context) -> str:
    """Return the id of a client's session; empty if the transport has none."""
    return "" if ctx.request is None else str(ctx.request.headers.get(MCP_SESSION_ID_HEADER, ""))


def _failure(error: SkillSearchError | TimeoutError | queue.Full) -> ToolAnswer:
    if isinstance(error, SkillSearchError):
        return failure_of(error)
    if isinstance(error, queue.Full):
        return failure("busy", "Too many calls are waiting.", "Call again when others are done.")
    return failure("timeout", "The call took too long.", "Go on without, or call again later.")


def _success(answer: ToolAnswer, text_of: Text | None) -> CallToolResult:
    """Return a result as text and structured content; one without a text of its own, as JSON."""
    result = answer["result"]
    record = {"result": result} if text_of is None else object_of(result)
    record = record | object_of(answer.get("progress", {}))
    text = (text_of or _plain_text)(record)
    if problem := answer.get("problem"):
        record, text = {**record, "problem": problem}, f"{text}\n[{problem}]"
    content = TextContent(type="text", text=text)
    return CallToolResult(content=[content], structured_content=record)


def _words_only(progress: IndexProgress, tool: Tool | None, answer: ToolAnswer) -> JsonObject:
    """Say that an answer is by words alone, and when a better one can be had."""
    is_empty = False
    if tool and tool.text:
        result = object_of(answer["result"])
        is_empty = not (result["skills"] or result["perhaps"])
    outcome = "Nothing was found by words alone, which is not final" if is_empty else FOUND_BY_WORDS
    retry = "Search" if is_empty else "If none fits, search"
    left = progress.seconds_left
    return {
        "note": f"{outcome}: meaning is still being indexed ({progress.share:.0%})."
        f" {retry} again {progress.when}.",
        "words_only": {
            "indexed": round(progress.share, 4),
            "seconds_left": None if left is None else round(left, 1),
        },
    }


def _plain_text(record: JsonObject) -> str:
    """Write text as it is and any other result as JSON; the note comes last."""
    result = record["result"]
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return f"{text}\n\n{record['note']}" if "note" in record else text
