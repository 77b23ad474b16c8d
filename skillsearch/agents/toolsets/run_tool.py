"""The tool ``skill_run``: a command of a skill, run in a workspace.

Names, defaults and limits are those of trpc-agent-go. ``outputs`` takes its Go names as well, such
as ``MaxFiles``; a limit of 0 is the default, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, AliasGenerator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_pascal

from skillsearch.agents.tools.run_script import MAX_ITEMS, MAX_TEXT_CHARS
from skillsearch.agents.tools.tool import Deferred, Tool, ToolArguments
from skillsearch.agents.toolsets.workspace_arguments import Name, OfSkillArgs, naming
from skillsearch.errors import SkillNotLoadedError
from skillsearch.execution.program import DEFAULT_TIMEOUT, MAX_TIMEOUT
from skillsearch.execution.request import (
    CEILINGS,
    MAX_COMMAND_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    ArtifactRef,
    InputMode,
    InputSpec,
    OutputSpec,
    RunRequest,
    RunResult,
)
from skillsearch.types import JsonValue

if TYPE_CHECKING:
    from skillsearch.execution.runner import SkillRunner


_Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]


def _names(field: str) -> AliasChoices:
    """Return the names that a field may have: our own, and Go's."""
    return AliasChoices(field, to_pascal(field))


def _without_names(schema: dict[str, Any]) -> None:
    """Take from the schema of a mapping what is left of the limit on its names: nothing."""
    del schema["propertyNames"]


class InputArgs(ToolArguments):
    """A file or folder, and where it goes."""

    source: Name = Field(
        alias="from",
        min_length=1,
        description="artifact://name[@version], host:///path, workspace://path or"
        " skill://name/path.",
    )
    to: Name = Field(default="", description="Path in the workspace; else work/inputs/<its name>.")
    mode: InputMode = "copy"
    pin: bool = Field(default=False, description="True to keep the version that came first.")


class OutputArgs(ToolArguments):
    """Which files to collect, and what to do with them."""

    model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=_names))

    globs: list[Name] = Field(
        default=[], max_length=MAX_ITEMS, description="Patterns in the workspace, such as out/**."
    )
    inline: bool = Field(default=False, description="True to return contents.")
    save: bool = Field(default=False, description="True to keep them as artifacts.")
    name_template: Name = Field(default="", description="What names of artifacts begin with.")
    max_files: int = Field(default=MAX_FILES, ge=0, le=CEILINGS["max_files"])
    max_file_bytes: int = Field(default=MAX_FILE_BYTES, ge=0, le=CEILINGS["max_file_bytes"])
    max_total_bytes: int = Field(default=MAX_TOTAL_BYTES, ge=0, le=MAX_TOTAL_BYTES)


class RunArgs(OfSkillArgs):
    """The arguments of ``skill_run``."""

    command: str = Field(
        min_length=1, max_length=MAX_COMMAND_BYTES, description="Shell command, run by bash -lc."
    )
    cwd: Name = Field(default="", description="Folder to run in, below the skill's.")
    env: dict[Name, _Text] = Field(
        default={}, max_length=MAX_ITEMS, json_schema_extra=_without_names
    )
    stdin: _Text = ""
    editor_text: _Text | None = Field(
        default=None, description="What an editor that the command opens is to write."
    )
    output_files: list[Name] = Field(
        default=[],
        max_length=MAX_ITEMS,
        description="Patterns of files to return, such as out/*.txt or $OUTPUT_DIR/*.txt.",
    )
    timeout: float | None = Field(
        default=None, ge=0, le=MAX_TIMEOUT, description=f"Seconds; else {DEFAULT_TIMEOUT:.0f}."
    )
    save_as_artifacts: bool = Field(
        default=False, description="True to keep output_files as artifacts."
    )
    omit_inline_content: bool = Field(
        default=False, description="With save_as_artifacts: names without contents."
    )
    artifact_prefix: Name = Field(
        default="", description="With save_as_artifacts: what the names begin with."
    )
    inputs: list[InputArgs] = Field(
        default=[], max_length=MAX_ITEMS, description="Files to put into the workspace first."
    )
    outputs: OutputArgs | None = Field(
        default=None, description="Files to collect, with limits of your own."
    )


def run_tool(
    runner: SkillRunner,
    find: Callable[[str], tuple[str, Path]],
    *,
    is_loaded: Callable[[str], bool] | None = None,
    on_saved: Callable[[Sequence[ArtifactRef]], object] | None = None,
    session: str = "",
    names: Sequence[str] | None = None,
) -> Tool:
    """Return the tool that runs commands of skills.

    Args:
        runner: What runs them.
        find: Gives name and folder of the skill that a call names, or raises.
        is_loaded: Whether the session has loaded a skill of that name; None where there is no
            session, so that any skill may be run.
        on_saved: Called with what a call saved as artifacts, as its result is made.
        session: Calls with the same text share a workspace.
        names: Names for an enum of the skills; None for no enum.

    Returns:
        ``skill_run``; its result is that of `RunResult.to_dict`.
    """

    def run(args: RunArgs) -> Deferred:
        """Answer ``skill_run``."""
        name, folder = find(args.skill)
        if is_loaded is not None and not is_loaded(name):
            raise SkillNotLoadedError(name)
        request = _request(args, name, folder)
        return Deferred(lambda: runner.run(request, session), finish)

    def finish(result: RunResult) -> JsonValue:
        """Tell what was saved, and return the result."""
        if result.artifact_files and on_saved:
            on_saved(result.artifact_files)
        return result.to_dict()

    return Tool(
        "skill_run",
        "Run a command that a loaded skill asks for, in a workspace with a copy of the skill. What"
        " it is to give back it writes below out/; name that in output_files. Files stay there for"
        " the next call.",
        naming(RunArgs, names),
        run,
        read_only=False,
    )


def _request(args: RunArgs, name: str, folder: Path) -> RunRequest:
    """Return what a call asks for."""
    return RunRequest(
        skill=name,
        folder=folder,
        command=args.command,
        cwd=args.cwd,
        env=args.env,
        stdin=args.stdin,
        editor_text=args.editor_text,
        timeout=args.timeout or None,
        inputs=tuple(InputSpec(one.source, one.to, one.mode, one.pin) for one in args.inputs),
        outputs=_outputs(args.outputs) if args.outputs else None,
        output_files=tuple(args.output_files),
        save_as_artifacts=args.save_as_artifacts,
        omit_inline_content=args.omit_inline_content,
        artifact_prefix=args.artifact_prefix,
    )


def _outputs(args: OutputArgs) -> OutputSpec:
    """Return what a call declares of its outputs."""
    return OutputSpec(
        globs=tuple(args.globs),
        inline=args.inline,
        save=args.save,
        name_template=args.name_template,
        max_files=args.max_files or MAX_FILES,
        max_file_bytes=args.max_file_bytes or MAX_FILE_BYTES,
        max_total_bytes=args.max_total_bytes or MAX_TOTAL_BYTES,
    )
