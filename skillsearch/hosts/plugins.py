"""Plugins of hosts as they are installed and enabled now; one reader for each kind of registry.

All of it was read from what the hosts themselves write (`hosts.toml` names the versions). Files
that are missing, broken or of another form mean no plugins.
"""

from __future__ import annotations

import itertools
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.files.openat import read_regular
from skillsearch.files.paths import is_utf8
from skillsearch.hosts.table import folder_of, hosts
from skillsearch.settings.user_folders import home_dir
from skillsearch.text.jsonc import parse_jsonc
from skillsearch.types.json_values import Json, JsonObject
from skillsearch.types.skills import SKILL_MD

MAX_BYTES = 16 << 20
"""Of a file of a host; larger ones are not read."""
_MAX_PLUGINS = 1_000
_NUMBERS = lazy_pattern(r"\d+")
# Scopes of Claude Code for which a plugin is installed in one project.
_OF_PROJECT = ("project", "local")


class Plugin(NamedTuple):
    """A plugin on this machine: its id, the folder of a version, and whether that is in use."""

    name: str
    folder: Path
    version: str
    is_enabled: bool
    skills: tuple[Path, ...]


def plugins_of(host: str, project: Path | None = None) -> list[Plugin]:
    """Return the plugins of a host that its user has, or those that a project has otherwise."""
    kind, registry = hosts()[host].get("plugins", ("", ""))
    plugins = READERS[kind](Path(folder_of(registry)), project) if kind else iter(())
    return list(itertools.islice(plugins, _MAX_PLUGINS))


def _of_claude(base: Path, project: Path | None) -> Iterator[Plugin]:
    mine = _enabled(base / "settings.json")
    theirs: dict[str, bool] = {}
    for name in ("settings.json", "settings.local.json") if project else ():
        theirs |= _enabled(Path(project or "", ".claude", name))
    used = set()
    for name, entry in _installed(base / "plugins" / "installed_plugins.json"):
        folder = Path(_text(entry.get("installPath")))
        used.add(os.path.realpath(folder))
        manifest = read_json(folder / ".claude-plugin" / "plugin.json")
        of_user = mine.get(name, manifest.get("defaultEnabled") is not False)
        is_enabled = theirs.get(name, of_user)
        if entry.get("scope") in _OF_PROJECT:
            is_listed = project and _is_same(_text(entry.get("projectPath")), project)
        else:
            is_listed = project is None or is_enabled != of_user
        if is_listed:
            skills = _skills(folder, manifest.get("skills"))
            yield Plugin(name, folder, _text(entry.get("version")), is_enabled, skills)
    if project is None:
        yield from _left_behind(base / "plugins" / "cache", used)


def _installed(registry: Path) -> Iterator[tuple[str, JsonObject]]:
    """Yield the name and the entry of each installation that a registry of Claude Code lists."""
    for name, entries in read_json(registry, "plugins").items():
        for entry in entries if isinstance(entries, list) else [entries]:
            yield name, _table(entry)


def _of_codex(base: Path, project: Path | None) -> Iterator[Plugin]:
    if project is not None:
        return
    settings: JsonObject = {}
    with suppress(OSError, ValueError, RecursionError):
        settings = tomllib.loads(read_regular(base / "config.toml", MAX_BYTES)[0].decode())
    used = set()
    for name, entry in _table(settings.get("plugins")).items():
        plugin, _, market = name.partition("@")
        is_plain = all(part and "/" not in part and part != ".." for part in (plugin, market))
        versions = _folders(base / "plugins" / "cache" / market / plugin) if is_plain else []
        if not versions:
            continue
        folder = max(versions, key=_version_order)
        used.add(os.path.realpath(folder))
        skills = _skills(folder, read_json(folder / ".codex-plugin" / "plugin.json").get("skills"))
        is_enabled = _table(entry).get("enabled") is not False
        yield Plugin(name, folder, folder.name, is_enabled, skills)
    yield from _left_behind(base / "plugins" / "cache", used)


