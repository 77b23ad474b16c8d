"""Prompts that people choose in their host, and completion of the skills' names."""

from __future__ import annotations

from itertools import chain, islice
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    TextContent,
)

from skillsearch.library.skill_library import SkillLibrary
from skillsearch.library.skill_uris import SCHEME
from skillsearch.mcp_server.calls import Calls
from skillsearch.mcp_server.desk import Desk
from skillsearch.mcp_server.offers import Offers
from skillsearch.mcp_server.publishing import PublisherDesk, ask
from skillsearch.mcp_server.resources import TEMPLATE
from skillsearch.mcp_server.served_library import ServedLibrary
from skillsearch.mcp_server.tools import face_of, result_of, session_of
from skillsearch.text.safe_text import one_line, shorten

MAX_PROMPT_CHARS = 1_000_000
MAX_COMPLETIONS = 100
"""What the protocol allows in one answer."""

_SKILLS = Prompt(
    name="skills",
    title="Skills",
    description="What the system message is to say of the skills: which there are, what is loaded.",
)
_FIND = Prompt(
    name="find_skill",
    title="Find a skill for a task",
    description="Puts the task to the model, with the skills that fit it best.",
    arguments=[PromptArgument(name="task", description="What is to be done.", required=True)],
)
_USE = Prompt(
    name="use_skill",
    title="Use a skill",
    description="Gives the model the instructions of a skill to follow.",
    arguments=[
        PromptArgument(name="name", description="Name of the skill.", required=True),
        PromptArgument(name="task", description="What is to be done by it."),
    ],
)

_Context = ServerRequestContext[Any, Any]


class Prompts:
    """The prompts that go with a toolset."""

    def __init__(self, desk: Desk, offers: Offers, calls: Calls) -> None:
        """Choose the prompts: those of the toolset, or what its tools do at a person's wish.

        Args:
            desk: Where the library is used.
            offers: The toolset, used at the desk alone.
            calls: Answers its calls.
        """
        self._desk = desk
        self._offers = offers
        self._calls = calls
        offered = [_FIND, _USE] if offers.name == "default" else [_SKILLS] * offers.has_prompt
        self._offered = {prompt.name: prompt for prompt in offered}

    def add_to(self, server: Server[Any]) -> None:
        """Let a server list and give the prompts, if there are any."""
        if self._offered:
            server.add_request_handler("prompts/list", PaginatedRequestParams, self._list)
            server.add_request_handler("prompts/get", GetPromptRequestParams, self._get)

    async def _list(self, ctx: _Context, params: PaginatedRequestParams) -> ListPromptsResult:
        """Answer ``prompts/list``."""
        return ListPromptsResult(prompts=list(self._offered.values()))

    async def _get(self, ctx: _Context, params: GetPromptRequestParams) -> GetPromptResult:
        """Answer ``prompts/get``."""
        prompt = self._offered.get(params.name)
        if prompt is None:
            asked, there = one_line(params.name, 80), " or ".join(map(repr, self._offered))
            raise MCPError(INVALID_PARAMS, f"There is no prompt {asked!r}; ask for {there}.")
        given = _checked(prompt, params.arguments or {})
        if prompt is _SKILLS:
            text = await ask(self._desk, self._system_prompt, session_of(ctx))
        elif prompt is _FIND:
            text = await self._find(ctx, given["task"])
        else:
            text = await self._use(ctx, given["name"], given.get("task", ""))
        message = PromptMessage(role="user", content=TextContent(type="text", text=text))
        return GetPromptResult(description=prompt.description, messages=[message])

    async def _find(self, ctx: _Context, task: str) -> str:
        """Return a task with the skills that fit it."""
        found = await self._call(ctx, "search_skills", {"query": task})
        return (
            f"{task}\n\nSkills that may fit, by a search for this task:\n{found}\n\nIf one fits,"
            " load it with load_skill and follow it; if none does, go on without."
        )

    async def _use(self, ctx: _Context, name: str, task: str) -> str:
        """Return the instructions of a skill, and what is to be done by them."""
        body = await self._call(ctx, "load_skill", {"name": name})
        return f"Follow this skill.\n\n{body}" + (f"\n\nThe task: {task}" if task else "")

    async def _call(self, ctx: _Context, tool: str, arguments: dict[str, str]) -> str:
        """Call a tool for a prompt; what it refuses, the prompt does."""
        answer = await self._calls.answer(
            session_of(ctx), tool, arguments, ctx.session.report_progress
        )
        content = result_of(answer, face_of(self._offers.name, tool)).content
        text = "\n".join(part.text for part in content if isinstance(part, TextContent))
        if "error" in answer:
            raise MCPError(INVALID_PARAMS, text)
        return text

    def _system_prompt(self, session: str) -> str:
        """Render what a client's tools want the system message to say."""
        render = self._offers.of(session).prompt
        return shorten(render(), MAX_PROMPT_CHARS) if render else ""


