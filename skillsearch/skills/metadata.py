"""Frontmatter in its many spellings → `SkillMetadata`.

Of the skills that a skill needs, only keys that speak of skills count: ``dependencies`` and
``requires`` alone are packages, programs and servers in real skills, and ``related-skills`` is a
hint.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from skillsearch.errors import ParseError, VersionConstraintError
from skillsearch.skills.frontmatter import Finding
from skillsearch.skills.versions import normal_constraint, split_requirement
from skillsearch.text.safe_text import one_line
from skillsearch.types import JsonValue, SkillMetadata

# The limits of the Agent Skills specification.
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_COMPATIBILITY_CHARS = 500
# Of a longer name only this much is normalized: NFKC takes quadratic time on combining marks.
_NORMALIZED_CHARS = 4096

CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that YAML refuses and no reader can see; tab and line feed stay."""

_TOOL = re.compile(r"[^\s,()]+(?:\([^()]*\))?")
_TAG_KEYS = ("tags", "tag", "keywords", "keyword")
_TRIGGER_KEYS = (
    "triggers",
    "trigger",
    "triggerphrases",
    "triggerphrase",
    "triggerkeywords",
    "triggerwords",
    "activationphrases",
    "activationkeywords",
)
_NESTING_KEYS = ("metadata", "agentmetadata")
_YES = frozenset({"true", "yes", "on", "1"})

MAX_REQUIREMENTS = 100
MAX_REQUIREMENT_CHARS = 200

_REQUIREMENT_KEYS = (
    "requiresskills",
    "requiredskills",
    "dependsonskills",
    "prerequisiteskills",
    "skilldependencies",
)
_REQUIREMENT_GROUPS = ("requires", "dependencies")
"""Mappings that name skills under ``skills``, beside tools and packages."""
_REQUIRED_NAME_KEYS = ("name", "skill", "id")
_CONSTRAINT_KEYS = ("version", "constraint")
_OPERATOR = re.compile(r"[<>=~^]|!=")

Fields = dict[str, JsonValue]


def regular_metadata(
    frontmatter: Mapping[str, JsonValue], folder: str
) -> tuple[SkillMetadata, tuple[Finding, ...]]:
    """Return the regular form of a frontmatter, and its oddities.

    Field names are compared without case, hyphens and underscores. A field is looked up at the top,
    then in ``metadata``, then in the mappings inside it (``metadata.hermes.tags``). `folder` names
    the skill if the frontmatter does not.

    Raises:
        ParseError: The description is missing or empty.
    """
    levels = _levels(frontmatter)
    description, findings = _description(levels[0].get("description"))
    name = " ".join(clean(as_text(levels[0].get("name"))).split())
    findings += check_name(name, folder)
    requires, more = regular_requirements(levels[:2])
    metadata = SkillMetadata(
        name=name or folder,
        description=description,
        license=_first_text(levels, "license", "licence"),
        compatibility=_first_text(levels[:1], "compatibility"),
        allowed_tools=allowed_tools(_first(levels[:2], "allowedtools")),
        version=_first_text(levels, "version"),
        tags=_collect(levels, _TAG_KEYS),
        triggers=_collect(levels, _TRIGGER_KEYS),
        when_to_use=_first_text(levels, "whentouse"),
        hidden=as_text(_first(levels[:2], "disablemodelinvocation")).lower() in _YES,
        requires=requires,
        frontmatter=frontmatter,
    )
    return metadata, (*findings, *more)


def clean(text: str) -> str:
    """Return the text stripped, with control characters replaced by blanks."""
    return CONTROL_CHARACTERS.sub(" ", text).strip()


