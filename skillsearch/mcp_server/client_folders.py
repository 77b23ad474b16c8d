"""The folders that a client works in, as it tells them: the skills of other projects are not its.

The protocol calls them roots. It asks for them no more since 2026-07-28, but hosts still tell them;
a client that does not is taken to work where the server runs. One that tells none, or none on this
machine, works in no project.
"""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

import anyio
import mcp_types as mt
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from skillsearch.mcp_server.served_library import FOLDERS

SECONDS = 2.0
"""How long a client may take to name its folders."""
MAX_UNANSWERED = 3
"""After how many requests without an answer in time a client is asked no more."""
MAX_FOLDERS = 32
_ASKING = ("tools/", "resources/", "prompts/", "completion/")
_CHANGED = "notifications/roots/list_changed"

logger = logging.getLogger(__name__)


class _Client:
    """What a client has said of its folders: None if it does not name any."""

    def __init__(self, folders: tuple[str, ...] | None = None) -> None:
        self.folders = folders
        self.unanswered, self.is_settled = 0, False

    async def ask(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Ask for the folders; without an answer in time, the next request asks again."""
        try:
            self.folders = await _ask(ctx)
        except TimeoutError:
            self.unanswered += 1
            self.is_settled = self.unanswered >= MAX_UNANSWERED
            logger.info("The client does not say in %g s where it works", SECONDS)
        else:
            self.is_settled = True


class ClientFolders:
    """Asks each client for its folders until it answers, and again when it says they changed."""

    def __init__(self) -> None:
        """Begin without clients."""
        self._clients: WeakKeyDictionary[ServerSession, _Client] = WeakKeyDictionary()

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Answer a message with `FOLDERS` set to those of its client."""
        client = self._clients.setdefault(ctx.session, _Client())
        if ctx.method == _CHANGED:
            # An answer that is still awaited tells the folders before the change.
            self._clients[ctx.session] = _Client(client.folders)
        if ctx.request_id is None or not ctx.method.startswith(_ASKING):
            return await call_next(ctx)
        if not client.is_settled:
            await client.ask(ctx)
        token = FOLDERS.set(client.folders)
        try:
            return await call_next(ctx)
        finally:
            FOLDERS.reset(token)


async def _ask(ctx: ServerRequestContext[Any, Any]) -> tuple[str, ...] | None:
    """Return the folders of a client, by their paths; None if it tells none. May time out."""
    session, capabilities = ctx.session, ctx.session.client_capabilities
    if capabilities is None or capabilities.roots is None or not session.can_send_request:
        return None
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        with anyio.fail_after(SECONDS):
            answer = await session.send_request(
                mt.ListRootsRequest(), mt.ListRootsResult, metadata=related
            )
    except ValidationError as exc:  # The library takes no list with another scheme than ``file``.
        logger.info("The client works in no folder of this machine: %s", exc)
        return ()
    except MCPError as exc:
        logger.info("The client does not say where it works: %s", exc)
        return None
    paths = [_path(str(root.uri)) for root in answer.roots[:MAX_FOLDERS]]
    return tuple(filter(None, paths))


def _path(uri: str) -> str:
    """Return the path of a folder on this machine, or nothing."""
    parts = urlsplit(uri)
    path = unquote(parts.path, errors="surrogateescape")
    is_here = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return path if is_here and path.startswith("/") and "\0" not in path else ""
