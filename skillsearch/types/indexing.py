"""Indexing as values: its progress, and its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeAlias

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.types.json_values import Record
from skillsearch.types.skills import Diagnostic

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the stage, how many are done, and of how many.

The stages are ``read``, ``embed``, ``compare``, ``search`` and, of a model, ``train``.
"""


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """Progress of an index: files read, and texts embedded; totals are 0 or a guess at first."""

    read: int = 0
    files: int = 0
    embedded: int = 0
    texts: int = 0
    seconds_left: float | None = None

    @property
    def share(self) -> float:
        """Share of the texts that are embedded, 0 to 1."""
        return self.embedded / self.texts if self.texts else 0.0

    @property
    def when(self) -> str:
        """When to search again, in words."""
        if self.seconds_left is None:
            return "in a minute"
        seconds = math.ceil(self.seconds_left) or 1
        return f"in about {seconds} s" if seconds < 120 else f"in about {seconds // 60} min"


@dataclass(frozen=True, slots=True)
class IndexReport(Record):
    """Result of one run of indexing.

    Attributes:
        indexed: Skills in the index now.
        embedded: Texts that had to be embedded; some of them `truncated` at the token limit.
        reused: Skills taken unchanged from the previous index.
        removed: Skills of the previous index that are gone.
        skipped: SKILL.md files that could not be indexed.
        diagnostics: Everything worth reporting, by path.
        generation: Name of the index generation that holds the result.
        healed: Files of the index that were damaged and rebuilt, by name.
        left: How many skills left the index with each root that it holds no longer, by path.
    """

    indexed: int
    embedded: int
    reused: int
    removed: int
    skipped: int
    truncated: int
    diagnostics: tuple[Diagnostic, ...]
    generation: str
    seconds: float
    healed: tuple[str, ...] = ()
    left: Mapping[str, int] = field(default_factory=dict)
