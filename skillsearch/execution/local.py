"""The executor that isolates nothing: limits alone, as far as the kernel and a supervisor go."""

from __future__ import annotations

from skillsearch.execution.capture import run_supervised
from skillsearch.execution.program import Capabilities, Finished, Program


class LocalExecutor:
    """Runs programs as this user, with limits and a clean environment and no isolation.

    Attributes:
        name: The word that chooses it.
    """

    name = "local"

    def capabilities(self) -> Capabilities:
        """Say what it keeps programs from, which is little."""
        return Capabilities(
            isolation="none",
            network=True,
            reads_outside=True,
            writes_outside=True,
            sees_processes=True,
            not_isolated=(
                "It can read, change and delete every file that you can.",
                "It can reach the network, and the servers of this machine.",
                "It can see your other processes, with the secrets in their environment, and end"
                " them, and those that supervise it: it can then outlive the run.",
                "Memory and file size are limited for each process and each file, not for all"
                " together; CPU time and disk space are not limited.",
            ),
        )

    def run(self, program: Program) -> Finished:
        """Run a program.

        Args:
            program: The program.

        Returns:
            How it ended; `Finished.stderr` says why where it could not be started.

        Raises:
            ExecutorError: When no program can be supervised on this machine.
        """
        return run_supervised(program.argv, program)
