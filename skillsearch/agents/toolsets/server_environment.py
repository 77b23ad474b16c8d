"""Named environments: which there are, which one is in use, and how to switch."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from skillsearch.agents.toolsets.environments import (
    DESCRIPTION_CHARS,
    MAX_LISTED_IDS,
    NEAREST,
    Environment,
    SkillChoice,
)
from skillsearch.errors import ConfigError, EnvironmentNotFoundError
from skillsearch.files.openat import open_file, read_opened, using
from skillsearch.hosts.entries import Entry
from skillsearch.hosts.files import FileChange
from skillsearch.library.skill_library import library_config
from skillsearch.settings.config import load_settings
from skillsearch.settings.environ import PREFIX
from skillsearch.settings.table import Settings
from skillsearch.settings.values import is_environment_name
from skillsearch.text.jsonc import parse_jsonc
from skillsearch.text.near import near
from skillsearch.text.safe_text import listed, one_line
from skillsearch.types.json_values import JsonObject
from skillsearch.usage.recording import log_of

DEFAULT_ENVIRONMENT = "default"
CONFIG_FILE = "config.jsonc"
ACTIVE = "activeEnvironment"
_MAX_CONFIG_BYTES = 1 << 20
_CHOOSE = "There are: {}. Choose one: skillsearch env switch NAME, or SKILLSEARCH_ENVIRONMENT=NAME."

logger = logging.getLogger(__name__)


class ServerEnvironment(Environment):
    """The one of several named environments that is in use: ``{folder}/{name}/skills``.

    Nothing is read until `load_from_config`, or until something is asked for. `config` is what the
    ``config.jsonc`` of the environment says, for the host.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        active: str | None = None,
        *,
        description_chars: int = DESCRIPTION_CHARS,
        interface: str = "agent",
    ) -> None:
        """Take folder and environment, and the interface that records usage if settings ask for it.

        By default those of the settings, else ``activeEnvironment`` of the ``config.jsonc`` next to
        the folder, else the only one or ``default``.
        """
        super().__init__(active or DEFAULT_ENVIRONMENT, description_chars=description_chars)
        self.config: JsonObject = {}
        self._folder = None if folder is None else Path(folder).expanduser().absolute()
        self._active, self._interface = active, interface

    def load_from_config(self) -> None:
        """Read the settings, and load the skills of the environment in use.

        `ConfigError` if a setting cannot be used; everything then stays as it was.
        """
        settings = self._settings()
        there = _environments(settings.environments)
        named = settings.environment or active_environment(settings.environments)
        name = named or (there[0] if len(there) == 1 else DEFAULT_ENVIRONMENT)
        self._missing = ""
        if there and name not in there and not named:
            self._missing = (
                f"No environment is in use. {_CHOOSE.format(listed(there, MAX_LISTED_IDS))}"
            )
            logger.warning("%s", self._missing)
        self._enter(name, settings)

    def get_skills_directory(self) -> Path | None:
        """Return the folder of the skills of the environment in use, if it may be used."""
        if not self.skills_loaded:
            self.load_from_config()
        return self._directory

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
            nearest = near(name, there, NEAREST)
            raise EnvironmentNotFoundError(name, tuple(nearest), tuple(there))
        self._active, self._missing = name, ""
        self._enter(name, settings)

    reload = load_from_config

    def _settings(self) -> Settings:
        return load_settings(environments=self._folder, environment=self._active)

    def _enter(self, name: str, settings: Settings) -> None:
        self.name = name
        self._loader = None
        self._threshold = settings.threshold
        self._usage = log_of(settings, self._interface)
        self.skills_loaded = True
        self._choice = SkillChoice((), self._description_chars, self._missing)
        self._options = library_config(settings)
        self._options["strict"] = any(kind == "strict" for kind, *_ in settings.selection)
        if settings.is_of_project("environments"):
            self._options["trust"] = "project"
        self._directory, self.config = None, {}
        if _is_inside(settings.environments, name):
            self._directory = settings.environments / name / "skills"
            self.config = _read_config(settings.environments / name)
        else:
            logger.warning("Failed to read skills directory: %s leads out of its folder", name)
        self.load_skills()


def set_active(name: str, settings: Settings) -> None:
    """Write which environment is in use into the ``config.jsonc`` beside their folder.

    A ConfigError if it cannot be written, or if a setting that comes first names another one.
    """
    source = settings.sources.get("environment")
    if source and settings.environment != name:
        source = f"{PREFIX}ENVIRONMENT" if source == "environment" else source
        raise ConfigError(
            f"{source} sets the environment to {settings.environment!r}, which comes before this "
            f"switch; set it to {name!r} there, or unset it."
        )
    file = settings.environments.parent / CONFIG_FILE
    change = FileChange.plan(file, [Entry("json", (ACTIVE,), name)])
    if change.is_needed:
        change.write()


def active_environment(folder: Path) -> str:
    """Return ``activeEnvironment`` of the ``config.jsonc`` beside a folder of environments, if any.

    What cannot name an environment is logged, and none.
    """
    name = _read_config(folder.parent).get(ACTIVE, "")
    if name == "" or (isinstance(name, str) and is_environment_name(name)):
        return str(name)
    logger.warning("%s of %s names no folder: %.200r", ACTIVE, folder.parent / CONFIG_FILE, name)
    return ""


def _read_config(folder: Path) -> JsonObject:
    """Read the ``config.jsonc`` of a folder; empty without one, and, logged, if it is broken."""
    try:
        with using(open_file(folder, [CONFIG_FILE])) as fd:
            return parse_jsonc(read_opened(fd, _MAX_CONFIG_BYTES)[0].decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        logger.warning("Failed to read %s: %s", folder / CONFIG_FILE, one_line(str(exc), 200))
        return {}


def _environments(folder: Path) -> list[str]:
    try:
        names = [path.name for path in folder.iterdir() if path.is_dir()]
    except (OSError, ValueError):
        return []
    return sorted(name for name in names if is_environment_name(name) and _is_inside(folder, name))


def _is_inside(folder: Path, name: str) -> bool:
    """Return whether an environment and its skills lie inside its folder, links followed."""
    real = os.path.realpath(folder)
    return Path(os.path.realpath(folder / name / "skills")).is_relative_to(real)
