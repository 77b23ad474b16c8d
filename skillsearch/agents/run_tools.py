"""The arguments of tools that run a command of a skill, and the tool ``run_skill_script``.

``skill_run`` has the names, defaults and limits of trpc-agent-go. Its ``outputs`` also accepts the
Go names, such as ``MaxFiles``; as there, a limit of 0 means the default.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AliasChoices, AliasGenerator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_pascal

from skillsearch.agents.bounds import MAX_CHARS, first, page
from skillsearch.agents.tool import Deferred, SkillName, Tool, ToolArguments
from skillsearch.agents.tool_texts import run_text
from skillsearch.execution import types
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.types.json_values import JsonObject, objects_of, text_of, texts_of

if TYPE_CHECKING:
    from skillsearch.execution.runner import SkillRunner

MAX_TEXT_CHARS = 1 << 20  # of stdin, of the text for an editor, and of a variable's value
_PRINT = "run a command that prints another part of it"
_AGAIN = "run it again for fewer"
MAX_ITEMS = 100  # inputs, patterns and variables that one call may name

Name = Annotated[str, StringConstraints(max_length=1024)]  # a name, a path or a pattern
_Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]
_Patterns = Annotated[tuple[Name, ...], Field(max_length=MAX_ITEMS)]
_Command = Annotated[str, Field(min_length=1, max_length=types.MAX_COMMAND_BYTES)]


class RunSkillScriptArgs(ToolArguments):
    """Run a command that a skill's instructions give, in a workspace with a copy of the skill.

    Write results below out/; they stay for the next call.
    """

    name: SkillName
    command: _Command = Field(
        description="Bash command in the skill's folder: python3 scripts/x.py > out/x.txt"
    )
    stdin: _Text = Field("", description="Its stdin.")
    output_files: _Patterns = Field((), description="Files to return, such as out/*.txt.")
    timeout: float = Field(
        types.DEFAULT_TIMEOUT, gt=0, le=types.MAX_TIMEOUT, description="Seconds."
    )


class OfSkillArgs(ToolArguments):
    """Arguments of a workspace's tools begin with a skill."""

    skill: Name = Field(description="Name of the skill, in any case.")


class InputArgs(ToolArguments):
    """A file or folder, and where it goes."""

    source: Name = Field(
        alias="from",
        min_length=1,
        description="Where it is: artifact://name[@version], host:///path, workspace://path or"
        " skill://name/path.",
    )
    to: Name = Field(
        "", description="Path in the workspace to put it at; else work/inputs/<its name>."
    )
    mode: types.InputMode = Field("copy", description="Copy it, or link to it without a copy.")
    pin: bool = Field(
        False, description="True to use the artifact's first version in later calls too."
    )


class OutputArgs(ToolArguments):
    """Which files to collect, and what to do with them."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(
            validation_alias=lambda name: AliasChoices(name, to_pascal(name))
        )
    )

    globs: _Patterns = Field((), description="Patterns of files in the workspace, such as out/**.")
    inline: bool = Field(False, description="True to return the contents of the files.")
    save: bool = Field(False, description="True to keep the files as artifacts.")
    name_template: Name = Field("", description="Prefix of the artifacts' names.")
    max_files: int = Field(
        types.MAX_FILES,
        ge=0,
        le=types.CEILINGS["max_files"],
        description="How many files to collect at most.",
    )
    max_file_bytes: int = Field(
        types.MAX_FILE_BYTES,
        ge=0,
        le=types.CEILINGS["max_file_bytes"],
        description="How many bytes of each file to read; the rest is left out.",
    )
    max_total_bytes: int = Field(
        types.MAX_TOTAL_BYTES,
        ge=0,
        le=types.MAX_TOTAL_BYTES,
        description="How many bytes of all files together to read.",
    )

    def spec(self) -> types.OutputSpec:
        """Return the same for a runner; what is 0, false or empty has its default."""
        return types.OutputSpec(**{name: value for name, value in self if value})


class RunArgs(OfSkillArgs):
    """Run a command that a loaded skill asks for, in a workspace with a copy of the skill.

    It writes results below out/; name them in output_files. Files stay there for the next call.
    """

    command: _Command = Field(description="Shell command, run by bash -lc.")
    cwd: Name = Field("", description="Folder to run in, relative to the skill's folder.")
    env: dict[Name, _Text] = Field(
        {}, max_length=MAX_ITEMS, description="Variables of the environment, by name."
    )
    stdin: _Text = Field("", description="Its stdin.")
    editor_text: _Text | None = Field(
        None, description="Text to write if the command opens an editor."
    )
    output_files: _Patterns = Field(
        (), description="Patterns of files to return, such as out/*.txt or $OUTPUT_DIR/*.txt."
    )
    timeout: float | None = Field(
        None,
        ge=0,
        le=types.MAX_TIMEOUT,
        description=f"Seconds until the command is stopped; else {types.DEFAULT_TIMEOUT:.0f}.",
    )
    save_as_artifacts: bool = Field(False, description="True to keep output_files as artifacts.")
    omit_inline_content: bool = Field(
        False, description="With save_as_artifacts: True to return names without contents."
    )
    artifact_prefix: Name = Field(
        "", description="With save_as_artifacts: prefix of the artifacts' names."
    )
    inputs: tuple[InputArgs, ...] = Field(
        (), max_length=MAX_ITEMS, description="Files to put into the workspace first."
    )
    outputs: OutputArgs | None = Field(
        None, description="More files to collect, with limits of your own."
    )

    def request(self, skill: str, folder: Path) -> types.RunRequest:
        """Return the same for a runner, given the skill's own name and its folder."""
        fields = dict(self) | {
            "skill": skill,
            "timeout": self.timeout or None,
            "inputs": tuple(types.InputSpec(**dict(each)) for each in self.inputs),
            "outputs": self.outputs.spec() if self.outputs else None,
        }
        return types.RunRequest(folder=folder, **fields)


def answer_of(result: types.RunResult) -> JsonObject:
    """Return a result for a model, in which the contents of files have bounded room together."""
    record, room = result.to_dict(), MAX_CHARS
    warnings: list[str] = []
    for key in ("output_files", "artifact_files"):
        rows = objects_of(record.get(key, []))
        names, left_out = first([text_of(row["name"]) for row in rows], "file", _AGAIN)
        record |= {key: rows[: len(names)]} if rows else {}
        warnings += left_out
    for file in objects_of(record["output_files"]):
        content = text_of(file.get("content", ""))
        if len(content) > room:
            file |= {"content": page(content, then=_PRINT, room=room), "truncated": True}
        room -= min(room, len(content))
    warnings += texts_of(record.get("warnings", []))
    kept, left_out = first(warnings, "warning", _AGAIN)
    return record | ({"warnings": [*kept, *left_out]} if kept else {})


def run_script_tool(
    library: Callable[[], SkillLibrary], runner: SkillRunner, *, session: str = ""
) -> Tool:
    """Return ``run_skill_script``, for agents that load skills with the default tools.

    Calls with the same session share a workspace; the caller closes the runner.
    """

    def run(args: RunSkillScriptArgs) -> Deferred:
        document = library().find(args.name)
        fields = args.model_dump(exclude={"name"})
        request = types.RunRequest(document.name, Path(document.path).parent, **fields)
        return Deferred(lambda: runner.run(request, session), answer_of)

    return Tool.of("run_skill_script", RunSkillScriptArgs, run, read_only=False, text=run_text)
