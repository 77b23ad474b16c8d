"""The skills of an environment: found by folder, and executed through the tool ``skill``."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from skillsearch.agents.prompt import fit_lines, skill_line
from skillsearch.agents.tools.failures import DiagnosticLog, message_of
from skillsearch.agents.tools.tool import Tool, ToolArguments, ToolResult, with_names
from skillsearch.errors import ParseError
from skillsearch.files.paths import printable
from skillsearch.index.documents import Document
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.skills.parser import decode_skill_md, read_sections
from skillsearch.skills.resources import read_skill_md
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import Diagnostic, Hit, JsonValue, Languages

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
_MAX_NAME_CHARS = 200
_MAX_DESCRIPTION_CHARS = 1024
"""The specification's limit."""
_LISTING_CODES = frozenset({"folder-unreadable", "too-many-folders"})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SkillInfo:
    """A skill of an environment; its id is its folder, relative to the folder of all skills."""

    id: str
    name: str
    description: str
    path: str

    @property
    def shown_name(self) -> str:
        """The name on one safe line, for a model."""
        return one_line(self.name, _MAX_NAME_CHARS)

    @property
    def shown_description(self) -> str:
        """The description on one safe line, for a model."""
        return one_line(self.description, _MAX_DESCRIPTION_CHARS)

    def read_body(self) -> str:
        """Read the instructions as they are on disk now, without hidden characters.

        `ParseError` if the file cannot be read or has no frontmatter.
        """
        data, _ = read_skill_md(Path(self.path))
        _, body, _ = read_sections(decode_skill_md(data)[0])
        return visible(body).strip()


class SkillLoader:
    """The skills below one folder.

    A skill that cannot be loaded is skipped, and logged once. Also left out are skills that ask not
    to be offered to models and older versions of a skill.
    """

    def __init__(
        self,
        skills_dir: str | Path,
        *,
        index_dir: str | Path | None = None,
        model: str = "onnx",
        languages: Languages = "auto",
    ) -> None:
        """Take a folder, which may not exist yet; nothing is read until skills are loaded.

        The other arguments are those of `SkillLibrary.from_roots`.
        """
        self.skills_dir = Path(skills_dir).expanduser().absolute()
        self._index_dir = index_dir
        self._model = model
        self._languages = languages
        self._library: SkillLibrary | None = None
        self._skills: list[SkillInfo] = []
        self._log = DiagnosticLog(logger, self._warning)

    def load_all(self) -> list[SkillInfo]:
        """Return the skills now in the folder, by id; unchanged files are not read again."""
        is_first = self._library is None
        library = self._scanned()
        if is_first or library.refresh():
            self._skills = sorted(map(_info, library.list()), key=lambda info: info.id)
        self._log.update(library.diagnostics)
        return list(self._skills)

    def search(self, query: str, n: int = 5, threshold: float | None = None) -> list[SkillInfo]:
        """Find the skills that fit a request, best first, among those that were last loaded.

        `QueryError` if an argument cannot be used.
        """
        return [_info(hit) for hit in self._scanned().search(query, n, threshold)]

    def _scanned(self) -> SkillLibrary:
        """Return the library of the folder, opened at first use."""
        if self._library is None:
            self._library = SkillLibrary.from_roots(
                self.skills_dir,
                index_dir=self._index_dir,
                model=self._model,
                languages=self._languages,
            )
        return self._library

    def _warning(self, found: Diagnostic) -> str | None:
        """Return what to log of a diagnostic: errors, and anything about the folder itself."""
        is_folder = found.path == printable(self.skills_dir)
        if is_folder or (found.code in _LISTING_CODES and found.severity == "error"):
            return f"Failed to read skills directory: {found.path}: {found.message}"
        if found.severity != "error":
            return None
        if found.code == "frontmatter-missing":
            return f"No frontmatter found in {found.path}: {found.message}"
        if found.code == "description-missing":
            return f"Missing name or description in {found.path}: {found.message}"
        if found.code.startswith(("frontmatter-", "yaml-")):
            return f"Failed to parse frontmatter in {found.path}: {found.message}"
        return f"Failed to load skill: {Path(found.path).parent.name}: {found.message}"


