"""Connections to the server: each has to do its part in time, and some give way to new ones."""

from __future__ import annotations

import asyncio
import ipaddress
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_HALF_OPEN, _IDLE, _STREAM = range(3)
"""What gives way, the least loss first. A call that is being answered never does."""

_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a server its clients may hold.

    Attributes:
        connections: Connections in all: far more than one machine's agents, and few enough for
            the 1,024 files that a process may open.
        of_machine: Connections of one other machine; this one's are limited by the sum alone.
        sessions: Sessions of the older protocol.
        seconds: How long a request may take to arrive whole, and an answer may lie unread.
    """

    connections: int = 256
    of_machine: int = 64
    sessions: int = 1_000
    seconds: float = 15


class Connection(H11Protocol):
    """A connection that is dropped if it keeps the server waiting, or if others need its place.

    Connections that have sent no whole request give way first, then those between two requests,
    then streams that a client opened to be told of changes: it may open them again.
    """

    def __init__(self, *, limits: Limits, **options: Any) -> None:
        """Take the limits, and what `uvicorn` gives its protocols."""
        super().__init__(**options)
        self._limits = limits
        self._arrival: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._machine: str | None = None
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, and make room if there are too many connections."""
        super().connection_made(transport)
        self._machine = _machine_of(self.client)
        self._expect()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_expecting()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request that has begun."""
        if self._is_refused:
            self.transport.write(_TOO_MANY)
            self.transport.close()
            return
        self._expect()
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_expecting()

    def on_response_complete(self) -> None:
        """Note since when there is nothing to do."""
        self._since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read what it asked for."""
        super().pause_writing()
        self._reading = self._reading or self.loop.call_later(self._limits.seconds, self._drop)

    def resume_writing(self) -> None:
        """Go on, as the client has read."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        super().resume_writing()

    def _expect(self) -> None:
        """Begin to wait for a whole request."""
        if self._arrival is None:
            self._since = self.loop.time()
            self._arrival = self.loop.call_later(self._limits.seconds, self._drop)

    def _stop_expecting(self) -> None:
        """End the wait for a request."""
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _make_room(self) -> None:
        """Drop the connection that is missed least if there are too many with this one."""
        others = [other for other in self.connections if isinstance(other, Connection)]
        others.remove(self)
        neighbours = [other for other in others if other._machine == self._machine]
        if self._machine is not None and len(neighbours) >= self._limits.of_machine:
            others = neighbours
        elif len(others) < self._limits.connections:
            return
        if giving_way := [other for other in others if other._loss is not None]:
            min(giving_way, key=lambda other: (other._loss, other._since))._drop()
        else:
            self._is_refused = True

    @property
    def _loss(self) -> int | None:
        """What would be lost with this connection; None if that is a call."""
        if self._arrival is not None or self.cycle is None:
            return _HALF_OPEN
        if self.cycle.response_complete:
            return _IDLE
        return _STREAM if self.scope["method"] == "GET" else None

    def _drop(self) -> None:
        """Close the connection, whatever is still to be sent."""
        self.connections.discard(self)
        self.transport.abort()


def _machine_of(client: tuple[str, int] | None) -> str | None:
    """Return what tells a client's machine from others; None for this machine.

    A network of IPv6 counts as one machine: its owner has 2^64 addresses.
    """
    address = ipaddress.ip_address(client[0].partition("%")[0] if client else "::1")
    if isinstance(address, ipaddress.IPv6Address):
        if not address.ipv4_mapped:
            network = ipaddress.ip_network((int(address), 64), strict=False)
            return None if address.is_loopback else str(network)
        address = address.ipv4_mapped
    return None if address.is_loopback else str(address)
