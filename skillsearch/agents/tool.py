"""Tools and sets of them: their definitions, and the safe edge that calls them."""

from __future__ import annotations

import difflib
import inspect
import json
import logging
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillsearch.agents.arguments import Arguments, checked
from skillsearch.agents.failures import ToolAnswer, failure, failure_of, problems_of
from skillsearch.agents.schemas import arguments_schema
from skillsearch.errors import QueryError, SkillSearchError, StorageError, answered
from skillsearch.settings.values import MAX_N, MAX_QUERY_CHARS
from skillsearch.system_errors import machine_problem
from skillsearch.text.safe_text import all_visible, one_line
from skillsearch.types.json_values import Json, JsonObject
from skillsearch.types.skills import LOADED_NAME_CHARS, MAX_NAME_CHARS

Style = Literal["openai", "anthropic"]  # the vendor whose format a definition has
QueryText = Annotated[
    str, Field(min_length=1, max_length=MAX_QUERY_CHARS, description="The task, in words.")
]
"""The argument of every search."""
SkillName = Annotated[str, Field(max_length=LOADED_NAME_CHARS, description="As a hit names it.")]
"""The argument that says which skill to read or to run."""
Offset = Annotated[int, Field(ge=0, description="Where to go on, as a cut answer says.")]
"""The argument of a tool whose answer may be cut; the last line of such an answer has it."""
Text = Callable[[JsonObject], str]
"""Writes the result of a tool for hosts that show text."""
MaxCount = Annotated[int, Field(ge=1, le=MAX_N, description="How many at most.")]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # function names that both OpenAI and Anthropic accept
_NEAREST_NAMES = 5

_T = TypeVar("_T")
_Arguments = TypeVar("_Arguments", bound=BaseModel)

logger = logging.getLogger(__name__)


class ToolArguments(BaseModel):
    """Arguments of a tool, which the docstring describes for `Tool.of`; others are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ToolResult(BaseModel):
    """Result of a tool that may fail by design: its output, or an error for the model to read."""

    model_config = ConfigDict(frozen=True)

    success: bool
    output: str = ""
    error: str | None = None


class SearchArgs(ToolArguments):
    """Arguments of a search for skills."""

    query: QueryText
    n: MaxCount = 5


class Deferred(NamedTuple):
    """The answer of a tool that has slow work to do first.

    `run` may run in any thread, at any time; `finish` makes its value the result, in turn.
    """

    run: Callable[[], Any]
    finish: Callable[[Any], Json]


class Need(NamedTuple):
    """What a host has to provide for a tool, and the answer to a call as long as it has not.

    The message is formatted with the name of the ``tool``.
    """

    code: str
    message: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Tool:
    """One function for agents; `ValueError` if a model vendor would refuse its name.

    The description says when to use it, when not, and what to do next. The function takes validated
    arguments. It is not `read_only` if a call changes anything outside the caller's session; it
    `searches` if its answer depends on the index. `text` writes a result, which is an object, for
    hosts that show text. `needs` tells of tools that belong to it, by name, what each needs: a call
    is told so if the toolset lacks the tool.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    function: Callable[[Any], Json | Deferred]
    read_only: bool = True
    searches: bool = False
    text: Text | None = None
    needs: tuple[tuple[str, Need], ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}; use 1 to 64 of: letters, digits, '_', '-'")

    @classmethod
    def of(
        cls,
        name: str,
        arguments: type[_Arguments],
        function: Callable[[_Arguments], Json | Deferred],
        *,
        read_only: bool = True,
        searches: bool = False,
        text: Text | None = None,
        needs: tuple[tuple[str, Need], ...] = (),
    ) -> Tool:
        """Make a tool that the docstring of its arguments describes; its function takes these."""
        about = description_of(arguments)
        return cls(name, about, arguments, function, read_only, searches, text, needs)


class Begun(NamedTuple):
    """A call that has begun: its tool, None if there is none, and the answer or the work left."""

    tool: Tool | None
    outcome: ToolAnswer | Deferred


def description_of(arguments: type[BaseModel]) -> str:
    """Return the docstring of a tool's arguments, which describes the tool, on one line."""
    return " ".join((inspect.getdoc(arguments) or "").split())


