"""A tool, its schema, and sets of tools: their definitions and the safe edge that calls them."""

from __future__ import annotations

import copy
import difflib
import json
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from skillsearch.agents.tools.failures import failure, failure_of, problems_of
from skillsearch.errors import SkillSearchError
from skillsearch.text.safe_text import all_visible, one_line
from skillsearch.types import JsonValue

Style = Literal["openai", "anthropic"]
"""The vendor whose format a definition has."""
Arguments = Mapping[str, JsonValue] | str | None
"""Arguments of a call, or their JSON text; None or blank text for none."""
Answer = dict[str, JsonValue]
"""``{"result": ...}``, or ``{"error": {"code", "message", "next_step", ...}}``."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Function names that both OpenAI and Anthropic accept."""
_UNREAD = frozenset({"maxLength", "minLength", "title"})
_SCHEMA_MAPS = ("properties", "patternProperties")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = ("additionalProperties", "items", "contains", "propertyNames")
_NULL = {"type": "null"}

MAX_ARGUMENTS_CHARS = 1 << 20
_MAX_NAME_CHARS = 64
_NEAREST_NAMES = 5
_RUNNING = {"skill_run": "skill_load", "run_skill_script": "read_skill_file"}
"""Tools that exist only if running commands is on, each with one of the same toolset."""

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class ToolArguments(BaseModel):
    """Arguments of a tool; an unknown argument is an error that the model is told about."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ToolResult(BaseModel):
    """Result of a tool that may fail by design: its output, or an error for the model to read."""

    model_config = ConfigDict(frozen=True)

    success: bool
    output: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """The answer of a tool that has slow work to do first.

    `run` does not touch the toolset, so it may run in any thread while other tools are called.
    `finish` turns its outcome into the result, and is called in turn, like any tool.
    """

    run: Callable[[], Any]
    finish: Callable[[Any], JsonValue]

    def outcome(self) -> Any:
        """Do the slow part and return its value or its exception, for `Toolset.finish`."""
        try:
            return self.run()
        except Exception as exc:  # noqa: BLE001 - Toolset.finish raises it again
            return exc


@dataclass(frozen=True, slots=True)
class Tool:
    """One function for agents.

    Attributes:
        name: The name that a model calls it by.
        description: When to use it, when not, and what to do next; all that a model knows of it.
        arguments: The model of its arguments, from which its schema follows.
        function: Takes the validated arguments; returns a JSON value, or a `Deferred` one.
        read_only: False if a call changes anything outside the caller's session.

    Raises:
        ValueError: A model vendor would refuse the name.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    function: Callable[[Any], JsonValue | Deferred]
    read_only: bool = True

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}; use 1 to 64 of: letters, digits, '_', '-'")


class Toolset:
    """Tools that belong together.

    Nothing is cached between calls, so tools made by a function are always up to date. Calls take
    turns, so a host that calls from several threads needs no lock.
    """

    def __init__(self, tools: Sequence[Tool] | Callable[[], Sequence[Tool]]) -> None:
        """Take the tools, or a function that returns them and is called at every use."""
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

    def specs(self, style: Style = "openai") -> list[dict[str, JsonValue]]:
        """Return the definitions of all tools, as they go into a request to a model.

        An unknown style is a `ValueError`.
        """
        if style == "anthropic":
            return [_spec(tool, "input_schema") for tool in self.tools()]
        if style == "openai":
            functions = [_spec(tool, "parameters") for tool in self.tools()]
            return [{"type": "function", "function": function} for function in functions]
        raise ValueError(f"style is {style!r}; use 'openai' or 'anthropic'")

    def call(self, name: str, arguments: Arguments = None) -> Answer:
        """Call a tool as a model asks for it; nothing that the model sends raises.

        The answer is always valid JSON.
        """
        begun = self.begin(name, arguments)
        return self.finish(name, begun, begun.outcome()) if isinstance(begun, Deferred) else begun

    def begin(self, name: str, arguments: Arguments = None) -> Answer | Deferred:
        """Call a tool as `call` does, but return slow work instead of doing it, for `finish`."""
        return self._guarded(name, lambda: self._begin(name, arguments))

    def finish(self, name: str, begun: Deferred, outcome: Any) -> Answer:
        """Answer a call of which `begin` returned slow work, given `Deferred.outcome` of it."""

        def result() -> Answer:
            if isinstance(outcome, Exception):
                raise outcome
            return _result(begun.finish(outcome))

        return self._guarded(name, result)

    def _guarded(self, name: str, function: Callable[[], _T]) -> _T | Answer:
        """Call a function in turn, and make an answer of whatever it raises."""
        try:
            with self._lock:
                return function()
        except SkillSearchError as error:
            return failure_of(error)
        except Exception:  # the edge: a model's call must not end its host
            logger.exception("The tool %.64s failed.", name)
            message = "Internal error; see the log of the host."
            return failure("internal", message, "Go on without it, or tell the user.")

    def _begin(self, name: str, arguments: Arguments) -> Answer | Deferred:
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
        return result if isinstance(result, Deferred) else _result(result)


