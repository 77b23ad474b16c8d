"""The table of hosts, and the folders that it names on this machine."""

from __future__ import annotations

import os
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.hosts.scan import TEXT
from skillsearch.settings.environ import host_folders
from skillsearch.settings.user_folders import data_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillsearch.types.json_values import JsonObject

_FOLDER = lazy_pattern(r"\{(\w+):([^}]*)\}")


class Files(TypedDict):
    """The files of a host that hold its servers or hooks."""

    user: NotRequired[list[str]]
    shared: NotRequired[str]
    twin: NotRequired[str]


class Hook(Files):
    """What a host runs at every prompt."""

    event: str
    runs: JsonObject


class Switch(TypedDict):
    """How a host is told to list a skill no more."""

    tables: list[str]
    value: str


class HostRow(Files):
    """What is known of a host; the comments of the file say what the keys mean."""

    title: str
    skills: list[str]
    project: list[str]
    first: NotRequired[str]
    plugins: NotRequired[list[str]]
    fields: NotRequired[list[str]]
    switch: NotRequired[Switch]
    listing: NotRequired[Mapping[str, Any]]
    program: NotRequired[str]
    form: NotRequired[str]
    servers: NotRequired[str]
    starts: NotRequired[JsonObject]
    reaches: NotRequired[JsonObject]
    add: NotRequired[list[str]]
    add_url: NotRequired[list[str]]
    trusted: NotRequired[str]
    expands: NotRequired[str]
    hook: NotRequired[Hook]
    writes: NotRequired[list[str]]
    list: NotRequired[str]


HostRows = dict[str, HostRow]
"""The hosts by their names."""


@cache
def hosts() -> HostRows:
    """Return the table, in its order."""
    return tomllib.loads(TEXT)


def with_key(key: str) -> HostRows:
    """Return the hosts of which the table says something."""
    return {name: row for name, row in hosts().items() if key in row}


def readers_of_fields(host: str | None = None) -> dict[str, list[str]]:
    """Return which hosts, or whether that one, read each field beyond the specification."""
    readers: dict[str, list[str]] = {}
    for name, row in with_key("fields").items():
        for key in row["fields"] if host in (None, name) else ():
            readers.setdefault(key, []).append(name)
    return readers


def title_of(host: str) -> str:
    """Return the name of a host as it is written."""
    return str(hosts()[host]["title"])


def writer_of(name: str) -> list[str]:
    """Return the command by which a host answers a prompt on stdin without tools; empty if unknown.

    A host may be named as its program is.
    """
    for host, row in with_key("writes").items():
        if name in (host, row["program"]):
            folder = str(Path(__file__).parent)
            return [word.replace("{hosts}", folder) for word in row["writes"]]
    return []


def folder_of(template: str) -> str:
    """Return the path that the table means, such as ``{CODEX_HOME:~/.codex}/skills``."""
    text = _FOLDER.sub(lambda match: host_folders().get(match[1]) or match[2], template)
    return os.path.expanduser(text)  # noqa: PTH111  # five times as fast


@cache
def hidden_folders() -> frozenset[str]:
    """Return the names of hidden folders on the way to where hosts look for skills."""
    rows = hosts().values()
    templates = (folder for row in rows for folder in (*row["skills"], *row["project"]))
    parts = (part for folder in templates for part in re.split("[/:}]", folder))
    return frozenset(part for part in parts if part.startswith("."))


def library_folder() -> Path:
    """Return the folder of skills that no host is to list, a root like others; it may not exist."""
    return data_dir() / "library"
