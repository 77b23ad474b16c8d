"""Tools for LangChain, LangGraph and deepagents (extra ``langchain``)."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from skillsearch.agents.tools.schemas import arguments_schema
from skillsearch.agents.tools.toolset import Toolset
from skillsearch.errors import MissingDependencyError

try:
    from langchain_core.tools import StructuredTool
except ImportError as exc:
    raise MissingDependencyError("langchain-core", "langchain", "The LangChain adapter") from exc


def as_tools(toolset: Toolset) -> list[StructuredTool]:
    """Return tools as LangChain wants them.

    A tool answers with JSON text: its result, or ``{"error": ...}``; it never raises, so that an
    agent reads what went wrong. Its metadata say ``read_only``, for hosts that ask a user first.

    Args:
        toolset: The tools; taken as they are now.

    Returns:
        One `StructuredTool` a tool.
    """
    return [
        StructuredTool.from_function(
            func=partial(_answer, toolset, tool.name),
            name=tool.name,
            description=tool.description,
            args_schema=arguments_schema(tool.arguments),
            metadata={"read_only": tool.read_only},
        )
        for tool in toolset.tools()
    ]


def _answer(toolset: Toolset, tool_name: str, /, **arguments: Any) -> str:
    """Call a tool; return its result or its error as JSON text."""
    answer = toolset.call(tool_name, arguments)
    return json.dumps(answer.get("result", answer), ensure_ascii=False)
