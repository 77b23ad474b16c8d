"""Frontmatter in its many spellings → `SkillMetadata`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import partial

from skillsearch.errors import ParseError, VersionConstraintError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.skills.findings import Finding, finding_of
from skillsearch.skills.frontmatter import Fields
from skillsearch.skills.versions import normal_constraint, split_requirement
from skillsearch.skills.words import WORDS
from skillsearch.text import markdown
from skillsearch.text.prose import first_paragraph
from skillsearch.text.safe_text import one_line, shorten
from skillsearch.types.json_values import Json
from skillsearch.types.skills import MAX_NAME_CHARS, Severity, SkillMetadata

# By the specification, as `MAX_NAME_CHARS` is.
MAX_DESCRIPTION_CHARS = 1024
MAX_COMPATIBILITY_CHARS = 500
# Of a longer name only this much is normalized: NFKC takes quadratic time on combining marks.
_NORMALIZED_CHARS = 4096

CONTROL_CHARACTERS = lazy_pattern(
    r"[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]"
)
"""Characters that YAML refuses and no reader can see; tab and line feed stay."""

_TOOL = lazy_pattern(r"[^\s,()]+(?:\([^()]*\))?")  # such as ``Bash(git add:*)``
TAG_KEYS = ("tags", "tag", "keywords", "keyword")
TRIGGER_KEYS = tuple(WORDS["fields"]["triggers"])
EXAMPLE_KEYS = tuple(WORDS["fields"]["examples"])
NESTING_KEYS = ("metadata", "agentmetadata", "skill", "frontmatter")
_YES = frozenset({"true", "yes", "on", "1"})
MAX_REQUIREMENTS = 100
MAX_REQUIREMENT_CHARS = 200
_REQUIREMENT_KEYS = tuple(WORDS["fields"]["requirements"])
_REQUIREMENT_GROUPS = ("requires", "dependencies")
"""Mappings that name skills under ``skills``; all else there is packages, programs and servers."""
_REQUIRED_NAME_KEYS = ("name", "skill", "id")
_CONSTRAINT_KEYS = ("version", "constraint")
_OPERATOR = lazy_pattern(r"[<>=~^]|!=")
_finding = partial(finding_of, "metadata")


def regular_metadata(
    frontmatter: Fields, folder: str, body: str
) -> tuple[SkillMetadata, tuple[Finding, ...]]:
    """Return the regular form of a frontmatter, and its oddities.

    Field names are compared without case, hyphens and underscores. A field is looked up at the top,
    then in ``metadata``, then in the mappings inside it (``metadata.hermes.tags``). `folder` names
    the skill if the frontmatter does not, and the first paragraph of the body describes it. If
    nothing does, `ParseError` is raised.
    """
    levels = _levels(frontmatter)
    keys = ("name", "description")
    nested = [key for key in keys if key in levels[1] and not levels[0].get(key)]
    findings = [_finding("field-nested", key) for key in nested]
    described = _first(levels[:2], "description")
    description = clean(as_text(described))
    if not description.strip("|>+-"):  # of a block of text, its first line alone is left
        description = opening_of(body)
        if not description:
            message = (
                "The frontmatter has no description; say what the skill does and when to use it."
            )
            raise ParseError(message, code="description-missing")
        findings.append(_finding("description-missing"))
    if isinstance(described, (list, dict)):
        findings.append(_finding("description-not-text"))
    length, most = len(description), MAX_DESCRIPTION_CHARS
    if length > most:
        findings.append(_finding("description-too-long", length, most))
    name = " ".join(clean(as_text(_first(levels[:2], "name"))).split())
    requires, more = regular_requirements(levels[:2])
    tools = _first(levels[:2], "allowedtools")
    listed = map(as_text, tools) if isinstance(tools, list) else _TOOL.findall(as_text(tools))
    metadata = SkillMetadata(
        name=name or folder,
        description=description,
        license=_first_text(levels, "license", "licence"),
        compatibility=_first_text(levels[:1], "compatibility"),
        allowed_tools=tuple(filter(None, map(str.strip, listed))),
        version=_first_text(levels, "version"),
        tags=_collect(levels, TAG_KEYS),
        triggers=_collect(levels, TRIGGER_KEYS),
        when_to_use=_first_text(levels, "whentouse"),
        hidden=_is_set(levels[:2], "disablemodelinvocation") or _is_set(levels[1:2], "internal"),
        requires=requires,
        paths=_collect(levels[:1], ("paths",)),
        examples=_collect(levels, EXAMPLE_KEYS),
        frontmatter=frontmatter,
    )
    return metadata, (*findings, *check_name(name, folder), *more)


def _is_set(levels: Iterable[Fields], key: str) -> bool:
    return as_text(_first(levels, key)).lower() in _YES


def opening_of(body: str) -> str:
    """Return the first paragraph of a body, else its first words outside headings and code."""
    text = clean(body)
    if paragraph := first_paragraph(text, MAX_DESCRIPTION_CHARS):
        return paragraph
    lines = (line for line, _, is_fenced in markdown.lines(text) if not is_fenced)
    words = " ".join(line for line in lines if not line.startswith("#")).strip("*_`>|~=- ")
    return shorten(" ".join(words.split()), MAX_DESCRIPTION_CHARS)


def clean(text: str) -> str:
    """Return the text stripped, with control characters replaced by blanks."""
    return CONTROL_CHARACTERS.sub(" ", text).strip()


def as_text(value: Json) -> str:
    """Return a value as one string: lists joined by blanks, mappings as ``key: value; …``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(filter(None, map(as_text, value)))
    if isinstance(value, dict):
        return "; ".join(f"{key}: {as_text(inner)}" for key, inner in value.items())
    return "" if value is None else str(value)


