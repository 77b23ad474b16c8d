"""The server over streamable HTTP."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    RequestBodyLimitMiddleware,
    TransportSecuritySettings,
)
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skillsearch.mcp_server.connections import Connection, Limits
from skillsearch.mcp_server.listening import PATH, Listener

LIMITS = Limits()
BACKLOG = 512
"""Connections that may wait to be taken: with those that are, no more than a process may open."""
SHUTDOWN_SECONDS = 1
"""How long requests may take to end when the server does."""


async def serve_http(
    server: Server[Any], listener: Listener, stop: anyio.Event, limits: Limits = LIMITS
) -> None:
    """Serve until it is stopped.

    Args:
        server: The server.
        listener: Where; it is closed at the end.
        stop: Ends it, after requests had some time to end.
        limits: How much of it clients may hold.
    """
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_sessions=limits.sessions + limits.connections,  # those that are being opened
    )
    sessions = _Sessions(app, limits.sessions)
    config = uvicorn.Config(
        _Guard(RequestBodyLimitMiddleware(sessions, DEFAULT_MAX_REQUEST_BODY_SIZE), listener),
        http=cast("type[asyncio.Protocol]", partial(Connection, limits=limits)),
        ws="none",
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    running = _Server(config)

    async def end() -> None:
        """Ask for the end when it is time."""
        await stop.wait()
        running.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end)
        await running.serve([listener.socket])
        tasks.cancel_scope.cancel()


class _Server(uvicorn.Server):
    """A server that leaves signals to who runs it."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


class _Guard:
    """Lets requests through that show the token, and come by a name of this server."""

    def __init__(self, app: ASGIApp, listener: Listener) -> None:
        self._app = app
        self._token = f"Bearer {listener.token}".encode() if listener.token else None
        names = listener.authority
        self._host = re.compile(names, re.ASCII | re.IGNORECASE) if names else None
        self._origin = re.compile(f"https?://{names}", re.ASCII | re.IGNORECASE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        """Return the answer to a request that may not pass; None for one that may."""
        if not self._shows_token(headers.getlist("authorization")):
            asks = {"WWW-Authenticate": "Bearer", "Connection": "close"}
            return Response("Show the token: Authorization: Bearer TOKEN", 401, asks)
        if self._host is None:
            return None
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._host.fullmatch(hosts[0]):
            return Response("Host is not a name of this server", 421, {"Connection": "close"})
        if not all(map(self._origin.fullmatch, headers.getlist("origin"))):
            return Response("Origin is not this machine", 403, {"Connection": "close"})
        return None

    def _shows_token(self, shown: list[str]) -> bool:
        """Compare the token in a time that does not depend on it."""
        if self._token is None:
            return True
        return len(shown) == 1 and hmac.compare_digest(shown[0].encode("latin-1"), self._token)


@dataclass(slots=True)
class _Session:
    """What is known of a session.

    Attributes:
        busy: Requests of it that are being answered.
        is_used: Whether there was another than the one that opened it.
    """

    busy: int = 0
    is_used: bool = False


class _Sessions:
    """Keeps the sessions of the older protocol to a number: for a new one, an old one is ended.

    That is the one that was silent longest, never one with a request in progress; those that
    nobody used since they were opened come first. Its client is answered 404 from then on, which
    by the protocol tells it to open another. A request that breaks off goes no further.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._sessions: dict[str, _Session] = {}
        """By id, the one that was silent longest first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and end sessions if it opened one too many."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = await receive()
        if request["type"] == "http.request" and not request["more_body"]:
            latest = await self._answer(scope, _replay(request, receive), send)
            while len(self._sessions) > self._most and (silent := self._longest_silent(latest)):
                del self._sessions[silent]
                await self._end(silent, scope)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> str:
        """Have a request answered; note and return whose it was."""
        asked = Headers(scope=scope).get(MCP_SESSION_ID_HEADER, "")
        session = self._sessions.get(asked, _Session())
        session.busy += 1
        session.is_used = bool(asked)
        status, named = 0, ""

        async def note(message: Message) -> None:
            """Read what the answer says of the session."""
            nonlocal status, named
            if message["type"] == "http.response.start":
                status = message["status"]
                named = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER, "")
                if status < 400 and named and not asked:
                    self._sessions[named] = session
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            session.busy -= 1
            known = self._sessions.pop(asked or named, None)
            is_gone = status == 404 or (scope["method"] == "DELETE" and status < 400)
            if known is not None and not is_gone:
                self._sessions[asked or named] = known
        return asked or named

    def _longest_silent(self, latest: str) -> str | None:
        """Return the session to end; None if all but the latest are busy."""
        open_ = self._sessions.items()
        silent = [name for name, session in open_ if not session.busy and name != latest]
        return min(silent, key=lambda name: self._sessions[name].is_used, default=None)

    async def _end(self, session: str, scope: Scope) -> None:
        """End a session as its client would."""
        headers = [(MCP_SESSION_ID_HEADER.encode(), session.encode())]

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            """Tell nobody."""

        await self._app({**scope, "method": "DELETE", "headers": headers}, receive, send)


def _replay(first: Message, receive: Receive) -> Receive:
    """Return what gives a message that was taken already, then those behind it."""
    taken = [first]

    async def replay() -> Message:
        return taken.pop() if taken else await receive()

    return replay