def _checked(prompt: Prompt, given: dict[str, str]) -> dict[str, str]:
    """Return the arguments of a prompt, none of which is missing or unknown."""
    known = {argument.name: argument for argument in prompt.arguments or []}
    missing = [name for name, one in known.items() if one.required and not given.get(name)]
    wrong = [*missing, *(name for name in given if name not in known)]
    if wrong:
        takes = ", ".join(known) or "no arguments"
        named = one_line(", ".join(wrong), 200)
        raise MCPError(INVALID_PARAMS, f"{prompt.name} takes {takes}; missing or unknown: {named}")
    return given


def add_completion(
    server: Server[Any], desk: Desk, served: ServedLibrary, publisher: PublisherDesk
) -> None:
    """Let a server complete the names of skills in prompts, and the paths of their files.

    Args:
        server: The server.
        desk: Where the library is used.
        served: The library.
        publisher: Says which skills have a URI.
    """

    async def names(value: str) -> tuple[list[str], bool]:
        found = await ask(desk, lambda: _names(served.get(), value))
        return found[:MAX_COMPLETIONS], len(found) > MAX_COMPLETIONS

    async def paths(value: str) -> tuple[list[str], bool]:
        start = SCHEME + value
        manifests, last = await publisher.ask(lambda p: p.page(start, MAX_COMPLETIONS))
        found = [manifest.uri for manifest in manifests if manifest.uri.startswith(start)]
        has_more = last is not None and last.startswith(start)
        return [uri.removeprefix(SCHEME) for uri in found], has_more

    async def complete(ctx: _Context, params: CompleteRequestParams) -> CompleteResult:
        """Answer ``completion/complete``."""
        ref, argument = params.ref, params.argument
        named = ref.name if isinstance(ref, PromptReference) else ref.uri
        if (named, argument.name) == (_USE.name, "name"):
            values, has_more = await names(argument.value)
        elif (named, argument.name) == (TEMPLATE.uri_template, "path"):
            values, has_more = await paths(argument.value)
        elif (named, argument.name) in {(_USE.name, "task"), (_FIND.name, "task")}:
            values, has_more = [], False
        else:
            asked = one_line(f"{named}: {argument.name}", 200)
            raise MCPError(INVALID_PARAMS, f"There is no such argument to complete: {asked}")
        return CompleteResult(completion=Completion(values=values, has_more=has_more))

    server.add_request_handler("completion/complete", CompleteRequestParams, complete)


def _names(library: SkillLibrary, value: str) -> list[str]:
    """Return the skills whose name begins with a text, then those that have it within."""
    wanted = value.casefold()
    names = [(document.name.casefold(), document) for document in library.list()]
    begins = (document for name, document in names if name.startswith(wanted))
    within = (document for name, document in names if name.find(wanted) > 0)
    return [library.handle(found) for found in islice(chain(begins, within), MAX_COMPLETIONS + 1)]