def with_names(arguments: type[BaseModel], names: Sequence[str] | None) -> type[BaseModel]:
    """Give the argument ``skill`` an enum of names, unless there are none or, with None, too many.

    It is shown but not enforced: tools accept more than these names, and suggest near ones.
    """
    if not names:
        return arguments
    skill = copy.copy(arguments.model_fields["skill"])
    skill.json_schema_extra = {"enum": list(names)}
    return create_model(
        arguments.__name__, __base__=arguments, skill=(skill.annotation or str, skill)
    )


def arguments_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, in the plain form that every vendor accepts.

    Titles and length limits are dropped (the limits still hold), definitions are inlined unless
    they are recursive, objects allow no additional properties, and "X or null" becomes one type
    with two names.
    """
    raw = arguments.model_json_schema()
    plain = _Plain(raw.pop("$defs", {}))
    schema = plain.schema(raw)
    schema.pop("description", None)  # the docstring of the class, written for programmers
    if plain.recursive:
        definitions = sorted(plain.recursive)
        schema["$defs"] = {n: plain.schema(plain.definitions[n], (n,)) for n in definitions}
    return schema


class _Plain:
    """Rewrites schemas in plain form; notes the definitions that contain themselves."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self.definitions = definitions
        self.recursive: set[str] = set()

    def schema(self, schema: Mapping[str, Any], within: tuple[str, ...] = ()) -> dict[str, Any]:
        """Rewrite a schema that stands within some definitions."""
        plain = {key: value for key, value in schema.items() if key not in _UNREAD}
        if "$ref" in plain:
            return self._inlined(plain, within)

        def inner(value: Any) -> Any:
            return self.schema(value, within) if isinstance(value, dict) else value

        for key, value in plain.items():
            if key in _SCHEMA_MAPS:
                plain[key] = {name: inner(each) for name, each in value.items()}
            elif key in _SCHEMA_LISTS:
                plain[key] = [inner(each) for each in value]
            elif key in _SCHEMAS:
                plain[key] = inner(value)
        if "properties" in plain:
            plain.setdefault("additionalProperties", False)
        return _nullable(plain)

    def _inlined(self, schema: dict[str, Any], within: tuple[str, ...]) -> dict[str, Any]:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        if name in within or name in self.recursive:
            self.recursive.add(name)
            return schema
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return {**self.schema(self.definitions[name], (*within, name)), **beside}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Write "X or null" as one type with two names, if X has a type."""
    options = schema.get("anyOf", [])
    others = [option for option in options if option != _NULL]
    if len(others) != 1 or len(options) != 2 or not isinstance(others[0].get("type"), str):
        return schema
    merged = {**others[0], **schema, "type": [others[0]["type"], "null"]}
    del merged["anyOf"]
    if "enum" in merged:
        merged["enum"] = [*merged["enum"], None]
    if merged.get("default", "") is None:
        del merged["default"]
    return merged


class _UnreadableError(Exception):
    """The arguments of a call are not a JSON object."""


def _result(result: JsonValue) -> Answer:
    """Return the answer with a result, in which nothing is hidden, or raise if it is not JSON."""
    shown = all_visible(result)
    json.dumps(shown, allow_nan=False, ensure_ascii=False)
    return {"result": shown}


def _spec(tool: Tool, schema_key: str) -> dict[str, JsonValue]:
    schema = arguments_schema(tool.arguments)
    return {"name": tool.name, "description": tool.description, schema_key: schema}


def _parsed(arguments: Arguments) -> Any:
    """Return arguments as a mapping; what a host passes may be anything."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, str | bytes):
        kind = type(arguments).__name__
        raise _UnreadableError(f"the arguments are not an object but {kind}")
    if len(arguments) > MAX_ARGUMENTS_CHARS:
        raise _UnreadableError(f"the arguments have more than {MAX_ARGUMENTS_CHARS:,} characters")
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise _UnreadableError(f"the arguments are not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise _UnreadableError("the arguments are JSON, but not an object")
    return value


def _unknown_tool(name: object, names: list[str]) -> Answer:
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
    message = f"There is no tool {asked!r}."
    return failure("unknown-tool", message, "Use one of `nearest`.", nearest=near)


def _invalid(tool: Tool, problems: list[str]) -> Answer:
    message = f"{tool.name} cannot use these arguments."
    next_step = "Call it again with arguments that fit its definition."
    return failure("invalid-arguments", message, next_step, problems=problems)
