"""The skills of an environment: found by folder, and executed through the tool ``skill``."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import Field

from skillsearch.agents.prompt import MAX_NAME_CHARS, fit_lines, skill_line
from skillsearch.agents.tools.failures import DiagnosticLog, message_of
from skillsearch.agents.tools.tool import Tool, ToolArguments, ToolResult, with_names
from skillsearch.errors import ParseError
from skillsearch.files.paths import printable
from skillsearch.index.documents import Document
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS
from skillsearch.skills.parser import decode_skill_md, read_sections
from skillsearch.skills.resources import read_skill_md
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import Diagnostic, Hit, Languages

DESCRIPTION_CHARS = 8000
"""The length at which hosts cut a list of skills."""
MIN_DESCRIPTION_CHARS = 128
"""Room to say that nothing is listed."""
MAX_ENUM = 256
MAX_LISTED_IDS = 50
"""Ids that an error lists; if there are more, it lists only the nearest."""

_BASE = "Execute a skill."
_HEAD = f"{_BASE} Available skills:\n"
_CUT = "(showing {shown} of {total} skills; find the others with search_skills)"
_NEAREST_IDS = 5
_MAX_ASKED_CHARS = 200
_LISTING_CODES = frozenset({"folder-unreadable", "too-many-folders"})
_WARNINGS = {  # by what the code of an error begins with
    "frontmatter-missing": "No frontmatter found in",
    "description-missing": "Missing name or description in",
    "frontmatter-": "Failed to parse frontmatter in",
    "yaml-": "Failed to parse frontmatter in",
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SkillInfo:
    """A skill of an environment; its id is its folder, relative to the folder of all skills."""

    id: str
    name: str
    description: str
    path: str

    def shown(self) -> dict[str, str]:
        """Return id, name and description for a model, each on one safe line."""
        return {
            "id": one_line(self.id),
            "name": one_line(self.name, MAX_NAME_CHARS),
            "description": one_line(self.description, MAX_DESCRIPTION_CHARS),
        }

    def read_body(self) -> str:
        """Read the instructions as they are on disk now; `ParseError` if they cannot be read."""
        text, _ = decode_skill_md(read_skill_md(Path(self.path))[0])
        return visible(read_sections(text)[1]).strip()


class SkillLoader:
    """The skills below one folder that models may be offered; others are logged once."""

    def __init__(
        self,
        skills_dir: str | Path,
        *,
        index_dir: str | Path | None = None,
        model: str = "onnx",
        languages: Languages = "auto",
    ) -> None:
        """Take a folder, which may not exist yet; nothing is read until skills are loaded."""
        self.skills_dir = Path(skills_dir).expanduser().absolute()
        self._options = index_dir, model, languages
        self._skills: list[SkillInfo] | None = None
        self._log = DiagnosticLog(logger, self._warning)

    def load_all(self) -> list[SkillInfo]:
        """Return the skills now in the folder, by id; unchanged files are not read again."""
        library = self._library
        if self._skills is None or library.refresh():
            self._skills = sorted(map(_info, library.list()), key=lambda info: info.id)
        self._log.update(library.diagnostics)
        return list(self._skills)

    def search(self, query: str, n: int = 5, threshold: float | None = None) -> list[SkillInfo]:
        """Find the skills that fit a request, best first, among those that were last loaded."""
        return [_info(hit) for hit in self._library.search(query, n, threshold)]

    @cached_property
    def _library(self) -> SkillLibrary:
        index_dir, model, languages = self._options
        return SkillLibrary.from_roots(
            self.skills_dir, index_dir=index_dir, model=model, languages=languages
        )

    def _warning(self, found: Diagnostic) -> str | None:
        """Return what to log of a diagnostic: errors, and anything about the folder itself."""
        is_error = found.severity == "error"
        if found.path == printable(self.skills_dir) or (is_error and found.code in _LISTING_CODES):
            return f"Failed to read skills directory: {found.path}: {found.message}"
        if not is_error:
            return None
        heads = (head for start, head in _WARNINGS.items() if found.code.startswith(start))
        if head := next(heads, ""):
            return f"{head} {found.path}: {found.message}"
        return f"Failed to load skill: {Path(found.path).parent.name}: {found.message}"


def _info(found: Document | Hit) -> SkillInfo:
    """Describe a document, whose id is ``root:folder``."""
    folder = found.doc_id.partition(":")[2]
    return SkillInfo(folder, found.name, found.description, found.path)


class _SkillArguments(ToolArguments):
    skill: str = Field(description="The skill ID to execute")


class SkillChoice:
    """The skills that a model chooses from, as they were at one time.

    `lines` lists those that the tool's description has room for; `is_whole` if these are all.
    """

    def __init__(self, skills: Sequence[SkillInfo], description_chars: int) -> None:
        """Take skills with distinct ids, and the room that the tool's description has."""
        if description_chars < MIN_DESCRIPTION_CHARS:
            raise ValueError(
                f"description_chars is {description_chars}; use {MIN_DESCRIPTION_CHARS} or more"
            )
        self.skills = tuple(skills)
        self._by_id = {info.id: info for info in self.skills}
        shown = (info.shown() for info in self.skills)
        lines = (skill_line(info["name"], info["description"]) for info in shown)
        room = description_chars - len(_HEAD)
        self.lines, count = fit_lines(lines, len(self.skills), room, _CUT)
        self.is_whole = count == len(self.skills)
        self._ids = tuple(dict.fromkeys(one_line(info.id) for info in self.skills))
        has_enum = self.is_whole and len(self._ids) <= MAX_ENUM
        has_enum = has_enum and sum(map(len, self._ids)) <= description_chars
        self._arguments = with_names(_SkillArguments, self._ids if has_enum else None)

    def get(self, id: str) -> SkillInfo | None:
        """Return the skill with an id, or the only one with it in another case or as its name."""
        if id in self._by_id:
            return self._by_id[id]
        wanted = _folded(id)
        found = [info for info in self.skills if _folded(info.id) == wanted]
        found = found or [info for info in self.skills if _folded(info.name) == wanted]
        return found[0] if len(found) == 1 else None

    def execute(self, id: str) -> ToolResult:
        """Return the instructions of a skill, found as in `get`, as they are on disk now."""
        info = self.get(id)
        if info is not None:
            try:
                return ToolResult(success=True, output=info.read_body())
            except ParseError as exc:
                reason = f"Failed to read skill content: {message_of(exc)}"
                return ToolResult(success=False, error=reason)
        asked, shown, others = one_line(id[:_MAX_ASKED_CHARS]), self._ids, ""
        if len(self._ids) > MAX_LISTED_IDS:
            near = difflib.get_close_matches(asked, self._ids, n=_NEAREST_IDS, cutoff=0.3)
            shown = tuple(near) or self._ids[:_NEAREST_IDS]
            who = "the tool's description lists" if self.is_whole else "search_skills finds"
            others = f" ({who} others)"
        error = f"Skill not found: {asked}. Available skills: {', '.join(shown)}{others}"
        return ToolResult(success=False, error=error)

    @cached_property
    def tool(self) -> Tool:
        """The tool that executes these skills."""
        return Tool(
            "skill",
            _HEAD + self.lines if self.skills else _BASE,
            self._arguments,
            lambda args: self.execute(args.skill).model_dump(exclude_none=True),
        )


_NOWHERE = ToolResult(success=False, error="Environment not available")
base_skill_tool = Tool("skill", _BASE, _SkillArguments, lambda _args: _NOWHERE.model_dump())
"""The tool before there is an environment."""


def create_skill_tool_with_description(
    skills: Sequence[SkillInfo], *, description_chars: int = DESCRIPTION_CHARS
) -> Tool:
    """Return the tool that executes some skills, with these skills in its definition.

    If the description has no room for all, it lists the first and says so. If it has, and there are
    at most 256, the argument has an enum of their ids.
    """
    return SkillChoice(skills, description_chars).tool


def _folded(text: str) -> str:
    return one_line(text).casefold()
