"""The server over stdin and stdout: one JSON message a line and nothing else."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

MAX_MESSAGE_BYTES = 4 << 20
"""The limit over HTTP, too."""

logger = logging.getLogger(__name__)


async def serve_stdio(
    server: Server[Any], incoming: BinaryIO, outgoing: BinaryIO, stop: anyio.Event
) -> None:
    """Serve one client until it says no more, hears no more, or `stop` is set.

    A thread may be left waiting for `incoming`.
    """
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage]()
    options = server.create_initialization_options()
    threads = ThreadPoolExecutor(2, thread_name_prefix="stdio")
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_when, stop, tasks.cancel_scope)
            tasks.start_soon(_read, incoming, threads, to_server, to_client.clone())
            tasks.start_soon(server.run, from_client, to_client, options)
            await _write(outgoing, threads, from_server)
            tasks.cancel_scope.cancel()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


async def _cancel_when(stop: anyio.Event, scope: anyio.CancelScope) -> None:
    """Cancel a scope once the event is set."""
    await stop.wait()
    scope.cancel()


async def _read(
    incoming: BinaryIO,
    threads: ThreadPoolExecutor,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    to_client: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Pass messages on; answer lines that are not messages."""
    loop = asyncio.get_running_loop()
    async with to_server, to_client:
        while line := await loop.run_in_executor(threads, _next_line, incoming):
            if len(line) > MAX_MESSAGE_BYTES:
                answer = _complaint(PARSE_ERROR, f"A message has at most {MAX_MESSAGE_BYTES} bytes")
                await to_client.send(answer)
            elif not line.isspace():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError as exc:
                    await to_client.send(_complaint_about(line, exc))
                else:
                    await to_server.send(SessionMessage(message))


def _next_line(incoming: BinaryIO) -> bytes:
    """Read a line, of a long one only its beginning; empty at the end."""
    line = rest = incoming.readline(MAX_MESSAGE_BYTES + 1)
    if len(line) > MAX_MESSAGE_BYTES:
        while rest and not rest.endswith(b"\n"):
            rest = incoming.readline(MAX_MESSAGE_BYTES)
    return line


async def _write(
    outgoing: BinaryIO,
    threads: ThreadPoolExecutor,
    from_server: MemoryObjectReceiveStream[SessionMessage],
) -> None:
    """Write messages until there are no more or nobody reads them."""
    loop = asyncio.get_running_loop()
    async with from_server:
        async for item in from_server:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await loop.run_in_executor(threads, _put, outgoing, text)
            except OSError as exc:
                logger.info("The client has stopped reading: %s", exc)
                return


def _put(outgoing: BinaryIO, text: str) -> None:
    outgoing.write(text.encode() + b"\n")
    outgoing.flush()


def _complaint_about(line: bytes, error: ValidationError) -> SessionMessage:
    """Answer a line that is not a message, by its id if it asks for an answer."""
    problem = error.errors(include_url=False, include_input=False)[0]
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return _complaint(PARSE_ERROR, "The line is not JSON")
    asked = record.get("id") if isinstance(record, dict) and "method" in record else None
    is_usable = isinstance(asked, int | str) and not isinstance(asked, bool) and _is_utf8(asked)
    is_json = problem["type"] != "json_invalid"
    reason = "a message" if is_json else f"strict JSON: {problem['msg']}"
    return _complaint(INVALID_REQUEST, f"The line is not {reason}", asked if is_usable else None)


def _is_utf8(value: int | str) -> bool:
    """Return whether a value can be sent: JSON can hold half a character, UTF-8 cannot."""
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return False
    return True


def _complaint(code: int, message: str, request_id: int | str | None = None) -> SessionMessage:
    """Return the error that answers an unreadable line."""
    error = ErrorData(code=code, message=message)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
