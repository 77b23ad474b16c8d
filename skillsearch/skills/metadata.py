"""Make the many spellings of frontmatter fields regular."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Literal

from skillsearch.errors import ParseError
from skillsearch.skills.frontmatter import Finding
from skillsearch.skills.requirements import regular_requirements
from skillsearch.types import JsonValue, SkillMetadata

MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_COMPATIBILITY_CHARS = 500
_NORMALIZED_CHARS = 4096
"""Of a name; NFKC takes quadratic time on a run of combining marks."""
"""The three limits of the Agent Skills specification."""

CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
"""What YAML refuses and no reader can see; tab and line feed stay."""

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

Fields = dict[str, JsonValue]


def regular_metadata(
    frontmatter: Mapping[str, JsonValue], folder: str
) -> tuple[SkillMetadata, tuple[Finding, ...]]:
    """Return the regular form of a frontmatter, and what is odd about it.

    Field names are compared without case, hyphens and underscores. A field is looked for at the
    top, then in ``metadata``, then in the mappings inside that (``metadata.hermes.tags``).

    Args:
        frontmatter: The keys and values as loaded.
        folder: Name of the skill folder: the skill's name where the frontmatter has none.

    Returns:
        The metadata and the findings.

    Raises:
        ParseError: There is no description, or an empty one.
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
    """Return the text with control characters as blanks and its ends stripped."""
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
    """Return tool names from a list, or a string with blanks or commas between them.

    Blanks inside brackets, as in ``Bash(git add:*)``, do not part a name.
    """
    if isinstance(value, list):
        return tuple(filter(None, (as_text(tool).strip() for tool in value)))
    return tuple(_TOOL.findall(as_text(value)))


def check_name(
    name: str, folder: str, rank: Literal["error", "warning"] = "warning"
) -> list[Finding]:
    """Return every way in which a name breaks the specification.

    Args:
        name: The name as written, ends stripped.
        folder: Name of the skill folder, which must be the same.
        rank: Severity of the findings.

    Returns:
        The findings, empty for a good name.
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
    """Return the description as one string, and what is odd about it."""
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
    """Return the top-level fields, those of ``metadata``, and those of mappings inside it."""
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
    """Return the first value that is there, outer levels first."""
    for fields in levels:
        for key in keys:
            if fields.get(key) is not None:
                return fields[key]
    return None


def _first_text(levels: Iterable[Fields], *keys: str) -> str:
    """Return the first value that is there, as clean text."""
    return clean(as_text(_first(levels, *keys)))


def _collect(levels: Iterable[Fields], keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the phrases of all those fields, in order and each once."""
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
