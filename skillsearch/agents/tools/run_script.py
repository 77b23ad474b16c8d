"""The tool that runs a command of a skill, for agents that load skills by the default tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints

from skillsearch.agents.tools.tool import Deferred, Tool, ToolArguments
from skillsearch.execution.program import DEFAULT_TIMEOUT, MAX_TIMEOUT
from skillsearch.execution.request import MAX_COMMAND_BYTES, RunRequest
from skillsearch.library.skill_library import SkillLibrary

if TYPE_CHECKING:
    from skillsearch.execution.runner import SkillRunner

MAX_TEXT_CHARS = 1 << 20
"""Of stdin, of the text for an editor, and of a variable's value."""
MAX_ITEMS = 100
"""Inputs, patterns and variables that one call may name."""

_MAX_NAME_CHARS = 256

_Pattern = Annotated[str, StringConstraints(max_length=1024)]


class RunSkillScriptArgs(ToolArguments):
    """The arguments of `run_skill_script`."""

    name: str = Field(max_length=_MAX_NAME_CHARS)
    command: str = Field(
        min_length=1,
        max_length=MAX_COMMAND_BYTES,
        description="For bash, in the skill's folder: python3 scripts/x.py > out/x.txt",
    )
    stdin: str = Field(default="", max_length=MAX_TEXT_CHARS)
    output_files: list[_Pattern] = Field(
        default=[], max_length=MAX_ITEMS, description="Files to return, such as out/*.txt."
    )
    timeout: float = Field(default=DEFAULT_TIMEOUT, gt=0, le=MAX_TIMEOUT, description="Seconds.")


def run_script_tool(
    library: Callable[[], SkillLibrary], runner: SkillRunner, *, session: str = ""
) -> Tool:
    """Return the tool.

    Args:
        library: Returns the library; called when the tool is.
        runner: What runs the commands; the caller closes it.
        session: Calls with the same text share a workspace.

    Returns:
        `run_skill_script`; its result is that of `RunResult.to_dict`.
    """

    def run(args: RunSkillScriptArgs) -> Deferred:
        """Answer `run_skill_script`."""
        document = library().find(args.name)
        request = RunRequest(
            skill=document.name,
            folder=Path(document.path).parent,
            command=args.command,
            stdin=args.stdin,
            timeout=args.timeout,
            output_files=tuple(args.output_files),
        )
        return Deferred(
            lambda: runner.run(request, session),
            lambda result: result.to_dict(),
        )

    return Tool(
        "run_skill_script",
        "Run a command that a skill's instructions give, in a workspace with a copy of the skill."
        " Write results below out/; they stay there for the next call.",
        RunSkillScriptArgs,
        run,
        read_only=False,
    )
