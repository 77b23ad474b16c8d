"""Skills for agents: tools, toolsets, sessions and prompts over one library, for any framework."""

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skillsearch.agents.session import SkillSession
    from skillsearch.agents.tools.library_tools import library_tools
    from skillsearch.agents.tools.run_tools import run_script_tool
    from skillsearch.agents.tools.tool import Tool, ToolArguments, Toolset
    from skillsearch.agents.toolsets.chunks import LoadSkillChunkTool, SkillManager
    from skillsearch.agents.toolsets.environments import Environment, ServerEnvironment
    from skillsearch.agents.toolsets.workspace import WorkspaceToolset

__all__ = [
    "Environment",
    "LoadSkillChunkTool",
    "ServerEnvironment",
    "SkillManager",
    "SkillSession",
    "Tool",
    "ToolArguments",
    "Toolset",
    "WorkspaceToolset",
    "library_tools",
    "run_script_tool",
]

_LATE = {
    "Environment": "toolsets.environments",
    "LoadSkillChunkTool": "toolsets.chunks",
    "ServerEnvironment": "toolsets.environments",
    "SkillManager": "toolsets.chunks",
    "SkillSession": "session",
    "Tool": "tools.tool",
    "ToolArguments": "tools.tool",
    "Toolset": "tools.tool",
    "WorkspaceToolset": "toolsets.workspace",
    "library_tools": "tools.library_tools",
    "run_script_tool": "tools.run_tools",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used: most need pydantic, which starts slowly."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
