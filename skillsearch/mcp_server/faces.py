"""How a client sees the results of a tool, and the schemas that say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]

TEXT: Record = {"type": "string"}
WHOLE: Record = {"type": "integer"}
SWITCH: Record = {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Face:
    """How a client sees the results of a tool.

    Attributes:
        output_schema: The JSON Schema of its structured content.
        structured: Makes a result the object that structured content has to be.
        text: Says the same to a model that reads text alone.
    """

    output_schema: Record
    structured: Callable[[Any], Record]
    text: Callable[[Record], str]


def object_of(properties: Record, *optional: str) -> Record:
    """Return the schema of an object all of whose properties but some are there."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def list_of(schema: Record) -> Record:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}
