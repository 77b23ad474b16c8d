"""Environments: skills of a folder, offered through one tool that says which there are now.

The tools: ``skill``, and ``search_skills`` if its description has no room for all skills.
"""

from __future__ import annotations

import difflib
import logging
import os
from pathlib import Path

from skillsearch.agents.tools.library_tools import SearchSkillsArgs
from skillsearch.agents.tools.tool import Tool, Toolset
from skillsearch.agents.toolsets.environment_skills import (
    DESCRIPTION_CHARS,
    SkillChoice,
    SkillInfo,
    SkillLoader,
)
from skillsearch.config import Settings, load_settings
from skillsearch.errors import EnvironmentNotFoundError
from skillsearch.setting_values import is_environment_name
from skillsearch.types import Languages

DEFAULT_ENVIRONMENT = "default"

_NEAREST_NAMES = 5
_MAX_ASKED_CHARS = 200

logger = logging.getLogger(__name__)


class Environment:
    """A named place for an agent to work in, with the skills of one folder.

    It knows the folder as it was last looked at: by `load_skills`, by whatever is asked first, and
    by `list_tools` at every request. It is not thread-safe, but a `toolset` is.
    """

    def __init__(
        self,
        name: str,
        skills_dir: str | Path | None = None,
        *,
        index_dir: str | Path | None = None,
        model: str = "onnx",
        languages: Languages = "auto",
        threshold: float | None = None,
        description_chars: int = DESCRIPTION_CHARS,
    ) -> None:
        """Create an environment whose skills are not loaded yet.

        The threshold is the lowest accepted score of a search; `description_chars` is the room in
        the tool's description. The other arguments are those of `SkillLibrary.from_roots`.
        """
        self.name = name
        self.skills_loaded = False
        self._loader = None
        if skills_dir is not None:
            self._loader = SkillLoader(
                skills_dir, index_dir=index_dir, model=model, languages=languages
            )
        self._threshold = threshold
        self._description_chars = description_chars
        self._registered: dict[str, Tool] = {}
        self._choice = SkillChoice((), description_chars)

    def load_skills(self) -> None:
        """Look at the folder, and make the tools for what is there; never raises."""
        if self._loader is None:
            logger.info("No skills directory configured")
            return
        self._choice = SkillChoice(self._loader.load_all(), self._description_chars)
        self.skills_loaded = True
        logger.info("Loaded %d skills", len(self._choice.skills))

    def list_skills(self) -> list[SkillInfo]:
        """Return the loaded skills, by id."""
        self._load_once()
        return list(self._choice.skills)

    def get_skill(self, id: str) -> SkillInfo | None:
        """Return a loaded skill by its id, or by id in another case or name if that is unique."""
        self._load_once()
        return self._choice.get(id)

    def get_skills_info_for_tool_description(self) -> str:
        """Return the lines in the tool's description that list the loaded skills."""
        self._load_once()
        return self._choice.lines

    def get_skills_directory(self) -> Path | None:
        """Return the folder of the skills, if there is one."""
        self._load_once()
        return None if self._loader is None else self._loader.skills_dir

    def search_skills(
        self, query: str, n: int = 5, threshold: float | None = None
    ) -> list[dict[str, str]]:
        """Find the skills that fit a request: id, name and description of each, best first."""
        self._load_once()
        if self._loader is None:
            return []
        cut = self._threshold if threshold is None else threshold
        return [hit.shown() for hit in self._loader.search(query, n, cut)]

    def register_tool(self, tool: Tool) -> None:
        """Offer another tool; it replaces a registered one of that name, but no tool for skills."""
        self._registered[tool.name] = tool

    def list_tools(self) -> tuple[Tool, ...]:
        """Look at the folder, and return the tools for what is there now."""
        if self.skills_loaded and self._loader is not None:
            skills = self._loader.load_all()
            if skills != list(self._choice.skills):
                self._choice = SkillChoice(skills, self._description_chars)
        self._load_once()
        search = Tool(
            "search_skills",
            "Find skills for a task among all that there are: id, name and description of each,"
            " best first, none if nothing fits. Then execute one with skill.",
            SearchSkillsArgs,
            lambda args: self.search_skills(args.query, args.n, args.threshold),
        )
        tools = (*self._registered.values(), self._choice.tool)
        tools = tools if self._choice.is_whole else (*tools, search)
        return tuple({tool.name: tool for tool in tools}.values())

    def toolset(self) -> Toolset:
        """Return the tools for a host, which sees at every request what is there then."""
        return Toolset(self.list_tools)

    def _load_once(self) -> None:
        if not self.skills_loaded and self._loader is not None:
            self.load_skills()


class ServerEnvironment(Environment):
    """The one of several named environments that is in use: ``{folder}/{name}/skills``.

    Nothing is read until `load_from_config`, or until something is asked for.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        active: str | None = None,
        *,
        description_chars: int = DESCRIPTION_CHARS,
    ) -> None:
        """Take the folder and the active environment, by default those of the settings.

        If they name none, the only environment there is becomes active, or else ``default``.
        """
        super().__init__(active or DEFAULT_ENVIRONMENT, description_chars=description_chars)
        self._folder = None if folder is None else Path(folder).expanduser().absolute()
        self._active = active

    def load_from_config(self) -> None:
        """Read the settings, and load the skills of the environment in use.

        `ConfigError` if a setting cannot be used; everything then stays as it was.
        """
        settings = self._settings()
        there = _environments(settings.environments)
        only = there[0] if len(there) == 1 else DEFAULT_ENVIRONMENT
        self._enter(settings.environment or only, settings)

    def list_environments(self) -> list[str]:
        """Return the names of the environments that exist now, sorted; or raise `ConfigError`."""
        return _environments(self._settings().environments)

    def switch_environment(self, name: str) -> None:
        """Use another environment from now on, and load its skills.

        `EnvironmentNotFoundError` or `ConfigError` if that cannot be; the current one stays in use.
        """
        settings = self._settings()
        there = _environments(settings.environments)
        if name not in there:
            nearest = difflib.get_close_matches(name[:_MAX_ASKED_CHARS], there, n=_NEAREST_NAMES)
            raise EnvironmentNotFoundError(name, tuple(nearest), tuple(there))
        self._active = name
        self._enter(name, settings)

    reload = load_from_config

    def _load_once(self) -> None:
        if not self.skills_loaded:
            self.load_from_config()

    def _settings(self) -> Settings:
        return load_settings(environments=self._folder, environment=self._active)

    def _enter(self, name: str, settings: Settings) -> None:
        """Use an environment and load its skills."""
        is_inside = _is_inside(settings.environments, name)
        if not is_inside:
            logger.warning("Failed to read skills directory: %s leads out of its folder", name)
        registered = self._registered
        super().__init__(
            name,
            settings.environments / name / "skills" if is_inside else None,
            model=settings.model,
            languages=settings.languages,
            threshold=settings.threshold,
            description_chars=self._description_chars,
        )
        self._registered = registered
        self.load_skills()
        self.skills_loaded = True


def _environments(folder: Path) -> list[str]:
    """Return the names of all environments in a folder, sorted."""
    try:
        names = [path.name for path in folder.iterdir() if path.is_dir()]
    except (OSError, ValueError):
        return []
    return sorted(name for name in names if is_environment_name(name) and _is_inside(folder, name))


def _is_inside(folder: Path, name: str) -> bool:
    """Return whether an environment and its skills lie inside its folder, links followed."""
    real = os.path.realpath(folder)
    return Path(os.path.realpath(folder / name / "skills")).is_relative_to(real)
