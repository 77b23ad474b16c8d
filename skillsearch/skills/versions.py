"""Versions of skills and constraints on them: PEP 440, plus what authors bring from npm.

`packaging` is imported when the first version is read.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from skillsearch.errors import VersionConstraintError
from skillsearch.fast_start.patterns import lazy_pattern

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

MAX_VERSION_CHARS = 100
MAX_CONSTRAINT_CHARS = 200

_ANY = frozenset({"", "*", "x", "any", "latest"})
_SEPARATORS = ", \t\n"
_CLAUSE = lazy_pattern(r"(~=|==|!=|<=|>=|[\^~<>=])?\s*[vV]?([0-9][^\s,<>=!~^]*)")
_WILDCARDS = lazy_pattern(r"(?:\.[xX*])+$")


def parse_version(text: str) -> Version | None:
    """Parse a version by PEP 440, such as ``v1`` or ``2.0-beta``; None if it is not one."""
    from packaging.version import InvalidVersion, Version

    with suppress(InvalidVersion):
        return Version(text) if len(text) <= MAX_VERSION_CHARS else None
    return None


def normal_constraint(text: str) -> str:
    """Return a constraint as a PEP 440 specifier set, or raise `VersionConstraintError`.

    A bare ``1.2`` means that version alone (1.2.0, not 1.2.5); ``1.x`` is ``==1.*``. npm's caret
    and tilde become ranges: ``^0.2.3`` is ``>=0.2.3,<0.3``. Blanks separate clauses as commas do.
    The result is empty if any version will do, as for ``*`` and ``latest``.
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
    """Return whether a version satisfies a constraint in any form that `normal_constraint` takes.

    A version that cannot be parsed satisfies only the empty constraint. A prerelease satisfies a
    constraint only if the constraint names a prerelease itself.
    """
    normal = normal_constraint(constraint)
    if not normal:
        return True
    parsed, specifiers = parse_version(version), _specifiers(normal)
    is_early = bool(specifiers.prereleases)
    return parsed is not None and specifiers.contains(parsed, prereleases=is_early)


def release_order(text: str) -> tuple[bool, Version] | None:
    """Return a key that orders versions, releases last; None if it is not one."""
    version = parse_version(text)
    return None if version is None else (not version.is_prerelease, version)


def split_requirement(text: str) -> tuple[str, str]:
    """Split ``name@constraint`` at its last ``@``; an ``@`` at the start belongs to the name."""
    at = text.rfind("@")
    return (text[:at].strip(), text[at + 1 :].strip()) if at > 0 else (text, "")


def _clause(operator: str, version: str) -> str:
    # See https://github.com/npm/node-semver#advanced-range-syntax.
    from packaging.version import Version

    version = _WILDCARDS.sub(".*", version)
    if operator not in ("^", "~"):
        return f"{'==' if operator == '=' else operator}{version}"
    version = version.removesuffix(".*")
    release = Version(version).release
    last = len(release) - 1
    position = next((position for position, number in enumerate(release) if number), last)
    if operator == "~":
        position = min(1, last)
    upper = ".".join(map(str, (*release[:position], release[position] + 1)))
    return f">={version},<{upper}"


@lru_cache(maxsize=256)
def _specifiers(constraint: str) -> SpecifierSet:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(constraint)
