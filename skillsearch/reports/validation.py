"""Skills held against the specification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.validator import FILE_NAMES, validate
from skillsearch.types import Diagnostic


def validate_paths(paths: Sequence[Path]) -> tuple[int, tuple[Diagnostic, ...]]:
    """Hold skills against the specification.

    Args:
        paths: Each a skill folder, a SKILL.md, or a folder with skills somewhere below it.

    Returns:
        How many skills were checked, and every problem found, in the order of the paths.
    """
    checked = 0
    found: list[Diagnostic] = []
    for path in paths:
        skills, problems = _skills_at(path)
        checked += len(skills)
        found += problems
        for skill in skills:
            found += validate(skill)
    return checked, tuple(found)


def count_severities(diagnostics: Iterable[Diagnostic]) -> dict[str, int]:
    """Count errors, warnings and notes.

    Args:
        diagnostics: What to count.

    Returns:
        The count of each severity, those without any included.
    """
    counts = Counter(diagnostic.severity for diagnostic in diagnostics)
    return {severity: counts[severity] for severity in ("error", "warning", "note")}


def _skills_at(path: Path) -> tuple[list[Path], list[Diagnostic]]:
    """Return the skills that a path means, and what is wrong on the way to them."""
    is_skill = any((path / name).exists() for name in FILE_NAMES)
    if is_skill or not path.is_dir():
        return [path], []
    roots, diagnostics = make_roots([path])
    discovery = discover(roots)
    found = [file.path.parent for file in discovery.files]
    problems = [*diagnostics, *discovery.diagnostics]
    return (found, problems) if found or problems else ([path], [])
