"""A tool: a function that an agent may call, its arguments, and the words that describe it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from skillsearch.types import JsonValue

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What both OpenAI and Anthropic accept as the name of a function."""


class ToolArguments(BaseModel):
    """Arguments of a tool: an unknown one is an error, which the model is told of."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Deferred:
    """The answer of a tool that has something slow to do first.

    Attributes:
        run: The slow part, which needs nothing of the toolset: it may be done in any thread, while
            other tools are called.
        finish: Makes the result of what that returned; called as tools are, one after the other.
    """

    run: Callable[[], Any]
    finish: Callable[[Any], JsonValue]

    def outcome(self) -> Any:
        """Do the slow part.

        Returns:
            What it returned or raised, for `Toolset.finish`.
        """
        try:
            return self.run()
        except Exception as exc:  # noqa: BLE001 - raised again by who asked for it
            return exc


@dataclass(frozen=True, slots=True)
class Tool:
    """One function for agents.

    Attributes:
        name: What a model calls it by.
        description: When to use it, when not, and what to do next; all that a model knows of it.
        arguments: The model of its arguments.
        function: Takes the checked arguments, returns a JSON value, or how to come by it.
        read_only: False where a call changes something outside the caller's session.

    Raises:
        ValueError: When the name is one that a vendor of models would refuse.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    function: Callable[[Any], JsonValue | Deferred]
    read_only: bool = True

    def __post_init__(self) -> None:
        """Check the name."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}; use 1 to 64 of: letters, digits, '_', '-'")
