"""The server over streamable HTTP."""

from __future__ import annotations

import hmac
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from skillsearch.mcp_server.listening import PATH, Listener

MAX_CONNECTIONS = 256
"""Far more than one machine's agents; each open stream is one."""
MAX_SESSIONS = 1_000
SHUTDOWN_SECONDS = 1
"""How long requests may take to end when the server does."""


async def serve_http(server: Server[Any], listener: Listener, stop: anyio.Event) -> None:
    """Serve until it is stopped.

    Args:
        server: The server.
        listener: Where; it is closed at the end.
        stop: Ends it, after requests had some time to end.
    """
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_sessions=MAX_SESSIONS,
    )
    config = uvicorn.Config(
        _Guard(app, listener),
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
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
