"""Versions of skills, and constraints on them: PEP 440, with what authors bring from npm.

`packaging` is imported when the first version is read; a name without one never loads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from skillsearch.errors import VersionConstraintError

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

MAX_VERSION_CHARS = 100
MAX_CONSTRAINT_CHARS = 200

_ANY = frozenset({"", "*", "x", "any", "latest"})
_SEPARATORS = ", \t\n"
_CLAUSE = re.compile(r"(~=|==|!=|<=|>=|[\^~<>=])?\s*[vV]?([0-9][^\s,<>=!~^]*)")
_WILDCARDS = re.compile(r"(?:\.[xX*])+$")


def parse_version(text: str) -> Version | None:
    """Read a version by PEP 440, or return None where it cannot be read.

    ``v1``, ``2.0-beta`` and ``2025.01`` are versions; ``2.7.6-canary.3`` is none.
    """
    from packaging.version import InvalidVersion, Version

    if len(text) > MAX_VERSION_CHARS:
        return None
    try:
        return Version(text)
    except InvalidVersion:
        return None


def normal_constraint(text: str) -> str:
    """Write a constraint as a specifier set of PEP 440, the clauses in the order given.

    A bare ``1.2`` means that version alone, so 1.2.0 but not 1.2.5; ``1.x`` is ``==1.*``. The
    caret and the tilde of npm become ranges: ``^1.2`` is ``>=1.2,<2``, ``^0.2.3`` is
    ``>=0.2.3,<0.3``, ``~1.2.3`` is ``>=1.2.3,<1.3``. Blanks part clauses as commas do.

    Args:
        text: The constraint as written.

    Returns:
        The regular form; empty where every version will do, as for ``*`` and ``latest``.

    Raises:
        VersionConstraintError: When it cannot be read.
    """
    if text.strip(_SEPARATORS).lower() in _ANY:
        return ""
    if len(text) > MAX_CONSTRAINT_CHARS or _CLAUSE.sub("", text).strip(_SEPARATORS):
        raise VersionConstraintError(text)
    try:
        normal = ",".join(_clause(match[1] or "==", match[2]) for match in _CLAUSE.finditer(text))
        _specifiers(normal)
    except ValueError as exc:
        raise VersionConstraintError(text) from exc
    return normal


def satisfies(version: str, constraint: str) -> bool:
    """Say whether a version satisfies a constraint.

    One that cannot be read satisfies only the empty constraint. A prerelease satisfies a
    constraint only where that names a prerelease itself.

    Args:
        version: The version as written.
        constraint: The constraint, in any form that `normal_constraint` takes.

    Returns:
        Whether it does.

    Raises:
        VersionConstraintError: When the constraint cannot be read.
    """
    normal = normal_constraint(constraint)
    if not normal:
        return True
    parsed = parse_version(version)
    if parsed is None:
        return False
    specifiers = _specifiers(normal)
    return specifiers.contains(parsed, prereleases=bool(specifiers.prereleases))


def newest(versions: Sequence[str]) -> int | None:
    """Return the place of the newest version: of the newest release, where there is any.

    Args:
        versions: Versions as written.

    Returns:
        The place, or None where one of them cannot be read or two are the newest.
    """
    keys = []
    for text in versions:
        version = parse_version(text)
        if version is None:
            return None
        keys.append((not version.is_prerelease, version))
    best = max(keys, default=None)
    return keys.index(best) if best is not None and keys.count(best) == 1 else None


def split_requirement(text: str) -> tuple[str, str]:
    """Split ``name@constraint`` at its last ``@``; one at the start belongs to the name.

    Args:
        text: A name, qualified or not, with or without a constraint.

    Returns:
        The name, and the constraint as written or empty.
    """
    at = text.rfind("@")
    return (text[:at].strip(), text[at + 1 :].strip()) if at > 0 else (text, "")


def _clause(operator: str, version: str) -> str:
    """Return one clause in the regular form."""
    version = _WILDCARDS.sub(".*", version)
    if operator in ("^", "~"):
        return _range(operator, version.removesuffix(".*"))
    return f"{'==' if operator == '=' else operator}{version}"


def _range(operator: str, version: str) -> str:
    """Return the range that npm's caret or tilde means.

    See https://github.com/npm/node-semver#advanced-range-syntax.
    """
    from packaging.version import Version

    release = Version(version).release
    last = len(release) - 1
    if operator == "~":
        place = min(1, last)
    else:
        place = next((place for place, number in enumerate(release) if number), last)
    upper = ".".join(map(str, (*release[:place], release[place] + 1)))
    return f">={version},<{upper}"


@lru_cache(maxsize=256)
def _specifiers(constraint: str) -> SpecifierSet:
    """Read a constraint in the regular form; a ``ValueError`` where it has another."""
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(constraint)
