"""The folders that an index is made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skillsearch.errors import RootError
from skillsearch.skills.discovery import make_roots
from skillsearch.types import Diagnostic, Root


def resolve_roots(paths: Sequence[Path]) -> tuple[tuple[Root, ...], tuple[Diagnostic, ...]]:
    """Check the folders that are to be indexed.

    Args:
        paths: Folders, in the order of the user.

    Returns:
        The roots, and what is odd about them.

    Raises:
        RootError: When one is missing, no folder, or unreadable: an index that silently lacks all
            skills of a folder would be worse than none.
    """
    roots, diagnostics = make_roots(paths)
    for diagnostic in diagnostics:
        if diagnostic.severity == "error":
            raise RootError(f"{diagnostic.path}: {diagnostic.message} Nothing was changed.")
    return tuple(roots), tuple(diagnostics)
