"""Tools for pydantic-ai (extra ``pydantic-ai``)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from skillsearch.agents.schemas import arguments_schema
from skillsearch.agents.tool import Toolset
from skillsearch.errors import importing
from skillsearch.types.json_values import Json

with importing("pydantic-ai-slim", "pydantic-ai", "The pydantic-ai adapter"):
    from pydantic_ai import FunctionToolset, RunContext, Tool
    from pydantic_ai.toolsets import AbstractToolset, DynamicToolset


def as_toolset(toolset: Toolset, *, toolset_id: str | None = None) -> AbstractToolset[Any]:
    """Return the tools of a toolset for ``Agent(toolsets=[...])``; asked for anew at every step.

    They answer ``{"error": ...}`` if they fail, bad arguments included. Metadata say ``read_only``;
    other tools run alone. `toolset_id` names the toolset in durable execution.
    """

    def answer(tool_name: str, /, **arguments: Json) -> Json:
        return toolset.result(tool_name, arguments)

    async def current(_: RunContext[Any]) -> FunctionToolset[Any]:
        tools: list[Tool[Any]] = []
        for tool in await asyncio.to_thread(toolset.tools):
            call, schema = partial(answer, tool.name), arguments_schema(tool.arguments)
            made: Tool[Any] = Tool.from_schema(
                call, tool.name, tool.description, schema, sequential=not tool.read_only
            )
            made.metadata = {"read_only": tool.read_only}
            tools.append(made)
        return FunctionToolset(tools)

    return DynamicToolset(current, id=toolset_id)
