"""Skills for agents: tools, toolsets, sessions and prompts over one library, for any framework."""

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skillsearch.agents.default_tools import library_tools
    from skillsearch.agents.run_tools import run_script_tool
    from skillsearch.agents.session import SkillSession
    from skillsearch.agents.tool import Tool, ToolArguments, Toolset
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
    "session": ["SkillSession"],
    "default_tools": ["library_tools"],
    "run_tools": ["run_script_tool"],
    "tool": ["Tool", "ToolArguments", "Toolset"],
    "toolsets.chunks": ["LoadSkillChunkTool", "SkillManager"],
    "toolsets.environments": ["Environment", "ServerEnvironment"],
    "toolsets.workspace": ["WorkspaceToolset"],
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used: most need pydantic, which starts slowly."""
    for module, names in _LATE.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
