"""Several tools under one roof: their definitions for a model, and the edge they are called by."""

from __future__ import annotations

import difflib
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from skillsearch.agents.tools.failures import failure, failure_of, problems_of
from skillsearch.agents.tools.schemas import arguments_schema
from skillsearch.agents.tools.tool import Deferred, Tool
from skillsearch.errors import SkillSearchError
from skillsearch.text.safe_text import all_visible, one_line
from skillsearch.types import JsonValue

Style = Literal["openai", "anthropic"]
"""Whose form a definition has."""

MAX_ARGUMENTS_CHARS = 1 << 20
_MAX_NAME_CHARS = 64
_NEAREST_NAMES = 5
_RUNNING = {"skill_run": "skill_load", "run_skill_script": "read_skill_file"}
"""Tools that run commands of skills, there only if that is on, and a tool beside each."""
_READ_DEFINITION = "Call it again with arguments as its definition describes them."

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class Toolset:
    """Tools that belong together.

    Nothing is kept between calls, so that tools made on request are always those of now. Calls
    wait for each other: hosts that run several at a time in threads need no lock of their own.
    """

    def __init__(self, tools: Sequence[Tool] | Callable[[], Sequence[Tool]]) -> None:
        """Take tools, or what makes them.

        Args:
            tools: The tools; or a function, called at every use, that returns them.
        """
        self._tools = tools
        self._lock = threading.RLock()

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools as they are now.

        Returns:
            The tools, in their order.

        Raises:
            ValueError: When two have the same name.
        """
        with self._lock:
            tools = tuple(self._tools() if callable(self._tools) else self._tools)
        names = [tool.name for tool in tools]
        if len(set(names)) < len(names):
            raise ValueError(f"the tools are named {names}; give each a name of its own")
        return tools

    def specs(self, style: Style = "openai") -> list[dict[str, JsonValue]]:
        """Return the definitions of all tools, as they go into a request to a model.

        Args:
            style: Whose form.

        Returns:
            One definition a tool.

        Raises:
            ValueError: When the style is unknown, or two tools have the same name.
        """
        if style == "anthropic":
            return [_named(tool, "input_schema") for tool in self.tools()]
        if style == "openai":
            functions = [_named(tool, "parameters") for tool in self.tools()]
            return [{"type": "function", "function": function} for function in functions]
        raise ValueError(f"style is {style!r}; use 'openai' or 'anthropic'")

    def call(
        self, name: str, arguments: Mapping[str, JsonValue] | str | None = None
    ) -> dict[str, JsonValue]:
        """Call a tool as a model asks for it; nothing that the model sends raises.

        Args:
            name: Name of the tool.
            arguments: Its arguments, or their JSON text; None or empty text for none.

        Returns:
            ``{"result": ...}``, or ``{"error": {"code", "message", "next_step", ...}}``; always
            what JSON can hold.
        """
        begun = self.begin(name, arguments)
        return self.finish(name, begun, begun.outcome()) if isinstance(begun, Deferred) else begun

    def begin(
        self, name: str, arguments: Mapping[str, JsonValue] | str | None = None
    ) -> dict[str, JsonValue] | Deferred:
        """Call a tool as `call` does, but leave what is slow to the caller.

        Args:
            name: Name of the tool.
            arguments: As in `call`.

        Returns:
            The answer as of `call`; or what is to be done before `finish` gives it.
        """
        return self._guarded(name, lambda: self._begin(name, arguments))

    def finish(self, name: str, begun: Deferred, outcome: Any) -> dict[str, JsonValue]:
        """Answer a call whose slow part was done.

        Args:
            name: Name of the tool.
            begun: What `begin` returned.
            outcome: What its `Deferred.outcome` returned.

        Returns:
            The answer as of `call`.
        """

        def finish() -> dict[str, JsonValue]:
            """Make the result, or raise what stands in its way."""
            if isinstance(outcome, Exception):
                raise outcome
            return _checked(begun.finish(outcome))

        return self._guarded(name, finish)

    def _guarded(self, name: str, function: Callable[[], _T]) -> _T | dict[str, JsonValue]:
        """Do one thing after the other, and turn what it raises into an answer."""
        try:
            with self._lock:
                return function()
        except SkillSearchError as error:
            return failure_of(error)
        except Exception:  # the edge: a model's call must not end its host
            logger.exception("The tool %.64s failed.", name)
            message = "The tool failed for a reason that is none of yours; it was logged."
            return failure("internal", message, "Go on without it, or tell the user.")

    def _begin(
        self, name: str, arguments: Mapping[str, JsonValue] | str | None
    ) -> dict[str, JsonValue] | Deferred:
        """Find the tool, check its arguments and call it."""
        tools = {tool.name: tool for tool in self.tools()}
        tool = tools.get(name) if isinstance(name, str) else None
        if tool is None:
            return _unknown_tool(name, list(tools))
        try:
            checked = tool.arguments.model_validate(_parsed(arguments))
        except _UnreadableError as error:
            return _invalid(tool, [str(error)])
        except ValidationError as error:
            return _invalid(tool, problems_of(error))
        result = tool.function(checked)
        return result if isinstance(result, Deferred) else _checked(result)


class _UnreadableError(Exception):
    """The arguments of a call are no JSON object."""


def _checked(result: JsonValue) -> dict[str, JsonValue]:
    """Return the answer with a result, which JSON must be able to hold; nothing in it is hidden."""
    shown = all_visible(result)
    json.dumps(shown, allow_nan=False, ensure_ascii=False)
    return {"result": shown}


def _named(tool: Tool, schema_key: str) -> dict[str, JsonValue]:
    """Return name, description and schema of a tool."""
    schema = arguments_schema(tool.arguments)
    return {"name": tool.name, "description": tool.description, schema_key: schema}


def _parsed(arguments: Mapping[str, JsonValue] | str | None) -> Any:
    """Return arguments as a mapping, where they are one."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, str | bytes):
        raise _UnreadableError(f"the arguments are no object but {type(arguments).__name__}")
    if len(arguments) > MAX_ARGUMENTS_CHARS:
        raise _UnreadableError(f"the arguments have more than {MAX_ARGUMENTS_CHARS:,} characters")
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise _UnreadableError(f"the arguments are no JSON: {error}") from error
    if not isinstance(value, dict):
        raise _UnreadableError("the arguments are JSON, but no object")
    return value


def _unknown_tool(name: object, names: list[str]) -> dict[str, JsonValue]:
    """Return the answer to a call of a tool that is not there."""
    asked = one_line(str(name)[:_MAX_NAME_CHARS])
    if _RUNNING.get(asked) in names:
        return failure(
            "running-is-off",
            f"{asked} is off: commands of skills are not run here.",
            "Go on without. To turn it on, the user starts `skillsearch mcp --allow-run`, or gives"
            " the toolset a SkillRunner.",
        )
    near = difflib.get_close_matches(asked.lower(), names, n=_NEAREST_NAMES, cutoff=0.5)
    near = near or names[:_NEAREST_NAMES]
    return failure(
        "unknown-tool", f"There is no tool {asked!r}.", "Use one of `nearest`.", nearest=near
    )


def _invalid(tool: Tool, problems: list[str]) -> dict[str, JsonValue]:
    """Return the answer to a call with arguments that a tool cannot use."""
    message = f"{tool.name} cannot use these arguments."
    return failure("invalid-arguments", message, _READ_DEFINITION, problems=problems)
