"""Read frontmatter that is not YAML entry by entry, so that its readable part survives."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from skillsearch.errors import ParseError
from skillsearch.skills.frontmatter import (
    HARMFUL_CODES,
    KEY_LINE,
    Finding,
    Sections,
    load_yaml,
    split_frontmatter,
    unix_lines,
)
from skillsearch.types import JsonValue

_MAX_LEVELS = 4
_MAX_PREAMBLE_CHARS = 2_000
_OFFSET_START = re.compile(
    r"^(?:---[ \t]*\n)?(?=(?:name|description)[ \t]*:[ \t]*\S)", re.MULTILINE
)
_TAB_INDENT = re.compile(r"^ *\t[ \t]*", re.MULTILINE)
_BLOCK_INDICATOR = re.compile(r"[|>][-+0-9]{0,3}(?:[ \t]+#.*)?")
_ANCHOR = re.compile(r"(?<![^\s\[{,])&(\w+)")
_ALIAS = re.compile(r"(?<![^\s\[{,])\*(\w+)")


def find_offset_frontmatter(text: str) -> Sections | None:
    """Find frontmatter that follows other text or lacks its first ``---`` line.

    The text before it goes to the body. An example inside a code fence does not count.
    """
    text = unix_lines(text)
    found = _OFFSET_START.search(text, 0, _MAX_PREAMBLE_CHARS)
    if found is None or "```" in text[: found.start()]:
        return None
    preamble = text[: found.start()]
    opening = "" if found[0] else "---\n"
    sections = split_frontmatter(opening + text[found.start() :])
    lines = preamble.count("\n") - len(opening) // 4
    return Sections(
        frontmatter=sections.frontmatter,
        body=preamble + sections.body,
        first_line=sections.first_line + lines,
        body_line=sections.body_line + lines,
        closed=sections.closed,
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """One top-level key with all its lines."""

    lines: list[str]
    first_line: int

    @property
    def key(self) -> str:
        return self.lines[0].partition(":")[0].strip().strip("\"'")

    @property
    def head(self) -> str:
        """The text after the colon, on the same line."""
        return self.lines[0].partition(":")[2].strip()

    @property
    def tail(self) -> str:
        """The lines below, without their common indent."""
        return textwrap.dedent("\n".join(self.lines[1:]))


def repair_mapping(
    text: str, *, first_line: int = 1, level: int = 0
) -> tuple[dict[str, JsonValue], tuple[Finding, ...]]:
    """Read ``key: value`` lines one entry at a time; an entry that is not YAML becomes text.

    Returns the mapping, empty if there is no key, and a finding for each entry read as text. Every
    line is read once per nesting level.

    Raises:
        ParseError: The text was written to cost time: depth, number of values, aliases that refer
            to
            an anchor, or tags of foreign types.
    """
    if anchors := set(_ANCHOR.findall(text)) & set(_ALIAS.findall(text)):
        raise ParseError(
            f"The frontmatter is refused: alias of anchor {min(anchors)!r}; write the value out.",
            code="yaml-anchor",
        )
    text = textwrap.dedent(_TAB_INDENT.sub(lambda tabs: tabs[0].expandtabs(2), text))
    values: dict[str, JsonValue] = {}
    findings: list[Finding] = []
    for entry in _entries(text, first_line):
        found, problems = _read_entry(entry, level)
        if entry.key in values:
            message = f"The key {entry.key!r} stands twice; the last value counts, remove one."
            findings.append(Finding("yaml-duplicate-key", message, entry.first_line))
        values.update(found)
        findings.extend(problems)
    return values, tuple(findings)


def _entries(text: str, first_line: int) -> Iterator[_Entry]:
    """Yield the top-level entries; lines above the first key are skipped."""
    lines: list[str] = []
    start = first_line
    for number, line in enumerate(text.split("\n"), first_line):
        if KEY_LINE.match(line):
            if lines:
                yield _Entry(lines, start)
            lines, start = [line], number
        elif lines:
            lines.append(line)
    if lines:
        yield _Entry(lines, start)


def _read_entry(entry: _Entry, level: int) -> tuple[dict[str, JsonValue], tuple[Finding, ...]]:
    """Return an entry as YAML if it parses, otherwise as text with a finding."""
    try:
        return load_yaml("\n".join(entry.lines), first_line=entry.first_line)
    except ParseError as error:
        if error.code in HARMFUL_CODES:
            raise
    if not entry.head and level < _MAX_LEVELS and KEY_LINE.match(entry.tail.lstrip()):
        value, findings = repair_mapping(
            entry.tail, first_line=entry.first_line + 1, level=level + 1
        )
        return {entry.key: value}, findings
    if ": " in entry.head or entry.head.endswith(":"):
        code, cause = "yaml-unquoted-colon", "holds an unquoted colon"
    else:
        code, cause = "yaml-salvaged", "is not YAML"
    message = f"The value of {entry.key!r} {cause}; it was read as text, put it in quotes."
    return {entry.key: _as_text(entry)}, (Finding(code, message, entry.first_line),)


def _as_text(entry: _Entry) -> str | list[str]:
    """Return a broken entry's value as a person would read it."""
    if _BLOCK_INDICATOR.fullmatch(entry.head):
        return entry.tail.strip()
    lines = [line.strip() for line in (entry.head, *entry.lines[1:]) if line.strip()]
    if lines and all(line.startswith("- ") for line in lines):
        return [_unquote(line[2:].strip()) for line in lines]
    return _unquote(" ".join(lines))


def _unquote(text: str) -> str:
    """Strip quotes that were meant to enclose the whole text."""
    quote = text[:1]
    if quote not in {'"', "'"}:
        return text
    inner = text[1:-1] if len(text) > 1 and text.endswith(quote) else text[1:]
    following = inner.find(quote)
    if following > 0 and not inner[following - 1].isspace() and inner[following - 1] != "\\":
        return text
    return inner.replace('\\"', '"').replace("\\n", "\n") if quote == '"' else inner
