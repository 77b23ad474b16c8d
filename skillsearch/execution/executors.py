"""The table of executors, and the choice among them: a named one, or the safest that works.

To add an executor, write its class in a module of its own and give it a row in `REGISTRY`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from skillsearch.errors import ConfigError, ExecutorError, IsolationError
from skillsearch.execution.isolation.container import ContainerExecutor
from skillsearch.execution.isolation.local import LocalExecutor
from skillsearch.execution.isolation.namespace import NamespaceExecutor
from skillsearch.execution.types import Capabilities, Executor, Isolation

logger = logging.getLogger(__name__)


class FromImage(Protocol):
    """Makes an executor that runs containers of an image."""

    def __call__(self, *, image: str) -> Executor:
        """Make it."""


class Registered(NamedTuple):
    """An executor as it can be chosen; `from_image` makes one whose image the caller chooses."""

    make: Callable[[], Executor]
    isolation: Isolation
    from_image: FromImage | None = None


REGISTRY = {
    "local": Registered(LocalExecutor, "none"),
    "namespace": Registered(NamespaceExecutor, "namespaces"),
    "container": Registered(ContainerExecutor, "container", ContainerExecutor),
}
"""All executors by name, in the order in which they are listed."""
SAFEST, FALLBACK = "namespace", "local"
"""What ``auto`` takes: the first if it works here, else the second."""


class ExecutorStatus(NamedTuple):
    """An executor, whether it works on this machine, and the reason if it does not."""

    name: str
    available: bool
    reason: str
    capabilities: Capabilities


def executor_names(*, with_image: bool = False) -> tuple[str, ...]:
    """Return the names that select an executor, or only of those whose image can be chosen."""
    if with_image:
        return tuple(name for name, row in REGISTRY.items() if row.from_image)
    return ("auto", *REGISTRY)


def isolates(name: str) -> bool:
    """Return whether a caller that names this executor expects isolation; `auto` counts as yes."""
    return name not in REGISTRY or REGISTRY[name].isolation != "none"


def select_executor(
    name: str = "auto", *, require_isolation: bool = False, image: str | None = None
) -> Executor:
    """Return an executor that works on this machine, or raise an `ExecutorError`.

    ``auto`` takes ``namespace`` if that works, else ``local`` with a warning. The image is for
    executors that run containers. A ConfigError if the name is unknown.
    """
    names = executor_names()
    if name not in names:
        raise ConfigError(f"No executor is named {name!r}; there are: {', '.join(names)}.")
    row = REGISTRY[SAFEST if name == "auto" else name]
    if require_isolation and row.isolation == "none":
        isolating = " or ".join(repr(other) for other in REGISTRY if isolates(other))
        raise IsolationError(
            f"The executor {name!r} isolates nothing, and isolation is required; choose "
            f"{isolating}."
        )
    executor = row.from_image(image=image) if image and row.from_image else row.make()
    if not (reason := executor.reason()):
        return executor
    if require_isolation:
        raise IsolationError(f"Isolation is required but not available. {reason}")
    if name != "auto":
        raise ExecutorError(reason)
    fallback = REGISTRY[FALLBACK].make()
    if unusable := fallback.reason():
        raise ExecutorError(unusable)
    logger.warning("Programs run without isolation, by the executor %r. %s", FALLBACK, reason)
    return fallback


def executor_statuses() -> list[ExecutorStatus]:
    """Return all executors, including those that do not work here."""
    statuses = []
    for name, row in REGISTRY.items():
        executor = row.make()
        reason = executor.reason()
        statuses.append(ExecutorStatus(name, not reason, reason, executor.capabilities()))
    return statuses
