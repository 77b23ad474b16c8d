"""Selects the executor that runs a program: a named one, or the safest that works here."""

from __future__ import annotations

import logging
from typing import NamedTuple

from skillsearch.errors import ConfigError, ExecutorError, IsolationError
from skillsearch.execution.capture import run_supervised
from skillsearch.execution.container import IMAGE, ContainerExecutor
from skillsearch.execution.namespace import NamespaceExecutor
from skillsearch.execution.types import Capabilities, Executor, Finished, Program

EXECUTORS = ("auto", "local", "namespace", "container")
"""The names that `select_executor` accepts."""

logger = logging.getLogger(__name__)


class LocalExecutor:
    """Runs programs as this user, with limits and a clean environment but no isolation."""

    name = "local"

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
                "Memory and file size are limited for each process and each file, not for all"
                " together; CPU time and disk space are not limited.",
            ),
        )

    def run(self, program: Program) -> Finished:
        """Run a program; see `Executor`."""
        return run_supervised(program.argv, program)


class ExecutorStatus(NamedTuple):
    """An executor, whether it works on this machine, and the reason if it does not."""

    name: str
    available: bool
    reason: str
    capabilities: Capabilities


def select_executor(
    name: str = "auto", *, require_isolation: bool = False, image: str | None = None
) -> Executor:
    """Return an executor that works on this machine.

    ``auto`` takes ``namespace`` if that works, else ``local`` with a warning. Raises an
    `IsolationError` if isolation is required and not available, and an `ExecutorError` if the
    named executor does not work here.
    """
    if name not in EXECUTORS:
        raise ConfigError(f"No executor is named {name!r}; there are: {', '.join(EXECUTORS)}.")
    if name == "local" and require_isolation:
        raise IsolationError(
            "The executor 'local' isolates nothing, and isolation is required; choose 'namespace' "
            "or 'container'."
        )
    if name == "local":
        return LocalExecutor()
    chosen = ContainerExecutor(image=image or IMAGE) if name == "container" else NamespaceExecutor()
    reason = chosen.reason()
    if not reason:
        return chosen
    if require_isolation:
        raise IsolationError(f"Isolation is required but not available. {reason}")
    if name != "auto":
        raise ExecutorError(reason)
    logger.warning("Programs run without isolation, by the executor 'local'. %s", reason)
    return LocalExecutor()


def executor_statuses() -> list[ExecutorStatus]:
    """Return all executors, including those that do not work here."""
    statuses = [ExecutorStatus("local", True, "", LocalExecutor().capabilities())]
    for executor in (NamespaceExecutor(), ContainerExecutor()):
        reason = executor.reason()
        statuses.append(ExecutorStatus(executor.name, not reason, reason, executor.capabilities()))
    return statuses