def _of_gemini(base: Path, project: Path | None) -> Iterator[Plugin]:
    rules = read_json(base / "extension-enablement.json")
    for folder in _folders(base):
        manifest = read_json(folder / "gemini-extension.json")
        if not manifest:
            continue
        overrides = _table(rules.get(folder.name)).get("overrides")
        is_mine = _is_allowed(overrides, home_dir())
        is_enabled = is_mine if project is None else _is_allowed(overrides, project)
        if project is None or (is_enabled and not is_mine):
            version = _text(manifest.get("version"))
            yield Plugin(folder.name, folder, version, is_enabled, _skills(folder))


PluginReader = Callable[[Path, Path | None], Iterator[Plugin]]
READERS: Mapping[str, PluginReader] = {
    "claude": _of_claude,
    "codex": _of_codex,
    "gemini": _of_gemini,
}
"""What reads each kind of registry: the user's plugins, or what a project enables besides."""


def _enabled(settings: Path) -> dict[str, bool]:
    """Return what settings of Claude Code say of plugins; a list of versions enables one too."""
    enabled = read_json(settings, "enabledPlugins")
    return {name: value is True or isinstance(value, list) for name, value in enabled.items()}


def _left_behind(cache: Path, used: set[str]) -> Iterator[Plugin]:
    """Yield the versions in a cache, MARKET/PLUGIN/VERSION, that are not the installed ones."""
    for market in _folders(cache):
        for plugin in _folders(market):
            for folder in _folders(plugin):
                if os.path.realpath(folder) not in used:
                    name = f"{plugin.name}@{market.name}"
                    yield Plugin(
                        name, folder, folder.name, is_enabled=False, skills=_skills(folder)
                    )


def _is_allowed(overrides: Json, folder: Path) -> bool:
    """Return whether the rules of Gemini CLI enable an extension in a folder; the last wins."""
    target = f"{str(folder).rstrip('/')}/"
    is_allowed = True
    for rule in filter(None, map(_text, overrides if isinstance(overrides, list) else ())):
        path = rule.removeprefix("!")
        around = f"{path.rstrip('*').rstrip('/')}/"
        if target == around or (path.endswith("*") and target.startswith(around)):
            is_allowed = not rule.startswith("!")
    return is_allowed


def _skills(folder: Path, more: Json = None) -> tuple[Path, ...]:
    """Return the folders of skills of a plugin: the usual one, and those its manifest names."""
    if not folder.is_absolute():
        return ()
    real = Path(os.path.realpath(folder))
    paths = ["skills", *map(_text, more if isinstance(more, list) else [more])]
    named = [folder / path for path in paths if path]
    unique = {os.path.realpath(path): None for path in named if path.is_dir()}
    inside = [path for path in map(Path, unique) if path != real and path.is_relative_to(real)]
    return tuple(inside) or ((real,) if (real / SKILL_MD).is_file() else ())


def _folders(folder: Path) -> list[Path]:
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        some = itertools.islice(entries, _MAX_PLUGINS)
        return sorted(Path(entry.path) for entry in some if entry.is_dir(follow_symlinks=False))
    return []


def _is_same(path: str, folder: Path) -> bool:
    return bool(path) and os.path.realpath(path) == os.path.realpath(folder)


def _table(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    """Return a text that a path can be made of; empty for another value."""
    return value if isinstance(value, str) and "\0" not in value and is_utf8(value) else ""


def _version_order(folder: Path) -> tuple[list[int], str]:
    return list(map(int, _NUMBERS.findall(folder.name)[:8])), folder.name


def read_json(path: Path, *keys: str) -> JsonObject:
    """Return the table at a path of keys in a host's JSON file; empty if there is none."""
    table: Json = {}
    with suppress(OSError, ValueError):
        table = parse_jsonc(read_regular(path, MAX_BYTES)[0].decode("utf-8-sig"))
    for key in keys:
        table = _table(table).get(key)
    return _table(table)
