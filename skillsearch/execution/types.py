"""The values of a run; a request's names and defaults follow ``skill_run`` in trpc-agent-go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from skillsearch.types.json_values import JsonObject, Record

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


class InputSpec(NamedTuple):
    """A file or folder to put into the workspace before the run.

    The source is a URI of ``artifact``, ``host``, ``workspace`` or ``skill`` (``from`` in JSON); an
    empty target means ``work/inputs/`` and its last part. An artifact without a version and with
    `pin` keeps the version that was first staged.
    """

    source: str
    to: str = ""
    mode: InputMode = "copy"
    pin: bool = False


class OutputSpec(NamedTuple):
    """Which files to collect after the run, and what to do with them.

    With `save` they are kept as artifacts, whose names begin with the template. With `hidden`
    wildcards match names that begin with a dot, and `only_new` skips what this run did not change.
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

    The command is text for ``bash -lc``, or a program with arguments, run without a shell. If it
    opens an editor, that writes the given text. From `output_files` on, the options are those of
    the older way to collect.
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
class OutputFile(Record):
    """A collected file; its content is None if it is binary or was not asked for."""

    name: str
    mime_type: str
    size_bytes: int
    content: str | None = None
    truncated: bool = False

    OPTIONAL = ("content",)

    def to_dict(self) -> JsonObject:
        """Return the JSON form, and the source by which an input names the file."""
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

    def to_dict(self) -> JsonObject:
        """Return the JSON form."""
        names = {"name": self.name, "original_name": self.source}
        return {**names, "mime_type": self.mime_type, "size_bytes": self.size_bytes}


FileState = tuple[int | str, ...]
"""What the system says of a file or folder; another one tells that it changed."""


def path_below(root: str, parts: Parts) -> str:
    """Return the path of an entry below a root, which may be empty, for messages."""
    return "/".join((root, *parts) if root else parts)


@dataclass(frozen=True, slots=True)
class Tree:
    """The contents of a folder; an equal ``state`` says that nothing changed, unless it is racy."""

    root: str  # begins their paths in messages, unless it is empty
    seen_ns: int  # when they were listed; the latest of them changed at ``newest_ns``
    newest_ns: int = 0
    files: Mapping[Parts, bool] = field(default_factory=dict)  # sorted by bytes; is it executable?
    folders: tuple[Parts, ...] = ()  # parents first
    state: Mapping[Parts, FileState] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what is left out, one sentence each

    def path(self, parts: Parts) -> str:
        """Return the path of an entry for messages."""
        return path_below(self.root, parts)


class StagedSkill(NamedTuple):
    """A skill in a workspace, as this process left it; new if it was copied just now."""

    path: Path
    rel_path: str  # such as ``skills/tea-timer``
    digest: str
    source: Tree  # the skill's own folder when it was last compared, and so for the copy
    copy: Tree
    notes: tuple[str, ...]  # what is missing from the copy, one sentence each
    is_new: bool


@dataclass(frozen=True, slots=True)
class RunResult(Record):
    """How a run ended (see `Finished`), and what came out of it."""

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool
    duration_ms: int
    executor: str
    output_files: tuple[OutputFile, ...] = ()
    primary_output: OutputFile | None = None  # the first file with a short text of this run
    artifact_files: tuple[ArtifactRef, ...] = ()
    staged_inputs: tuple[StagedInput, ...] = ()
    warnings: tuple[str, ...] = ()

    OPTIONAL = ("primary_output", "artifact_files", "staged_inputs", "warnings")


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Resources that one run may use: sizes in bytes, times in seconds."""

    timeout: float = DEFAULT_TIMEOUT
    memory_bytes: int = 4 << 30  # address space of each process; of all, as control groups allow
    file_bytes: int = 1 << 30
    processes: int = 256
    open_files: int = 1024  # of each process
    output_bytes: int = 16 << 10  # on stdout, and as much on stderr


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
    limits: RunLimits = field(default_factory=RunLimits)


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended."""

    stdout: bytes
    stderr: bytes
    stdout_dropped: int  # from the middle
    stderr_dropped: int
    exit_code: int  # as in a shell; -1 if it could not be started, and ``stderr`` says why
    timed_out: bool
    duration_ms: int
    problems: tuple[str, ...] = ()  # why it was ended, and the like: one line each


@dataclass(frozen=True, slots=True)
class Capabilities(Record):
    """The reach of a program that an executor runs, and the names of the enforced `RunLimits`."""

    isolation: Isolation
    network: bool = False  # any network, this machine's loopback included
    reads_outside: bool = False  # the user's files outside the workspace
    writes_outside: bool = False
    sees_processes: bool = False  # other processes, and may signal them
    not_isolated: tuple[str, ...] = ()  # exposures that a user must know, one sentence each
    limits: tuple[str, ...] = tuple(limit.name for limit in fields(RunLimits))


class Executor(Protocol):
    """Runs programs. Calls may come from several threads."""

    @property
    def name(self) -> str:
        """The word that selects it."""

    def reason(self) -> str:
        """Return why no program can be run here, and the next step; empty if one can."""

    def capabilities(self) -> Capabilities:
        """Return what a program can reach on this machine."""

    def run(self, program: Program) -> Finished:
        """Run a program to its end, leaving nothing that it started, or raise `ExecutorError`."""
