"""Named environments in one folder, one of them in use: chosen by the settings, and switched."""

from __future__ import annotations

import difflib
import logging
import os
from pathlib import Path

from skillsearch.agents.toolsets.environment import Environment
from skillsearch.agents.toolsets.environment_skills import SkillLoader
from skillsearch.agents.toolsets.environment_tool import DESCRIPTION_CHARS
from skillsearch.config import Settings, load_settings
from skillsearch.errors import EnvironmentNotFoundError
from skillsearch.setting_values import is_environment_name

DEFAULT_ENVIRONMENT = "default"

_NEAREST_NAMES = 5
_MAX_ASKED_CHARS = 200

logger = logging.getLogger(__name__)


class ServerEnvironment(Environment):
    """That one of several named environments which is in use: ``{folder}/{name}/skills``.

    Folder and name come from the settings, unless they are given. Nothing is read until
    `load_from_config`, or until something is asked for: that raises what `load_from_config` does.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        active: str | None = None,
        *,
        description_chars: int = DESCRIPTION_CHARS,
    ) -> None:
        """Make an environment that is not loaded yet.

        Args:
            folder: Folder of all environments; by default that of the settings.
            active: The environment in use; by default that of the settings, or else ``default``,
                or else the only one there is.
            description_chars: Characters that the description of the tool may have.

        Raises:
            ValueError: When that is too few to say anything.
        """
        super().__init__(active or DEFAULT_ENVIRONMENT, description_chars=description_chars)
        self._folder = None if folder is None else Path(folder).expanduser().absolute()
        self._active = active

    def load_from_config(self) -> None:
        """Read the settings, and load the skills of the environment that they say is in use.

        A folder that is missing or a skill that is broken is logged, and stops nothing.

        Raises:
            ConfigError: When a setting cannot be used; all stays as it was.
        """
        settings = self._settings()
        self._enter(settings.environment or _only_or_default(settings.environments), settings)

    def list_environments(self) -> list[str]:
        """Look which environments there are now.

        Returns:
            Their names, sorted.

        Raises:
            ConfigError: When a setting cannot be used.
        """
        return _environments(self._settings().environments)

    def switch_environment(self, name: str) -> None:
        """Use another environment from now on, and load its skills.

        Args:
            name: One of `list_environments`.

        Raises:
            EnvironmentNotFoundError: When there is none of that name; the one in use stays.
            ConfigError: When a setting cannot be used; the one in use stays.
        """
        settings = self._settings()
        there = _environments(settings.environments)
        if name not in there:
            nearest = difflib.get_close_matches(name[:_MAX_ASKED_CHARS], there, n=_NEAREST_NAMES)
            raise EnvironmentNotFoundError(name, tuple(nearest), tuple(there))
        self._active = name
        self._enter(name, settings)

    def reload(self) -> None:
        """Read settings and skills again; an environment that was switched to stays in use.

        Raises:
            ConfigError: When a setting cannot be used; all stays as it was.
        """
        self.load_from_config()

    def _load_once(self) -> None:
        """Read the settings and load the skills if that was not done yet."""
        if not self.skills_loaded:
            self.load_from_config()

    def _settings(self) -> Settings:
        """Read the settings that hold now."""
        return load_settings(environments=self._folder, environment=self._active)

    def _enter(self, name: str, settings: Settings) -> None:
        """Use an environment and load its skills."""
        self.name = name
        self._threshold = settings.threshold
        self._loader = None
        self._take(())
        if _is_inside(settings.environments, name):
            skills_dir = settings.environments / name / "skills"
            self._loader = SkillLoader(
                skills_dir, model=settings.model, languages=settings.languages
            )
        else:
            logger.warning("Failed to read skills directory: %s leads out of its folder", name)
        self.load_skills()
        self.skills_loaded = True


def _environments(folder: Path) -> list[str]:
    """Return the names of all environments in a folder, sorted."""
    try:
        names = [path.name for path in folder.iterdir() if path.is_dir()]
    except (OSError, ValueError):
        return []
    return sorted(name for name in names if is_environment_name(name) and _is_inside(folder, name))


def _only_or_default(folder: Path) -> str:
    """Return the only environment that there is; where there are more or none, the default."""
    there = _environments(folder)
    return there[0] if len(there) == 1 else DEFAULT_ENVIRONMENT


def _is_inside(folder: Path, name: str) -> bool:
    """Tell whether an environment and its skills lie where their folder is, links followed."""
    real = os.path.realpath(folder)
    return Path(os.path.realpath(folder / name / "skills")).is_relative_to(real)
