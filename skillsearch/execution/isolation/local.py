"""The executor ``local``: limits and a clean environment, but no isolation."""

from __future__ import annotations

import functools

from skillsearch.execution.isolation.capture import run_supervised, unsupervised_reason
from skillsearch.execution.isolation.supervise import make_groups, memory_events, remove_groups
from skillsearch.execution.types import Capabilities, Finished, Program, RunLimits


class LocalExecutor:
    """Runs programs as this user, with limits and a clean environment but no isolation."""

    name = "local"

    def reason(self) -> str:
        """Return why programs cannot be supervised here; empty if they can."""
        return unsupervised_reason()

    def capabilities(self) -> Capabilities:
        """Return what a program can reach, which is nearly everything."""
        return Capabilities(
            isolation="none",
            network=True,
            reads_outside=True,
            writes_outside=True,
            sees_processes=True,
            not_isolated=(
                "It can read, change and delete every file that you can.",
                "It can reach the network, and the servers of this machine.",
                "It can see your other processes, including the secrets in their environment, and"
                " kill them, even its own supervisors: it can then outlive the run.",
                size_limits(),
            ),
        )

    def run(self, program: Program) -> Finished:
        """Run a program; see `Executor`."""
        return run_supervised(program.argv, program)


@functools.cache
def size_limits() -> str:
    """Return which sizes this machine can limit for a whole run, found out by trying."""
    groups = make_groups(RunLimits().memory_bytes, RunLimits().processes)
    memory = "for all processes together" if memory_events(groups) else "process by process"
    remove_groups(groups)
    return f"Memory is limited {memory}, file size by file, CPU time and disk space not at all."
