"""The server over streamable HTTP."""

from __future__ import annotations

import hmac
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from skillsearch.mcp_server.listening import PATH, Listener

MAX_CONNECTIONS = 256
"""Far more than one machine's agents; each open stream is one."""
MAX_SESSIONS = 1_000
SHUTDOWN_SECONDS = 1
"""How long requests may take to end when the server does."""


def security_of(listener: Listener) -> TransportSecuritySettings:
    """What the headers Host and Origin of a request may say.

    A web page can make a browser send requests here, by a name that its owner points to this
    machine. Where the server listens on all addresses its names are not known: there the
    token, which no page knows, is what keeps pages out.
    """
    names = (
        {listener.host, "127.0.0.1", "localhost", "::1"} if listener.is_local else {listener.host}
    )
    written = sorted(f"[{name}]" if ":" in name else name for name in names)
    hosts = [pattern for name in written for pattern in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=listener.host not in ("0.0.0.0", "::"),
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
    )


async def serve_http(server: Server[Any], listener: Listener, stop: anyio.Event) -> None:
    """Serve until it is stopped.

    Args:
        server: The server.
        listener: Where; it is closed at the end.
        stop: Ends it, after requests had some time to end.
    """
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=security_of(listener),
        max_sessions=MAX_SESSIONS,
    )
    config = uvicorn.Config(
        _Guard(app, listener.token) if listener.token else app,
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
    """Lets requests through that show the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "http" and not self._is_allowed(scope):
            refusal = Response(
                "Show the token: Authorization: Bearer TOKEN",
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        """Compare the token in a time that does not depend on it."""
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(shown) == 1 and hmac.compare_digest(shown[0], self._expected)
