"""The configuration that makes a host start our MCP server, or ask us at every prompt; texts only.

Everything beyond ASCII is escaped, so a text stays right whatever the encoding of the terminal and
of the file it is pasted into. Each form was checked in November 2026 against the source above it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from skillsearch.errors import ConfigError
from skillsearch.files.paths import is_utf8, printable
from skillsearch.types import JsonValue

NAME = "skillsearch"
"""What the server is called in every host."""
HOOK_SECONDS = 10
"""Long enough for a hook that has to load the model first."""

_EXPANDED = {
    "claude-code": re.compile(r"\$\{"),
    "gemini": re.compile(r"\$[\w{]"),
    "vscode": re.compile(r"\$\{"),
    "opencode": re.compile(r"\{(env|file):"),
}
"""What a host expands in its configuration, with no way to escape it."""


class HostConfig(NamedTuple):
    """A configuration text, the file it belongs in, and the command that puts it there, if any."""

    text: str
    place: str
    add_command: str = ""


def server_config(client: str, server: Sequence[str] | str) -> HostConfig:
    """Return the configuration with which a host of `CLIENTS` uses our MCP server.

    Args:
        client: The host.
        server: The command that starts the server, as a list of arguments; or the URL of one that
            runs.

    Returns:
        The configuration.

    Raises:
        ConfigError: When the host would not get the arguments as they are.
    """
    _check(client, [server] if isinstance(server, str) else server)
    return _SERVERS[client](server)


def hook_config(client: str, command: Sequence[str]) -> HostConfig:
    """Return the configuration with which a host of `HOOK_CLIENTS` runs a command at every prompt.

    ConfigError is raised if the host would not get the arguments as they are.
    """
    _check(client, command)
    return _HOOKS[client](shlex.join(command))


def _check(client: str, arguments: Sequence[str]) -> None:
    """Refuse what a host would read differently."""
    for argument in arguments:
        if not is_utf8(argument):
            raise ConfigError(
                f"{printable(argument)!r} is not UTF-8, so no configuration can hold it; rename it."
            )
        pattern = _EXPANDED.get(client)
        if found := pattern and pattern.search(argument):
            raise ConfigError(
                f"{client} would expand what follows {found[0]!r} in {printable(argument)!r}; "
                "rename the folder, or use a link to it."
            )


# guides of 2026-10 that quote code.claude.com/docs/en/mcp.
def _claude_code(server: Sequence[str] | str) -> HostConfig:
    add = ["claude", "mcp", "add", "--scope", "user"]
    if isinstance(server, str):
        entry: JsonValue = {"type": "http", "url": server}
        add += ["--transport", "http", NAME, server]
    else:
        entry = _stdio(server)
        add += [NAME, "--", *server]
    text = _json({"mcpServers": {NAME: entry}})
    return HostConfig(text, ".mcp.json in the project folder", shlex.join(add))


# mintlify.com/openai/codex/configuration/mcp-servers and cli/mcp.
def _codex(server: Sequence[str] | str) -> HostConfig:
    add = ["codex", "mcp", "add", NAME]
    if isinstance(server, str):
        entry: Mapping[str, JsonValue] = {"url": server}
        add += ["--url", server]
    else:
        entry = {"command": server[0], "args": list(server[1:])}
        add += ["--", *server]
    text = f"[mcp_servers.{NAME}]\n" + _lines(entry, "{} = {}\n")
    return HostConfig(text, "~/.codex/config.toml", shlex.join(add))


# google-gemini/gemini-cli, docs/tools/mcp-server.md and the source of
# `gemini mcp add`, which takes nothing behind "--" for its own option.
def _gemini(server: Sequence[str] | str) -> HostConfig:
    add = ["gemini", "mcp", "add", "--scope", "user"]
    if isinstance(server, str):
        entry: JsonValue = {"httpUrl": server}
        add += ["--transport", "http", NAME, server]
    else:
        entry = {"command": server[0], "args": list(server[1:])}
        add += [NAME, server[0], "--", *server[1:]]
    text = _json({"mcpServers": {NAME: entry}})
    return HostConfig(text, "~/.gemini/settings.json", shlex.join(add))


# code.visualstudio.com/docs/copilot/reference/mcp-configuration.
def _vscode(server: Sequence[str] | str) -> HostConfig:
    url = isinstance(server, str)
    entry = {"type": "http", "url": server} if url else _stdio(server)
    add = shlex.join(["code", "--add-mcp", json.dumps({"name": NAME, **entry})])
    return HostConfig(_json({"servers": {NAME: entry}}), ".vscode/mcp.json in the workspace", add)


# opencode.ai/v1/docs/mcp-servers and opencode.ai/docs/migrate-v1: this is
# the form of version 1, which version 2 reads too.
def _opencode(server: Sequence[str] | str) -> HostConfig:
    if isinstance(server, str):
        entry: JsonValue = {"type": "remote", "url": server, "enabled": True}
    else:
        entry = {"type": "local", "command": list(server), "enabled": True}
    text = _json({"$schema": "https://opencode.ai/config.json", "mcp": {NAME: entry}})
    return HostConfig(text, "opencode.json in the project folder, or in ~/.config/opencode")


# aaif-goose/goose, documentation/docs/guides/config-files.md.
def _goose(server: Sequence[str] | str) -> HostConfig:
    entry: dict[str, JsonValue] = {"name": NAME, "enabled": True, "timeout": 300}
    if isinstance(server, str):
        entry |= {"type": "streamable_http", "uri": server}
    else:
        entry |= {"type": "stdio", "cmd": server[0], "args": list(server[1:])}
    text = f"extensions:\n  {NAME}:\n" + _lines(entry, "    {}: {}\n")
    return HostConfig(text, "~/.config/goose/config.yaml")


# docs.claude.com/docs/claude-code/hooks: the timeout is in seconds.
def _claude_code_hook(command: str) -> HostConfig:
    hook: JsonValue = {"type": "command", "command": command, "timeout": HOOK_SECONDS}
    text = _json({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}})
    return HostConfig(text, "~/.claude/settings.json, or .claude/settings.json in the project")


# developers.openai.com/codex/hooks and SchemaStore's codex-hooks.json: the
# timeout is in seconds, and Codex asks the user to trust a hook before it runs.
def _codex_hook(command: str) -> HostConfig:
    hook = {"type": "command", "command": command, "timeout": HOOK_SECONDS}
    event = "hooks.UserPromptSubmit"
    text = f"[[{event}]]\n\n[[{event}.hooks]]\n" + _lines(hook, "{} = {}\n")
    return HostConfig(text, "~/.codex/config.toml")


# google-gemini/gemini-cli, docs/hooks/reference.md: the timeout is in
# milliseconds.
def _gemini_hook(command: str) -> HostConfig:
    timeout = HOOK_SECONDS * 1000
    hook: JsonValue = {"type": "command", "name": NAME, "command": command, "timeout": timeout}
    text = _json({"hooks": {"BeforeAgent": [{"hooks": [hook]}]}})
    return HostConfig(text, "~/.gemini/settings.json")


def _stdio(command: Sequence[str]) -> dict[str, JsonValue]:
    """Describe a server that a host starts, as most of them want it."""
    return {"type": "stdio", "command": command[0], "args": list(command[1:])}


def _json(value: JsonValue) -> str:
    """Write a JSON file."""
    return json.dumps(value, indent=2) + "\n"


def _lines(entries: Mapping[str, JsonValue], form: str) -> str:
    """Write a line for each entry, its value in what TOML and YAML have in common."""
    return "".join(form.format(key, _value(value)) for key, value in entries.items())


def _value(value: JsonValue) -> str:
    """Write a value that TOML and YAML read alike: not quite JSON, which escapes differently."""
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)


def _escaped(character: str) -> str:
    """Write a character for a quoted text of TOML or YAML."""
    if character in '"\\':
        return f"\\{character}"
    if " " <= character <= "~":
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_SERVERS = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini": _gemini,
    "vscode": _vscode,
    "opencode": _opencode,
    "goose": _goose,
}
_HOOKS = {"claude-code": _claude_code_hook, "codex": _codex_hook, "gemini": _gemini_hook}
CLIENTS = tuple(_SERVERS)
HOOK_CLIENTS = tuple(_HOOKS)
"""Hosts that run a command at every prompt."""
