"""Environments: skills of a folder, offered through one tool that says which there are now.

The tools: ``skill``, and ``search_skills`` if its description has no room for all skills.
"""

from __future__ import annotations

import difflib
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Unpack

from pydantic import Field

from skillsearch.agents.bounds import page
from skillsearch.agents.catalog import SkillCatalog, as_list, record_of
from skillsearch.agents.default_tools import SearchSkillsArgs
from skillsearch.agents.failures import message_of
from skillsearch.agents.prompt import fit_lines
from skillsearch.agents.schemas import with_names
from skillsearch.agents.tool import Offset, Tool, ToolArguments, ToolResult, Toolset
from skillsearch.errors import ParseError
from skillsearch.files.paths import printable
from skillsearch.index.documents.document import Document
from skillsearch.library.skill_library import LibraryConfig, SkillLibrary
from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS
from skillsearch.skills.parser import read_sections, read_skill_text
from skillsearch.text.provenance import record_of_source
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types.answers import Hit, SearchResult
from skillsearch.types.json_values import Json, JsonObject
from skillsearch.types.skills import (
    LOADED_NAME_CHARS,
    SHOWN_NAME_CHARS,
    STRICT_METADATA,
    WITH_FRONTMATTER,
    Diagnostic,
)
from skillsearch.usage.log import UsageLog

DESCRIPTION_CHARS = 8000  # the length at which hosts cut a list of skills
MIN_DESCRIPTION_CHARS = 128  # room to say that nothing is listed
MAX_ENUM = 256
MAX_LISTED_IDS = 50  # ids that an error lists; if there are more, it lists only the nearest


