"""The configuration that makes a host start our MCP server, or ask us at every prompt; texts only.

Everything beyond ASCII is escaped, so a text stays right whatever the encoding of the terminal and
of the file it is pasted into. Each form was checked in November 2026 against the source above it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence

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
_UNSAFE = re.compile("[^ -~]")
"""Characters to write as numbers in a quoted text of TOML or YAML."""


def server_config(client: str, server: Sequence[str] | str) -> tuple[str, str]:
    """Return what makes a host of `CLIENTS` use our server, and the command that puts it there.

    The server is the command that starts it, or the URL of one that runs. ConfigError is raised if
    the host would not get the arguments as they are.
    """
    command = [server] if isinstance(server, str) else server
    _refuse_expansion(client, command)
    entry = _entry(client, command, is_url=isinstance(server, str))
    texts = {
        "codex": f"[mcp_servers.{NAME}]\n" + _lines(entry, "{} = {}\n"),
        "vscode": _json({"servers": {NAME: entry}}),
        "opencode": _json({"$schema": "https://opencode.ai/config.json", "mcp": {NAME: entry}}),
        "goose": f"extensions:\n  {NAME}:\n" + _lines(entry, "    {}: {}\n"),
    }
    text = texts.get(client, _json({"mcpServers": {NAME: entry}}))
    user = ("mcp", "add", "--scope", "user")
    if isinstance(server, str):
        codex = ["--url", server]
        claude = gemini = [*user, "--transport", "http", NAME, server]
    else:
        codex = ["--", *server]
        claude = [*user, NAME, *codex]
        gemini = [*user, NAME, server[0], "--", *server[1:]]
    adding = {
        "claude-code": ["claude", *claude],
        "codex": ["codex", "mcp", "add", NAME, *codex],
        "gemini": ["gemini", *gemini],
        "vscode": ["code", "--add-mcp", json.dumps({"name": NAME, **entry})],
    }
    return text, shlex.join(adding.get(client, ()))


def _entry(client: str, command: Sequence[str], *, is_url: bool) -> dict[str, JsonValue]:
    """Return the form of a host for a server that runs at a URL, or that it starts."""
    program, *args = command
    plain: dict[str, JsonValue] = {"command": program, "args": args}
    named: dict[str, JsonValue] = {"name": NAME, "enabled": True, "timeout": 300}
    forms: dict[str, tuple[dict[str, JsonValue], dict[str, JsonValue]]] = {
        "codex": ({"url": program}, plain),
        "gemini": ({"httpUrl": program}, plain),
        "opencode": (
            {"type": "remote", "url": program, "enabled": True},
            {"type": "local", "command": [program, *args], "enabled": True},
        ),
        "goose": (
            {**named, "type": "streamable_http", "uri": program},
            {**named, "type": "stdio", "cmd": program, "args": args},
        ),
    }
    forms.setdefault(client, ({"type": "http", "url": program}, {"type": "stdio", **plain}))
    return forms[client][0] if is_url else forms[client][1]


def hook_config(client: str, command: Sequence[str]) -> str:
    """Return what makes a host of `HOOK_CLIENTS` run a command at every prompt, or ConfigError."""
    _refuse_expansion(client, command)
    timeout = HOOK_SECONDS * (1000 if client == "gemini" else 1)
    named = {"name": NAME} if client == "gemini" else {}
    hook = {"type": "command", **named, "command": shlex.join(command), "timeout": timeout}
    event = "BeforeAgent" if client == "gemini" else "UserPromptSubmit"
    text = _json({"hooks": {event: [{"hooks": [hook]}]}})
    if client == "codex":
        text = f"[[hooks.{event}]]\n\n[[hooks.{event}.hooks]]\n" + _lines(hook, "{} = {}\n")
    return text


def _refuse_expansion(client: str, arguments: Sequence[str]) -> None:
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
        plain = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + _UNSAFE.sub(lambda found: f"\\U{ord(found[0]):08x}", plain) + '"'
    return f"[{', '.join(map(_value, value))}]" if isinstance(value, list) else json.dumps(value)