def _info(found: Document | Hit) -> SkillInfo:
    """Describe a document, whose id is ``root:folder``."""
    folder = found.doc_id.partition(":")[2]
    return SkillInfo(folder, found.name, found.description, found.path)


class _SkillArguments(ToolArguments):
    """Arguments of ``skill``."""

    skill: str = Field(description="The skill ID to execute")


class SkillChoice:
    """The skills that a model chooses from, as they were at one time.

    `lines` has a line for each that the tool's description has room for; unless it `is_whole`, a
    last line says that there are more.
    """

    def __init__(self, skills: Sequence[SkillInfo], description_chars: int) -> None:
        """Take skills with distinct ids, and the room that the tool's description has for them.

        `ValueError` if that is less than `MIN_DESCRIPTION_CHARS`.
        """
        if description_chars < MIN_DESCRIPTION_CHARS:
            raise ValueError(
                f"description_chars is {description_chars}; use {MIN_DESCRIPTION_CHARS} or more"
            )
        self.skills = tuple(skills)
        lines = (skill_line(info.shown_name, info.shown_description) for info in self.skills)
        room = description_chars - len(_HEAD)
        self.lines, shown = fit_lines(lines, len(self.skills), room, _CUT)
        self.is_whole = shown == len(self.skills)
        self._ids = tuple(dict.fromkeys(one_line(info.id) for info in self.skills))
        has_enum = self.is_whole and len(self._ids) <= MAX_ENUM
        has_enum = has_enum and sum(map(len, self._ids)) <= description_chars
        self._arguments = with_names(_SkillArguments, self._ids if has_enum else None)
        self._by_id = {info.id: info for info in self.skills}

    def get(self, id: str) -> SkillInfo | None:
        """Return the skill with an id, or the only one with it in another case or as its name."""
        if id in self._by_id:
            return self._by_id[id]
        wanted = _folded(id)
        found = [info for info in self.skills if _folded(info.id) == wanted]
        found = found or [info for info in self.skills if _folded(info.name) == wanted]
        return found[0] if len(found) == 1 else None

    def execute(self, id: str) -> ToolResult:
        """Return the instructions of a skill, found as in `get`, as they are on disk now.

        An error does not show where on the host anything lies.
        """
        info = self.get(id)
        if info is None:
            return ToolResult(success=False, error=self._not_found(id))
        try:
            return ToolResult(success=True, output=info.read_body())
        except ParseError as exc:
            error = f"Failed to read skill content: {message_of(exc)}"
            return ToolResult(success=False, error=error)

    def tool(self) -> Tool:
        """Return the tool that executes these skills."""

        def execute(args: _SkillArguments) -> JsonValue:
            return self.execute(args.skill).model_dump(exclude_none=True)

        description = _HEAD + self.lines if self.skills else _BASE
        return Tool("skill", description, self._arguments, execute)

    def _not_found(self, id: str) -> str:
        asked = one_line(id[:_MAX_ASKED_CHARS])
        if len(self._ids) <= MAX_LISTED_IDS:
            return f"Skill not found: {asked}. Available skills: {', '.join(self._ids)}"
        near = difflib.get_close_matches(asked, self._ids, n=_NEAREST_IDS, cutoff=0.3)
        others = "the tool's description lists" if self.is_whole else "search_skills finds"
        shown = ", ".join(near or self._ids[:_NEAREST_IDS])
        return f"Skill not found: {asked}. Available skills: {shown} ({others} others)"


def _execute_nowhere(args: _SkillArguments) -> JsonValue:
    return ToolResult(success=False, error="Environment not available").model_dump()


base_skill_tool = Tool("skill", _BASE, _SkillArguments, _execute_nowhere)
"""The tool before there is an environment."""


def create_skill_tool_with_description(
    skills: Sequence[SkillInfo], *, description_chars: int = DESCRIPTION_CHARS
) -> Tool:
    """Return the tool that executes some skills, with these skills in its definition.

    If the description has no room for all, it lists the first and says so. If it has, and there are
    at most 256, the argument has an enum of their ids. Without skills it is defined like
    `base_skill_tool`. `ValueError` if `description_chars` is less than `MIN_DESCRIPTION_CHARS`.
    """
    return SkillChoice(skills, description_chars).tool()


def _folded(text: str) -> str:
    return one_line(text).casefold()
