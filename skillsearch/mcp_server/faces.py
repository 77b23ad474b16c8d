"""How a client sees the results of a tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Face:
    """How a client sees the results of a tool.

    Attributes:
        structured: Makes a result the object that structured content has to be.
        text: Says the same to a model that reads text alone.
    """

    structured: Callable[[Any], Record]
    text: Callable[[Record], str]
