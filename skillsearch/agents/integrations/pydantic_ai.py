"""Tools for pydantic-ai (extra ``pydantic-ai``)."""

from __future__ import annotations

import asyncio
from typing import Any

from skillsearch.agents.tools.schemas import arguments_schema
from skillsearch.agents.tools.tool import Tool
from skillsearch.agents.tools.toolset import Toolset
from skillsearch.errors import MissingDependencyError
from skillsearch.types import JsonValue

try:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema
except ImportError as exc:
    purpose = "The pydantic-ai adapter"
    raise MissingDependencyError("pydantic-ai-slim", "pydantic-ai", purpose) from exc

_ANY_ARGUMENTS = SchemaValidator(core_schema.any_schema())
"""Arguments are checked by the tool itself, whose errors name the next step."""


def as_toolset(toolset: Toolset, *, toolset_id: str | None = None) -> AbstractToolset[Any]:
    """Return tools as pydantic-ai wants them; asked for anew at every step of a run.

    A tool answers with its result, or with ``{"error": ...}``; it never raises, so that an agent
    reads what went wrong. The metadata of its definition say ``read_only``, for hosts that ask a
    user first; one that is not runs beside no other.

    Args:
        toolset: The tools.
        toolset_id: What the toolset is known by in durable execution.

    Returns:
        A toolset for ``Agent(toolsets=[...])``.
    """
    return _SkillToolset(toolset, toolset_id)


class _SkillToolset(AbstractToolset[Any]):
    """A toolset of ours behind the interface of pydantic-ai."""

    def __init__(self, toolset: Toolset, toolset_id: str | None) -> None:
        self._toolset = toolset
        self._id = toolset_id

    @property
    def id(self) -> str | None:
        """What the toolset is known by."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools as they are now."""
        tools = await asyncio.to_thread(self._toolset.tools)
        return {tool.name: self._adapted(tool) for tool in tools}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> JsonValue:
        """Call a tool in a thread, so that other tasks go on meanwhile."""
        answer = await asyncio.to_thread(self._toolset.call, name, tool_args)
        return answer.get("result", answer)

    def _adapted(self, tool: Tool) -> ToolsetTool[Any]:
        """Describe one tool."""
        definition = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=arguments_schema(tool.arguments),
            sequential=not tool.read_only,
            metadata={"read_only": tool.read_only},
        )
        return ToolsetTool(
            toolset=self, tool_def=definition, max_retries=1, args_validator=_ANY_ARGUMENTS
        )
