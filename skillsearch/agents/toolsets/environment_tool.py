"""The tool ``skill``: its definition tells which skills there are, its answer is one of them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from pydantic import BaseModel, Field, create_model

from skillsearch.agents.tools.failures import failure_of
from skillsearch.agents.tools.tool import Tool, ToolArguments
from skillsearch.agents.toolsets.environment_skills import SkillInfo
from skillsearch.agents.toolsets.results import ToolResult
from skillsearch.errors import ParseError
from skillsearch.text.safe_text import one_line
from skillsearch.types import JsonValue

DESCRIPTION_CHARS = 8000
"""What hosts list of skills before they cut."""
MIN_DESCRIPTION_CHARS = 128
"""Room to say that nothing is listed."""
MAX_ENUM = 256
MAX_LISTED_IDS = 50
"""Ids that an error names; of more only the nearest."""

_BASE = "Execute a skill."
_HEAD = f"{_BASE} Available skills:\n"
_CUT = "(showing {} of {} skills; find the others with search_skills)"
_SKILL = "The skill ID to execute"
_NEAREST_IDS = 5
_MAX_ASKED_CHARS = 200


class SkillChoice:
    """The skills that a model chooses from, as they were at one time.

    Attributes:
        skills: The skills, in the order to list them.
        lines: A line for each that the description of the tool has room for.
        is_whole: False where others have none; a last line then says so.
    """

    def __init__(self, skills: Sequence[SkillInfo], description_chars: int) -> None:
        """Take skills.

        Args:
            skills: The skills, no two with one id.
            description_chars: Characters that the description of the tool may have.

        Raises:
            ValueError: When that is less than `MIN_DESCRIPTION_CHARS`.
        """
        if description_chars < MIN_DESCRIPTION_CHARS:
            raise ValueError(
                f"description_chars is {description_chars}; use {MIN_DESCRIPTION_CHARS} or more"
            )
        self.skills = tuple(skills)
        self.lines, self.is_whole = _lines(self.skills, description_chars - len(_HEAD))
        ids = tuple(dict.fromkeys(one_line(info.id) for info in self.skills))
        self._ids = ids
        has_enum = self.is_whole and len(ids) <= MAX_ENUM
        self._enum = ids if has_enum and sum(map(len, ids)) <= description_chars else ()
        self._by_id = {info.id: info for info in self.skills}

    def get(self, id: str) -> SkillInfo | None:
        """Return a skill, or None where there is none.

        Args:
            id: Its id; in another case, or its name, where that means one skill alone.

        Returns:
            The skill.
        """
        if id in self._by_id:
            return self._by_id[id]
        wanted = _folded(id)
        found = [info for info in self.skills if _folded(info.id) == wanted]
        found = found or [info for info in self.skills if _folded(info.name) == wanted]
        return found[0] if len(found) == 1 else None

    def execute(self, id: str) -> ToolResult:
        """Return the instructions of a skill, as they are on disk now.

        Args:
            id: As in `get`.

        Returns:
            The instructions; or why there are none, without where on the host something lies.
        """
        info = self.get(id)
        if info is None:
            return ToolResult(success=False, error=self._not_found(id))
        try:
            return ToolResult(success=True, output=info.read_body())
        except ParseError as exc:
            reason = failure_of(exc)["error"]["message"]
            return ToolResult(success=False, error=f"Failed to read skill content: {reason}")

    def tool(self) -> Tool:
        """Return the tool that executes these skills."""

        def execute(args: _SkillArguments) -> JsonValue:
            return self.execute(args.skill).model_dump(exclude_none=True)

        description = _HEAD + self.lines if self.skills else _BASE
        return Tool("skill", description, self._arguments(), execute)

    def _arguments(self) -> type[BaseModel]:
        """Return the arguments of the tool, with an enum where all ids are to be seen."""
        if not self._enum:
            return _SkillArguments
        # Shown but not enforced: what is no id is answered by the tool, which knows the names too.
        skill = Field(description=_SKILL, json_schema_extra={"enum": list(self._enum)})
        return create_model("SkillArguments", __base__=_SkillArguments, skill=(str, skill))

    def _not_found(self, id: str) -> str:
        """Say that there is no such skill, and which there are."""
        asked = one_line(id[:_MAX_ASKED_CHARS])
        if len(self._ids) <= MAX_LISTED_IDS:
            return f"Skill not found: {asked}. Available skills: {', '.join(self._ids)}"
        near = difflib.get_close_matches(asked, self._ids, n=_NEAREST_IDS, cutoff=0.3)
        others = "the tool's description lists" if self.is_whole else "search_skills finds"
        shown = ", ".join(near or self._ids[:_NEAREST_IDS])
        return f"Skill not found: {asked}. Available skills: {shown} ({others} others)"


class _SkillArguments(ToolArguments):
    """Arguments of ``skill``."""

    skill: str = Field(description=_SKILL)


def _execute_nowhere(args: _SkillArguments) -> JsonValue:
    """Answer ``skill`` where there is no environment."""
    return ToolResult(success=False, error="Environment not available").model_dump()


base_skill_tool = Tool("skill", _BASE, _SkillArguments, _execute_nowhere)
"""The tool before there is an environment."""


def create_skill_tool_with_description(
    skills: Sequence[SkillInfo], *, description_chars: int = DESCRIPTION_CHARS
) -> Tool:
    """Return the tool that executes some skills, with these skills in its definition.

    Args:
        skills: The skills; for none, the definition is that of `base_skill_tool`.
        description_chars: Characters that the description may have; where there are more skills,
            it lists the first and says so.

    Returns:
        The tool. Its argument has an enum of the ids where all skills are listed, at most 256.

    Raises:
        ValueError: When `description_chars` is less than `MIN_DESCRIPTION_CHARS`.
    """
    return SkillChoice(skills, description_chars).tool()


def _lines(skills: Sequence[SkillInfo], room: int) -> tuple[str, bool]:
    """Return a line for each skill that there is room for, and whether all have one."""
    lines: list[str] = []
    used = -1
    for info in skills:
        line = f"- {info.shown_name}: {info.shown_description}"
        used += len(line) + 1
        if used > room:
            break
        lines.append(line)
    else:
        return "\n".join(lines), True
    while True:
        text = "\n".join([*lines, _CUT.format(len(lines), len(skills))])
        if len(text) <= room or not lines:
            return text, False
        lines.pop()


def _folded(text: str) -> str:
    """Return a text as it is compared where its spelling does not matter."""
    return one_line(text).casefold()
