"""The MCP server itself: its tools, prompts and completions."""

from __future__ import annotations

import tomllib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as mt
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ToolsListChanged
from mcp_types import INVALID_PARAMS, TextContent

from skillsearch._version import __version__
from skillsearch.agents.arguments import parsed
from skillsearch.agents.bounds import MAX_PROMPT_CHARS, page
from skillsearch.agents.schemas import arguments_schema
from skillsearch.library.thread import LibraryThread
from skillsearch.mcp_server import calls
from skillsearch.mcp_server.calls import Context, in_thread, session_of
from skillsearch.mcp_server.client_folders import ClientFolders
from skillsearch.mcp_server.handshake import SERVER_NAME, Handshake
from skillsearch.mcp_server.session_tools import SessionTools
from skillsearch.mcp_server.skill_resources import TEMPLATE, SkillResources
from skillsearch.mcp_server.skill_uris import SCHEME
from skillsearch.text.safe_text import one_line

_Page = mt.PaginatedRequestParams

TOLD_TTL_MS = 60_000  # how long clients that are told of changes may keep an answer
MAX_TOLD_SESSIONS = 64  # sessions of the older protocol that are told of changes, the latest ones
_FEWER = "the user can offer fewer skills"
MAX_COMPLETIONS = 100  # the most that the protocol allows in one answer

_TABLE = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8"))
_TEXTS = _TABLE.pop("texts")
_SKILLS, _FIND, _USE, _ENRICH = (mt.Prompt(name=name, **row) for name, row in _TABLE.items())


