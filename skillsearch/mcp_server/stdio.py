"""The server over stdin and stdout: one JSON message a line and nothing else."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, BinaryIO

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

MAX_MESSAGE_BYTES = 4 << 20  # the limit over HTTP, too

logger = logging.getLogger(__name__)


async def serve_stdio(
    server: Server[Any], incoming: BinaryIO, outgoing: BinaryIO, stop: anyio.Event
) -> None:
    """Serve one client until it says no more, hears no more, or `stop` is set."""
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage]()
    threads = ThreadPoolExecutor(2, thread_name_prefix="stdio")
    in_thread = partial(asyncio.get_running_loop().run_in_executor, threads)

    async def read(to_client: MemoryObjectSendStream[SessionMessage]) -> None:
        """Pass messages on; answer lines that are not messages."""
        async with to_server, to_client:
            while line := await in_thread(_next_line, incoming):
                if len(line) > MAX_MESSAGE_BYTES:
                    most = f"A message has at most {MAX_MESSAGE_BYTES} bytes"
                    await to_client.send(_complaint(PARSE_ERROR, most))
                elif not line.isspace():
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValidationError as exc:
                        await to_client.send(_complaint_about(line, exc))
                    else:
                        await to_server.send(SessionMessage(message))

    async def cancel() -> None:
        await stop.wait()
        tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks, from_server:
            tasks.start_soon(cancel)
            tasks.start_soon(read, to_client.clone())
            options = server.create_initialization_options()
            tasks.start_soon(server.run, from_client, to_client, options)
            async for item in from_server:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await in_thread(_put, outgoing, text)
                except OSError as exc:
                    logger.info("The client has stopped reading: %s", exc)
                    break
            tasks.cancel_scope.cancel()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _next_line(incoming: BinaryIO) -> bytes:
    """Read a line, of a long one only its beginning; empty at the end."""
    line = rest = incoming.readline(MAX_MESSAGE_BYTES + 1)
    if len(line) > MAX_MESSAGE_BYTES:
        while rest and not rest.endswith(b"\n"):
            rest = incoming.readline(MAX_MESSAGE_BYTES)
    return line


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
    request = record.get("id") if isinstance(record, dict) and "method" in record else None
    try:
        str(request).encode()
    except UnicodeEncodeError:  # JSON can hold half a character, UTF-8 cannot
        request = None
    if isinstance(request, bool) or not isinstance(request, int | str):
        request = None
    is_json = problem["type"] != "json_invalid"
    reason = "a message" if is_json else f"strict JSON: {problem['msg']}"
    return _complaint(INVALID_REQUEST, f"The line is not {reason}", request)


def _complaint(code: int, message: str, request_id: int | str | None = None) -> SessionMessage:
    error = ErrorData(code=code, message=message)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
