"""Tools for LangChain, LangGraph and deepagents (extra ``langchain``)."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from skillsearch.agents.schemas import arguments_schema
from skillsearch.agents.tool import Toolset
from skillsearch.errors import importing

with importing("langchain-core", "langchain", "The LangChain adapter"):
    from langchain_core.tools import StructuredTool


def as_tools(toolset: Toolset) -> list[StructuredTool]:
    """Return the tools of a toolset, as they are now, for LangChain.

    They answer with JSON text, ``{"error": ...}`` if they fail; metadata say ``read_only``.
    """

    def answer(tool_name: str, /, **arguments: Any) -> str:
        return json.dumps(toolset.result(tool_name, arguments), ensure_ascii=False)

    return [
        StructuredTool.from_function(
            func=partial(answer, tool.name),
            name=tool.name,
            description=tool.description,
            args_schema=arguments_schema(tool.arguments),
            metadata={"read_only": tool.read_only},
        )
        for tool in toolset.tools()
    ]
