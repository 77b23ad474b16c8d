"""Lines over stdin and stdout, one message each, taken before the SDK is loaded."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import BinaryIO, NamedTuple

from skillsearch.mcp_server.handshake import Handshake

MAX_MESSAGE_BYTES = 4 << 20  # the limit over HTTP, too


class Streams(NamedTuple):
    """The streams of a client, and its first line if that was read; `is_greeted` if answered."""

    incoming: BinaryIO
    outgoing: BinaryIO
    first: bytes | None = None
    is_greeted: bool = False


def take_streams() -> Streams:
    """Reserve stdin and stdout for messages; others read nothing and write to stderr."""
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return Streams(os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb"))


def greet(streams: Streams, handshake: Handshake) -> Streams:
    """Read the first line of a client, and answer it if it is a usual handshake."""
    line = next_line(streams.incoming)
    answer = handshake.answer(line)
    if answer is not None:
        with suppress(OSError):  # The client has gone; whoever writes next will notice.
            put_line(streams.outgoing, answer)
    return streams._replace(first=line, is_greeted=answer is not None)


def next_line(incoming: BinaryIO) -> bytes:
    """Read a line, of a long one only its beginning; empty at the end."""
    line = rest = incoming.readline(MAX_MESSAGE_BYTES + 1)
    if len(line) > MAX_MESSAGE_BYTES:
        while rest and not rest.endswith(b"\n"):
            rest = incoming.readline(MAX_MESSAGE_BYTES)
    return line


def put_line(outgoing: BinaryIO, line: bytes) -> None:
    """Write a line at once."""
    outgoing.write(line)
    outgoing.flush()
