"""The values of a run; a request's names and defaults follow ``skill_run`` in trpc-agent-go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, cast

from skillsearch.types import JsonValue

InputMode = Literal["copy", "link"]
Isolation = Literal["none", "namespaces", "container"]

MAX_FILES = 100
MAX_FILE_BYTES = 4 << 20
MAX_TOTAL_BYTES = 64 << 20
CEILINGS = {"max_files": 1_000, "max_file_bytes": 64 << 20, "max_total_bytes": 256 << 20}
"""How far a caller may raise these limits of a collection."""
MAX_COMMAND_BYTES = MAX_PRIMARY_BYTES = 32 << 10
DEFAULT_TIMEOUT, MAX_TIMEOUT = 300.0, 3600.0

LINKS = {"out": "../../out", "work": "../../work", "inputs": "../../work/inputs"}
"""Links at the top of a staged skill, in place of its own entries with these names."""

Parts = tuple[str, ...]  # the names on a path


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A file or folder to put into the workspace before the run.

    Attributes:
        source: A URI of ``artifact``, ``host``, ``workspace`` or ``skill``; ``from`` in JSON.
        to: Target below the workspace; empty for ``work/inputs/`` and the source's last part.
        pin: Whether an artifact without a version keeps the version that was first staged.
    """

    source: str
    to: str = ""
    mode: InputMode = "copy"
    pin: bool = False


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """Which files to collect after the run, and what to do with them.

    Attributes:
        save: Whether to keep the files as artifacts, whose names begin with ``name_template``.
        hidden: Whether wildcards match names that begin with a dot.
        only_new: Whether to skip files that this run did not change.
    """

    globs: tuple[str, ...] = ()
    inline: bool = False
    save: bool = False
    name_template: str = ""
    max_files: int = MAX_FILES
    max_file_bytes: int = MAX_FILE_BYTES
    max_total_bytes: int = MAX_TOTAL_BYTES
    hidden: bool = True
    only_new: bool = False


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A command of a skill, and everything that belongs to its run.

    Attributes:
        command: Shell text for ``bash -lc``, or a program with its arguments, run without a shell.
        editor_text: Text that an editor opened by the command writes; None for no editor.
        output_files: Patterns to collect in the older way, with the options below it.
        omit_inline_content: Whether to return only the names of saved files.
    """

    skill: str
    folder: Path
    command: str | tuple[str, ...]
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    editor_text: str | None = None
    timeout: float | None = None
    inputs: tuple[InputSpec, ...] = ()
    outputs: OutputSpec | None = None
    output_files: tuple[str, ...] = ()
    save_as_artifacts: bool = False
    omit_inline_content: bool = False
    artifact_prefix: str = ""


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.to_dict() if isinstance(value, Record) else value


class Record:
    """A dataclass with a JSON form."""

    __slots__ = ()
    OPTIONAL: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form; optional fields that are None or empty are left out."""
        values = {item.name: getattr(self, item.name) for item in fields(cast("Any", self))}
        left_out = {name for name in self.OPTIONAL if values[name] in (None, ())}
        return {name: _plain(value) for name, value in values.items() if name not in left_out}


@dataclass(frozen=True, slots=True)
class OutputFile(Record):
    """A collected file; its content is None if it is binary or was not asked for."""

    OPTIONAL = ("content",)
    name: str
    mime_type: str
    size_bytes: int
    content: str | None = None
    truncated: bool = False

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return Record.to_dict(self) | {"ref": f"workspace://{self.name}"}


@dataclass(frozen=True, slots=True)
class ArtifactRef(Record):
    """A version of an artifact; versions count from 0."""

    name: str
    version: int

    @property
    def ref(self) -> str:
        """The source by which an input names it."""
        return f"artifact://{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class StagedInput(Record):
    """A file or folder that was put into the workspace; its size is the sum of its files."""

    name: str
    source: str
    size_bytes: int
    mime_type: str
    artifact: ArtifactRef | None = None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        sizes = {"mime_type": self.mime_type, "size_bytes": self.size_bytes}
        return {"name": self.name, "original_name": self.source, **sizes}


@dataclass(slots=True)
class Tree:
    """The contents of a folder; an equal ``state`` says that nothing changed, unless it is racy.

    Attributes:
        seen_ns: When they were listed; the latest of them changed at ``newest_ns``.
        files: Plain files in the order of their paths' bytes, and whether each is executable.
        folders: Folders, parents first.
        notes: What is left out, one sentence each.
    """

    seen_ns: int
    newest_ns: int = 0
    files: dict[Parts, bool] = field(default_factory=dict)
    folders: list[Parts] = field(default_factory=list)
    state: dict[Parts, tuple[int | str, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StagedSkill:
    """A skill in a workspace, as this process left it; new if it was copied just now.

    Attributes:
        rel_path: Its folder from the workspace, such as ``skills/tea-timer``.
        source: The skill's own folder when it was last compared, and so for the copy.
        notes: What is missing from the copy, one sentence each.
    """

    path: Path
    rel_path: str
    digest: str
    source: Tree
    copy: Tree
    notes: tuple[str, ...]
    is_new: bool


@dataclass(frozen=True, slots=True)
class RunResult(Record):
    """How a run ended (see `Finished`), and what came out of it.

    The primary output is the first of the collected files with a short text of this run.
    """

    OPTIONAL = ("primary_output", "artifact_files", "staged_inputs", "warnings")
    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool
    duration_ms: int
    executor: str
    output_files: tuple[OutputFile, ...] = ()
    primary_output: OutputFile | None = None
    artifact_files: tuple[ArtifactRef, ...] = ()
    staged_inputs: tuple[StagedInput, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Resources that one run may use: sizes in bytes, times in seconds.

    Memory (address space) and open files are per process, output is for stdout and stderr each.
    """

    timeout: float = DEFAULT_TIMEOUT
    memory_bytes: int = 4 << 30
    file_bytes: int = 1 << 30
    processes: int = 256
    open_files: int = 1024
    output_bytes: int = 16 << 10


@dataclass(frozen=True, slots=True)
class Program:
    """A program as an executor runs it, without a shell and with these variables alone.

    An executor that mounts the workspace elsewhere rewrites its path in arguments and variables.
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
        stdout_dropped: Bytes dropped from the middle of ``stdout``.
        exit_code: As in a shell; -1 if it could not be started, and ``stderr`` says why.
        problems: Why it was ended, and the like: one line each.
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
class Capabilities(Record):
    """The reach of a program that an executor runs.

    Attributes:
        network: Whether it reaches any network, this machine's loopback included.
        reads_outside: Whether it can read the user's files outside the workspace.
        sees_processes: Whether it sees other processes, and may signal them.
        not_isolated: Remaining exposures that a user must know, one sentence each.
        limits: Names of the enforced `Limits`.
    """

    isolation: Isolation
    network: bool = False
    reads_outside: bool = False
    writes_outside: bool = False
    sees_processes: bool = False
    not_isolated: tuple[str, ...] = ()
    limits: tuple[str, ...] = tuple(limit.name for limit in fields(Limits))


class Executor(Protocol):
    """Runs programs. Calls may come from several threads."""

    @property
    def name(self) -> str:
        """The word that selects it."""

    def capabilities(self) -> Capabilities:
        """Return what a program can reach on this machine."""

    def run(self, program: Program) -> Finished:
        """Run a program to its end, leaving nothing that it started, or raise `ExecutorError`."""
