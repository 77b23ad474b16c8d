"""The skills that a skill needs, in the many ways that a frontmatter can name them.

Only keys that speak of skills count: ``dependencies`` and ``requires`` alone are packages, programs
and servers in real skills, and ``related-skills`` is a hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from skillsearch.errors import VersionConstraintError
from skillsearch.skills.frontmatter import Finding
from skillsearch.skills.versions import normal_constraint, split_requirement
from skillsearch.text.safe_text import one_line
from skillsearch.types import JsonValue

MAX_REQUIREMENTS = 100
MAX_REQUIREMENT_CHARS = 200

_KEYS = (
    "requiresskills",
    "requiredskills",
    "dependsonskills",
    "prerequisiteskills",
    "skilldependencies",
)
_GROUPS = ("requires", "dependencies")
"""Mappings that name skills under ``skills``, beside tools and packages."""
_NAME_KEYS = ("name", "skill", "id")
_VERSION_KEYS = ("version", "constraint")
_OPERATOR = re.compile(r"[<>=~^]|!=")


def regular_requirements(
    levels: Iterable[Mapping[str, JsonValue]],
) -> tuple[tuple[str, ...], list[Finding]]:
    """Return the skills that a frontmatter declares as needed, and what is odd about them.

    Args:
        levels: Fields at the top and in ``metadata``, under names in lowercase without hyphens
            and underscores.

    Returns:
        Each as ``name`` or ``name@constraint``, once, in the order written; and the findings.
    """
    requirements: dict[str, None] = {}
    findings: list[Finding] = []
    declared = (text for fields in levels for value in _declared(fields) for text in _texts(value))
    for place, text in enumerate(_joined(declared)):
        if place == MAX_REQUIREMENTS:
            findings.append(_invalid(f"Only the first {MAX_REQUIREMENTS} needed skills count."))
            break
        name, constraint = _split(text)
        try:
            constraint = normal_constraint(constraint)
        except VersionConstraintError as error:
            shown = name[:MAX_REQUIREMENT_CHARS]
            findings.append(_invalid(f"{error} Any version of the needed skill {shown!r} will do."))
            constraint = ""
        requirement = f"{name}@{constraint}" if constraint else name
        if _is_name(name, requirement) and len(requirement) <= MAX_REQUIREMENT_CHARS:
            requirements[requirement] = None
        else:
            message = f"The needed skill {text[:MAX_REQUIREMENT_CHARS]!r} has no name that can be "
            findings.append(_invalid(f"{message}used; write it as name or name@constraint."))
    return tuple(requirements), findings


def _is_name(name: str, requirement: str) -> bool:
    """Say whether the name of a requirement can be told from its constraint."""
    return bool(name) and not _OPERATOR.search(name) and split_requirement(requirement)[0] == name


def _invalid(message: str) -> Finding:
    """Return a finding about a requirement."""
    return Finding("requirement-invalid", message)


def _declared(fields: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    """Yield the values that name needed skills."""
    for key in _KEYS:
        if key in fields:
            yield fields[key]
    for key in _GROUPS:
        if isinstance(fields.get(key), dict):
            yield fields[key].get("skills")


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield the needed skills of a value, each as ``name`` or ``name@constraint``."""
    if isinstance(value, dict):
        yield from _of_mapping(value)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item) if isinstance(item, (list, dict)) else _plain(item)
    else:
        for text in _plain(value):
            yield from re.split(r"[,;\n]", text.strip().strip("[]"))


def _of_mapping(value: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the one skill that a mapping describes, or all that are its keys."""
    name = next((value[key] for key in _NAME_KEYS if value.get(key)), None)
    if isinstance(name, str):
        value = {name: value}
    for key, version in value.items():
        if version is not False and not _is_optional(version):
            yield f"{key}@{_version(version)}"


def _is_optional(value: JsonValue) -> bool:
    """Say whether the description of a skill says that it can be done without."""
    return isinstance(value, dict) and (
        value.get("optional") is True or value.get("required") is False
    )


def _version(value: JsonValue) -> str:
    """Return the constraint in what is said of a skill, empty where there is none."""
    if isinstance(value, dict):
        value = next((value[key] for key in _VERSION_KEYS if key in value), None)
    items = value if isinstance(value, list) else [value]
    return ",".join(text for item in items for text in _plain(item))


def _plain(value: JsonValue) -> Iterator[str]:
    """Yield a text or number as text, and nothing of another value."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)


def _joined(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts cleaned; a comma of ``>=1,<2`` parted what belongs together."""
    requirement = ""
    for text in texts:
        text = one_line(text).strip("\"' ")
        if requirement and _OPERATOR.match(text):
            requirement += f",{text}"
        elif text:
            if requirement:
                yield requirement
            requirement = text
    if requirement:
        yield requirement


def _split(text: str) -> tuple[str, str]:
    """Return the name and the constraint of ``name@constraint``, ``name>=1`` or ``name (>=1)``."""
    name, constraint = split_requirement(text.rstrip("@ "))
    operator = None if constraint else _OPERATOR.search(name)
    if operator is None:
        return name, constraint
    return name[: operator.start()].rstrip(" ,(@"), name[operator.start() :].rstrip(") ")
