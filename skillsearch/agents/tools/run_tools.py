"""The tools that run a command of a skill: ``run_skill_script`` and ``skill_run``.

``skill_run`` has the names, defaults and limits of trpc-agent-go. Its ``outputs`` also accepts the
Go names, such as ``MaxFiles``; as there, a limit of 0 means the default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, AliasGenerator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_pascal

from skillsearch.agents.tools.tool import Deferred, Tool, ToolArguments, with_names
from skillsearch.errors import SkillNotLoadedError
from skillsearch.execution.types import (
    CEILINGS,
    DEFAULT_TIMEOUT,
    MAX_COMMAND_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_TIMEOUT,
    MAX_TOTAL_BYTES,
    ArtifactRef,
    InputMode,
    InputSpec,
    OutputSpec,
    RunRequest,
    RunResult,
)
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.types import JsonValue

if TYPE_CHECKING:
    from skillsearch.execution.runner import SkillRunner

MAX_TEXT_CHARS = 1 << 20
"""Of stdin, of the text for an editor, and of a variable's value."""
MAX_ITEMS = 100
"""Inputs, patterns and variables that one call may name."""

Name = Annotated[str, StringConstraints(max_length=1024)]
"""A name, a path or a pattern."""
_Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]


class RunSkillScriptArgs(ToolArguments):
    """Arguments of ``run_skill_script``."""

    name: str = Field(max_length=256)
    command: str = Field(
        min_length=1,
        max_length=MAX_COMMAND_BYTES,
        description="For bash, in the skill's folder: python3 scripts/x.py > out/x.txt",
    )
    stdin: _Text = ""
    output_files: tuple[Name, ...] = Field(
        (), max_length=MAX_ITEMS, description="Files to return, such as out/*.txt."
    )
    timeout: float = Field(DEFAULT_TIMEOUT, gt=0, le=MAX_TIMEOUT, description="Seconds.")


class OfSkillArgs(ToolArguments):
    """Arguments of a workspace's tools begin with a skill."""

    skill: Name = Field(description="Name of the skill, in any case.")


class InputArgs(ToolArguments):
    """A file or folder, and where it goes."""

    source: Name = Field(
        alias="from",
        min_length=1,
        description="artifact://name[@version], host:///path, workspace://path or"
        " skill://name/path.",
    )
    to: Name = Field("", description="Path in the workspace; else work/inputs/<its name>.")
    mode: InputMode = "copy"
    pin: bool = Field(False, description="True to keep the version that came first.")


class OutputArgs(ToolArguments):
    """Which files to collect, and what to do with them."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(
            validation_alias=lambda name: AliasChoices(name, to_pascal(name))
        )
    )

    globs: tuple[Name, ...] = Field(
        (), max_length=MAX_ITEMS, description="Patterns in the workspace, such as out/**."
    )
    inline: bool = Field(False, description="True to return contents.")
    save: bool = Field(False, description="True to keep them as artifacts.")
    name_template: Name = Field("", description="What names of artifacts begin with.")
    max_files: int = Field(MAX_FILES, ge=0, le=CEILINGS["max_files"])
    max_file_bytes: int = Field(MAX_FILE_BYTES, ge=0, le=CEILINGS["max_file_bytes"])
    max_total_bytes: int = Field(MAX_TOTAL_BYTES, ge=0, le=MAX_TOTAL_BYTES)

    def spec(self) -> OutputSpec:
        """Return the same for a runner; what is 0, false or empty has its default."""
        return OutputSpec(**{name: value for name, value in self if value})


def _drop_propertynames(schema: dict[str, Any]) -> None:
    """Drop what the limit on the names of a mapping leaves in its schema: an empty schema."""
    del schema["propertyNames"]


class RunArgs(OfSkillArgs):
    """Arguments of ``skill_run``."""

    command: str = Field(
        min_length=1, max_length=MAX_COMMAND_BYTES, description="Shell command, run by bash -lc."
    )
    cwd: Name = Field("", description="Folder to run in, below the skill's.")
    env: dict[Name, _Text] = Field({}, max_length=MAX_ITEMS, json_schema_extra=_drop_propertynames)
    stdin: _Text = ""
    editor_text: _Text | None = Field(
        None, description="What an editor that the command opens is to write."
    )
    output_files: tuple[Name, ...] = Field(
        (),
        max_length=MAX_ITEMS,
        description="Patterns of files to return, such as out/*.txt or $OUTPUT_DIR/*.txt.",
    )
    timeout: float | None = Field(
        None, ge=0, le=MAX_TIMEOUT, description=f"Seconds; else {DEFAULT_TIMEOUT:.0f}."
    )
    save_as_artifacts: bool = Field(False, description="True to keep output_files as artifacts.")
    omit_inline_content: bool = Field(
        False, description="With save_as_artifacts: names without contents."
    )
    artifact_prefix: Name = Field(
        "", description="With save_as_artifacts: what the names begin with."
    )
    inputs: tuple[InputArgs, ...] = Field(
        (), max_length=MAX_ITEMS, description="Files to put into the workspace first."
    )
    outputs: OutputArgs | None = Field(
        None, description="Files to collect, with limits of your own."
    )

    def request(self, skill: str, folder: Path) -> RunRequest:
        """Return the same for a runner, given the skill's own name and its folder."""
        fields = dict(self) | {
            "skill": skill,
            "timeout": self.timeout or None,
            "inputs": tuple(InputSpec(**dict(each)) for each in self.inputs),
            "outputs": self.outputs.spec() if self.outputs else None,
        }
        return RunRequest(folder=folder, **fields)


def run_script_tool(
    library: Callable[[], SkillLibrary], runner: SkillRunner, *, session: str = ""
) -> Tool:
    """Return ``run_skill_script``, for agents that load skills with the default tools.

    Calls with the same session share a workspace; the caller closes the runner.
    """

    def run(args: RunSkillScriptArgs) -> Deferred:
        document = library().find(args.name)
        fields = args.model_dump(exclude={"name"})
        request = RunRequest(document.name, Path(document.path).parent, **fields)
        return Deferred(lambda: runner.run(request, session), RunResult.to_dict)

    return Tool(
        "run_skill_script",
        "Run a command that a skill's instructions give, in a workspace with a copy of the skill."
        " Write results below out/; they stay there for the next call.",
        RunSkillScriptArgs,
        run,
        read_only=False,
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
    """Return ``skill_run``, whose result is `RunResult.to_dict`.

    `find` returns name and folder of the skill that a call names, or raises; without `is_loaded`
    any skill may run. `on_saved` is called with saved artifacts just before the result is returned.
    Calls with the same session share a workspace; the caller closes the runner. For `names`, see
    `with_names`.
    """

    def run(args: RunArgs) -> Deferred:
        name, folder = find(args.skill)
        if is_loaded is not None and not is_loaded(name):
            raise SkillNotLoadedError(name)
        request = args.request(name, folder)
        return Deferred(lambda: runner.run(request, session), finish)

    def finish(result: RunResult) -> JsonValue:
        if result.artifact_files and on_saved:
            on_saved(result.artifact_files)
        return result.to_dict()

    return Tool(
        "skill_run",
        "Run a command that a loaded skill asks for, in a workspace with a copy of the skill. What"
        " it is to give back it writes below out/; name that in output_files. Files stay there for"
        " the next call.",
        with_names(RunArgs, names),
        run,
        read_only=False,
    )
