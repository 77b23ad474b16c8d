"""Cut the frontmatter off a SKILL.md and load its YAML as JSON values, in bounded time.

Values are built from the parser's events, so nothing is ever expanded: anchors, aliases, foreign
tags and depth are refused at their event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import yaml

from skillsearch.errors import ParseError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.skills.findings import Finding, finding_of
from skillsearch.types.json_values import Json, JsonObject

MAX_FRONTMATTER_BYTES = 64 * 1024
MAX_DEPTH = 16
MAX_EVENTS = 5_000

HARMFUL_CODES = frozenset(
    {"frontmatter-too-large", "yaml-too-deep", "yaml-too-many-values", "yaml-tag"}
)
"""Codes of YAML that no repair may touch: the text was written to cost time or to run code."""
KEY_LINE = lazy_pattern(r"""["']?[^\W\d][\w.-]{0,80}["']?[ \t]*:(?:[ \t]|$)""")
"""The start of a top-level ``key: value`` line; prose seldom has a colon after its first word."""

_TOO_DEEP = "exceeded maximum nesting depth"
"""What libyaml says from 0.2.6 on where it stops by itself, before the first event."""
_OPENING_LINE = lazy_pattern(r"\s*+---[^\S\n]*+\n")
_CLOSING_LINE = lazy_pattern(r"\n---[^\S\n]*+(?:\n|\Z)")
_INDENTED_CLOSING = lazy_pattern(r"\n[ \t]++---[^\S\n]*+(?:\n|\Z)")
_CORE_TAG = "tag:yaml.org,2002:"
_CORE_TYPES = ("str", "int", "float", "bool", "null", "map", "seq", "timestamp")
_CODE_TAGS = (f"{_CORE_TAG}python/", "!ruby/", "!java", f"{_CORE_TAG}java")
"""Some readers run code for these."""
_PLAIN_TAGS = frozenset(f"{_CORE_TAG}{name}" for name in _CORE_TYPES)
_RESOLVER: Any = yaml.resolver.Resolver()
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_NOT_IN_YAML = lazy_pattern("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON leaves alone, but YAML cannot hold or takes for a line end."""
# 17 digits fit 64 bits, so every JSON library can carry the number.
_NUMBER = lazy_pattern(r"-?[0-9]{1,17}(?:\.[0-9]{1,17})?")


Fields: TypeAlias = JsonObject
Loaded: TypeAlias = tuple[Fields, tuple[Finding, ...]]
"""The fields of a frontmatter, and the findings about them."""


class Sections(NamedTuple):
    """A SKILL.md cut in two, with Unix line ends, and the lines on which both parts start.

    The frontmatter is None if the file does not start with a ``---`` line. If no such line closes
    it, the end of the keys was guessed.
    """

    frontmatter: str | None
    body: str
    first_line: int = 1
    body_line: int = 1
    closed: bool = True


def split_frontmatter(text: str) -> Sections:
    """Cut a SKILL.md at its ``---`` lines, in linear time.

    A value may contain ``---``: only a whole line counts. A byte order mark, blank lines before the
    first ``---`` and blanks after it are skipped.
    """
    text = unix_lines(text.removeprefix("\ufeff"))
    opening = _OPENING_LINE.match(text)
    if opening is None:
        return Sections(None, text)
    start = opening.end()
    closing = _CLOSING_LINE.search(text, start - 1) or _INDENTED_CLOSING.search(text, start - 1)
    end = closing.start() + 1 if closing else end_of_keys(text, start)
    after = closing.end() if closing else end
    return Sections(
        frontmatter=text[start:end],
        body=text[after:],
        first_line=text.count("\n", 0, start) + 1,
        body_line=text.count("\n", 0, after) + 1,
        closed=closing is not None,
    )


def unix_lines(text: str) -> str:
    r"""Return the text with ``\n`` for the line ends of Windows and old Macs."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def end_of_keys(text: str, start: int = 0) -> int:
    """Return where unclosed frontmatter ends: before the first line without a key or list entry."""
    for line in text[start:].split("\n"):
        is_inside = not line.strip() or line.startswith((" ", "\t", "- "))
        if not is_inside and not KEY_LINE.match(line):
            return start
        start += len(line) + 1
    return len(text)


def entries(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """Yield the top-level keys, each with the number of its first line, from 0, and its lines."""
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if KEY_LINE.match(line)]
    for start, end in pairwise((*starts, len(lines))):
        yield lines[start].partition(":")[0].strip().strip("\"'"), start, lines[start:end]


def load_yaml(text: str, *, first_line: int = 1) -> Loaded:
    """Load a YAML mapping as JSON values, with a finding for each repeated key.

    Numbers become numbers only if that keeps their written form: ``version: 1.10`` stays the text
    "1.10". Dates, ``.nan`` and ``<<`` stay as written. The last of a repeated key counts.
    `first_line` is where the text starts in its file. A text that is not a YAML mapping, is too
    large or deep, or has anchors or tags raises `ParseError`.
    """
    if len(text.encode("utf-8", "replace")) > MAX_FRONTMATTER_BYTES:
        excess = f"larger than {MAX_FRONTMATTER_BYTES} bytes; move text to the body."
        raise ParseError(
            f"The frontmatter is {excess}", code="frontmatter-too-large", line=first_line
        )
    reader = _EventReader(text, first_line)
    try:
        return reader.read_document(), tuple(reader.findings)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ParseError(
            f"The frontmatter is not YAML: {problem}; quote values that hold ': ' or odd"
            " characters.",
            code="yaml-too-deep" if problem == _TOO_DEEP else "yaml-invalid",
            line=None if mark is None else first_line + mark.line,
        ) from error


def as_yaml(text: str) -> str:
    """Return a text as a YAML scalar in double quotes; every JSON string is one."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def usual_type(text: str) -> str:
    """Return the type that most YAML readers give a plain scalar: ``str``, ``timestamp``, …."""
    return str(_RESOLVER.resolve(yaml.ScalarNode, text, (True, False))).removeprefix(_CORE_TAG)


def find_flow_style(text: str, *, first_line: int = 1) -> int | None:
    """Return the line of the first list or mapping in brackets, or None."""
    flows = (event for event in _events(text) if getattr(event, "flow_style", None))
    return next((first_line + int(event.start_mark.line) for event in flows), None)


def _events(text: str) -> Iterator[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML may be built without C
    return iter(yaml.parse(text, Loader=loader))


class _EventReader:
    """Builds JSON values from YAML events and refuses the costly ones."""

    def __init__(self, text: str, first_line: int) -> None:
        self.findings: list[Finding] = []
        self._first_line, self._count = first_line, 0
        self._events = _events(text)

    def read_document(self) -> Fields:
        """Return the one mapping of the stream, empty if the stream is."""
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return {}
        event = self._next()
        value = self._read_node(event, 0)
        next(self._events)
        if not isinstance(following := next(self._events), yaml.StreamEndEvent):
            raise self._refusal(following, "yaml-invalid", "it holds more than one document")
        if value is not None and not isinstance(value, dict):
            raise self._refusal(event, "yaml-not-a-mapping", "it has no 'key: value' lines")
        return value or {}

    def _next(self) -> Any:
        event = next(self._events)
        self._count += 1
        if self._count > MAX_EVENTS:
            raise self._refusal(event, "yaml-too-many-values", f"more than {MAX_EVENTS} values")
        if getattr(event, "anchor", None) is not None:
            raise self._refusal(event, "yaml-anchor", f"anchor or alias {event.anchor!r}")
        tag = getattr(event, "tag", None)
        if tag is not None and tag not in _PLAIN_TAGS:
            code = "yaml-tag" if tag.startswith(_CODE_TAGS) else "yaml-local-tag"
            raise self._refusal(event, code, f"tag {tag!r}")
        return event

    def _read_node(self, event: Any, depth: int) -> Json:
        if isinstance(event, yaml.ScalarEvent):
            return _resolve(event)
        if depth >= MAX_DEPTH:
            raise self._refusal(event, "yaml-too-deep", f"nested more than {MAX_DEPTH} levels")
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := self._next(), yaml.SequenceEndEvent):
                items.append(self._read_node(event, depth + 1))
            return items
        values: Fields = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent):
                key = well_formed(event.value)
            else:
                key = json.dumps(self._read_node(event, depth + 1), ensure_ascii=False)
            if key in values:
                self.findings.append(twice(key, self._first_line + event.start_mark.line))
            values[key] = self._read_node(self._next(), depth + 1)
        return values

    def _refusal(self, event: Any, code: str, reason: str) -> ParseError:
        message = f"The frontmatter is refused: {reason}; write plain 'key: value' lines."
        return ParseError(message, code=code, line=self._first_line + event.start_mark.line)


def twice(key: str, line: int) -> Finding:
    """Return the finding for a key of a mapping that stands twice."""
    return finding_of("frontmatter", "yaml-duplicate-key", key, line=line)


def well_formed(text: str) -> str:
    """Replace lone surrogates, which no file could store."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _resolve(event: Any) -> str | int | float | bool | None:
    """Return a scalar as a YAML 1.2 core type if its written form survives."""
    text: str = event.value
    if event.implicit[0]:
        if text in _WORDS:
            return _WORDS[text]
        if _NUMBER.fullmatch(text):
            number: int | float = float(text) if "." in text else int(text)
            return number if repr(number) == text else text
    return well_formed(text)
