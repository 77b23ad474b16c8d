"""Ordering and counting what a run reports; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from skillsearch.types import Diagnostic


def in_order(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sort diagnostics by path and drop duplicates."""
    return tuple(
        sorted(set(found), key=lambda item: (item.path, item.line or 0, item.code, item.message))
    )


def count_skipped(diagnostics: Sequence[Diagnostic]) -> int:
    """Count the SKILL.md files that could not be indexed."""
    errors = {d.path for d in diagnostics if d.severity == "error"}
    return sum(Path(path).name.casefold() == "skill.md" for path in errors)
