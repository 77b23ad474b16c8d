"""What is asked of a tuning, and what it gives; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillsearch.training.measuring import Measured
from skillsearch.types import JsonValue, Languages


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is tuned, and how.

    Attributes:
        roots: Folders of skills.
        out: Folder of the model that is to be.
        model: What the model to begin with is loaded by.
        queries: Judged queries, as `read_judged` reads them; None without.
        minutes: How long it may take, about, measuring included.
        seed: Of all choices.
        teacher: What an embedder to learn from is loaded by; None without.
        languages: What the indexes to measure by are made for.
        keep: Whether to write the model even where it is not better.
    """

    roots: tuple[Path, ...]
    out: Path
    model: str = "onnx"
    queries: Path | None = None
    minutes: float = 20.0
    seed: int = 0
    teacher: str | None = None
    languages: Languages = "auto"
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a tuning gave.

    Attributes:
        is_better: Whether to use the model.
        folder: Folder of the model; None where none was written.
        skills: Skills that differ, each trained.
        judged: Judged queries that were trained.
        steps: Steps done.
        share: Share of the tuned weights in the model; 0 where the old ones were best already.
        measured: What was gained: on requests that were ``held_out``, and on ``judged`` queries
            that were not trained; empty where the old weights were best already.
        seconds: Wall time.
        notes: What a user should know besides, a line each.
    """

    is_better: bool
    folder: Path | None
    skills: int
    judged: int
    steps: int
    share: float
    measured: Mapping[str, Measured]
    seconds: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "better": self.is_better,
            "folder": None if self.folder is None else str(self.folder),
            "skills": self.skills,
            "judged": self.judged,
            "steps": self.steps,
            "share": self.share,
            "measured": {name: one.to_dict() for name, one in self.measured.items()},
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
        }
