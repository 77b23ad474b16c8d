"""The bytes of a SKILL.md → a `Skill`: lenient, pure, and every repair reported."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from skillsearch.errors import ParseError
from skillsearch.skills.chunks import parse_chunks
from skillsearch.skills.frontmatter import (
    HARMFUL_CODES,
    MAX_FRONTMATTER_BYTES,
    Finding,
    Sections,
    end_of_keys,
    load_yaml,
    split_frontmatter,
    unix_lines,
)
from skillsearch.skills.metadata import CONTROL_CHARACTERS, regular_metadata
from skillsearch.skills.repair import find_offset_frontmatter, repair_mapping
from skillsearch.skills.resources import content_hash
from skillsearch.types import Diagnostic, JsonValue, Skill

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def parse_skill(
    data: bytes, *, doc_id: str, path: Path, root: Path
) -> tuple[Skill, tuple[Diagnostic, ...]]:
    """Parse a SKILL.md, repairing what can be repaired; linear in the size of `data`.

    A file whose description a person can read becomes a skill, whatever is wrong around it. The
    folder of `path` names the skill if the frontmatter does not. Every repair and guess comes back
    as a diagnostic.

    Raises:
        ParseError: There is no frontmatter, no description, or YAML that was written to do harm.
    """
    text, findings = decode_skill_md(data)
    frontmatter, body, more = read_sections(text)
    metadata, oddities = regular_metadata(frontmatter, path.parent.name or root.name)
    skill = Skill(
        doc_id=doc_id,
        metadata=metadata,
        body=body.strip(),
        path=path,
        root=root,
        content_hash=content_hash(data),
    )
    where = str(path)
    found = (*findings, *more, *oddities, *_chunk_findings(text, body.lstrip()))
    return skill, tuple(finding.at(where) for finding in found)


def _chunk_findings(text: str, body: str) -> Iterator[Finding]:
    """Yield the oddities of a body's chunks, with lines counted in the file."""
    for finding in parse_chunks(body.rstrip()).findings:
        before = unix_lines(text).count("\n") - body.count("\n")
        yield finding._replace(line=before + (finding.line or 1))


def decode_skill_md(data: bytes) -> tuple[str, list[Finding]]:
    """Decode a SKILL.md in any encoding, without its byte order mark, and report oddities.

    UTF-16 is recognized by its byte order mark. Other bytes that are not UTF-8 are read as
    Windows-1252, or as UTF-8 with replacement characters if most of the file is UTF-8.
    """
    if data.startswith(codecs.BOM_UTF8):
        note = Finding("byte-order-mark", "The file starts with a byte order mark.", 1, "note")
        text, findings = decode_skill_md(data[len(codecs.BOM_UTF8) :])
        return text, [note, *findings]
    if data.startswith(_UTF16_MARKS):
        message = "The file is UTF-16; save it as UTF-8."
        return data.decode("utf-16", "replace"), [Finding("not-utf8", message, 1)]
    try:
        return data.decode("utf-8"), []
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        text, encoding = _decode_legacy(data)
        message = f"The file is not UTF-8; it was read as {encoding}, save it as UTF-8."
        return text, [Finding("not-utf8", message, line)]


def _decode_legacy(data: bytes) -> tuple[str, str]:
    """Decode bytes that are not UTF-8 throughout; return the text and the encoding's name."""
    text = data.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    intact = sum(char > "\x7f" for char in text) - damaged
    if intact > damaged:
        return text, "damaged UTF-8"
    return data.decode("cp1252", "replace"), "Windows-1252"


def read_sections(text: str) -> tuple[dict[str, JsonValue], str, list[Finding]]:
    """Return the values of the frontmatter, the body as it stands, and a finding for each repair.

    Raises:
        ParseError: There is no frontmatter, or YAML that was written to do harm.
    """
    sections = split_frontmatter(text)
    is_offset = sections.first_line > 2
    if sections.frontmatter is None:
        sections = find_offset_frontmatter(text) or sections
        is_offset = True
    if sections.frontmatter is None:
        raise ParseError(
            "The file does not start with frontmatter; begin it with a '---' line, name and"
            " description, and another '---' line.",
            code="frontmatter-missing",
            line=1,
        )
    frontmatter, findings = _without_control_characters(sections)
    if is_offset:
        message = "The file does not start with a '---' line; hosts may not see its frontmatter."
        findings.append(Finding("frontmatter-offset", message, 1))
    if not sections.closed:
        findings.append(_unclosed(sections.first_line))
    try:
        values, more = load_yaml(frontmatter, first_line=sections.first_line)
    except ParseError as error:
        return _repaired(sections, frontmatter, findings, error)
    return values, sections.body, [*findings, *more]


def _without_control_characters(sections: Sections) -> tuple[str, list[Finding]]:
    text = sections.frontmatter or ""
    found = CONTROL_CHARACTERS.search(text)
    if found is None:
        return text, []
    line = sections.first_line + text.count("\n", 0, found.start())
    message = f"The frontmatter holds the control character {found[0]!r}; remove it."
    cleaned = CONTROL_CHARACTERS.sub(" ", text)
    return cleaned, [Finding("control-characters", message, line)]


def _unclosed(line: int) -> Finding:
    message = "The frontmatter is not closed; its end was guessed, add a '---' line."
    return Finding("frontmatter-unclosed", message, line)


def _repaired(
    sections: Sections, frontmatter: str, findings: list[Finding], error: ParseError
) -> tuple[dict[str, JsonValue], str, list[Finding]]:
    """Read frontmatter that `load_yaml` refused with `error`, if that is safe.

    A horizontal rule in the body may have been taken for the closing line. Then the keys end
    earlier and the rest belongs to the body.
    """
    body = sections.body
    keys = frontmatter[: _end_before_heading(frontmatter)]
    if len(keys) < len(frontmatter) and len(keys) <= MAX_FRONTMATTER_BYTES:
        body = f"{frontmatter[len(keys) :]}---\n{body}"
        findings = [*findings, _unclosed(sections.first_line)]
    elif error.code in HARMFUL_CODES:
        raise error
    values, more = repair_mapping(keys, first_line=sections.first_line)
    if not values:
        raise error
    if not more and body is sections.body:
        message = f"{error} Each entry was read by itself; check the result."
        more = (Finding("yaml-salvaged", message, error.line),)
    return values, body, [*findings, *more]


def _end_before_heading(frontmatter: str) -> int:
    """Return where a heading or a code fence below the description ends the keys."""
    end = end_of_keys(frontmatter)
    is_markdown = frontmatter.startswith(("#", "```"), end)
    if is_markdown and "description" in frontmatter[:end]:
        return end
    return len(frontmatter)