def check_name(written: str, folder: str, rank: Severity = "warning") -> Iterator[Finding]:
    """Yield every way in which a name, as written, breaks the specification."""
    if not written:
        yield _finding("name-missing", folder)._replace(severity=rank)
        return
    name = unicodedata.normalize("NFKC", written[:_NORMALIZED_CHARS])
    length = len(name) if len(written) <= _NORMALIZED_CHARS else len(written)
    shown = repr(name[:MAX_NAME_CHARS])
    faults = {
        "name-too-long": len(name) > MAX_NAME_CHARS,
        "name-characters": name != name.lower() or not name.replace("-", "a").isalnum(),
        "name-hyphens": not all(name.split("-")),
        "name-differs-from-folder": name != unicodedata.normalize("NFKC", folder),
    }
    for code in filter(faults.get, faults):
        yield _finding(code, shown, folder, length, MAX_NAME_CHARS)._replace(severity=rank)


def _levels(frontmatter: Fields) -> list[Fields]:
    """Return the top-level fields, the fields of ``metadata``, and of the mappings inside it."""
    top = _folded(frontmatter)
    nested = [fields for key in NESTING_KEYS if isinstance(fields := top.get(key), dict)]
    inner = [value for fields in nested for value in fields.values() if isinstance(value, dict)]
    middle = dict(pair for fields in nested for pair in _folded(fields).items())
    return [top, middle, *map(_folded, inner)]


def plain_key(key: str) -> str:
    """Return the name of a field without case, hyphens and underscores."""
    return key.lower().replace("-", "").replace("_", "")


def _folded(fields: Fields) -> Fields:
    """Return the fields under names without case, hyphens and underscores; exact names win."""
    folded: Fields = {}
    for key, value in fields.items():
        plain = plain_key(key)
        if plain not in folded or key == plain:
            folded[plain] = value
    return folded


def _first(levels: Iterable[Fields], *keys: str) -> Json:
    """Return the first value that is present, outer levels first."""
    values = (fields.get(key) for fields in levels for key in keys)
    return next((value for value in values if value is not None), None)


def _first_text(levels: Iterable[Fields], *keys: str) -> str:
    return clean(as_text(_first(levels, *keys)))


