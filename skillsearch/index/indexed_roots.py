"""The folders that an index is made of."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from skillsearch.errors import RootError
from skillsearch.roots.sources import is_bundle, place_of, shown, source_of
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


def join_roots(*groups: Iterable[Path | str]) -> tuple[Path | str, ...]:
    """Join lists of roots: one that is named twice, whatever the spelling, keeps its first place.

    Args:
        *groups: Roots, in order of precedence.

    Returns:
        The roots as they were first named.
    """
    found: dict[str, Path | str] = {}
    for root in chain.from_iterable(groups):
        found.setdefault(os.path.realpath(place_of(root)), root)
    return tuple(found.values())


def usable_roots(roots: Iterable[Path | str]) -> list[Path | str]:
    """Return those roots that can be indexed; archives and URLs are not looked at."""
    return [root for root in roots if is_bundle(root) or make_roots([place_of(root)])[0]]


def replace_command(roots: Iterable[Path | str], option: str = "") -> str:
    """Return the command after which an index holds exactly some roots.

    Args:
        roots: The roots; the command asks for one if there is none.
        option: What else the command needs, with a blank before it.

    Returns:
        The command, as it is typed; without the passwords and keys of URLs.
    """
    names = " ".join(shlex.quote(shown(source_of(root))) for root in roots)
    return f"skillsearch index --replace {names or 'FOLDER'}{option}"
