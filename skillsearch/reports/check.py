"""One thing that was looked at, and whether it works."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from skillsearch.types import JsonValue

Verdict = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What it is about.
        verdict: ok; warning: works, but look at it; error: does not work.
        detail: What was found, and where it is not ok, what to do.
    """

    name: str
    verdict: Verdict
    detail: str

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return asdict(self)
