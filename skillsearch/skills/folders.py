"""What the folders around a skill tell: it is thrown away, kept aside, or in another checkout.

Paths are those below a root, with ``/``.
"""

from __future__ import annotations

import re

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.hosts.table import hidden_folders
from skillsearch.skills.words import WORDS

_OF_COLLECTIONS = frozenset(WORDS["folders"]["of-collections"])
"""Hidden folders in which collections keep live skills, besides those of hosts."""
_OF_REPOSITORIES = frozenset({"packages", "plugins", "skills"})
"""Folders in which repositories keep their skills; they tell nothing of which one it is."""
_ASIDE = (
    r"trash(?:es)?|recycle|attic|back-?ups?|bak|old|orig|archived?s?|deleted|removed|deprecated"
)
_THROWN_AWAY = lazy_pattern(
    rf"\.(?:{_ASIDE}|disabled|history|snapshots?|stversions)(?:[-_. \d].*)?"
    r"|\$recycle\.bin|lost\+found"
    r"|.*(?:~|\.(?:back-?up|bak|old|orig|deleted|disabled)(?:[-_.~]?\d+)*)",
    re.IGNORECASE,
)
_KEPT_ASIDE = lazy_pattern(rf"_?(?:{_ASIDE})", re.IGNORECASE)
# Names that file managers give to copies; no skill's name has a blank.
_COPY = lazy_pattern(r".+ (?:(?:- )?copy(?: \(?\d+\)?)?|\(\d+\))", re.IGNORECASE)
_CHECKOUT = lazy_pattern(r"(?:^|.*/)\.?worktrees/[^/]+/?", re.IGNORECASE)
# A skill of another checkout comes after all that are kept aside in this one.
_ANOTHER_CHECKOUT = 64


def is_thrown_away(name: str) -> bool:
    """Return whether a folder of this name holds skills that were thrown away."""
    return _THROWN_AWAY.fullmatch(name) is not None


def is_in_trash(folder: str) -> bool:
    """Return whether a skill's folder lies below one named ``trash``."""
    return "trash" in folder.lower().split("/")[:-1]


def remoteness(folder: str) -> int:
    """Return how far a skill's folder is from the live skills of its root, 0 for a live one.

    It grows with each folder that is hidden, unless hosts look there, with each around it that has
    a name such as ``archive``, and with each that a file manager calls a copy; most of all in
    another checkout of the repository.
    """
    parts = folder.split("/")
    hidden = [part.lower() for part in parts if part.startswith(".")]
    live = _OF_COLLECTIONS | hidden_folders() if hidden else ()
    far = sum(part not in live for part in hidden)
    far += sum(_KEPT_ASIDE.fullmatch(part) is not None for part in parts[:-1])
    far += sum(_COPY.fullmatch(part) is not None for part in parts)
    far = min(far, _ANOTHER_CHECKOUT - 1)
    return far + _ANOTHER_CHECKOUT if _CHECKOUT.match(folder) else far


def in_checkout(folder: str) -> str:
    """Return a skill's folder as the checkout that it lies in names it."""
    return _CHECKOUT.sub("", folder, count=1)


def repository_of(doc_id: str) -> str:
    """Return the alias of a skill's root, with the first folder if that may be a repository.

    It may be one if the skill lies below it, and unless it is hidden or where one keeps its skills.
    """
    alias, _, folder = doc_id.partition(":")
    first, _, below = folder.partition("/")
    is_one = below and not first.startswith(".") and first.lower() not in _OF_REPOSITORIES
    return f"{alias}/{first}" if is_one else alias
