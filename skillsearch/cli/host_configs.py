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
"""Name of the server in every host."""
HOOK_SECONDS = 10
"""Long enough for a hook that has to load the model first."""

CLIENTS = {
    # guides of 2026-10 that quote code.claude.com/docs/en/mcp.
    "claude-code": ".mcp.json in the project folder",
    # mintlify.com/openai/codex/configuration/mcp-servers and cli/mcp.
    "codex": "~/.codex/config.toml",
    # google-gemini/gemini-cli, docs/tools/mcp-server.md and the source of `gemini mcp add`, which
    # takes nothing behind "--" for its own option.
    "gemini": "~/.gemini/settings.json",
    # code.visualstudio.com/docs/copilot/reference/mcp-configuration.
    "vscode": ".vscode/mcp.json in the workspace",
    # opencode.ai/v1/docs/mcp-servers and opencode.ai/docs/migrate-v1: this is the form of version
    # 1, which version 2 reads too.
    "opencode": "opencode.json in the project folder, or in ~/.config/opencode",
    # aaif-goose/goose, documentation/docs/guides/config-files.md.
    "goose": "~/.config/goose/config.yaml",
}
"""Hosts of our server, each with the file of its configuration."""
HOOK_CLIENTS = {
    # docs.claude.com/docs/claude-code/hooks: the timeout is in seconds.
    "claude-code": "~/.claude/settings.json, or .claude/settings.json in the project",
    # developers.openai.com/codex/hooks and SchemaStore's codex-hooks.json: the timeout is in
    # seconds, and Codex asks the user to trust a hook before it runs.
    "codex": "~/.codex/config.toml",
    # google-gemini/gemini-cli, docs/hooks/reference.md: the timeout is in milliseconds.
    "gemini": "~/.gemini/settings.json",
}
"""Hosts that run a command at every prompt, likewise."""

_EXPANDED = {
    "claude-code": re.compile(r"\$\{"),
    "gemini": re.compile(r"\$[\w{]"),
    "vscode": re.compile(r"\$\{"),
    "opencode": re.compile(r"\{(env|file):"),
}
"""Patterns that a host expands in its configuration, with no way to escape them."""
_UNSAFE = re.compile(r'["\\]|[^ -~]')
"""Characters to escape in a quoted text of TOML or YAML."""


class HostConfig(NamedTuple):
    """A configuration text, the file it belongs in, and the command that puts it there, if any."""

    text: str
    place: str
    add_command: str = ""


def server_config(client: str, server: Sequence[str] | str) -> HostConfig:
    """Return the configuration with which a host of `CLIENTS` uses our MCP server.

    The server is the command that starts it, or the URL of one that runs. ConfigError is raised if
    the host would not get the arguments as they are.
    """
    _check(client, [server] if isinstance(server, str) else server)
    entry = _entry(client, server)
    texts = {
        "codex": f"[mcp_servers.{NAME}]\n" + _lines(entry, "{} = {}\n"),
        "vscode": _json({"servers": {NAME: entry}}),
        "opencode": _json({"$schema": "https://opencode.ai/config.json", "mcp": {NAME: entry}}),
        "goose": f"extensions:\n  {NAME}:\n" + _lines(entry, "    {}: {}\n"),
    }
    text = texts.get(client, _json({"mcpServers": {NAME: entry}}))
    return HostConfig(text, CLIENTS[client], shlex.join(_adding(client, server, entry)))


def _entry(client: str, server: Sequence[str] | str) -> dict[str, JsonValue]:
    named = {"name": NAME, "enabled": True, "timeout": 300}
    forms: dict[str, dict[str, JsonValue]]
    if isinstance(server, str):
        forms = {
            "codex": {"url": server},
            "gemini": {"httpUrl": server},
            "opencode": {"type": "remote", "url": server, "enabled": True},
            "goose": {**named, "type": "streamable_http", "uri": server},
        }
        return forms.get(client, {"type": "http", "url": server})
    program, *args = server
    plain = {"command": program, "args": args}
    forms = {
        "codex": plain,
        "gemini": plain,
        "opencode": {"type": "local", "command": [program, *args], "enabled": True},
        "goose": {**named, "type": "stdio", "cmd": program, "args": args},
    }
    return forms.get(client, {"type": "stdio", **plain})


def _adding(
    client: str, server: Sequence[str] | str, entry: Mapping[str, JsonValue]
) -> Sequence[str]:
    """Return the command of a host that adds a server to its configuration, if it has one."""
    if client == "vscode":
        return ["code", "--add-mcp", json.dumps({"name": NAME, **entry})]
    if client == "codex":
        given = ["--url", server] if isinstance(server, str) else ["--", *server]
        return ["codex", "mcp", "add", NAME, *given]
    if client not in ("claude-code", "gemini"):
        return []
    if isinstance(server, str):
        given = ["--transport", "http", NAME, server]
    else:
        is_gemini = client == "gemini"
        given = [NAME, *server[:is_gemini], "--", *server[is_gemini:]]
    program = "gemini" if client == "gemini" else "claude"
    return [program, "mcp", "add", "--scope", "user", *given]


def hook_config(client: str, command: Sequence[str]) -> HostConfig:
    """Return the configuration with which a host of `HOOK_CLIENTS` runs a command at every prompt.

    ConfigError is raised if the host would not get the arguments as they are.
    """
    _check(client, command)
    timeout = HOOK_SECONDS * (1000 if client == "gemini" else 1)
    named = {"name": NAME} if client == "gemini" else {}
    hook = {"type": "command", **named, "command": shlex.join(command), "timeout": timeout}
    event = "BeforeAgent" if client == "gemini" else "UserPromptSubmit"
    text = _json({"hooks": {event: [{"hooks": [hook]}]}})
    if client == "codex":
        text = f"[[hooks.{event}]]\n\n[[hooks.{event}.hooks]]\n" + _lines(hook, "{} = {}\n")
    return HostConfig(text, HOOK_CLIENTS[client])


def _check(client: str, arguments: Sequence[str]) -> None:
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


def _json(value: JsonValue) -> str:
    return json.dumps(value, indent=2) + "\n"


def _lines(entries: Mapping[str, JsonValue], form: str) -> str:
    """Write a line for each entry, its value in what TOML and YAML have in common."""
    return "".join(form.format(key, _value(value)) for key, value in entries.items())


def _value(value: JsonValue) -> str:
    """Write a value that TOML and YAML read alike: not quite JSON, which escapes differently."""
    if isinstance(value, str):
        return f'"{_UNSAFE.sub(_escaped, value)}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)


def _escaped(match: re.Match[str]) -> str:
    return f"\\{match[0]}" if match[0] in '"\\' else f"\\U{ord(match[0]):08x}"
