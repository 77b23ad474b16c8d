"""The server over stdin and stdout: one JSON message a line and nothing else."""

from __future__ import annotations

import asyncio
import json
import logging
import select
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, BinaryIO

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from skillsearch.files.paths import is_utf8
from skillsearch.mcp_server.streams import MAX_MESSAGE_BYTES, Streams, next_line, put_line

CANCELLED, LISTENING = "notifications/cancelled", "subscriptions/listen"
LAST_SECONDS = 10.0
"""How long a client that asks no more, as in a pipe, may wait for the answers it is owed."""

logger = logging.getLogger(__name__)


async def serve_stdio(server: Server[Any], streams: Streams, stop: anyio.Event) -> None:
    """Serve one client until it says no more, hears no more, or `stop` is set.

    If it is greeted, the answer of `server` to its first request is left out.
    """
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage]()
    owed = _Owed()
    threads = ThreadPoolExecutor(2, thread_name_prefix="stdio")
    in_thread = partial(asyncio.get_running_loop().run_in_executor, threads)

    async def read(to_client: MemoryObjectSendStream[SessionMessage]) -> None:
        """Pass messages on; answer lines that are not messages."""
        line = streams.first
        async with to_server, to_client:
            while line != b"":
                if line and not line.isspace():
                    message, is_complaint = _read_message(line)
                    owed.ask(message)
                    await (to_client if is_complaint else to_server).send(SessionMessage(message))
                line = await in_thread(next_line, streams.incoming)
            await owed.settle(streams.outgoing)

    async def cancel() -> None:
        await stop.wait()
        tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks, from_server:
            tasks.start_soon(cancel)
            tasks.start_soon(read, to_client.clone())
            options = server.create_initialization_options()
            tasks.start_soon(server.run, from_client, to_client, options)
            is_left_out = streams.is_greeted
            async for item in from_server:
                owed.answer(item.message)
                if is_left_out and isinstance(item.message, JSONRPCResponse):
                    is_left_out = False
                    continue
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await in_thread(put_line, streams.outgoing, f"{text}\n".encode())
                except OSError as exc:
                    logger.info("The client has stopped reading: %s", exc)
                    break
            tasks.cancel_scope.cancel()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


class _Owed:
    """The requests that a client waits for, by their ids."""

    def __init__(self) -> None:
        self._ids: set[int | str | None] = set()

    def ask(self, message: JSONRPCMessage) -> None:
        """Note a request, or that it is not to be answered any more; none that stays open."""
        if isinstance(message, JSONRPCRequest) and message.method != LISTENING:
            self._ids.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            cancelled = (message.params or {}).get("requestId")
            self._ids -= {cancelled} if isinstance(cancelled, int | str) else set()

    def answer(self, message: JSONRPCMessage) -> None:
        """Note an answer."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._ids.discard(message.id)

    async def settle(self, outgoing: BinaryIO) -> None:
        """Wait until all are answered, but not for long, and not for a client that has gone."""
        poll = select.poll()
        poll.register(outgoing, 0)
        with anyio.move_on_after(LAST_SECONDS):
            while self._ids and not poll.poll(0):
                await anyio.sleep(0.02)


def _read_message(line: bytes) -> tuple[JSONRPCMessage, bool]:
    """Return the message in a line, or what is to be answered to a line that is none, and True."""
    if len(line) > MAX_MESSAGE_BYTES:
        return _complaint(PARSE_ERROR, f"A message has at most {MAX_MESSAGE_BYTES} bytes"), True
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as exc:
        return _complaint_about(line, exc), True
    if isinstance(message, JSONRPCNotification) and "id" in json.loads(line):
        # The SDK takes a request with an id that none may have, such as null, for a notification.
        return _complaint(INVALID_REQUEST, "The id is not a text or a whole number"), True
    return message, False


def _complaint_about(line: bytes, error: ValidationError) -> JSONRPCError:
    """Answer a line that is not a message, by its id if it asks for an answer."""
    problem = error.errors(include_url=False, include_input=False)[0]
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return _complaint(PARSE_ERROR, "The line is not JSON")
    request = record.get("id") if isinstance(record, dict) and "method" in record else None
    is_id = isinstance(request, int | str) and not isinstance(request, bool)
    if not is_id or not is_utf8(str(request)):  # JSON can hold half a character, UTF-8 cannot
        request = None
    is_json = problem["type"] != "json_invalid"
    reason = "a message" if is_json else f"strict JSON: {problem['msg']}"
    return _complaint(INVALID_REQUEST, f"The line is not {reason}", request)


def _complaint(code: int, message: str, request_id: int | str | None = None) -> JSONRPCError:
    error = ErrorData(code=code, message=message)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
