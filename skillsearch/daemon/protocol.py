"""What the daemon and its clients say to each other: one JSON object a line, one question each.

A request is ``{"protocol", "version", "method", "arguments"}``, a response ``{"protocol",
"version"}`` with either ``"result"`` or ``"error": {"message", "final"}``. JSON escapes keep every
message ASCII.
"""

from __future__ import annotations

import json
import time

from skillsearch._version import __version__
from skillsearch.errors import DaemonError

TYPE_CHECKING = False  # `typing` would cost every prompt some milliseconds
if TYPE_CHECKING:
    from socket import socket

    from skillsearch.types import JsonValue

PROTOCOL = 1
"""Bump when a message changes its form, so that releases do not misunderstand each other."""
IDLE_SECONDS = 900.0
"""How long the daemon waits for another question before it ends."""
MAX_REQUEST_BYTES = 1 << 20
"""A query of the greatest length has 65,536 characters, of up to 12 bytes each as JSON."""
MAX_RESPONSE_BYTES = 64 << 20
"""1,000 hits, explained, stay far below it."""
_BLOCK = 1 << 16


def message(**content: JsonValue) -> bytes:
    """Write a message of this version."""
    record = {"protocol": PROTOCOL, "version": __version__, **content}
    return json.dumps(record).encode("ascii") + b"\n"


def receive(connection: socket, limit: int, deadline: float) -> dict[str, JsonValue]:
    """Read one message.

    Args:
        connection: Where it comes from.
        limit: Bytes that it may have.
        deadline: When it must be there whole, by the monotonic clock.

    Returns:
        The message; what stands in it is not checked.

    Raises:
        DaemonError: When it is too long, no JSON object, or of another protocol.
        OSError: When the connection breaks, or the deadline passes.
    """
    data = bytearray()
    while b"\n" not in data[-_BLOCK:]:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("there was no whole message in time")
        connection.settimeout(remaining)
        block = connection.recv(_BLOCK)
        if not block:
            raise DaemonError("The connection ended before the end of a message.")
        data += block
        if len(data) > limit:
            raise DaemonError(f"A message is longer than {limit:,} bytes.")
    return _parse(bytes(data))


def result_of(response: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Take the result out of a response.

    Args:
        response: What the daemon sent.

    Returns:
        The result.

    Raises:
        DaemonError: When the response is an error, or has neither.
    """
    result, error = response.get("result"), response.get("error")
    if isinstance(result, dict):
        return result
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        raise DaemonError(error["message"], is_final=error.get("final") is True)
    raise DaemonError("The daemon sent no answer that can be read.")


def _parse(data: bytes) -> dict[str, JsonValue]:
    """Read the first line as a message of our protocol."""
    try:
        found = json.loads(data.partition(b"\n")[0])
    except (ValueError, RecursionError) as exc:
        raise DaemonError(f"A message is no JSON: {str(exc)[:200]}") from exc
    if not isinstance(found, dict) or found.get("protocol") != PROTOCOL:
        raise DaemonError(f"A message is none of protocol {PROTOCOL}.")
    return found
