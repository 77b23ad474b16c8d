"""Hold the MCP server against the official tools, and its configuration against real hosts.

Usage: python scripts/check_mcp.py [--work DIR] [--hosts]

Needs npm. Installs the two tools and a Node that can run them into a separate folder (kept where
--work names one), serves the example skills over stdio and HTTP, and runs

- the Inspector's `tools/list --strict`, `tools/call` and `skills/list --verify`,
- the scenarios of the conformance suite that need no tool, prompt or file of its own test server;
  a warning counts as a failure.

With --hosts it installs hosts instead, and runs the checks of `conformance.hosts`.

Exits with 1 if one of them fails, with 3 if npm cannot install them.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import conformance.hosts
from conformance.tools import EXAMPLES, NODE, CheckFailedError, Tools

PACKAGES = (
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    NODE,
)
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
CONNECT_MS = "120000"
"""What the Inspector waits for a server: on a busy machine, a first start compiles all imports."""
NO_NPM = 3


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
                if url := re.search(r"http://127\.0\.0\.1:\d+/\S*", line):
                    yield url[0]
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


def checks(tools: Tools, folder: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield each check of the server and its name; the indexes lie in a folder."""
    index_dir = folder / "index"
    for era in ERAS:
        yield f"inspector, {era}: tools", partial(check_tools, tools, index_dir, era)
    yield "inspector: skills/list --verify", partial(check_skills, tools, index_dir)
    with served(tools, copy_nested(folder / "skills"), folder / "nested-index") as url:
        for scenario in SCENARIOS:
            yield f"conformance: {scenario}", partial(check_scenario, tools, url, scenario)


def passes(name: str, check: Callable[[], str]) -> bool:
    """Run a check and print what came of it; return whether it passed."""
    try:
        print(f"ok    {name}: {check()}")
    except (CheckFailedError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        print(f"FAIL  {name}: {error}")
        return False
    return True


def run_all(tools: Tools, *, hosts: bool) -> bool:
    """Run every check; return whether all passed."""
    with tempfile.TemporaryDirectory() as folder:
        all_checks = conformance.hosts.checks(tools) if hosts else checks(tools, Path(folder))
        return all([passes(name, check) for name, check in all_checks])


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
            tools = Tools(work, conformance.hosts.PACKAGES if args.hosts else PACKAGES)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"npm cannot install the tools, nothing was checked: {error}")
            sys.exit(NO_NPM)
        sys.exit(0 if run_all(tools, hosts=args.hosts) else 1)


if __name__ == "__main__":
    main()
