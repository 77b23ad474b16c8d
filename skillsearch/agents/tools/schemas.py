"""The JSON Schema of a tool's arguments, in the plain form that every vendor of models accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

_UNREAD = frozenset({"maxLength", "minLength", "title"})
_NAMED_SCHEMAS = ("properties", "patternProperties")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = ("additionalProperties", "items", "contains", "propertyNames")
_REFERENCE = "#/$defs/"
_NULL = {"type": "null"}


def arguments_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a model of arguments, without what no model reads.

    Titles and limits on lengths go (the limits still hold), definitions are written where they
    are used (a recursive one stays a definition), objects take no other properties than theirs,
    and "X or null" is one type with two names.

    Args:
        arguments: The model.

    Returns:
        A JSON Schema of an object.
    """
    raw = arguments.model_json_schema()
    definitions = raw.pop("$defs", {})
    recursive: set[str] = set()
    schema = _plain(raw, definitions, (), recursive)
    schema.pop("description", None)  # the docstring of the class, written for programmers
    if recursive:
        schema["$defs"] = {
            name: _plain(definitions[name], definitions, (name,), recursive)
            for name in sorted(recursive)
        }
    return schema


def _plain(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Any],
    within: tuple[str, ...],
    recursive: set[str],
) -> dict[str, Any]:
    """Return one schema in plain form; note the definitions that contain themselves."""
    plain = {key: value for key, value in schema.items() if key not in _UNREAD}
    if "$ref" in plain:
        return _inlined(plain, definitions, within, recursive)

    def inner(value: Any) -> Any:
        is_schema = isinstance(value, dict)
        return _plain(value, definitions, within, recursive) if is_schema else value

    for key in _NAMED_SCHEMAS:
        if key in plain:
            plain[key] = {name: inner(value) for name, value in plain[key].items()}
    for key in _SCHEMA_LISTS:
        if key in plain:
            plain[key] = [inner(value) for value in plain[key]]
    for key in _SCHEMAS:
        if key in plain:
            plain[key] = inner(plain[key])
    if "properties" in plain:
        plain.setdefault("additionalProperties", False)
    return _nullable(plain)


def _inlined(
    schema: dict[str, Any],
    definitions: Mapping[str, Any],
    within: tuple[str, ...],
    recursive: set[str],
) -> dict[str, Any]:
    """Return what a reference means, with what is said beside it."""
    name = str(schema["$ref"]).removeprefix(_REFERENCE)
    if name in within or name in recursive:
        recursive.add(name)
        return schema
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return {**_plain(definitions[name], definitions, (*within, name), recursive), **beside}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Write "X or null" as one type with two names, where X has a type."""
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
