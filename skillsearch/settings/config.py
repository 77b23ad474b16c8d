"""Settings: flags > ``SKILLSEARCH_*`` > project file > user file > defaults.

A project file comes with a checkout, so it is limited: its paths must stay inside its own folder,
an index there is the user's own (see `own_folder`), and it cannot choose a model by path or from a
hub. It narrows answers for the skills in its own folder alone, and what it says of an index counts
for its own. The user's own file, variables and flags may name anything.
"""

from __future__ import annotations

import logging
import os
import shlex
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Unpack

from skillsearch.errors import ConfigError, explained
from skillsearch.files.private import tighten
from skillsearch.settings import values
from skillsearch.settings.environ import OTHER_VARIABLES, PREFIX, SEED_ROOT
from skillsearch.settings.table import IN_PROFILE, OF_OWN_INDEX, SETTINGS, Flags, Key, Settings
from skillsearch.settings.user_folders import APP, cache_dir, data_dir, default_index_dir, user_file
from skillsearch.text.near import near
from skillsearch.types.answers import EVERYWHERE, SCOPE, SELECTING
from skillsearch.types.json_values import Json, JsonObject, object_of

logger = logging.getLogger(__name__)

PROJECT_FILES = ("skillsearch.toml", "pyproject.toml")
PROJECT_MODELS = frozenset("onnx multilingual skillsearch-e5 hashing".split())
"""Models that a project file may choose: they load only what is installed."""

MAX_FILE_BYTES = 1 << 20
_OPTIONS = {"in_roots": "--root", "tags": "--tag"}
"""Options that are not called as their settings."""
_VARIABLES = frozenset(f"{PREFIX}{key.upper()}" for key in SETTINGS) | OTHER_VARIABLES


def load_settings(
    folder: Path | None = None,
    *,
    variables: Mapping[str, str] | None = None,
    **flags: Unpack[Flags],
) -> Settings:
    """Gather the settings that apply in a folder, the working folder by default, all checked.

    A project file is looked for from there upward. `variables` are this process's by
    default; ``SKILLS_ROOT`` names a root if nothing else does. Flags that are None are not given.
    If a file cannot be read, or a setting is unknown or unusable, `ConfigError` is raised.
    """
    gone = "The folder that this runs in is gone (%s); change to another one."
    with explained(ConfigError, gone):
        here = (folder or Path.cwd()).absolute()
    if variables is None:
        variables = os.environ
        for name in sorted(variables.keys() - _VARIABLES):
            _warn_of_unknown(name)
    settings = _with_files(here, variables, flags)
    settings = _with_variables(settings, variables, here)
    settings = _with_values(settings, flags, here, source="flag")
    folders = (os.path.realpath(here),)
    scope = (SCOPE, folders, EVERYWHERE) if settings.all_projects else (SCOPE, folders)
    settings = replace(settings, selection=(*settings.selection, scope))
    for private in (cache_dir(), data_dir(), user_file().parent):
        tighten(private)
    if settings.is_project_index:
        from skillsearch.files.own_folder import own_folder

        return replace(settings, index_dir=own_folder(settings.index_dir, cache_dir()))
    return settings


def _with_files(here: Path, variables: Mapping[str, str], flags: Flags) -> Settings:
    """Return what the files say, and the profiles in use in them."""
    own = user_file()
    project = project_file(here) or own
    settings = Settings(index_dir=default_index_dir(), environments=own.parent / "environments")
    settings = _with_file(settings, own)
    files, chosen, has_index = [own], [settings.profile], True
    if project != own:
        before, settings = settings, _with_file(settings, project)
        _check_project(settings, project)
        is_elsewhere = flags.get("index_dir") or variables.get(f"{PREFIX}INDEX_DIR")
        has_index = settings.is_project_index and not is_elsewhere
        settings = _bounded(settings, before, project, has_index=has_index)
        files, chosen = [own, project], [*chosen, settings.profile]
    named_profile = str(flags.get("profile") or "") or variables.get(f"{PREFIX}PROFILE")
    for name in filter(None, dict.fromkeys([named_profile] if named_profile else chosen)):
        is_chosen_by_user = name in (named_profile, chosen[0])
        for path, table in _profiles(name, files):
            source = f"{path}{IN_PROFILE}{name}"
            after = _with_values(settings, table, path.parent, source=source)
            if not (is_chosen_by_user and path == own):
                after = _bounded(after, settings, project, has_index=has_index)
            settings = after
    return settings


