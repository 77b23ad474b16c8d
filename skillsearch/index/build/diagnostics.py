"""What a run reports, put in order and counted; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from skillsearch.types import Diagnostic


def in_order(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sort diagnostics by path; what was reported twice counts once.

    Args:
        found: The diagnostics.

    Returns:
        They, in order: what discovery says of a file is also among what is taken over with it.
    """
    return tuple(
        sorted(set(found), key=lambda item: (item.path, item.line or 0, item.code, item.message))
    )


def count_skipped(diagnostics: Sequence[Diagnostic]) -> int:
    """Count the SKILL.md files that could not be indexed.

    Args:
        diagnostics: What was reported.

    Returns:
        How many of them have an error.
    """
    errors = {d.path for d in diagnostics if d.severity == "error"}
    return sum(Path(path).name.casefold() == "skill.md" for path in errors)
