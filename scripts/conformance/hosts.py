"""Check our MCP server, writers and plugin with real hosts; a part of `check_mcp`.

For each host, in a home folder of its own, `mcp-config --write` makes the host's file, or changes
one with comments and comes back to it by `--remove`; the host's own command must list the server,
as connected if it starts servers to list them. Then the host writes, as for `enrich --command`, for
a model of ours that asks for tools; it may offer and run none. Claude Code's own validator looks at
the plugin, and its server must be connected once the plugin is installed.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from conformance.model import WRITTEN, Model, answering
from conformance.tools import EXAMPLES, NODE, TIMEOUT_S, CheckFailedError, Tools
from skillsearch.hosts.table import writer_of

PACKAGES = (
    "@anthropic-ai/claude-code@2.1.332",
    "@openai/codex@0.171.0",
    "@google/gemini-cli@0.61.0",
    "opencode-ai@1.18.33",
    NODE,
)


class Expected(NamedTuple):
    """What is known of a host.

    Attributes:
        file: Its file, in the home folder.
        before: What is in it before.
        state: What it says of a server that answers.
        plain: Its command that writes, with its tools.
    """

    file: str
    before: str
    state: str
    plain: Sequence[str]


SCHEMA = '"$schema": "https://opencode.ai/config.json"'  # which opencode would add
HOSTS = {
    "claude-code": Expected(
        ".claude.json", '{\n  "numStartups": 3\n}\n', "Connected", ("claude", "-p")
    ),
    "codex": Expected(
        ".codex/config.toml",
        '# mine\nmodel = "m"  # yours\n\n[tui]\n',
        "enabled",
        ("codex", "exec", "--skip-git-repo-check", "-"),
    ),
    "gemini": Expected(
        ".gemini/settings.json",
        '{\n  // mine\n  "ui": {} /* yours */\n}\n',
        "Connected",
        ("gemini", "--skip-trust"),
    ),
    "opencode": Expected(
        ".config/opencode/opencode.jsonc",
        f"{{\n  // mine\n  {SCHEMA},\n  /* yours */\n}}\n",
        "connected",
        ("opencode", "run"),
    ),
}
"""Codex starts no server to list it. Claude Code adds to its file, so that does not come back."""
PROMPT = "Write example requests, please."
SHELLS = ("Bash", "bash", "exec_command", "run_shell_command")
FREE = {"request_user_input", "get_goal", "create_goal", "update_goal"}
"""What is left of Codex with this model; hosts.toml says what others have."""


class Host:
    """A host in a home folder of its own."""

    def __init__(self, tools: Tools, name: str) -> None:
        """Make the home folder."""
        self.name, self._bin = name, tools.bin
        self.home = Path(tempfile.mkdtemp(dir=tools.home))
        self.file = self.home / HOSTS[name].file
        kept = {key: value for key, value in tools.environment.items() if key[:4] != "XDG_"}
        ours = (Path(sys.executable).parent, tools.bin, tools.node.parent)
        path = ":".join([*map(str, ours), kept["PATH"]])
        # Gemini CLI starts no server in a folder that it does not trust.
        trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
        self._environment = {**kept, **trust, "HOME": str(self.home), "PATH": path}

    def run(self, *command: str, stdin: str = "", more: dict[str, str] | None = None) -> str:
        """Run one of its commands, or ours, with more variables; return all its output."""
        program = self._bin / command[0]
        done = subprocess.run(
            [str(program) if program.exists() else command[0], *command[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            env=self._environment | (more or {}),
            cwd=self.home,
            input=stdin,
        )
        if done.returncode:
            raise CheckFailedError(f"exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def add(self, more: Mapping[str, object]) -> None:
        """Add to its file, which is JSON."""
        files = (self.file, self.file.with_suffix(".json"))
        file = next(path for path in files if path.exists())
        file.write_text(json.dumps(json.loads(file.read_text()) | more))

    def configure(self, *options: str) -> None:
        """Run `mcp-config` for it."""
        command = (sys.executable, "-m", "skillsearch", "mcp-config", self.name)
        self.run(*command, *options)

    def check_listed(self, command: Sequence[str], name: str) -> None:
        """Ask it for its servers, again if need be: Gemini CLI waits five seconds for one."""
        for _ in range(5):
            listed = self.run(*command)
            lines = [line for line in listed.splitlines() if name in line]
            if lines and HOSTS[self.name].state in lines[0]:
                return
        raise CheckFailedError(listed)


def check_config(tools: Tools, name: str) -> str:
    """Write the configuration of a host, ask the host, and take it back."""
    program = "claude" if name == "claude-code" else name
    expected = HOSTS[name]
    index = ("--index-dir", str(tools.home / "index"))
    for before in (None, expected.before):
        host = Host(tools, name)
        host.run(sys.executable, "-m", "skillsearch", "index", str(EXAMPLES), *index)
        if before is not None:
            host.file.parent.mkdir(parents=True, exist_ok=True)
            host.file.write_text(before)
        host.configure(*index, "--write")
        host.check_listed((program, "mcp", "list"), "skillsearch")
        host.configure("--remove")
        if before is not None and name != "claude-code" and host.file.read_text() != before:
            raise CheckFailedError(f"{expected.file} did not come back: {host.file.read_text()}")
    return f"{host.run(program, '--version').splitlines()[-1]}: {expected.state}"


def check_writer(tools: Tools, name: str) -> str:
    """Have a host write as `enrich --command HOST` does, for a model that asks for tools.

    It is called without what turns its tools off, too: then it has to offer some.
    """
    host, trap = Host(tools, name), tools.home / f"trap-{name}"
    host.configure("--write")
    trap.unlink(missing_ok=True)
    with answering() as model:
        options = use_model(host, model.url)
        plain, safe = (
            with_options(command, options) for command in (HOSTS[name].plain, writer_of(name))
        )
        write(host, plain, model)
        if not model.offered - FREE:
            raise CheckFailedError(f"{shlex.join(plain)}: nothing shows that tools are off")
        model.begin(calls_of(trap))
        write(host, safe, model)
    if model.offered - FREE or trap.exists() or "root:" in "".join(model.prompts):
        raise CheckFailedError(f"{shlex.join(safe)}: a model has tools: {model.offered}")
    return "a prompt on stdin, an answer, no tool"


def calls_of(trap: Path) -> dict[str, dict[str, str]]:
    """Return calls of the hosts' tools that make a file, or read one of the machine."""
    touch = {"command": f"touch {trap}", "cmd": f"touch {trap}", "description": "x"}
    read = {"file_path": "/etc/passwd"}
    return dict.fromkeys(SHELLS, touch) | dict.fromkeys(("read_file", "Read"), read)