def as_text(value: JsonValue) -> str:
    """Return a value as one string: lists joined by blanks, mappings as ``key: value; …``."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(filter(None, map(as_text, value)))
    if isinstance(value, dict):
        return "; ".join(f"{key}: {as_text(inner)}" for key, inner in value.items())
    return str(value)


def allowed_tools(value: JsonValue) -> tuple[str, ...]:
    """Return tool names from a list, or from a string separated by blanks or commas.

    Blanks inside parentheses, as in ``Bash(git add:*)``, do not separate names.
    """
    if isinstance(value, list):
        return tuple(filter(None, (as_text(tool).strip() for tool in value)))
    return tuple(_TOOL.findall(as_text(value)))


def check_name(
    name: str, folder: str, rank: Literal["error", "warning"] = "warning"
) -> list[Finding]:
    """Return every way in which a name breaks the specification.

    `name` is as written, stripped; the skill's `folder` must have the same name. `rank` is the
    severity of the findings.
    """
    if not name:
        message = f"The frontmatter has no name; add 'name: {folder}'."
        return [Finding("name-missing", message, None, rank)]
    written = len(name)
    name = unicodedata.normalize("NFKC", name[:_NORMALIZED_CHARS])
    shown = repr(name[:MAX_NAME_CHARS])
    problems = []
    if len(name) > MAX_NAME_CHARS:
        length = len(name) if written <= _NORMALIZED_CHARS else written
        message = f"The name has {length} characters; shorten it to {MAX_NAME_CHARS}."
        problems.append(Finding("name-too-long", message, None, rank))
    if not all(char.isalnum() or char == "-" for char in name) or name != name.lower():
        message = f"The name {shown} should hold only lowercase letters, digits and hyphens."
        problems.append(Finding("name-characters", message, None, rank))
    if name.startswith("-") or name.endswith("-") or "--" in name:
        message = f"The name {shown} should have single hyphens, between letters or digits."
        problems.append(Finding("name-hyphens", message, None, rank))
    if name != unicodedata.normalize("NFKC", folder):
        message = f"The name {shown} differs from its folder {folder!r}; rename one of them."
        problems.append(Finding("name-differs-from-folder", message, None, rank))
    return problems


def _description(value: JsonValue) -> tuple[str, list[Finding]]:
    description = clean(as_text(value))
    if not description:
        raise ParseError(
            "The frontmatter has no description; say what the skill does and when to use it.",
            code="description-missing",
        )
    findings = []
    if isinstance(value, (list, dict)):
        message = "The description is a list or mapping; it was joined, write it as one string."
        findings.append(Finding("description-not-text", message))
    if len(description) > MAX_DESCRIPTION_CHARS:
        message = (
            f"The description has {len(description)} characters; agents may see only the first "
            f"{MAX_DESCRIPTION_CHARS}."
        )
        findings.append(Finding("description-too-long", message))
    return description, findings


def _levels(frontmatter: Mapping[str, JsonValue]) -> list[Fields]:
    """Return the top-level fields, the fields of ``metadata``, and of the mappings inside it."""
    top = _folded(frontmatter)
    nested = [top[key] for key in _NESTING_KEYS if isinstance(top.get(key), dict)]
    inner = [value for fields in nested for value in fields.values() if isinstance(value, dict)]
    middle: Fields = {}
    for fields in nested:
        middle |= _folded(fields)
    return [top, middle, *map(_folded, inner)]


def _folded(fields: Mapping[str, JsonValue]) -> Fields:
    """Return the fields under names without case, hyphens and underscores; exact names win."""
    folded: Fields = {}
    for key, value in fields.items():
        plain = key.lower().replace("-", "").replace("_", "")
        if plain not in folded or key == plain:
            folded[plain] = value
    return folded


def _first(levels: Iterable[Fields], *keys: str) -> JsonValue:
    """Return the first value that is present, outer levels first."""
    for fields in levels:
        for key in keys:
            if fields.get(key) is not None:
                return fields[key]
    return None


def _first_text(levels: Iterable[Fields], *keys: str) -> str:
    return clean(as_text(_first(levels, *keys)))


def _collect(levels: Iterable[Fields], keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the phrases of all these fields, in order, without repeats."""
    phrases: dict[str, None] = {}
    for fields in levels:
        for key in keys:
            if key in fields:
                phrases.update(dict.fromkeys(_phrases(fields[key])))
    return tuple(phrases)