def load_only(*keys: Key, index_dir: str | Path | None = None) -> Settings:
    """Load some settings; the variables of others are not read, so a bad one is not in the way.

    Those are read that decide which files count for it, perhaps for another index than they name.
    Fails as `load_settings` does.
    """
    parts = (*map(str.upper, keys), "INDEX_DIR", "PROFILE")
    names = {f"{PREFIX}{part}" for part in parts} | {SEED_ROOT}
    variables = {name: os.environ[name] for name in names & os.environ.keys()}
    flag = str(index_dir) if index_dir else None
    return load_settings(variables=variables, index_dir=flag)


def user_index_dir() -> Path:
    """Return the folder of the user's own index, whatever a project, variable or flag names."""
    return _with_file(Settings(index_dir=default_index_dir()), user_file()).index_dir


def of_own_index(settings: Settings) -> Settings:
    """Return the settings of the user's own index if a project file names another."""
    return load_settings(index_dir=user_index_dir()) if settings.is_project_index else settings


def limits_of(settings: Settings) -> str:
    """Return what a project file decides about answers from the index that it names, in words."""
    keys = ("index_dir", *OF_OWN_INDEX)
    chosen = [key for key in keys if settings.is_project_index and settings.is_of_project(key)]
    own = f"; your own index: --index-dir {shlex.quote(str(user_index_dir()))}"
    return f"{settings.sources['index_dir']} decides {', '.join(chosen)}{own}" if chosen else ""


def project_file(folder: Path) -> Path | None:
    """Return the nearest project file with settings, in a folder or above it."""
    for around in (folder, *folder.parents):
        for name in PROJECT_FILES:
            path = around / name
            if path.is_file() and (name == "skillsearch.toml" or _table(path)):
                return path
    return None


@cache
def _warn_of_unknown(name: str) -> None:
    """Warn once about a variable of ours that is not a setting, and name the one it resembles."""
    if name.startswith(PREFIX):
        logger.warning("The variable %s is unknown and ignored%s", name, _near(name, _VARIABLES))


def _near(name: str, names: Collection[str]) -> str:
    nearest = near(name, names, 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def _table(path: Path) -> Mapping[str, Json]:
    """Return the settings of a TOML file, if there is one; in pyproject.toml a table holds them."""
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if path.name == "pyproject.toml" and b"[tool.skillsearch" not in data:
            return {}
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"{path} has more than {MAX_FILE_BYTES:,} bytes; shorten it")
        content = _parsed(data)
    except RecursionError as exc:
        raise ConfigError(f"{path} is nested too deeply; settings are plain values.") from exc
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc}; make it readable or remove it") from exc
    except ValueError as exc:
        raise ConfigError(f"{path} is not TOML: {exc}; correct the file") from exc
    tool = content.get("tool", {}) if path.name == "pyproject.toml" else {APP: content}
    table = tool.get(APP, {}) if isinstance(tool, Mapping) else None
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path}: [tool.{APP}] is not a table; put 'key = value' lines below it")
    _tables_of_profiles(path, table)
    return table


def _tables_of_profiles(path: Path, table: Mapping[str, Json]) -> dict[str, JsonObject]:
    """Return the profiles in the table of a file, by name."""
    with suppress(TypeError):
        return {name: object_of(row) for name, row in object_of(table.get("profiles", {})).items()}
    raise ConfigError(f"{path}: a profile is a table; put its lines below [profiles.NAME]")


@lru_cache(maxsize=4)
def _parsed(data: bytes) -> Mapping[str, Json]:
    """Parse TOML once; settings are gathered far more often than files change."""
    return MappingProxyType(tomllib.loads(data.decode("utf-8-sig")))


def _profiles(name: str, files: Sequence[Path]) -> Iterator[tuple[Path, JsonObject]]:
    """Yield what each file says in a profile."""
    profiles = [(path, _tables_of_profiles(path, _table(path))) for path in files]
    names = sorted({profile for _, tables in profiles for profile in tables})
    if name not in names:
        hint = _near(name, names) or f"; there are: {', '.join(names) or 'none'}"
        paths = " or ".join(map(str, files))
        raise ConfigError(f"There is no profile {name!r} ([profiles.{name}] in {paths}){hint}")
    for path, tables in profiles:
        table = tables.get(name, {})
        allowed = sorted(key for key, setting in SETTINGS.items() if setting.in_profile)
        if unknown := sorted(table.keys() - set(allowed)):
            message = f"a profile cannot set {unknown[0]!r}; remove it, or set one of:"
            raise ConfigError(f"{path}{IN_PROFILE}{name}: {message} {', '.join(allowed)}")
        yield path, table