_BASE = "Execute a skill."
_HEAD = f"{_BASE} Available skills:\n"
_CUT = "(showing {shown} of {total} skills; find the others with search_skills)"
NEAREST = 5  # names that an error lists
MAX_WANTED_CHARS = 200  # of a name that is looked for
_LISTING_CODES = frozenset({"folder-unreadable", "too-many-folders"})
(_NOT_LOADED,) = WITH_FRONTMATTER
_WARNINGS = {  # by what the code begins with
    _NOT_LOADED: "No frontmatter found in",
    "description-missing": "Missing name or description in",
    "frontmatter-": "Failed to parse frontmatter in",
    "yaml-": "Failed to parse frontmatter in",
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SkillInfo:
    """A skill of an environment; its id is its folder, relative to the folder of all skills.

    The `note` comes before its instructions; its file may link to a text in one of the `roots`. In
    the library it has the `doc_id`.
    """

    id: str
    name: str
    description: str
    path: str
    note: str = ""
    roots: Sequence[str] = field(default=(), compare=False, repr=False)
    doc_id: str = field(default="", compare=False, repr=False)

    @classmethod
    def of(cls, skill: Document | Hit, note: str = "", roots: Sequence[str] = ()) -> SkillInfo:
        """Describe a skill of a library; its id there is ``root:folder``."""
        doc_id = skill.doc_id
        folder = doc_id.partition(":")[2]
        return cls(folder, skill.name, skill.description, skill.path, note, roots, doc_id)

    def shown(self) -> dict[str, str]:
        """Return id, name and description for a model, each on one safe line."""
        return {
            "id": one_line(self.id),
            "name": one_line(self.name, SHOWN_NAME_CHARS),
            "description": one_line(self.description, MAX_DESCRIPTION_CHARS),
        }


def _shown(hit: Hit) -> dict[str, str]:
    return {**SkillInfo.of(hit).shown(), **record_of_source(hit)}


class SkillLoader:
    """The skills below one folder that models may be offered; others are logged once."""

    def __init__(
        self,
        skills_dir: str | Path,
        *,
        usage: UsageLog | None = None,
        **options: Unpack[LibraryConfig],
    ) -> None:
        """Take a folder, which may not exist yet; nothing is read until skills are loaded."""
        self.skills_dir = Path(skills_dir).expanduser().absolute()
        self._is_strict = options.pop("strict", False)
        self._options, self._usage = options, usage
        self._skills: list[SkillInfo] | None = None

    def load_all(self) -> list[SkillInfo]:
        """Return the skills now in the folder, by id; unchanged files are not read again."""
        catalog = self.catalog
        if self._skills is None or catalog.refresh():
            roots, documents = self.library.root_paths, self.library.list()
            skills = (SkillInfo.of(skill, catalog.note(skill), roots) for skill in documents)
            self._skills = sorted(skills, key=lambda info: info.id)
        return list(self._skills)

    @cached_property
    def library(self) -> SkillLibrary:
        """The library of the skills that were last loaded."""
        # A name is free here, since the folder is the id.
        strict = ("strict", STRICT_METADATA if self._is_strict else WITH_FRONTMATTER)
        return SkillLibrary.from_roots(
            self.skills_dir, selection=(strict,), usage=self._usage, **self._options
        )

    @cached_property
    def catalog(self) -> SkillCatalog:
        """The library as it is offered."""
        return SkillCatalog(self.library, describe=self._warning, logger=logger)

    def _warning(self, diagnostic: Diagnostic) -> str | None:
        """Return the log line of a diagnostic, for errors and anything about the folder itself."""
        # With strict, the library has said that it left the skill out, and why.
        is_left_out = diagnostic.code == _NOT_LOADED and not self._is_strict
        is_error = diagnostic.severity == "error" or is_left_out
        if diagnostic.path == printable(self.skills_dir) or (
            is_error and diagnostic.code in _LISTING_CODES
        ):
            return f"Failed to read skills directory: {diagnostic.path}: {diagnostic.message}"
        if not is_error:
            return None
        for start, head in _WARNINGS.items():
            if diagnostic.code.startswith(start):
                return f"{head} {diagnostic.path}: {diagnostic.message}"
        return f"Failed to load skill: {Path(diagnostic.path).parent.name}: {diagnostic.message}"


class _SkillArguments(ToolArguments):
    skill: str = Field(description="The skill ID to execute")
    offset: Offset = 0


class _SearchSkillsArguments(SearchSkillsArgs):
    """Find skills for a task among all that there are.

    Id, name and description of each, best first, none if nothing fits. Then execute one with skill.
    """


class SkillChoice:
    """The skills that a model chooses from, as they were at one time, and their `tool`.

    `lines` lists those that the tool's description has room for; `is_whole` if these are all.
    """

    def __init__(
        self,
        skills: Sequence[SkillInfo],
        description_chars: int,
        missing: str = "",
        catalog: SkillCatalog | None = None,
    ) -> None:
        """Take what there is, what to say instead of it if that is known, and what records it."""
        self._missing, self._catalog = missing, catalog
        if description_chars < MIN_DESCRIPTION_CHARS:
            least = MIN_DESCRIPTION_CHARS
            raise ValueError(f"description_chars is {description_chars}; use {least} or more")
        self.skills = list(skills)
        self._by_id = {info.id: info for info in skills}
        lines = ("- {name}: {description}".format(**info.shown()) for info in skills)
        room = description_chars - len(_HEAD)
        self.lines, count = fit_lines(lines, len(skills), room, _CUT)
        self.is_whole = count == len(skills)
        self._ids = tuple(dict.fromkeys(one_line(info.id) for info in skills))
        has_enum = self.is_whole and len(self._ids) <= MAX_ENUM
        has_enum = has_enum and sum(map(len, self._ids)) <= description_chars
        self.tool = Tool(
            "skill",
            _HEAD + self.lines if skills else _BASE,
            with_names(_SkillArguments, self._ids if has_enum else None),
            lambda args: self.execute(args.skill, args.offset).model_dump(exclude_none=True),
        )

    def get(self, id: str) -> SkillInfo | None:
        """Return the skill with an id, or the only one with it in another case or as its name."""
        if id in self._by_id:
            return self._by_id[id]
        wanted = one_line(id).casefold()
        by_id = [info for info in self.skills if one_line(info.id).casefold() == wanted]
        by_name = [info for info in self.skills if one_line(info.name).casefold() == wanted]
        matches = by_id or by_name
        return matches[0] if len(matches) == 1 else None

    def execute(self, id: str, offset: int = 0) -> ToolResult:
        """Return a page of the instructions of a skill, found as in `get`, as on disk now."""
        if info := self.get(id):
            try:
                body = read_sections(read_skill_text(Path(info.path), info.roots)[0])[1]
            except ParseError as exc:
                return _failed(f"Failed to read skill content: {message_of(exc)}")
            if self._catalog:
                self._catalog.note_load(info.doc_id)
            return ToolResult(success=True, output=page(info.note + visible(body).strip(), offset))
        if self._missing:
            return _failed(self._missing)
        name = one_line(id[:MAX_WANTED_CHARS])
        shown = self._ids
        others = ""
        if len(self._ids) > MAX_LISTED_IDS:
            close = difflib.get_close_matches(name, self._ids, n=NEAREST, cutoff=0.3)
            shown = tuple(close) or self._ids[:NEAREST]
            who = "the tool's description lists" if self.is_whole else "search_skills finds"
            others = f" ({who} others)"
        ids = ", ".join(one_line(each, LOADED_NAME_CHARS) for each in shown)
        return _failed(f"Skill not found: {name}. Available skills: {ids}{others}")


def _failed(error: str) -> ToolResult:
    return ToolResult(success=False, error=error)


base_skill_tool = Tool(
    "skill", _BASE, _SkillArguments, lambda _args: _failed("Environment not available").model_dump()
)
"""The tool before there is an environment."""


def create_skill_tool_with_description(
    skills: Sequence[SkillInfo], *, description_chars: int = DESCRIPTION_CHARS
) -> Tool:
    """Return the tool that executes some skills, with these skills in its definition.

    If the description has no room for all, it lists the first and says so. If it has, and there are
    at most 256, the argument has an enum of their ids.
    """
    return SkillChoice(skills, description_chars).tool


class Environment:
    """A named place for an agent to work in, with the skills of one folder.

    Whatever is asked of it first looks at the folder. It is not thread-safe, but a `toolset` is.
    """

    def __init__(
        self,
        name: str,
        skills_dir: str | Path | None = None,
        *,
        threshold: float | None = None,
        description_chars: int = DESCRIPTION_CHARS,
        usage: UsageLog | None = None,
        **options: Unpack[LibraryConfig],
    ) -> None:
        """Take the lowest accepted score of a search, and the room in the tool's description.

        The library learns from `usage`, and adds to it.
        """
        self.name = name
        self.skills_loaded = False
        self._usage = usage
        self._directory = None if skills_dir is None else Path(skills_dir).expanduser().absolute()
        self._loader: SkillLoader | None = None
        self._options = options
        self._threshold = threshold
        self._missing = ""
        self._description_chars = description_chars
        self._registered: dict[str, Tool] = {}
        self._choice = SkillChoice((), description_chars)

    def load_skills(self) -> None:
        """Look at the folder, and make the tools for its skills; never raises."""
        choice = Environment._loaded(self)
        if self._loader is None:
            logger.info("No skills directory configured")
        else:
            self._choice = self._choose(choice.skills)
            logger.info("Loaded %d skills", len(choice.skills))

    def list_skills(self) -> list[SkillInfo]:
        """Return the loaded skills, by id."""
        return list(self._loaded().skills)

    def get_skill(self, id: str) -> SkillInfo | None:
        """Return a loaded skill by its id, or by id in another case or name if that is unique."""
        return self._loaded().get(id)

    def get_skills_info_for_tool_description(self) -> str:
        """Return the lines in the tool's description that list the loaded skills."""
        return self._loaded().lines

    def get_skills_directory(self) -> Path | None:
        """Return the folder of the skills, None for none; a subclass may decide it anew each time.

        Whatever is asked of the environment asks this first.
        """
        return self._directory

    def search_skills(
        self, query: str, n: int = 5, threshold: float | None = None
    ) -> list[JsonObject]:
        """Find the skills for a request: id, name and description of each, best first.

        Those that only may fit come last, and have a ``state``: *perhaps*.
        """
        self._loaded()
        if self._loader is None:
            return []
        result = self._search(self._loader, query, n, threshold)
        return as_list(record_of(result, _shown, sys.maxsize))

    def _search(
        self, loader: SkillLoader, query: str, n: int, threshold: float | None
    ) -> SearchResult:
        return loader.catalog.search(query, n, self._threshold if threshold is None else threshold)

    def register_tool(self, tool: Tool) -> None:
        """Offer another tool; it replaces a registered one of that name, but no tool for skills."""
        self._registered[tool.name] = tool

    def list_tools(self) -> tuple[Tool, ...]:
        """Look at the folder, and return the tools for its skills now."""
        tools = self._registered | {"skill": self._loaded().tool}
        if (loader := self._loader) and not self._choice.is_whole:

            def search(args: _SearchSkillsArguments) -> Json:
                result = self._search(loader, args.query, args.n, args.threshold)
                return record_of(result, _shown)

            name = "search_skills"
            tools[name] = Tool.of(name, _SearchSkillsArguments, search, searches=True)
        return tuple(tools.values())

    def toolset(self) -> Toolset:
        """Return the tools for a host; each request sees the skills that are there then."""
        return Toolset(self.list_tools)

    def _loaded(self) -> SkillChoice:
        """Look at the folder, and return the choice of its skills now."""
        named = self.get_skills_directory()
        folder = named and Path(named).expanduser().absolute()
        if folder != (self._loader and self._loader.skills_dir):
            options = self._options
            self._loader = SkillLoader(folder, usage=self._usage, **options) if folder else None
        skills = self._loader.load_all() if self._loader else []
        if skills != self._choice.skills or not self.skills_loaded:
            self._choice = self._choose(skills)
        self.skills_loaded = self.skills_loaded or folder is not None
        return self._choice

    def _choose(self, skills: Sequence[SkillInfo]) -> SkillChoice:
        catalog = self._loader.catalog if self._loader else None
        return SkillChoice(skills, self._description_chars, self._missing, catalog)
