"""The JSON Schemas of what tools take, in the plain form that every vendor accepts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, create_model

_UNREAD = frozenset({"maxLength", "minLength", "title"})
_MAPS_OF_SCHEMAS = frozenset({"properties", "patternProperties"})
_SCHEMAS = frozenset(
    "additionalProperties allOf anyOf contains items oneOf prefixItems propertyNames".split()
)
_NULL = {"type": "null"}

_Arguments = TypeVar("_Arguments", bound=BaseModel)


def with_names(arguments: type[_Arguments], names: Sequence[str] | None) -> type[_Arguments]:
    """Show an enum of names for the argument ``skill``, unless there are none, or None."""
    if not names:
        return arguments
    skill = copy.copy(arguments.model_fields["skill"])
    skill.json_schema_extra = {"enum": list(names)}
    return create_model(arguments.__name__, __base__=arguments, skill=(str, skill))


def arguments_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, in the plain form that every vendor accepts.

    Titles and length limits are dropped (the limits still hold), definitions are inlined unless
    they are recursive, and "X or null" becomes one type with two names.
    """
    raw = arguments.model_json_schema()
    definitions = raw.pop("$defs", {})
    recursive: set[str] = set()

    def plain(value: Any, within: tuple[str, ...] = ()) -> Any:
        """Rewrite a schema, or a list of them, that stands within some definitions."""
        if isinstance(value, list):
            return [plain(each, within) for each in value]
        if not isinstance(value, dict):
            return value
        schema = {key: each for key, each in value.items() if key not in _UNREAD}
        if "$ref" in schema:
            name = str(schema["$ref"]).removeprefix("#/$defs/")
            recursive.update({name}.intersection(within))
            if name in recursive:
                return schema
            del schema["$ref"]
            return plain(definitions[name], (*within, name)) | schema
        for key in _SCHEMAS.intersection(schema):
            schema[key] = plain(schema[key], within)
        for key in _MAPS_OF_SCHEMAS.intersection(schema):
            schema[key] = {name: plain(each, within) for name, each in schema[key].items()}
        return _strict(schema)

    schema: dict[str, Any] = plain(raw)
    schema.pop("description", None)  # the docstring of the class, written for programmers
    if recursive:
        schema["$defs"] = {name: plain(definitions[name], (name,)) for name in sorted(recursive)}
    return schema


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Allow no additional properties; write "X or null" as one type with two names."""
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    if schema.get("propertyNames") == {}:  # of which only a limit of length was said
        del schema["propertyNames"]
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