class Toolset:
    """Tools that belong together, or a function that returns them and is called at every use.

    Calls take turns, so a host that calls from several threads needs no lock.
    """

    def __init__(self, tools: Sequence[Tool] | Callable[[], Sequence[Tool]]) -> None:
        self._tools = tools
        self._lock = threading.RLock()

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools as they are now; `ValueError` if two share a name."""
        with self._lock:
            tools = tuple(self._tools() if callable(self._tools) else self._tools)
        names = [tool.name for tool in tools]
        if len(set(names)) < len(names):
            raise ValueError(f"the tools are named {names}; give each a different name")
        return tools

    def specs(self, style: Style = "openai") -> list[JsonObject]:
        """Return the definitions of all tools, as they go into a request to a model.

        A QueryError if the style is unknown; a ValueError if two tools share a name.
        """
        keys = {"openai": "parameters", "anthropic": "input_schema"}
        if style not in tuple(keys):
            raise QueryError(f"style is {style!r}; use 'openai' or 'anthropic'.")
        specs: list[JsonObject] = []
        for tool in self.tools():
            spec: JsonObject = {"name": tool.name, "description": tool.description}
            spec[keys[style]] = arguments_schema(tool.arguments)
            specs.append(spec if style == "anthropic" else {"type": "function", "function": spec})
        return specs

    def call(self, name: str, arguments: Arguments = None) -> ToolAnswer:
        """Call a tool as a model asks for it; returns valid JSON, whatever the model sends."""
        outcome = self.begin(name, arguments).outcome
        return self.finish(name, outcome, outcome.run) if isinstance(outcome, Deferred) else outcome

    def result(self, name: str, arguments: Arguments = None) -> Json:
        """Call a tool, and return its result or ``{"error": ...}``, as frameworks want it."""
        answer = self.call(name, arguments)
        return answer.get("result", answer)

    def begin(self, name: str, arguments: Arguments = None) -> Begun:
        """Call a tool as `call` does, but return slow work instead of doing it, for `finish`."""
        tool: Tool | None = None

        def begin() -> ToolAnswer | Deferred:
            nonlocal tool
            with self._lock:
                tools = self.tools()
                tool = next((tool for tool in tools if tool.name == name), None)
                if tool is None:
                    return _unknown_tool(name, tools)
                try:
                    values = checked(tool.arguments, arguments)
                except ValueError as error:
                    message = f"{tool.name} cannot use these arguments."
                    next_step = "Call it again with arguments that fit its definition."
                    problems = [str(error)]
                    if isinstance(error, ValidationError):
                        problems = problems_of(error)
                    return failure("invalid-arguments", message, next_step, {"problems": problems})
                result = tool.function(values)
                return result if isinstance(result, Deferred) else _answer(result)

        outcome = self._guarded(name, begin)
        return Begun(tool, outcome)

    def finish(self, name: str, work: Deferred, run: Callable[[], Any]) -> ToolAnswer:
        """Answer a call of which `begin` returned slow work; `run` does it, or gets it done."""

        def finish() -> ToolAnswer:
            value = run()
            with self._lock:
                return _answer(work.finish(value))

        return self._guarded(name, finish)

    def _guarded(self, name: str, function: Callable[[], _T]) -> _T | ToolAnswer:
        """Call a function, and make an answer of whatever it raises: its host must go on."""

        def explain(error: Exception) -> ToolAnswer:
            if isinstance(error, SkillSearchError):
                return failure_of(error)
            if problem := machine_problem(error):
                return failure_of(StorageError(problem))
            logger.exception("The tool %.64s failed.", name)
            message = "Internal error; see the log of the host."
            return failure("internal", message, "Go on without it, or tell the user.")

        return answered(function, explain)


def _answer(result: Json) -> ToolAnswer:
    """Return the answer with a result, in which nothing is hidden, or raise if it is not JSON."""
    shown = all_visible(result)
    json.dumps(shown, allow_nan=False)
    return {"result": shown}


def _unknown_tool(name: object, tools: Sequence[Tool]) -> ToolAnswer:
    shown = one_line(str(name)[:MAX_NAME_CHARS])
    if need := dict(chain.from_iterable(tool.needs for tool in tools)).get(shown):
        return failure(need.code, need.message.format(tool=shown), need.next_step)
    names = [tool.name for tool in tools]
    near = difflib.get_close_matches(shown.lower(), names, n=_NEAREST_NAMES, cutoff=0.5)
    nearest = near or names[:_NEAREST_NAMES]
    message = f"There is no tool {shown!r}."
    return failure("unknown-tool", message, "Use one of `nearest`.", {"nearest": nearest})
