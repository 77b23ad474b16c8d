"""The tools over a context: ``list_skills``, ``search_skills`` and ``get_skill``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from skillsearch.agents.tools.failures import failure_of
from skillsearch.agents.tools.tool import Tool, ToolArguments, ToolResult, Toolset
from skillsearch.agents.toolsets.context import SkillsManager
from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import IndexingError, SkillSearchError
from skillsearch.index.documents import Document
from skillsearch.setting_values import MAX_N
from skillsearch.text.safe_text import listed, one_line, visible
from skillsearch.types import JsonValue

MAX_LIST_CHARS = 32_000
"""Four times the summary, some 8,000 tokens, for a tool that is called on purpose."""
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
    """List all skills, a line each; if there are very many, the first and the number of others."""
    return _answer(ctx, lambda manager: manager.lines(MAX_LIST_CHARS) or _NO_SKILLS)


def search_skills(ctx: ToolContext, args: SearchSkillsArgs) -> ToolResult:
    """Find the skills that fit a request: a line each, best first.

    Raises `IndexingError` while the library's executor is building the first index, so that a host
    may wait and call again.
    """

    def search(manager: SkillsManager) -> str:
        hits = manager.hits(args.query, args.limit)
        return manager.lines_of(hits, MAX_LIST_CHARS) or _NO_HIT

    return _answer(ctx, search)


def get_skill(ctx: ToolContext, args: GetSkillArgs) -> ToolResult:
    """Get the whole content of one skill, and note it as active.

    If the skill needs others, lines before its content say which to get first, in order, and what
    is wrong with them. They are not loaded for it.
    """

    def get(manager: SkillsManager) -> str:
        loader = manager.loader
        loader.reload()
        document = loader.find(args.name)
        content = visible(loader.read(document).content)
        needs = _needs(manager, document, ctx.active_skills)
        name = loader.library.handle(document)
        ctx.active_skills[:] = [*(other for other in ctx.active_skills if other != name), name]
        return f"{needs}\n\n{content}" if needs else content

    return _answer(ctx, get)


def skills_prompt(manager: SkillsManager | None) -> str:
    """Return the part of a system prompt that lists the skills; empty if there are none."""
    summary = manager.get_metadata_summary() if manager else ""
    return _PROMPT.format(summary) if summary else ""


def toolset(ctx: ToolContext) -> Toolset:
    """Return the three tools over a context; each answers with a `ToolResult` as JSON."""

    def tool(
        function: Callable[[ToolContext, Any], ToolResult], arguments: type[BaseModel], about: str
    ) -> Tool:
        def answer(args: Any) -> JsonValue:
            return function(ctx, args).model_dump(exclude_none=True)

        return Tool(function.__name__, about, arguments, answer)

    return Toolset(
        [
            tool(
                list_skills,
                ListSkillsArgs,
                "List all skills with what each is for. Only to browse; for a task use"
                " search_skills.",
            ),
            tool(
                search_skills,
                SearchSkillsArgs,
                "Find skills for a task: name and description of each, best first. Then get_skill;"
                " if no skill fits, go on without one.",
            ),
            tool(
                get_skill,
                GetSkillArgs,
                "Get the full content of a skill and follow its instructions. If it names skills to"
                " get first, get these before you follow it.",
            ),
        ]
    )


def _answer(ctx: ToolContext, make: Callable[[SkillsManager], str]) -> ToolResult:
    """Return what a manager gives, or what was wrong and what to do next, without host paths."""
    if ctx.skills_manager is None:
        return _NO_MANAGER
    try:
        return ToolResult(success=True, output=make(ctx.skills_manager))
    except IndexingError:
        raise
    except SkillSearchError as exc:
        told = failure_of(exc)["error"]
        next_step = _USE_A_NAME if isinstance(exc, LookupError) else told["next_step"]
        return ToolResult(success=False, error=f"{told['message']}\n{next_step}")


def _needs(manager: SkillsManager, document: Document, active: Iterable[str]) -> str:
    """Return lines on which skills to get before one, and what is wrong with them, if any."""
    if not document.requires:
        return ""
    library = manager.loader.library
    found = manager.load_order([library.handle(document)])
    first = [library.handle(other) for other in found.order if other.doc_id != document.doc_id]
    parts = {
        "Get these skills first, in this order: {}": [n for n in first if n not in active],
        "Needed, but missing: {}": [f"{m.requirement} (for {m.needed_by})" for m in found.missing],
        "These need each other, so any order will do: {}": [
            " -> ".join([*cycle, cycle[0]]) for cycle in found.cycles
        ],
    }
    return "\n".join(head.format(_joined(names)) for head, names in parts.items() if names)


def _joined(names: Iterable[str]) -> str:
    return listed((one_line(name, _MAX_NEED_CHARS) for name in names), MAX_SHOWN_NEEDS)
