"""The tool ``load_skill_chunk`` over the chunks of a `SkillManager`."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from skillsearch.agents.tools.tool import Tool, ToolArguments
from skillsearch.agents.tools.toolset import Toolset
from skillsearch.agents.toolsets.chunks import SkillManager
from skillsearch.types import JsonValue


class LoadSkillChunkArgs(ToolArguments):
    """The arguments of ``load_skill_chunk``."""

    skill_name: str = Field(description="The skill, as its heading names it.")
    chunk_id: str = Field(description="What stands before the colon under [Available Chunks].")


class LoadSkillChunkTool:
    """The tool by which an agent loads a chunk; its result goes into the agent's history.

    Attributes:
        name: What a model calls it by.
        description: What a model knows of it.
    """

    name = "load_skill_chunk"
    description = (
        "Load a chunk of a skill: one of those listed under [Available Chunks], when the task "
        "needs what its description promises. It is listed no longer then; load it again only if "
        "its text has left the conversation."
    )

    def __init__(self, manager: SkillManager) -> None:
        """Take the manager whose chunks it loads."""
        self._manager = manager

    def execute(self, args: LoadSkillChunkArgs | Mapping[str, JsonValue]) -> str:
        """Load a chunk.

        Args:
            args: ``skill_name`` and ``chunk_id``.

        Returns:
            The content of the chunk.

        Raises:
            SkillError: When there is no such skill or chunk.
            ValueError: When the arguments are others than these two texts.
        """
        checked = LoadSkillChunkArgs.model_validate(args)
        return self._manager.activate_chunk(checked.skill_name, checked.chunk_id)

    def toolset(self) -> Toolset:
        """Return the same for a host: its calls never raise."""
        return Toolset([Tool(self.name, self.description, LoadSkillChunkArgs, self.execute)])
