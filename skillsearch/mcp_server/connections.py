"""Connections over HTTP: how many, how long, and which of them address this server by its name."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

import anyio
import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from skillsearch.mcp_server.listening import Listener

BACKLOG = 512
"""Connections that may wait to be accepted: with the open ones, no more than a process may open."""
SHUTDOWN_SECONDS = 1  # how long requests may go on when the server ends

_HALF_OPEN, _IDLE, _STREAM = range(3)
"""Connections that give way, the smallest loss first. A call that is being answered never does."""

_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class HttpLimits(NamedTuple):
    """How much of a server its clients may hold."""

    connections: int = 256  # few enough for the 1,024 files that a process may open
    of_machine: int = 64  # of one other machine; ours is limited by the sum alone
    sessions: int = 1_000  # of the older protocol
    seconds: float = 15  # for a request to arrive, and for an answer to be read


LIMITS = HttpLimits()


async def serve_app(
    app: ASGIApp, listener: Listener, stop: anyio.Event, limits: HttpLimits = LIMITS
) -> None:
    """Serve until `stop` is set and requests had some time to end; closes the listener.

    Only requests reach the app that address this server by one of its names and show its token, if
    it has one.
    """
    config = uvicorn.Config(
        _Guard(app, listener),
        http=type("Limited", (HttpConnection,), {"limits": limits}),
        ws="none",
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    running = _Server(config)

    async def end() -> None:
        await stop.wait()
        running.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end)
        await running.serve([listener.socket])
        tasks.cancel_scope.cancel()


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class HttpConnection(H11Protocol):
    """A connection that is dropped if it keeps the server waiting or others need its place.

    Half-open ones give way first, then idle ones, then streams that a client may open again.
    """

    limits = LIMITS
    _arrival: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _since = 0.0
    _machine: str | None = None
    _is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, and make room if there are too many connections."""
        super().connection_made(transport)
        self._machine = machine_of(self.client)
        self._expect()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._stop_expecting()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of the request, if it is not complete."""
        if self._is_refused:
            self.transport.write(_TOO_MANY)
            self.transport.close()
            return
        self._expect()
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_expecting()

    def on_response_complete(self) -> None:
        """Note since when the connection is idle."""
        self._since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Give the client some time to read its answer."""
        super().pause_writing()
        self._reading = self._reading or self.loop.call_later(self.limits.seconds, self._drop)

    def resume_writing(self) -> None:
        """Go on; the client has read."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        super().resume_writing()

    def _expect(self) -> None:
        if self._arrival is None:
            self._since = self.loop.time()
            self._arrival = self.loop.call_later(self.limits.seconds, self._drop)

    def _stop_expecting(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _make_room(self) -> None:
        """Drop the least valuable connection if this one is one too many."""
        others = [other for other in self.connections if isinstance(other, HttpConnection)]
        others.remove(self)
        neighbours = [other for other in others if other._machine == self._machine]
        if self._machine is not None and len(neighbours) >= self.limits.of_machine:
            others = neighbours
        elif len(others) < self.limits.connections:
            return
        if giving_way := [other for other in others if other._loss is not None]:
            min(giving_way, key=lambda other: (other._loss, other._since))._drop()
        else:
            self._is_refused = True

    @property
    def _loss(self) -> int | None:
        """The loss if this connection is dropped; None for a call, which never is."""
        if self._arrival is not None or self.cycle is None:
            return _HALF_OPEN
        if self.cycle.response_complete:
            return _IDLE
        return _STREAM if self.scope["method"] == "GET" else None

    def _drop(self) -> None:
        """Close the connection without sending pending data."""
        self.connections.discard(self)
        self.transport.abort()


def machine_of(client: tuple[str, int] | None) -> str | None:
    """Identify a client's machine, with IPv6 its whole network; None for this machine."""
    address = ipaddress.ip_address(client[0].partition("%")[0] if client else "::1")
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return None
    is_wide = address.version == 6
    return str(ipaddress.ip_network((int(address), 64), strict=False) if is_wide else address)


class _Guard:
    """Passes on requests that show the token and address this server by one of its names."""

    def __init__(self, app: ASGIApp, listener: Listener) -> None:
        self._app = app
        self._token = f"Bearer {listener.token}".encode() if listener.token else None
        names = listener.authority
        self._host = re.compile(names, re.ASCII | re.IGNORECASE) if names else None
        self._origin = re.compile(f"https?://{names}", re.ASCII | re.IGNORECASE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        if self._token is not None:
            shown = headers.getlist("authorization")
            # Compared in constant time.
            if len(shown) != 1 or not hmac.compare_digest(shown[0].encode("latin-1"), self._token):
                asks = {"WWW-Authenticate": "Bearer"}
                message = "Show the token: Authorization: Bearer TOKEN"
                return _refused(401, "UNAUTHENTICATED", message, asks)
        if self._host is None:
            return None
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._host.fullmatch(hosts[0]):
            return _refused(421, "INVALID_ARGUMENT", "Host is not a name of this server")
        if not all(map(self._origin.fullmatch, headers.getlist("origin"))):
            return _refused(403, "INVALID_ARGUMENT", "Origin is not this machine")
        return None


def _refused(
    status: int, code: str, message: str, headers: Mapping[str, str] = MappingProxyType({})
) -> Response:
    """Return a refusal in the form that registries have, after which the connection ends."""
    record = {"errorCode": code, "message": message}
    return JSONResponse(record, status, {**headers, "Connection": "close"})
