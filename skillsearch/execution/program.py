"""A program to run, how it ended, and what an executor that runs it keeps it from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal, Protocol

from skillsearch.types import JsonValue

Isolation = Literal["none", "namespaces", "container"]

DEFAULT_TIMEOUT = 300.0
"""Seconds, as in trpc-agent-go."""
MAX_TIMEOUT = 3600.0
"""Seconds that no run of a skill's command may exceed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use. Sizes are bytes, times are seconds.

    Attributes:
        timeout: From start to end.
        memory_bytes: Address space of each process.
        file_bytes: Size of each file that it writes.
        processes: How many may live at the same time.
        open_files: File descriptors of each process.
        output_bytes: What is kept of stdout, and as much of stderr.
    """

    timeout: float = DEFAULT_TIMEOUT
    memory_bytes: int = 4 << 30
    file_bytes: int = 1 << 30
    processes: int = 256
    open_files: int = 1024
    output_bytes: int = 16 << 10


@dataclass(frozen=True, slots=True)
class Program:
    """A program as an executor runs it.

    Paths are those of this machine. An executor that shows the workspace elsewhere puts its place
    there into the arguments and variables.

    Attributes:
        argv: Its name and arguments; nothing is added, and no shell looks at them.
        cwd: Absolute path of the folder to run in, inside the workspace.
        workspace: Absolute path of the one folder that it may write to.
        env: Its whole environment.
        stdin: What it reads.
        limits: What it may use.
    """

    argv: tuple[str, ...]
    cwd: Path
    workspace: Path
    env: Mapping[str, str]
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended.

    Attributes:
        stdout: What it wrote; of more than was to be kept, beginning and end.
        stderr: Likewise.
        stdout_dropped: Bytes left out of the middle of ``stdout``.
        stderr_dropped: Likewise.
        exit_code: As a shell tells it: 128 and the number of the signal that ended it; -1 where
            it could not be started, and ``stderr`` says why.
        timed_out: Whether it was ended because its time was over.
        duration_ms: From start to end, in milliseconds.
        problems: What it was ended for, or what is left to tell: a line each.
    """

    stdout: bytes
    stderr: bytes
    stdout_dropped: int
    stderr_dropped: int
    exit_code: int
    timed_out: bool
    duration_ms: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an executor keeps a program from, and what it does not.

    Attributes:
        isolation: By what means.
        network: Whether the program reaches a network, this machine's own included.
        reads_outside: Whether it can read the user's files outside the workspace.
        writes_outside: Whether it can write files outside the workspace.
        sees_processes: Whether it sees other processes of the machine, and may signal them.
        not_isolated: What a user must know that is not kept from the program, a sentence each.
        limits: Names of the limits that are enforced, as in `Limits`.
    """

    isolation: Isolation
    network: bool
    reads_outside: bool
    writes_outside: bool
    sees_processes: bool
    not_isolated: tuple[str, ...]
    limits: tuple[str, ...] = tuple(limit.name for limit in fields(Limits))

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "isolation": self.isolation,
            "network": self.network,
            "reads_outside": self.reads_outside,
            "writes_outside": self.writes_outside,
            "sees_processes": self.sees_processes,
            "limits": list(self.limits),
            "not_isolated": list(self.not_isolated),
        }


class Executor(Protocol):
    """Runs programs. Calls may come from several threads."""

    @property
    def name(self) -> str:
        """The word that chooses it."""

    def capabilities(self) -> Capabilities:
        """Say what it keeps programs from on this machine."""

    def run(self, program: Program) -> Finished:
        """Run a program to its end; nothing that it started is left.

        Args:
            program: The program.

        Returns:
            How it ended, whatever that was.

        Raises:
            ExecutorError: When the executor itself cannot be used.
        """