def _phrases(value: JsonValue) -> Iterable[str]:
    """Yield the phrases of a list, of a mapping's values, or of a comma-separated string."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            if isinstance(item, (list, dict)):
                yield from _phrases(item)
            elif phrase := clean(as_text(item)):
                yield phrase
        return
    for part in re.split(r"[,;\n]", as_text(value).strip().strip("[]")):
        if phrase := clean(part).strip("\"'"):
            yield phrase


def regular_requirements(
    levels: Iterable[Mapping[str, JsonValue]],
) -> tuple[tuple[str, ...], list[Finding]]:
    """Return the skills that a frontmatter requires, and the oddities of its declarations.

    Each is ``name`` or ``name@constraint``, in the order written, without repeats. `levels` are the
    folded fields of the top level and of ``metadata``.
    """
    requirements: dict[str, None] = {}
    findings: list[Finding] = []
    declared = (
        text for fields in levels for value in _declared(fields) for text in _required_texts(value)
    )
    for place, text in enumerate(_rejoined(declared)):
        if place == MAX_REQUIREMENTS:
            findings.append(_unusable(f"Only the first {MAX_REQUIREMENTS} needed skills count."))
            break
        name, constraint = _split_constraint(text)
        try:
            constraint = normal_constraint(constraint)
        except VersionConstraintError as error:
            shown = name[:MAX_REQUIREMENT_CHARS]
            findings.append(
                _unusable(f"{error} Any version of the needed skill {shown!r} will do.")
            )
            constraint = ""
        requirement = f"{name}@{constraint}" if constraint else name
        if _is_requirement_name(name, requirement) and len(requirement) <= MAX_REQUIREMENT_CHARS:
            requirements[requirement] = None
        else:
            shown = text[:MAX_REQUIREMENT_CHARS]
            message = (
                f"The needed skill {shown!r} has no usable name; write name or name@constraint."
            )
            findings.append(_unusable(message))
    return tuple(requirements), findings


def _is_requirement_name(name: str, requirement: str) -> bool:
    """Return whether the name of a requirement can be told apart from its constraint."""
    return bool(name) and not _OPERATOR.search(name) and split_requirement(requirement)[0] == name


def _unusable(message: str) -> Finding:
    return Finding("requirement-invalid", message)


def _declared(fields: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    """Yield the values that name required skills."""
    for key in _REQUIREMENT_KEYS:
        if key in fields:
            yield fields[key]
    for key in _REQUIREMENT_GROUPS:
        if isinstance(fields.get(key), dict):
            yield fields[key].get("skills")


def _required_texts(value: JsonValue) -> Iterator[str]:
    """Yield the required skills of a value, each as ``name`` or ``name@constraint``."""
    if isinstance(value, dict):
        yield from _requirements_of_mapping(value)
    elif isinstance(value, list):
        for item in value:
            yield from (
                _required_texts(item) if isinstance(item, (list, dict)) else _scalar_text(item)
            )
    else:
        for text in _scalar_text(value):
            yield from re.split(r"[,;\n]", text.strip().strip("[]"))


def _requirements_of_mapping(value: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the one skill that a mapping describes, or all skills that are its keys."""
    name = next((value[key] for key in _REQUIRED_NAME_KEYS if value.get(key)), None)
    if isinstance(name, str):
        value = {name: value}
    for key, version in value.items():
        if version is not False and not _is_optional(version):
            yield f"{key}@{_constraint_of(version)}"


def _is_optional(value: JsonValue) -> bool:
    return isinstance(value, dict) and (
        value.get("optional") is True or value.get("required") is False
    )


def _constraint_of(value: JsonValue) -> str:
    """Return the constraint in the description of a required skill, or an empty string."""
    if isinstance(value, dict):
        value = next((value[key] for key in _CONSTRAINT_KEYS if key in value), None)
    items = value if isinstance(value, list) else [value]
    return ",".join(text for item in items for text in _scalar_text(item))


def _scalar_text(value: JsonValue) -> Iterator[str]:
    """Yield a string or number as text, and nothing for any other value."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)


def _rejoined(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts cleaned, with ``>=1,<2`` joined again if its comma was split."""
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


def _split_constraint(text: str) -> tuple[str, str]:
    """Return the name and the constraint of ``name@constraint``, ``name>=1`` or ``name (>=1)``."""
    name, constraint = split_requirement(text.rstrip("@ "))
    operator = None if constraint else _OPERATOR.search(name)
    if operator is None:
        return name, constraint
    return name[: operator.start()].rstrip(" ,(@"), name[operator.start() :].rstrip(") ")