def use_model(host: Host, url: str) -> list[str]:
    """Have a host ask the model of a URL; return the options that it needs for that."""
    if host.name == "codex":
        provider = f'{{name="m",base_url="{url}/v1",wire_api="responses",env_key="KEY"}}'
        settings = ("model_provider=m", "model=gpt-5.1", f"model_providers.m={provider}")
        return [word for setting in settings for word in ("-c", setting)]
    if host.name == "opencode":
        options = {"baseURL": f"{url}/v1", "apiKey": "none"}
        models = {"npm": "@ai-sdk/openai-compatible", "models": {"m": {"name": "m"}}}
        host.add({"model": "m/m", "provider": {"m": models | {"options": options}}})
    elif host.name == "gemini":
        host.add({"security": {"auth": {"selectedType": "gemini-api-key"}}})
    return []


def with_options(command: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return a command with more options, before the ``-`` of stdin if it ends with that."""
    end = len(command) - (command[-1] == "-")
    return [*command[:end], *options, *command[end:]]


def write(host: Host, command: Sequence[str], model: Model) -> None:
    """Have a host write; the model must be sent the prompt, and the host print its answer."""
    variables = dict.fromkeys(("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"), model.url)
    variables |= dict.fromkeys(("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "KEY"), "none")
    output = host.run(*command, stdin=PROMPT, more=variables)
    if WRITTEN not in output or not any(PROMPT in prompt for prompt in model.prompts):
        raise CheckFailedError(f"{shlex.join(command)}: no prompt, or no answer: {output}")


def check_plugin(tools: Tools) -> str:
    """Validate the plugin of Claude Code and its marketplace, and install them."""
    checkout, host = EXAMPLES.parents[1], Host(tools, "claude-code")
    for folder in (checkout, EXAMPLES.parent / "plugin"):
        host.run("claude", "plugin", "validate", "--strict", str(folder))
    host.run("claude", "plugin", "marketplace", "add", str(checkout))
    host.run("claude", "plugin", "install", "skillsearch@skillsearch")
    host.check_listed(("claude", "mcp", "list"), "plugin:skillsearch")
    return "valid, installed, connected"


def checks(tools: Tools) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield each check and its name."""
    for name in HOSTS:
        yield f"host: {name}", partial(check_config, tools, name)
        yield f"writer: {name}", partial(check_writer, tools, name)
    yield "plugin of claude-code", partial(check_plugin, tools)
