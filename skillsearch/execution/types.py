"""The values of a run: request and result, program and how it ended, and what an executor isolates.

Names, defaults and limits of a request follow ``skill_run`` in trpc-agent-go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Literal, Protocol

from skillsearch.types import JsonValue

InputMode = Literal["copy", "link"]
Isolation = Literal["none", "namespaces", "container"]

MAX_FILES = 100
MAX_FILE_BYTES = 4 << 20
MAX_TOTAL_BYTES = 64 << 20
CEILINGS = {"max_files": 1_000, "max_file_bytes": 64 << 20, "max_total_bytes": 256 << 20}
"""How far a caller may raise these limits of a collection."""
MAX_COMMAND_BYTES = 32 << 10
MAX_PRIMARY_BYTES = 32 << 10
"""Size of the largest file that can be the primary output."""
DEFAULT_TIMEOUT = 300.0
"""Seconds, as in trpc-agent-go."""
MAX_TIMEOUT = 3600.0
"""Seconds; the longest timeout of a skill's command."""

LINKS = {"out": "../../out", "work": "../../work", "inputs": "../../work/inputs"}
"""Links at the top of a staged skill, in place of its own entries of these names."""

Parts = tuple[str, ...]
"""The names on a path."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A file or folder to put into the workspace before the run.

    Attributes:
        source: ``artifact://name[@version]``, ``host:///absolute/path``,
            ``workspace://path`` or ``skill://name/path``; ``from`` in JSON.
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
        globs: Patterns below the workspace, with ``**``; ``$OUTPUT_DIR/x`` is ``out/x``.
        save: Whether to keep the files as artifacts.
        name_template: Prefix of the artifacts' names.
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
        folder: The skill's folder on this machine.
        command: Shell text for ``bash -lc``, or a program with its arguments, run without a shell.
        cwd: Where to run: below the skill, or one of the folders of the workspace.
        editor_text: Text that an editor opened by the command writes; None for no editor.
        timeout: Seconds; None for the default.
        output_files: Patterns to collect in the older way, with the two options below it.
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


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A collected file; its content is None if it is binary or was not asked for."""

    name: str
    mime_type: str
    size_bytes: int
    content: str | None = None
    truncated: bool = False

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        content: dict[str, JsonValue] = {} if self.content is None else {"content": self.content}
        return {
            "name": self.name,
            **content,
            "mime_type": self.mime_type,
            "size_bytes": self.size_bytes,
            "truncated": self.truncated,
            "ref": f"workspace://{self.name}",
        }


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """A version of an artifact; versions count from 0."""

    name: str
    version: int

    @property
    def ref(self) -> str:
        """The source by which an input names it."""
        return f"artifact://{self.name}@{self.version}"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StagedInput:
    """A file or folder that was put into the workspace; its size is the sum of its files."""

    name: str
    source: str
    size_bytes: int
    mime_type: str
    artifact: ArtifactRef | None = None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "original_name": self.source,
            "mime_type": self.mime_type,
            "size_bytes": self.size_bytes,
        }


@dataclass(frozen=True, slots=True)
class Tree:
    """The contents of a folder.

    Attributes:
        files: Plain files, in the order of their paths' bytes.
        folders: Folders, parents first.
        state: Kind, permissions, inode, size and times of everything.
        is_settled: Whether an equal ``state`` later means that nothing changed; False if something
            changed just before.
        notes: What is left out, one sentence each.
    """

    files: tuple[Parts, ...]
    folders: tuple[Parts, ...]
    executables: frozenset[Parts]
    state: tuple[tuple[Parts, tuple[int | str, ...]], ...]
    is_settled: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StagedCopy:
    """A staged skill as this process left it, whatever happened to the copy since."""

    source: Tree
    copy: Tree
    digest: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended, and what came out of it.

    Attributes:
        stdout: Output as text; only its beginning and end if there was too much.
        exit_code: As in `Finished`.
        output_files: The collected files, by name.
        primary_output: The first of them by name with a short text of this run.
    """

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

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form; optional entries that are empty are left out."""
        optional: dict[str, JsonValue] = {
            "primary_output": self.primary_output and self.primary_output.to_dict(),
            "artifact_files": [ref.to_dict() for ref in self.artifact_files],
            "staged_inputs": [staged.to_dict() for staged in self.staged_inputs],
            "warnings": list(self.warnings),
        }
        return {
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exit_code": self.exit_code,
            "timed_out": self.timed_out,
            "duration_ms": self.duration_ms,
            "executor": self.executor,
            "output_files": [file.to_dict() for file in self.output_files],
            **{name: value for name, value in optional.items() if value},
        }


@dataclass(frozen=True, slots=True)
class Limits:
    """Resources that one run may use: sizes in bytes, times in seconds.

    Memory (address space) and open files are limited for each process, file size for each file that
    is written, and output for stdout and stderr each.
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

    Paths are those of this machine; an executor that mounts the workspace elsewhere rewrites them
    in arguments and variables.

    Attributes:
        argv: Name and arguments; nothing is added, and no shell reads them.
        workspace: The only folder that it may write to.
        env: Its whole environment.
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
        exit_code: As in a shell: 128 plus the number of the signal that ended it; -1 if it could
            not be started, and ``stderr`` says why.
        problems: Why it was ended, and what else the caller should know: one line each.
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
    """What a program can reach when an executor runs it.

    Attributes:
        network: Whether it reaches any network, this machine's loopback included.
        reads_outside: Whether it can read the user's files outside the workspace.
        sees_processes: Whether it sees other processes of the machine, and may signal them.
        not_isolated: Remaining exposures that a user must know, one sentence each.
        limits: Names of the enforced `Limits`.
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
        lists = {"limits": list(self.limits), "not_isolated": list(self.not_isolated)}
        return asdict(self) | lists


class Executor(Protocol):
    """Runs programs. Calls may come from several threads."""

    @property
    def name(self) -> str:
        """The word that selects it."""

    def capabilities(self) -> Capabilities:
        """Return what a program can reach on this machine."""

    def run(self, program: Program) -> Finished:
        """Run a program to its end, leaving nothing that it started.

        Raises an `ExecutorError` if the executor itself cannot be used.
        """
