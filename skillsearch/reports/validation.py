"""Checks skills, or all below a folder, against the specification."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skillsearch.index.indexing.reading import count_skipped
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.validator import FieldReaders, validate
from skillsearch.types.skills import SKILL_MD_NAMES, Diagnostic


def validate_paths(
    paths: Sequence[Path], readers: FieldReaders | None = None
) -> tuple[int, int, tuple[Diagnostic, ...]]:
    """Check skills, or all below a folder; return how many, how many are lost, and all problems.

    `readers` are as for `validate`.
    """
    checked = lost = 0
    problems: list[Diagnostic] = []
    for path in paths:
        skills, inside = [path], []
        if path.is_dir() and not any((path / name).exists() for name in SKILL_MD_NAMES):
            roots, of_roots = make_roots([path])
            discovery = discover(roots)
            met = [*of_roots, *discovery.diagnostics]
            # A folder without anything is checked as if it were a skill.
            if discovery.files or met:
                skills = [file.path.parent for file in discovery.files]
            problems += met
            lost += count_skipped(met)
            inside = [root.path for root in roots]
        checked += len(skills)
        for skill in skills:
            verdict = validate(skill, readers, inside)
            problems += verdict.problems
            lost += verdict.is_lost
    return checked, lost, tuple(problems)
