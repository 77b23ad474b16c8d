"""Skills for agents: tools, toolsets, sessions and prompts over one library, for any framework."""

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skillsearch.agents.default_tools import library_tools
    from skillsearch.agents.run_tools import run_script_tool
    from skillsearch.agents.session import SkillSession, StateDelta
    from skillsearch.agents.tool import Tool, ToolArguments, ToolResult, Toolset
    from skillsearch.agents.toolsets.chunks import LoadSkillChunkTool, SkillChunk, SkillManager
    from skillsearch.agents.toolsets.context import (
        GetSkillArgs,
        SkillMatch,
        SkillsLoader,
        ToolContext,
        calculate_match_score,
        get_skill,
        list_skills,
        skills_prompt,
    )
    from skillsearch.agents.toolsets.environments import (
        Environment,
        SkillInfo,
        SkillLoader,
        base_skill_tool,
        create_skill_tool_with_description,
    )
    from skillsearch.agents.toolsets.server_environment import ServerEnvironment
    from skillsearch.agents.toolsets.workspace import ToolEvent, WorkspaceToolset

__all__ = [
    "Environment", "GetSkillArgs", "LoadSkillChunkTool", "ServerEnvironment", "SkillChunk",
    "SkillInfo", "SkillLoader", "SkillManager", "SkillMatch", "SkillSession", "SkillsLoader",
    "StateDelta", "Tool", "ToolArguments", "ToolContext", "ToolEvent", "ToolResult", "Toolset",
    "WorkspaceToolset", "base_skill_tool", "calculate_match_score",
    "create_skill_tool_with_description", "get_skill", "library_tools", "list_skills",
    "run_script_tool", "skills_prompt",
]  # fmt: skip

_HOMES = {
    "session": "SkillSession StateDelta",
    "default_tools": "ListSkillsArgs SearchSkillsArgs library_tools search_skills",
    "run_tools": "run_script_tool",
    "tool": "Tool ToolArguments ToolResult Toolset",
    "toolsets.chunks": "LoadSkillChunkTool Skill SkillChunk SkillManager SkillMetadata",
    "toolsets.context": "GetSkillArgs ListSkillsArgs SearchSkillsArgs Skill SkillMatch"
    " SkillMetadata SkillsLoader SkillsManager ToolContext calculate_match_score get_skill"
    " list_skills search_skills skills_prompt",
    "toolsets.environments": "Environment SkillInfo SkillLoader base_skill_tool"
    " create_skill_tool_with_description",
    "toolsets.server_environment": "ServerEnvironment",
    "toolsets.skills_manager": "SkillsManager",
    "toolsets.workspace": "ToolEvent WorkspaceToolset",
}
"""The names of each module that a user needs; those of several modules are not exported here."""


def __getattr__(name: str) -> object:
    """Import a name when it is first used: most need pydantic, which starts slowly.

    `ImportError` if several modules have the name, since ``from`` would hide another one's text.
    """
    homes = [f"{__name__}.{module}" for module, names in _HOMES.items() if name in names.split()]
    if len(homes) == 1:
        return getattr(importlib.import_module(homes[0]), name)
    if homes:
        ways = "; or ".join(f"from {home} import {name}" for home in homes)
        raise ImportError(f"{name} is not in {__name__}: several modules have one. Use {ways}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
