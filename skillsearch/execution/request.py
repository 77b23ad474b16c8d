"""What a run of a skill's command is asked for with, and what it gives back.

Names, defaults and limits are those of ``skill_run`` in trpc-agent-go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from skillsearch.types import JsonValue

InputMode = Literal["copy", "link"]

MAX_FILES = 100
MAX_FILE_BYTES = 4 << 20
MAX_TOTAL_BYTES = 64 << 20
CEILINGS = {"max_files": 1_000, "max_file_bytes": 64 << 20, "max_total_bytes": 256 << 20}
"""What these limits of a collection can be raised to."""
MAX_COMMAND_BYTES = 32 << 10
MAX_PRIMARY_BYTES = 32 << 10
"""Size of the largest file that counts as the primary output."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A file or folder to put into the workspace before the run.

    Attributes:
        source: ``artifact://name[@version]``, ``host:///absolute/path``,
            ``workspace://path`` or ``skill://name/path``; ``from`` in JSON.
        to: Where to, below the workspace; empty for ``work/inputs/`` and its last part.
        mode: ``copy``, or ``link`` where a link is possible.
        pin: Whether an artifact without a version stays the one that was first put there.
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
        inline: Whether to return what is in them.
        save: Whether to keep them as artifacts.
        name_template: What the names of the artifacts begin with.
        max_files: How many at most.
        max_file_bytes: Bytes of each.
        max_total_bytes: Bytes of all.
        hidden: Whether wildcards match names that begin with a dot.
        only_new: Whether to leave out what no command of this run changed.
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
    """A command of a skill, and what belongs to its run.

    Attributes:
        skill: Name of the skill.
        folder: Its folder on this machine.
        command: Shell text, run by ``bash -lc``; or a program with its arguments, run without
            any shell.
        cwd: Where to run: below the skill, or one of the folders of the workspace.
        env: Variables besides those that every run has.
        stdin: What the command reads.
        editor_text: What an editor that the command opens is to write; None for no editor.
        timeout: Seconds; None for the default.
        inputs: What to put into the workspace first.
        outputs: What to collect by declaration.
        output_files: Patterns to collect in the older way.
        save_as_artifacts: Whether to keep what ``output_files`` found as artifacts.
        omit_inline_content: Whether to return the names of saved files alone.
        artifact_prefix: What the names of these artifacts begin with.
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
    """A collected file.

    Attributes:
        name: Path below the workspace.
        mime_type: What its first bytes, or else its name, say that it is.
        size_bytes: Its size on disk.
        content: Its text; None where it is no text, or was not asked for.
        truncated: Whether ``content``, or what was read of it, is cut.
    """

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
    """One version of an artifact.

    Attributes:
        name: Its name.
        version: Counted from 0.
    """

    name: str
    version: int

    @property
    def ref(self) -> str:
        """How an input names it."""
        return f"artifact://{self.name}@{self.version}"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {"name": self.name, "version": self.version}


@dataclass(frozen=True, slots=True)
class StagedInput:
    """A file or folder that was put into the workspace.

    Attributes:
        name: Path below the workspace.
        source: Where it came from, as asked for.
        size_bytes: Its size, that of a folder being the sum of its files.
        mime_type: What it is; ``inode/directory`` for a folder.
        artifact: The version of an artifact that it is; None for all else.
    """

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
class RunResult:
    """How a run ended, and what came out of it.

    Attributes:
        stdout: What the command wrote, as text; beginning and end where that was too much.
        stderr: Likewise.
        exit_code: As in `Finished`.
        timed_out: Whether it was ended because its time was over.
        duration_ms: Milliseconds from start to end of the command.
        executor: Name of the executor.
        output_files: What was collected, by name.
        primary_output: The first of them by name that holds a short text of this run.
        artifact_files: What was kept as artifacts.
        staged_inputs: What was put into the workspace.
        warnings: What the caller should know, a line each.
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
        """Return the JSON form; what is empty and optional is left out."""
        optional: dict[str, Any] = {
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
