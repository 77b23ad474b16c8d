"""The configuration that makes a host start our MCP server, or ask us at every prompt; texts only.

Everything beyond ASCII is escaped, so a text stays right whatever the encoding of the terminal and
of the file that it goes into.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from skillsearch.errors import ConfigError
from skillsearch.files.paths import is_utf8, printable
from skillsearch.hosts.table import with_key
from skillsearch.types.json_values import Json, object_of, objects_of, texts_of

NAME = "skillsearch"
"""Name of the server in every host."""
HOSTS = with_key("servers")
"""Hosts of our server."""
HOOK_HOSTS = tuple(host for host, row in HOSTS.items() if "hook" in row)
"""Hosts that run a command at every prompt."""
Steps = tuple[str | int, ...]
"""Where a value lies: keys of tables, and numbers of what is in lists."""

_UNSAFE = re.compile("[^ -~]")
"""Characters to write as numbers in a quoted text of TOML or YAML."""


class Entry(NamedTuple):
    """What is to stand in a file of settings, or to leave it if its value is None.

    The file is json, toml or yaml, and that of the `host` if there is one.
    """

    form: str
    path: Steps
    value: Json
    host: str = ""

    @property
    def is_hook(self) -> bool:
        """Whether the entry is an item of a list."""
        return isinstance(self.path[-1], int)

    @property
    def text(self) -> str:
        """A file that holds nothing else."""
        name = ".".join(str(step) for step in self.path if isinstance(step, str))
        if self.form == "json":
            return json.dumps(nested(self.path, self.value), indent=2) + "\n"
        if self.form == "yaml":
            return f"{self.path[0]}:\n" + yaml_lines(self, "  ")
        if not self.is_hook:
            return f"[{name}]\n" + _lines(object_of(self.value), "{} = {}\n")
        (hook,) = objects_of(object_of(self.value)["hooks"])
        return f"[[{name}]]\n\n[[{name}.hooks]]\n" + _lines(hook, "{} = {}\n")


def server_entry(host: str, server: Sequence[str] | str | None) -> Entry:
    """Return what makes a host use our server: the command that starts it, or the URL of one.

    ConfigError is raised if the host would not get the arguments as they are.
    """
    row = HOSTS[host]
    form = row["reaches"] if isinstance(server, str) else row["starts"]
    value = None if server is None else _filled(form, _given(host, server))
    return _entry(host, (row["servers"], NAME), value)


def hook_entry(host: str, command: Sequence[str] | None) -> Entry:
    """Return what makes a host of `HOOK_HOSTS` run a command at every prompt, or ConfigError."""
    hook = HOSTS[host]["hook"]
    runs = {"hooks": [_filled(hook["runs"], _given(host, command))]} if command else None
    return _entry(host, ("hooks", hook["event"], 0), runs)


def switch_entry(host: str, skill: str, *, is_off: bool) -> Entry:
    """Return what makes a host with a ``switch`` list a skill no more, or again as by itself."""
    switch = HOSTS[host]["switch"]
    return _entry(host, (*switch["tables"], skill), switch["value"] if is_off else None)


def _entry(host: str, path: Steps, value: Json) -> Entry:
    return Entry(HOSTS[host]["form"], path, value, host)


def add_command(host: str, server: Sequence[str] | str) -> str:
    """Return the host's own command that adds our server, or nothing if it has none."""
    entry = json.dumps({"name": NAME, **object_of(server_entry(host, server).value)})
    row = HOSTS[host]
    words = row.get("add_url", []) if isinstance(server, str) else row.get("add", [])
    return shlex.join(texts_of(_filled(words, {**_given(host, server), "{json}": [entry]})))


def is_our_hook(host: str, hook: Json) -> bool:
    """Return whether a hook runs ``skillsearch hook --client HOST``, with whatever options."""
    command = hook.get("command") if isinstance(hook, dict) else None
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    starts = [at for at, word in enumerate(words) if word.rpartition("/")[2] == NAME]
    return any(words[at + 1 : at + 4] == ["hook", "--client", host] for at in starts)


def nested(path: Steps, value: Json) -> Json:
    """Return a value in the tables and lists of its path."""
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [value]
    return value


def yaml_lines(entry: Entry, indent: str) -> str:
    """Return the lines of an entry inside its table."""
    return f"{indent}{entry.path[-1]}:\n" + _lines(object_of(entry.value), indent * 2 + "{}: {}\n")


def _given(host: str, server: Sequence[str] | str) -> dict[str, list[str]]:
    """Return what the words in braces stand for; ConfigError if a host would change it."""
    words = [server] if isinstance(server, str) else list(server)
    expands = HOSTS[host].get("expands")
    for word in words:
        if not is_utf8(word):
            raise ConfigError(
                f"{printable(word)!r} is not UTF-8, so no configuration can hold it; rename it."
            )
        if match := expands and re.search(expands, word):
            raise ConfigError(
                f"{host} would expand what follows {match[0]!r} in {printable(word)!r}; "
                "rename the folder, or use a link to it."
            )
    whole = {"{command}": words, "{line}": [shlex.join(words)]}
    return {**whole, "{program}": words[:1], "{url}": words[:1], "{args}": words[1:]}


def _filled(form: Json, words: Mapping[str, list[str]]) -> Json:
    """Return a form of the table of hosts with words in place of those in braces."""
    if isinstance(form, dict):
        return {key: _filled(value, words) for key, value in form.items()}
    if isinstance(form, list):
        return [word for part in texts_of(form) for word in words.get(part, [part])]
    return words[form][0] if isinstance(form, str) and form in words else form


def _lines(entries: Mapping[str, Json], form: str) -> str:
    """Write a line for each entry, its value in what TOML and YAML have in common."""
    return "".join(form.format(key, _value(value)) for key, value in entries.items())


def _value(value: Json) -> str:
    """Write a value that TOML and YAML read alike: not quite JSON, which escapes differently."""
    if isinstance(value, str):
        plain = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + _UNSAFE.sub(lambda found: f"\\U{ord(found[0]):08x}", plain) + '"'
    return f"[{', '.join(map(_value, value))}]" if isinstance(value, list) else json.dumps(value)
