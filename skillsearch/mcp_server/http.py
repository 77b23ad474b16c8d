"""The MCP server over streamable HTTP, and its sessions."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    RequestBodyLimitMiddleware,
    TransportSecuritySettings,
)
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skillsearch.mcp_server.connections import LIMITS, HttpLimits, serve_app
from skillsearch.mcp_server.listening import PATH, Listener


async def serve_http(
    server: Server[Any],
    listener: Listener,
    stop: anyio.Event,
    limits: HttpLimits = LIMITS,
    beside: ASGIApp | None = None,
) -> None:
    """Serve until `stop` is set and requests had some time to end; closes the listener.

    `beside` answers all other paths than that of the server, within the same limits.
    """
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_sessions=limits.sessions + limits.connections,  # some are being opened
    )
    sessions = _Sessions(app, limits.sessions)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        is_beside = beside and scope["type"] == "http" and scope["path"] != PATH
        await (beside if beside and is_beside else sessions)(scope, receive, send)

    limited = RequestBodyLimitMiddleware(route, DEFAULT_MAX_REQUEST_BODY_SIZE)
    await serve_app(limited, listener, stop, limits)


class _Session:
    """The requests of a session being answered, and whether it was used after it was opened."""

    def __init__(self) -> None:
        self.busy, self.is_used = 0, False


class _Sessions:
    """Limits the sessions of the older protocol: the one silent for longest ends for a new one.

    Unused ones end first, busy ones never. The 404 from then on tells a client to open another.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._sessions: dict[str, _Session] = {}
        """By id, the one silent for longest first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        taken = [await receive()]
        if taken[0]["type"] != "http.request" or taken[0]["more_body"]:
            return

        async def replay() -> Message:
            return taken.pop() if taken else await receive()

        latest, sessions = await self._answer(scope, replay, send), self._sessions
        while len(sessions) > self._most:
            quiet = [name for name, each in sessions.items() if not each.busy and name != latest]
            if not quiet:
                break
            silent = min(quiet, key=lambda name: sessions[name].is_used)
            del sessions[silent]
            await self._end(silent, scope)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> str:
        """Answer a request and return its session."""
        name = Headers(scope=scope).get(MCP_SESSION_ID_HEADER, "")
        session = self._sessions.get(name, _Session())
        session.busy += 1
        session.is_used = bool(name)
        status, opened = 0, ""

        async def note(message: Message) -> None:
            """Read status and session in the answer."""
            nonlocal status, opened
            if message["type"] == "http.response.start":
                status = message["status"]
                opened = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER, "")
                if status < 400 and opened and not name:
                    self._sessions[opened] = session
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            session.busy -= 1
            name = name or opened
            latest = self._sessions.pop(name, None)
            is_gone = status == 404 or (scope["method"] == "DELETE" and status < 400)
            if latest is not None and not is_gone:
                self._sessions[name] = latest
        return name

    async def _end(self, session: str, scope: Scope) -> None:
        """End a session as its client would."""
        headers = [(MCP_SESSION_ID_HEADER.encode(), session.encode())]

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            """Drop the answer."""

        await self._app({**scope, "method": "DELETE", "headers": headers}, receive, send)
