"""What a host is told of the calls of a session's tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from skillsearch.agents.session.types import StateDelta
from skillsearch.agents.tools.tool import Deferred, Tool
from skillsearch.types import JsonValue


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """The answer of a tool, and what it changed in the state of the session.

    Attributes:
        kind: The word by which trpc-agent-go knows it.
        tool: Name of the tool.
        skill: The skill that the call named, as it did; empty where the tool takes none.
        result: What the tool answered with.
        delta: What the call changed in the state; empty where it changed nothing.
    """

    kind: Literal["tool.response"]
    tool: str
    skill: str
    result: JsonValue
    delta: StateDelta


class Changes:
    """What calls change in a state: told one by one, and by call."""

    def __init__(
        self,
        on_delta: Callable[[StateDelta], None] | None,
        on_event: Callable[[ToolEvent], None] | None,
    ) -> None:
        """Take whom to tell.

        Args:
            on_delta: Called with each change.
            on_event: Called with each answer of an observed tool; a call that raised has none.
        """
        self._on_delta = on_delta
        self._on_event = on_event
        self._in_call = StateDelta()

    def tell(self, delta: StateDelta) -> StateDelta:
        """Tell a change, if it is any, and return it."""
        if delta and self._on_event:
            evicted = (*self._in_call.evicted, *delta.evicted)
            self._in_call = StateDelta({**self._in_call, **delta}, evicted)
        if delta and self._on_delta:
            self._on_delta(delta)
        return delta

    def observed(self, tool: Tool) -> Tool:
        """Return a tool whose answers are told as events; the same where nobody listens."""
        on_event = self._on_event
        if on_event is None:
            return tool

        def told(args: Any, make: Callable[[], JsonValue | Deferred]) -> JsonValue | Deferred:
            """Do a part of a call; when that is the last, tell what came of it."""
            self._in_call = StateDelta()
            result = make()
            if isinstance(result, Deferred):
                finish = result.finish
                return replace(result, finish=lambda got: told(args, lambda: finish(got)))
            skill = getattr(args, "skill", "")
            on_event(ToolEvent("tool.response", tool.name, skill, result, self._in_call))
            return result

        return replace(tool, function=lambda args: told(args, lambda: tool.function(args)))
