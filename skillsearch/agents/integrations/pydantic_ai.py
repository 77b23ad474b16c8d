"""Tools for pydantic-ai (extra ``pydantic-ai``)."""

from __future__ import annotations

import asyncio
from typing import Any

from skillsearch.agents.tools.tool import Toolset, arguments_schema
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
"""The tool validates its arguments itself, with errors that name the next step."""


def as_toolset(toolset: Toolset, *, toolset_id: str | None = None) -> AbstractToolset[Any]:
    """Return the tools of a toolset for ``Agent(toolsets=[...])``; asked for anew at every step.

    They answer ``{"error": ...}`` if they fail. Metadata say ``read_only``; other tools run alone.
    `toolset_id` names the toolset in durable execution.
    """
    return _SkillToolset(toolset, toolset_id)


class _SkillToolset(AbstractToolset[Any]):
    """One of our toolsets behind the interface of pydantic-ai."""

    def __init__(self, toolset: Toolset, toolset_id: str | None) -> None:
        self._toolset = toolset
        self._id = toolset_id

    @property
    def id(self) -> str | None:
        """The name of the toolset."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools as they are now."""
        tools = await asyncio.to_thread(self._toolset.tools)
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name,
                    description=tool.description,
                    parameters_json_schema=arguments_schema(tool.arguments),
                    sequential=not tool.read_only,
                    metadata={"read_only": tool.read_only},
                ),
                max_retries=1,
                args_validator=_ANY_ARGUMENTS,
            )
            for tool in tools
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> JsonValue:
        """Call a tool in a thread, so that it blocks no other task."""
        answer = await asyncio.to_thread(self._toolset.call, name, tool_args)
        return answer.get("result", answer)