def _with_file(settings: Settings, path: Path) -> Settings:
    table = {key: value for key, value in _table(path).items() if key != "profiles"}
    return _with_values(settings, table, path.parent, source=str(path))


def _with_variables(settings: Settings, variables: Mapping[str, str], here: Path) -> Settings:
    named = {key: variables.get(f"{PREFIX}{key.upper()}") or None for key in SETTINGS}
    lists = {key: values.split_roots(named[key] or "") or None for key in ("roots", "trust")}
    settings = _with_values(settings, {**named, **lists}, here, source="environment")
    seed = variables.get(SEED_ROOT)
    if not seed or settings.roots:
        return settings
    return _with_values(settings, {"roots": [seed]}, here, source=SEED_ROOT)


def _with_values(
    settings: Settings, table: Mapping[str, object], base: Path, *, source: str
) -> Settings:
    """Add the settings from one source that are not None; paths are relative to `base`."""
    if unknown := sorted(table.keys() - SETTINGS.keys()):
        hint = _near(unknown[0], SETTINGS) or f"; known are: {', '.join(sorted(SETTINGS))}"
        raise ConfigError(f"{source}: unknown setting {unknown[0]!r}{hint}")
    parsed: dict[str, Any] = {}
    for key, value in table.items():
        if value is None:
            continue
        try:
            parsed[key] = SETTINGS[key].parse(value, base)
        except (TypeError, ValueError) as exc:
            given_as = shlex.join(value if isinstance(value, tuple) else [str(value)])
            spellings = {  # as the user wrote it
                "flag": f"{_OPTIONS.get(key) or '--' + key.replace('_', '-')} {given_as}",
                "environment": f"{PREFIX}{key.upper()}={value!r}",
            }
            written = spellings.get(source, f"{source}: {key} = {value!r}")
            raise ConfigError(f"{written} {exc}") from exc
    sources = {**settings.sources, **dict.fromkeys(parsed, source)}
    tests = ((key, parsed.pop(key, ())) for key in SELECTING)
    selection = settings.selection + tuple(test for test in tests if test[1])
    return replace(settings, **parsed, selection=selection, sources=sources)


def _check_project(settings: Settings, path: Path) -> None:
    """Refuse what a checkout must not decide for its user."""
    base = path.parent.resolve()
    named = {key for key, source in settings.sources.items() if source == str(path)}
    for key in sorted(key for key in named if SETTINGS[key].project == "nowhere"):
        raise ConfigError(
            f"{path}: {key} is not for a project file to choose; use {PREFIX}{key.upper()} or the "
            "user file instead."
        )
    roots = settings.file_roots
    if any(isinstance(root, str) for root in roots):
        raise ConfigError(
            f"{path}: a project file may not name a URL as a root; use a flag, SKILLSEARCH_ROOTS "
            "or the user file instead."
        )
    folders = [getattr(settings, key) for key in ("index_dir", "environments") if key in named]
    for inside in (*map(Path, roots), *folders):
        if not inside.resolve().is_relative_to(base):
            raise ConfigError(
                f"{path}: {inside} lies outside {base}; a project file may only name folders "
                "inside it. Use a flag, SKILLSEARCH_* or the user file instead."
            )
    for key, allowed in (("model", sorted(PROJECT_MODELS)), ("reader", values.READING)):
        if key in named and (chosen := getattr(settings, key)) not in allowed:
            raise ConfigError(
                f"{path}: {key} = {chosen!r} is not for a project file to choose "
                f"(only {', '.join(allowed)}); use --{key} or {PREFIX}{key.upper()}."
            )


def _bounded(settings: Settings, before: Settings, project: Path, *, has_index: bool) -> Settings:
    """Undo what a project file changed in the settings `before` it but may not decide."""
    folder = str(project.parent.resolve())
    old = before.sources
    new = settings.selection[len(before.selection) :]
    selection = before.selection + tuple((kind, patterns, folder) for kind, patterns, *_ in new)
    changed = [key for key in OF_OWN_INDEX if settings.sources.get(key) != old.get(key)]
    if has_index or not changed:
        return replace(settings, selection=selection)
    _warn_of_ignored(project, ", ".join(changed))
    sources = {key: source for key, source in settings.sources.items() if key not in changed}
    sources |= {key: old[key] for key in changed if key in old}
    restored = {key: getattr(before, key) for key in changed}
    return replace(settings, selection=selection, sources=sources, **restored)


@cache
def _warn_of_ignored(project: Path, keys: str) -> None:
    logger.warning(
        "%s decides %s for an index that it names (index_dir) alone, so not here", project, keys
    )
