"""The frontmatter of a SKILL.md as every host reads it, or why hosts would not agree; pure."""

from __future__ import annotations

from collections.abc import Mapping

from skillsearch.errors import ParseError
from skillsearch.skills.frontmatter import Finding
from skillsearch.skills.metadata import MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS, check_name
from skillsearch.skills.parser import decode_skill_md, read_sections
from skillsearch.types import JsonValue

Frontmatter = Mapping[str, JsonValue]

_LIMITS = {"description": MAX_DESCRIPTION_CHARS, "compatibility": MAX_COMPATIBILITY_CHARS}


def strict_frontmatter(data: bytes) -> Frontmatter | Finding:
    """Read a frontmatter that needs no mending and keeps to the Agent Skills specification.

    Args:
        data: The bytes of a SKILL.md.

    Returns:
        Every field as JSON values, or the first thing that is wrong.
    """
    text, odd = decode_skill_md(data)
    try:
        frontmatter, _, more = read_sections(text)
    except ParseError as error:
        return Finding("frontmatter-unreadable", str(error), error.line)
    for finding in (*odd, *more):
        if finding.code != "byte-order-mark":
            return finding._replace(code="frontmatter-unreadable", severity="warning")
    return _first_problem(frontmatter) or frontmatter


def check_strict_name(name: str) -> Finding | None:
    """Return why hosts would not take a name, or None.

    The specification can be read so that letters of any script are allowed, and this package does
    so; but the official tools take ASCII alone.
    """
    if problems := check_name(name, name or "the-name-of-the-folder"):
        return problems[0]
    if not name.isascii():
        message = f"Some hosts do not take the name {name!r}; they know a-z, 0-9 and hyphens."
        return Finding("name-not-ascii", message, None, "note")
    return None


def _first_problem(fields: Frontmatter) -> Finding | None:
    """Return the first way in which the fields break the specification, or None."""
    name = fields.get("name")
    if problem := check_strict_name(name if isinstance(name, str) else ""):
        return problem
    for key, limit in _LIMITS.items():
        if key == "compatibility" and key not in fields:
            continue
        text = fields.get(key)
        if not isinstance(text, str) or not text.strip():
            return Finding(f"{key}-not-text", f"The {key} is no text; write a sentence.")
        if len(text) > limit:
            message = f"The {key} has {len(text):,} characters; shorten it to {limit:,}."
            return Finding(f"{key}-too-long", message)
    return None