async def _read_arguments(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Read the arguments of a call that a host sends as JSON text; the library takes an object."""
    text = (ctx.params or {}).get("arguments")
    if ctx.method == "tools/call" and isinstance(text, str):
        with suppress(ValueError):
            ctx = replace(ctx, params={**(ctx.params or {}), "arguments": parsed(text)})
    return await call_next(ctx)


class SkillServer(Server[Any]):
    """Serves one toolset over one library to any number of clients."""

    def __init__(
        self,
        thread: LibraryThread,
        tools: SessionTools,
        *,
        tells_changes: bool = False,
        patience: calls.Patience = calls.PATIENCE,
        enriching: Callable[[], str] | None = None,
    ) -> None:
        """Use tools and their library in a thread; if it `tells_changes`, call `tell_changed`.

        `enriching` renders what tells an agent on this machine to write example requests.
        """
        self._handshake = Handshake(tools.row, tells_changes)
        super().__init__(
            SERVER_NAME,
            version=__version__,
            instructions=self._handshake.instructions,
            get_tool_input_schema=lambda name: None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self.middleware += [ClientFolders(), _read_arguments]
        add = self.add_request_handler
        ttl = TOLD_TTL_MS if tells_changes else 0
        self._thread = thread
        self._tools = tools
        self._calls = calls.Calls(thread, tools, patience)
        self._resources = SkillResources(thread, tools.served, ttl_ms=ttl)
        self._resources.add_to(self)
        self._enriching = enriching
        prompts = [_SKILLS] * tools.row.has_prompt
        if tools.row.task_tools:
            prompts += [_FIND, _USE, *([_ENRICH] if enriching else [])]
        self._prompts = {prompt.name: prompt for prompt in prompts}
        if prompts:
            add("prompts/list", _Page, self._list_prompts)
            add("prompts/get", mt.GetPromptRequestParams, self._get_prompt)
        add("completion/complete", mt.CompleteRequestParams, self._complete)
        self._events = InMemorySubscriptionBus()
        self._told: deque[ServerSession] = deque(maxlen=MAX_TOLD_SESSIONS)
        if tells_changes:
            listening = mt.SubscriptionsListenRequestParams
            add("subscriptions/listen", listening, ListenHandler(self._events))
            greeted = mt.NotificationParams
            self.add_notification_handler("notifications/initialized", greeted, self._remember)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the options for clients of the older protocol, with the changes that we tell."""
        options = notification_options or NotificationOptions(
            tools_changed=self._handshake.tools_change,
            resources_changed=self._handshake.tells_changes,
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    async def tell_changed(self) -> None:
        """Tell all listening clients that there are other skills now."""
        if self._handshake.tools_change:
            await self._events.publish(ToolsListChanged())
        await self._events.publish(ResourcesListChanged())
        for session in tuple(self._told):
            if self._handshake.tools_change:
                await session.send_tool_list_changed()
            await session.send_resource_list_changed()

    async def _remember(self, ctx: Context, params: mt.NotificationParams) -> None:
        """Remember a client of the older protocol, which does not ask to be told."""
        self._told.append(ctx.session)

    async def _list_tools(self, ctx: Context, params: _Page | None) -> mt.ListToolsResult:
        """Return all definitions; hosts copy them into every prompt, so results have no schema."""
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "There is one page of tools; ask without a cursor.")

        hints = mt.ToolAnnotations

        def definitions() -> list[mt.Tool]:
            return [
                mt.Tool(
                    name=tool.name,
                    title=tool.name.replace("_", " ").capitalize(),
                    description=tool.description,
                    input_schema=arguments_schema(tool.arguments),
                    annotations=hints(read_only_hint=tool.read_only, open_world_hint=False),
                )
                for tool in self._tools.of(session_of(ctx)).toolset.tools()
            ]

        return mt.ListToolsResult(tools=await in_thread(self._thread, definitions))

    async def _call_tool(self, ctx: Context, params: mt.CallToolRequestParams) -> mt.CallToolResult:
        return await self._calls.result(ctx, params.name, params.arguments or {})

    async def _list_prompts(self, ctx: Context, params: _Page) -> mt.ListPromptsResult:
        return mt.ListPromptsResult(prompts=list(self._prompts.values()))

    async def _get_prompt(
        self, ctx: Context, params: mt.GetPromptRequestParams
    ) -> mt.GetPromptResult:
        prompt = self._prompts.get(params.name)
        if prompt is None:
            name, names = one_line(params.name, 80), " or ".join(map(repr, self._prompts))
            raise MCPError(INVALID_PARAMS, f"There is no prompt {name!r}; ask for {names}.")
        arguments = _checked(prompt, params.arguments or {})
        if prompt is _SKILLS:

            def render() -> str:
                render = self._tools.of(session_of(ctx)).prompt
                return page(render(), then=_FEWER, room=MAX_PROMPT_CHARS) if render else ""

            text = await in_thread(self._thread, render)
        elif prompt is _FIND:
            search, load = self._tools.row.task_tools
            answer = await self._call(ctx, search, {"query": arguments["task"]})
            text = _TEXTS["find_skill"].format(answer=answer, load=load, **arguments)
        elif prompt is _ENRICH and self._enriching:
            text = self._enriching()
        else:
            _, load = self._tools.row.task_tools
            body = await self._call(ctx, load, {"name": arguments["name"]})
            text = _TEXTS["use_skill"].format(body=body)
            text += _TEXTS["use_skill_task"].format(**arguments) if arguments.get("task") else ""
        message = mt.PromptMessage(role="user", content=TextContent(type="text", text=text))
        return mt.GetPromptResult(description=prompt.description, messages=[message])

    async def _call(self, ctx: Context, tool: str, arguments: dict[str, str]) -> str:
        """Call a tool for a prompt, which fails if the tool does."""
        result = await self._calls.result(ctx, tool, arguments)
        text = "\n".join(part.text for part in result.content if isinstance(part, TextContent))
        if result.is_error:
            raise MCPError(INVALID_PARAMS, text)
        return text

    async def _complete(self, ctx: Context, params: mt.CompleteRequestParams) -> mt.CompleteResult:
        """Answer ``completion/complete``: names of skills in prompts, and paths of their files."""
        ref, argument = params.ref, params.argument
        named = ref.name if isinstance(ref, mt.PromptReference) else ref.uri
        if (named, argument.name) == (_USE.name, "name"):
            values = await in_thread(self._thread, lambda: self._names(argument.value))
            has_more = len(values) > MAX_COMPLETIONS
        elif (named, argument.name) == (TEMPLATE.uri_template, "path"):
            start = SCHEME + argument.value
            manifests, last = await self._resources.ask(lambda p: p.page(start, MAX_COMPLETIONS))
            uris = (manifest.uri for manifest in manifests)
            values = [uri.removeprefix(SCHEME) for uri in uris if uri.startswith(start)]
            has_more = last is not None and last.startswith(start)
        elif (named, argument.name) in {(_USE.name, "task"), (_FIND.name, "task")}:
            values, has_more = [], False
        else:
            shown = one_line(f"{named}: {argument.name}", 200)
            raise MCPError(INVALID_PARAMS, f"There is no such argument to complete: {shown}")
        completion = mt.Completion(values=values[:MAX_COMPLETIONS], has_more=has_more)
        return mt.CompleteResult(completion=completion)

    def _names(self, value: str) -> list[str]:
        """Return the skills whose name begins with a text, then those that contain it."""
        library = self._tools.served.get()
        wanted = value.casefold()
        matches = [document for document in library.list() if wanted in document.name.casefold()]
        matches.sort(key=lambda document: not document.name.casefold().startswith(wanted))
        return [library.handle(document) for document in matches[: MAX_COMPLETIONS + 1]]


def _checked(prompt: mt.Prompt, values: dict[str, str]) -> dict[str, str]:
    required = {argument.name: argument.required for argument in prompt.arguments or []}
    missing = [name for name in required if required[name] and not values.get(name)]
    wrong = [*missing, *(name for name in values if name not in required)]
    if wrong:
        takes = ", ".join(required) or "no arguments"
        named = one_line(", ".join(wrong), 200)
        raise MCPError(INVALID_PARAMS, f"{prompt.name} takes {takes}; missing or unknown: {named}")
    return values
