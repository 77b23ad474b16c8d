"""Puts another description into the bytes of a SKILL.md; every other byte stays.

The value is spliced into its lines, in the style that it has if that can hold it, else in double
quotes. The parser then reads the new file: unless it has the old values with exactly this one
changed, the edit is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from skillsearch.errors import EditError, ParseError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.skills.frontmatter import Fields, as_yaml, entries, load_yaml, split_frontmatter
from skillsearch.skills.metadata import plain_key, regular_metadata
from skillsearch.skills.parser import read_sections
from skillsearch.skills.resources import MAX_SKILL_MD_BYTES

_LINE = lazy_pattern(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BOM = "\ufeff"
_BLOCK = lazy_pattern(r"[^:]+:[ \t]+(?P<fold>[|>])[-+0-9]{0,3}[ \t]*")
_COMMENT = lazy_pattern(r"[ \t]#.*$")
_REFUSED = ("frontmatter-", "control-characters")
"""Codes of findings with which nobody can say where the fields begin or end."""
_MEND = "mend it first: `skillsearch validate` says where"


def with_description(data: bytes, description: str) -> bytes:
    """Return the bytes of a SKILL.md with another description, and nothing else changed.

    An EditError says why it cannot be edited safely, to follow the name of the file.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        raise EditError("is not UTF-8; save it as UTF-8 first") from exc
    before, body = _read(text.removeprefix(_BOM))
    lines = _LINE.findall(text)
    first, size = _place(text.removeprefix(_BOM), before)
    ending = re.sub(r"[^\r\n]", "", lines[first])
    written = [line.rstrip("\r\n") for line in lines[first : first + size]]
    for value in _spellings(written, description):
        new = "".join(f"{line}{ending}" for line in value)
        edited = "".join((*lines[:first], new, *lines[first + size :]))
        if len(edited.encode()) > MAX_SKILL_MD_BYTES:
            raise EditError(f"would have more than {MAX_SKILL_MD_BYTES:,} bytes; shorten it first")
        try:
            if _holds(edited.removeprefix(_BOM), description, before, body):
                return edited.encode()
        except (ParseError, EditError):
            continue
    raise EditError(f"would not read the same with another description; {_MEND}")


def _read(text: str) -> tuple[Fields, str]:
    """Return the values and the body; an EditError if it is not certain where they are."""
    try:
        values, body, findings = read_sections(text)
    except ParseError as exc:
        raise EditError(f"cannot be read ({exc}); {_MEND}") from exc
    for finding in findings:
        if finding.code.startswith(_REFUSED):
            raise EditError(f"has an odd frontmatter ({finding.message}); {_MEND}")
    return values, body


def _place(text: str, values: Fields) -> tuple[int, int]:
    """Return the first line of the description, and how many it takes."""
    keys = [key for key in values if plain_key(key) == "description"]
    sections = split_frontmatter(text)
    listed = entries(sections.frontmatter or "")
    held = [entry for entry in listed if plain_key(entry[0]) == "description"]
    if len(held) > 1 or len(keys) > 1:
        raise EditError("has more than one description; leave one of them")
    if not held or not keys or not values[keys[0]]:
        raise EditError("has no description of its own in its frontmatter; write one first")
    _, start, lines = held[0]
    while not lines[-1].strip() or lines[-1].startswith("#"):
        lines = lines[:-1]
    if any(_is_comment(lines, at) for at in {0, len(lines) - 1}):
        raise EditError("has a comment behind its description; put it on a line of its own first")
    return sections.first_line - 1 + start, len(lines)


def _is_comment(lines: Sequence[str], at: int) -> bool:
    """Return whether the end of a line is a comment to YAML: without it the value is the same."""
    bare = [*lines]
    bare[at] = _COMMENT.sub("", lines[at])
    try:
        return bare[at] != lines[at] and load_yaml("\n".join(bare)) == load_yaml("\n".join(lines))
    except ParseError:
        return False


def _spellings(written: Sequence[str], description: str) -> Iterator[list[str]]:
    """Yield the lines of an entry with the description, the style that it has first."""
    key = written[0].partition(":")[0]
    if block := _BLOCK.fullmatch(written[0]):
        folded = re.sub("(\n+)", r"\1\n", description) if block["fold"] == ">" else description
        indent = next((re.match(r"[ \t]*", line) for line in written[1:] if line.strip()), None)
        start = indent[0] if indent and indent[0] else "  "
        yield [written[0], *(start + line if line.strip() else "" for line in folded.split("\n"))]
    elif written[0].partition(":")[2].strip()[:1] not in ('"', "'"):
        yield [f"{key}: {description}"]
    yield [f"{key}: {as_yaml(description)}"]


def _holds(text: str, description: str, before: Fields, body: str) -> bool:
    """Return whether a file has exactly this description, and all else as before."""
    values, new_body = _read(text)
    if regular_metadata(values, "name", body)[0].description != description or new_body != body:
        return False
    others = [
        {key: value for key, value in fields.items() if plain_key(key) != "description"}
        for fields in (before, values)
    ]
    raw = load_yaml(split_frontmatter(text).frontmatter or "")[0]
    written = next((raw[key] for key in raw if plain_key(key) == "description"), None)
    return others[0] == others[1] and str(written).strip() == description
