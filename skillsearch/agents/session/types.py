"""What a session takes and gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

Lifetime = Literal["turn", "once", "session"]
"""turn: until the next turn begins; once: until the next model request is done; session: stays."""
LIFETIMES: tuple[Lifetime, ...] = get_args(Lifetime)

SelectMode = Literal["add", "replace", "clear"]
"""How named documents change a selection; clear empties it, whatever is named."""


class StateDelta(dict[str, str | None]):
    """What a call changed in the state: key to new value, None where the key is gone.

    A call without effect gives an empty one.

    Args:
        changes: The keys and values.
        evicted: Skills that had to go to make room, least recently touched first.

    Attributes:
        evicted: The same, as a tuple.
    """

    def __init__(
        self, changes: Mapping[str, str | None] | None = None, evicted: Iterable[str] = ()
    ) -> None:
        super().__init__(changes or {})
        self.evicted = tuple(evicted)


@dataclass(frozen=True, slots=True)
class DocSelection:
    """The selected documents of a skill.

    Attributes:
        names: The documents in the order of their selection; empty where all are selected.
        include_all: True where every document of the skill is selected.
        mode: How the selection was made; None where it was only read.
        delta: What making it changed in the state.
    """

    names: tuple[str, ...] = ()
    include_all: bool = False
    mode: SelectMode | None = None
    delta: StateDelta = field(default_factory=StateDelta, compare=False)


@dataclass(frozen=True, slots=True)
class LoadedEntry:
    """One loaded skill.

    Attributes:
        name: The skill, as its caller named it.
        since: When it was loaded, in UTC; None where the state does not tell.
        docs: Its selected documents; empty where all are selected.
        include_all_docs: True where all its documents are selected.
        chunks: Ids of its activated chunks, in the order of their activation.
    """

    name: str
    since: datetime | None
    docs: tuple[str, ...]
    include_all_docs: bool
    chunks: tuple[str, ...]
