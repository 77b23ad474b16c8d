"""Which executor runs a program: the one that is named, or the safest that works here."""

from __future__ import annotations

import logging
from typing import NamedTuple

from skillsearch.errors import ConfigError, ExecutorError, IsolationError
from skillsearch.execution.container import IMAGE, ContainerExecutor
from skillsearch.execution.local import LocalExecutor
from skillsearch.execution.namespace import NamespaceExecutor
from skillsearch.execution.program import Capabilities, Executor

EXECUTORS = ("auto", "local", "namespace", "container")
"""What `choose` understands."""

logger = logging.getLogger(__name__)


class Described(NamedTuple):
    """An executor, as `describe` finds it.

    Attributes:
        name: The word that chooses it.
        available: Whether it works on this machine.
        reason: Why it does not; empty where it does.
        capabilities: What it keeps programs from.
    """

    name: str
    available: bool
    reason: str
    capabilities: Capabilities


def choose(
    name: str = "auto", *, require_isolation: bool = False, image: str | None = None
) -> Executor:
    """Return an executor that works on this machine.

    ``auto`` is ``namespace`` where that works; else ``local``, with a warning in the log.

    Args:
        name: One of `EXECUTORS`.
        require_isolation: True to refuse what isolates nothing.
        image: What ``container`` makes a container of; None for the default.

    Returns:
        The executor.

    Raises:
        ConfigError: When no executor has that name.
        IsolationError: When isolation is required and cannot be had.
        ExecutorError: When the named executor does not work on this machine.
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
        raise IsolationError(f"Isolation is required and cannot be had. {reason}")
    if name != "auto":
        raise ExecutorError(reason)
    logger.warning("Programs run without isolation, by the executor 'local'. %s", reason)
    return LocalExecutor()


def describe() -> list[Described]:
    """Return all executors, those that do not work here included."""
    described = [Described("local", True, "", LocalExecutor().capabilities())]
    for executor in (NamespaceExecutor(), ContainerExecutor()):
        reason = executor.reason()
        described.append(Described(executor.name, not reason, reason, executor.capabilities()))
    return described
