"""Tools over a context that an agent's session keeps: list, search and get skills.

The tools: ``list_skills``, ``search_skills`` and ``get_skill``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from skillsearch.agents.tools.failures import failure_of
from skillsearch.agents.tools.tool import Tool, ToolArguments
from skillsearch.agents.tools.toolset import Toolset
from skillsearch.agents.toolsets.context import SkillsManager, skill_lines
from skillsearch.agents.toolsets.results import ToolResult
from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import IndexingError, SkillSearchError
from skillsearch.index.documents import Document
from skillsearch.setting_values import MAX_N
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import JsonValue

MAX_LIST_CHARS = 32_000
"""Four times the summary: some 8,000 tokens, for a tool that is called on purpose."""
MAX_SHOWN_NEEDS = 20
_MAX_NEED_CHARS = 1_000
_MAX_NAME_CHARS = 256

_NO_SKILLS = "There are no skills; go on without."
_NO_HIT = "No skill fits; go on without one."
_USE_A_NAME = "Call get_skill with a name that search_skills or list_skills gives."
_NO_MANAGER = ToolResult(
    success=False,
    error="This context has no skills: it was made without a skills_manager. Go on without skills.",
)
_PROMPT = """\
## Available Skills

The following skills are available to assist with specific tasks:

{}

When a task matches a skill's description, you can use the `get_skill` tool to retrieve the full \
skill content and follow its instructions."""


class ToolContext(BaseModel):
    """What the tools of one session share."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    workspace_root: Path = Field(..., description="Root of the workspace")
    todos: list[str] = Field(default_factory=list, description="What is still to be done")
    mode: str = Field(default="code", description="The mode that the agent is in")
    browser_session: Any | None = Field(None, description="The active browser session")
    skills_manager: SkillsManager | None = Field(None, description="Finds and loads the skills")
    active_skills: list[str] = Field(
        default_factory=list, description="Names of the skills in use, the latest last"
    )


class ListSkillsArgs(ToolArguments):
    """Arguments of ``list_skills``: none."""


class SearchSkillsArgs(ToolArguments):
    """Arguments of ``search_skills``."""

    query: str = Field(
        ..., min_length=1, max_length=MAX_QUERY_CHARS, description="What is to be done, in words."
    )
    limit: int = Field(default=5, ge=1, le=MAX_N, description="How many skills at most.")


class GetSkillArgs(ToolArguments):
    """Arguments of ``get_skill``."""

    name: str = Field(
        ..., max_length=_MAX_NAME_CHARS, description="Name of the skill, in any case."
    )


def list_skills(ctx: ToolContext, args: ListSkillsArgs) -> ToolResult:
    """List all skills, a line each; of very many the first, with the number of the others."""
    if ctx.skills_manager is None:
        return _NO_MANAGER
    try:
        lines = ctx.skills_manager.lines(MAX_LIST_CHARS)
    except SkillSearchError as exc:
        return _failed(exc)
    return ToolResult(success=True, output=lines or _NO_SKILLS)


def search_skills(ctx: ToolContext, args: SearchSkillsArgs) -> ToolResult:
    """Find the skills that fit a request: a line each, best first.

    Args:
        ctx: The context.
        args: The request.

    Returns:
        The lines, or why there are none.

    Raises:
        IndexingError: When the library has an executor that is still making the first index.
    """
    if ctx.skills_manager is None:
        return _NO_MANAGER
    try:
        hits = ctx.skills_manager.hits(args.query, args.limit)
        lines = skill_lines(ctx.skills_manager.loader.library, hits, MAX_LIST_CHARS)
    except IndexingError:
        raise  # a host may wait, and call again
    except SkillSearchError as exc:
        return _failed(exc)
    return ToolResult(success=True, output=lines or _NO_HIT)


def get_skill(ctx: ToolContext, args: GetSkillArgs) -> ToolResult:
    """Get the whole content of one skill, and note it as active.

    Where the skill needs others, lines before its content say which to get first, in order, and
    what is wrong with them. They are not loaded for it.
    """
    if ctx.skills_manager is None:
        return _NO_MANAGER
    loader = ctx.skills_manager.loader
    try:
        loader.reload()
        document = loader.find(args.name)
        content = visible(loader.read(document).content)
        needs = _needs(ctx.skills_manager, document, ctx.active_skills)
    except SkillSearchError as exc:
        return _failed(exc)
    name = loader.library.handle(document)
    ctx.active_skills[:] = [*(other for other in ctx.active_skills if other != name), name]
    return ToolResult(success=True, output=f"{needs}\n\n{content}" if needs else content)


def skills_prompt(manager: SkillsManager | None) -> str:
    """Return the part of a system prompt that tells of the skills; empty where there is none."""
    summary = manager.get_metadata_summary() if manager else ""
    return _PROMPT.format(summary) if summary else ""


def toolset(ctx: ToolContext) -> Toolset:
    """Return the tools of an agent over a context.

    Args:
        ctx: The context, which ``get_skill`` changes.

    Returns:
        The three tools, each of which answers with a `ToolResult` as JSON.
    """

    def answer_list(args: ListSkillsArgs) -> JsonValue:
        return list_skills(ctx, args).model_dump(exclude_none=True)

    def answer_search(args: SearchSkillsArgs) -> JsonValue:
        return search_skills(ctx, args).model_dump(exclude_none=True)

    def answer_get(args: GetSkillArgs) -> JsonValue:
        return get_skill(ctx, args).model_dump(exclude_none=True)

    tools = (
        Tool(
            "list_skills",
            "List all skills with what each is for. Only to browse; for a task use search_skills.",
            ListSkillsArgs,
            answer_list,
        ),
        Tool(
            "search_skills",
            "Find skills for a task: name and description of each, best first. Then get_skill; "
            "where no skill fits, go on without one.",
            SearchSkillsArgs,
            answer_search,
        ),
        Tool(
            "get_skill",
            "Get the full content of a skill and follow its instructions. Where it names skills to "
            "get first, get these before you follow it.",
            GetSkillArgs,
            answer_get,
        ),
    )
    return Toolset(tools)


def _failed(error: SkillSearchError) -> ToolResult:
    """Say what was wrong, and what to do next, without where on the host something lies."""
    told = failure_of(error)["error"]
    next_step = _USE_A_NAME if isinstance(error, LookupError) else told["next_step"]
    return ToolResult(success=False, error=f"{told['message']}\n{next_step}")


def _needs(manager: SkillsManager, document: Document, active: Iterable[str]) -> str:
    """Say which skills to get before one, and what is wrong with them; empty for none."""
    if not document.requires:
        return ""
    library = manager.loader.library
    found = manager.load_order([library.handle(document)])
    first = [library.handle(other) for other in found.order if other.doc_id != document.doc_id]
    first = [name for name in first if name not in active]
    missing = [f"{item.requirement} (for {item.needed_by})" for item in found.missing]
    circles = [" -> ".join([*cycle, cycle[0]]) for cycle in found.cycles]
    parts = {
        "Get these skills first, in this order: {}": first,
        "Needed, but not there: {}": missing,
        "These need each other, so any order will do: {}": circles,
    }
    return "\n".join(head.format(_joined(names)) for head, names in parts.items() if names)


def _joined(names: list[str]) -> str:
    """Join names on one line, of very many the first."""
    shown = [one_line(name, _MAX_NEED_CHARS) for name in names[:MAX_SHOWN_NEEDS]]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more
