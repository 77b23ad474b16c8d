"""The MCP server itself: what it answers to the requests of its clients."""

from __future__ import annotations

from collections import deque
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ToolsListChanged
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    SubscriptionsListenRequestParams,
)
from mcp_types import Tool as McpTool

from skillsearch._version import __version__
from skillsearch.mcp_server.calls import Calls
from skillsearch.mcp_server.desk import Desk
from skillsearch.mcp_server.offers import Offers
from skillsearch.mcp_server.prompts import Prompts, add_completion
from skillsearch.mcp_server.publishing import PublisherDesk, ask
from skillsearch.mcp_server.resources import add_resources
from skillsearch.mcp_server.served_library import ServedLibrary
from skillsearch.mcp_server.skills_extension import skills_extension
from skillsearch.mcp_server.tools import definition, face_of, result_of, session_of

SEARCH_FIRST = (
    "Proven instructions (skills) for many tasks. Before a task that is not trivial, call"
    " search_skills with what is to be done. Where a skill fits, load it and follow it; where none"
    " does, go on without."
)
USE_TOOLS = (
    "Proven instructions (skills) for many tasks. Before a task that is not trivial, see whether"
    " one of the skills that the tools name fits. Where one does, load it and follow it."
)
TOLD_TTL_MS = 60_000
"""How long clients that are told of changes may take an answer for true."""
MAX_TOLD_SESSIONS = 64
"""Sessions of the older protocol that are told of changes; of more, the latest."""

_Context = ServerRequestContext[Any, Any]


def build_server(
    desk: Desk, served: ServedLibrary, offers: Offers, *, tells_changes: bool = False
) -> SkillServer:
    """Make a server of all that there is to serve.

    Args:
        desk: Where the library is used.
        served: The library.
        offers: The toolset, over the same library.
        tells_changes: True where `SkillServer.tell_changed` will be called.

    Returns:
        The server.
    """
    server = SkillServer(desk, offers, tells_changes=tells_changes)
    publisher = PublisherDesk(desk, served)
    ttl_ms = TOLD_TTL_MS if tells_changes else 0
    server.add_extension(skills_extension(publisher, ttl_ms=ttl_ms))
    add_resources(server, publisher, ttl_ms=ttl_ms)
    add_completion(server, desk, served, publisher)
    return server


class SkillServer(Server[Any]):
    """Serves one toolset over one library to any number of clients."""

    def __init__(self, desk: Desk, offers: Offers, *, tells_changes: bool = False) -> None:
        """Make a server.

        Args:
            desk: Where the library is used.
            offers: The toolset, used at the desk alone.
            tells_changes: True where `tell_changed` will be called.
        """
        super().__init__(
            "skillsearch",
            version=__version__,
            instructions=SEARCH_FIRST if offers.searches else USE_TOOLS,
            get_tool_input_schema=lambda name: None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self._desk = desk
        self._offers = offers
        self._calls = Calls(desk, offers)
        Prompts(desk, offers, self._calls).add_to(self)
        self._tells_changes = tells_changes
        self._events = InMemorySubscriptionBus()
        self._told: deque[ServerSession] = deque(maxlen=MAX_TOLD_SESSIONS)
        if tells_changes:
            listen = ListenHandler(self._events)
            self.add_request_handler(
                "subscriptions/listen", SubscriptionsListenRequestParams, listen
            )
            self.add_notification_handler(
                "notifications/initialized", NotificationParams, self._remember
            )

    def add_extension(self, extension: Extension) -> None:
        """Serve the methods of an extension, and declare it.

        Args:
            extension: The extension.
        """
        for method in extension.methods():
            self.add_request_handler(method.method, method.params_type, method.handler)
        self.extensions[extension.identifier] = extension.settings()

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return what clients of the older protocol are told of this server.

        Args:
            notification_options: Which changes are told; by default those that can happen.
            experimental_capabilities: As of `Server`.
            extensions: As of `Server`.

        Returns:
            The options.
        """
        told = self._tells_changes
        options = notification_options or NotificationOptions(
            tools_changed=told and self._offers.names_skills, resources_changed=told
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    async def tell_changed(self) -> None:
        """Tell all clients that listen that there are other skills now."""
        names_skills = self._offers.names_skills
        if names_skills:
            await self._events.publish(ToolsListChanged())
        await self._events.publish(ResourcesListChanged())
        for session in tuple(self._told):
            if names_skills:
                await session.send_tool_list_changed()
            await session.send_resource_list_changed()

    async def _remember(self, ctx: _Context, params: NotificationParams) -> None:
        """Remember a client of the older protocol, which does not ask to be told."""
        self._told.append(ctx.session)

    async def _list_tools(
        self, ctx: _Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """Answer ``tools/list``: all on one page."""
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "There is one page of tools; ask without a cursor.")
        return ListToolsResult(tools=await ask(self._desk, self._definitions, session_of(ctx)))

    async def _call_tool(self, ctx: _Context, params: CallToolRequestParams) -> CallToolResult:
        """Answer ``tools/call``."""
        answer = await self._calls.answer(
            session_of(ctx), params.name, params.arguments or {}, ctx.session.report_progress
        )
        return result_of(answer, face_of(self._offers.name, params.name))

    def _definitions(self, session: str) -> list[McpTool]:
        """Return the definitions of a client's tools."""
        return list(map(definition, self._offers.of(session).toolset.tools()))