def _collect(levels: Iterable[Fields], keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the phrases of all these fields, in order, without repeats."""
    values = [fields[key] for fields in levels for key in keys if key in fields]
    phrases = dict.fromkeys(phrase for value in values for phrase in _phrases(value))
    return tuple(filter(None, phrases))


def _phrases(value: Json) -> Iterator[str]:
    """Yield the phrases of a list, a mapping's values or a comma-separated string, some empty."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _phrases(item) if isinstance(item, (list, dict)) else [clean(as_text(item))]
        return
    for part in re.split(r"[,;\n]", as_text(value).strip().strip("[]")):
        yield clean(part).strip("\"'")


def regular_requirements(levels: Iterable[Fields]) -> tuple[tuple[str, ...], list[Finding]]:
    """Return the skills that fields require, as ``name`` or ``name@constraint``, and oddities."""
    requirements: dict[str, None] = {}
    problems: list[str] = []
    for number, text in enumerate(_requirement_texts(levels)):
        if number == MAX_REQUIREMENTS:
            problems.append(f"Only the first {MAX_REQUIREMENTS} needed skills count.")
            break
        name, constraint = split_requirement(text.rstrip("@ "))
        if not constraint and (operator := _OPERATOR.search(name)):  # name>=1 or name (>=1)
            at = operator.start()
            name, constraint = name[:at].rstrip(" ,(@"), name[at:].rstrip(") ")
        try:
            constraint = normal_constraint(constraint)
        except VersionConstraintError as error:
            shown = name[:MAX_REQUIREMENT_CHARS]
            problems.append(f"{error} Any version of the needed skill {shown!r} will do.")
            constraint = ""
        requirement = f"{name}@{constraint}" if constraint else name
        # The name can be told apart from the constraint.
        is_plain = split_requirement(requirement)[0] == name and not _OPERATOR.search(name)
        if name and is_plain and len(requirement) <= MAX_REQUIREMENT_CHARS:
            requirements[requirement] = None
        else:
            shown = text[:MAX_REQUIREMENT_CHARS]
            problems.append(
                f"The needed skill {shown!r} has no usable name; write name or name@constraint."
            )
    return tuple(requirements), [Finding("requirement-invalid", problem) for problem in problems]


def _requirement_texts(levels: Iterable[Fields]) -> list[str]:
    """Return the requirements cleaned, with ``>=1,<2`` joined again if its comma was split."""
    values: list[Json] = []
    for fields in levels:
        values += [fields[key] for key in _REQUIREMENT_KEYS if key in fields]
        groups = map(fields.get, _REQUIREMENT_GROUPS)
        values += [group.get("skills") for group in groups if isinstance(group, dict)]
    texts: list[str] = []
    for text in (text for value in values for text in _required_texts(value)):
        text = one_line(text).strip("\"' ")
        if texts and _OPERATOR.match(text):
            texts[-1] += f",{text}"
        elif text:
            texts.append(text)
    return texts


def _required_texts(value: Json) -> Iterator[str]:
    """Yield the required skills of a value, each as ``name`` or ``name@constraint``."""
    if isinstance(value, dict):
        # The mapping describes one skill, or its keys are the skills.
        name = next((value[key] for key in _REQUIRED_NAME_KEYS if value.get(key)), None)
        skills = {name: value} if isinstance(name, str) else value
        for key, about in skills.items():
            is_optional = isinstance(about, dict) and (
                about.get("optional") is True or about.get("required") is False
            )
            if about is not False and not is_optional:
                yield f"{key}@{_constraint_of(about)}"
    elif isinstance(value, list):
        for item in value:
            is_nested = isinstance(item, (list, dict))
            yield from _required_texts(item) if is_nested else [_scalar_text(item)]
    else:
        yield from re.split(r"[,;\n]", _scalar_text(value).strip().strip("[]"))


def _constraint_of(value: Json) -> str:
    if isinstance(value, dict):
        value = next((value[key] for key in _CONSTRAINT_KEYS if key in value), None)
    items = value if isinstance(value, list) else [value]
    return ",".join(filter(None, map(_scalar_text, items)))


def _scalar_text(value: Json) -> str:
    """Return a string or number as text, and nothing for any other value."""
    is_scalar = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return str(value) if is_scalar else ""
