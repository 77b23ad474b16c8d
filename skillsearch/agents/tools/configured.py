"""The default tools over the index that the settings name: what a program calls without set-up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from skillsearch.agents.tools.failures import problems_of
from skillsearch.agents.tools.library_tools import SearchSkillsArgs, find_skills, library_tools
from skillsearch.agents.tools.tool import Tool
from skillsearch.agents.tools.toolset import Style, Toolset
from skillsearch.config import load_settings
from skillsearch.errors import QueryError
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.types import JsonValue

_OPEN_LIBRARIES = 4


def search_skills(
    query: str, n: int = 5, threshold: float | None = None
) -> list[dict[str, JsonValue]]:
    """Find the skills that fit a task, in the index that the settings name.

    Skills that ask not to be offered to models are left out. The index is searched as it was last
    built; a newer generation on disk is picked up by the next call.

    Args:
        query: What is to be done, in words.
        n: How many skills at most.
        threshold: Lowest accepted score; None for the setting, or else the default.

    Returns:
        Name, description (one line), score and path of each skill, best first; none where no
        skill fits.

    Raises:
        QueryError: When an argument cannot be used.
        IndexNotFoundError: When there is no index yet.
    """
    try:
        args = SearchSkillsArgs(query=query, n=n, threshold=threshold)
    except ValidationError as exc:
        problems = "; ".join(problems_of(exc))
        raise QueryError(f"search_skills cannot use its arguments: {problems}") from exc
    settings = load_settings()
    cut = settings.threshold if args.threshold is None else args.threshold
    return find_skills(_library(settings.index_dir), args.query, args.n, cut)


def tool_specs(style: Style = "openai") -> list[dict[str, JsonValue]]:
    """Return the definitions of the default tools, as they go into a request to a model.

    No index is needed for this.

    Args:
        style: ``openai`` or ``anthropic``.

    Returns:
        One definition a tool.

    Raises:
        ConfigError: When a setting cannot be used.
    """
    return _TOOLSET.specs(style)


def call(name: str, arguments: Mapping[str, JsonValue] | str | None = None) -> dict[str, JsonValue]:
    """Call a default tool as a model asks for it; nothing that the model sends raises.

    Args:
        name: Name of the tool.
        arguments: Its arguments, or their JSON text.

    Returns:
        ``{"result": ...}``, or ``{"error": {"code", "message", "next_step", ...}}``.
    """
    return _TOOLSET.call(name, arguments)


def _tools() -> tuple[Tool, ...]:
    """Return the tools as the settings are now."""
    settings = load_settings()
    return library_tools(lambda: _library(settings.index_dir), threshold=settings.threshold)


def _library(index_dir: Path) -> SkillLibrary:
    """Return the skills of an index, as its newest generation has them."""
    folder = index_dir.absolute()
    return _opened(folder, IndexFolder(folder).stamp())


@lru_cache(maxsize=_OPEN_LIBRARIES)
def _opened(folder: Path, stamp: tuple[int, ...]) -> SkillLibrary:
    """Open an index once each time that it was written."""
    return SkillLibrary.open(folder)


_TOOLSET = Toolset(_tools)
