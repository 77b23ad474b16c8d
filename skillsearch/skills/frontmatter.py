"""Cut the frontmatter off a SKILL.md and load its YAML as JSON values, in bounded time.

Values are built from the parser's event stream, so nothing is ever expanded: anchors, aliases,
foreign tags and depth are refused at their event. Frontmatter that is not YAML is read entry by
entry, so that its readable part survives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from skillsearch.errors import ParseError
from skillsearch.types import Diagnostic, JsonValue, Severity

MAX_FRONTMATTER_BYTES = 64 * 1024
MAX_DEPTH = 16
MAX_EVENTS = 5_000

HARMFUL_CODES = frozenset(
    {"frontmatter-too-large", "yaml-too-deep", "yaml-too-many-values", "yaml-tag"}
)
"""Codes of YAML that no repair may touch: the text was written to cost time or to run code."""

KEY_LINE = re.compile(r"""["']?[^\W\d][\w.-]{0,80}["']?[ \t]*:(?:[ \t]|$)""")
"""The start of a top-level ``key: value`` line; prose seldom has a colon after its first word."""

_CORE_TAG = "tag:yaml.org,2002:"
_CORE_TYPES = frozenset({"str", "int", "float", "bool", "null", "map", "seq", "timestamp"})
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
# 17 digits fit 64 bits, so every JSON library can carry the number.
_NUMBER = re.compile(r"-?[0-9]{1,17}(?:\.[0-9]{1,17})?")


class Finding(NamedTuple):
    """A problem in a text, before anyone says which file the text came from.

    Its `code` is kebab-case, its `line` counts from 1.
    """

    code: str
    message: str
    line: int | None = None
    severity: Severity = "warning"

    def at(self, path: str) -> Diagnostic:
        """Return this finding as a diagnostic about a path."""
        return Diagnostic(self.code, self.severity, self.message, path, self.line)


@dataclass(frozen=True, slots=True)
class Sections:
    """A SKILL.md cut in two, with Unix line ends; lines count from 1.

    Attributes:
        frontmatter: Text between the ``---`` lines; None if the file does not start with one.
        body: Text after the closing line.
        first_line: Line of the file on which the frontmatter starts.
        body_line: Line of the file on which the body starts.
        closed: False if there is no closing line and the end of the keys was guessed.
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
    start = len(text) - len(text.lstrip())
    opening_end = text.find("\n", start)
    if opening_end < 0 or text[start:opening_end].rstrip() != "---":
        return Sections(None, text)
    first_line = text.count("\n", 0, opening_end) + 2
    bounds = _find_closing_line(text, opening_end)
    if bounds is None:
        end = end_of_keys(text, opening_end + 1)
        bounds = (end, end)
    frontmatter = text[opening_end + 1 : bounds[0]]
    body_line = text.count("\n", 0, bounds[1]) + 1
    closed = bounds[0] != bounds[1]
    return Sections(frontmatter, text[bounds[1] :], first_line, body_line, closed)


def unix_lines(text: str) -> str:
    r"""Return the text with ``\n`` for the line ends of Windows and old Macs."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _find_closing_line(text: str, start: int) -> tuple[int, int] | None:
    """Return where the closing ``---`` line begins and where the text after it begins."""
    at = text.find("\n---", start)
    while at >= 0:
        end = text.find("\n", at + 1)
        end = len(text) if end < 0 else end
        if not text[at + 4 : end].strip():
            return at + 1, min(end + 1, len(text))
        at = text.find("\n---", end)
    return None


def end_of_keys(text: str, start: int = 0) -> int:
    """Return where an unclosed block of ``key: value`` lines must have ended.

    That is the first unindented line that is neither a key nor a list entry: in practice a Markdown
    heading or a paragraph.
    """
    at = start
    while at < len(text):
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        line = text[at:line_end]
        is_inside = not line.strip() or line[0] in " \t" or line.startswith("- ")
        if not is_inside and not KEY_LINE.match(line):
            return at
        at = line_end + 1
    return len(text)


def load_yaml(
    text: str, *, first_line: int = 1
) -> tuple[dict[str, JsonValue], tuple[Finding, ...]]:
    """Load a YAML mapping as JSON values, with a finding for each repeated key.

    Numbers become numbers only if that keeps their written form: ``version: 1.10`` stays the text
    "1.10". Dates, ``.nan`` and ``<<`` stay as written. The last of a repeated key counts.
    `first_line` is the line of the file on which the text starts.

    Raises:
        ParseError: The text is not a YAML mapping, or it is too large, too deep, has too many
            values,
            or has anchors, aliases or tags.
    """
    if len(text) > MAX_FRONTMATTER_BYTES or len(text.encode("utf-8", "replace")) > (
        MAX_FRONTMATTER_BYTES
    ):
        raise ParseError(
            f"The frontmatter is larger than {MAX_FRONTMATTER_BYTES} bytes; move text to the body.",
            code="frontmatter-too-large",
            line=first_line,
        )
    reader = _EventReader(text, first_line)
    try:
        values = reader.read_document()
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise _invalid(error, first_line) from error
    return values, tuple(reader.findings)


def find_flow_style(text: str, *, first_line: int = 1) -> int | None:
    """Return the line of the first list or mapping in brackets, or None."""
    events = _events(text)
    for event in events:
        if getattr(event, "flow_style", None):
            return first_line + int(event.start_mark.line)
    return None


def _events(text: str) -> Iterator[Any]:
    """Parse YAML into events, in C if PyYAML was built with it."""
    events: Iterator[Any] = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return events


def _invalid(error: Exception, first_line: int) -> ParseError:
    mark = getattr(error, "problem_mark", None)
    line = None if mark is None else first_line + mark.line
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return ParseError(
        f"The frontmatter is not YAML: {problem}; quote values that hold ': ' or odd characters.",
        code="yaml-invalid",
        line=line,
    )


class _EventReader:
    """Builds JSON values from YAML events and refuses the costly ones."""

    def __init__(self, text: str, first_line: int) -> None:
        self.findings: list[Finding] = []
        self._first_line = first_line
        self._count = 0
        self._events = _events(text)

    def read_document(self) -> dict[str, JsonValue]:
        """Return the one mapping of the stream, empty if the stream is."""
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return {}
        event = self._next()
        value = self._read_node(event, 0)
        next(self._events)
        if not isinstance(following := next(self._events), yaml.StreamEndEvent):
            raise self._refusal(following, "yaml-invalid", "it holds more than one document")
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._refusal(event, "yaml-not-a-mapping", "it has no 'key: value' lines")
        return value

    def _next(self) -> Any:
        """Return the next event after checking its anchor, its tag and the count."""
        event = next(self._events)
        self._count += 1
        if self._count > MAX_EVENTS:
            raise self._refusal(event, "yaml-too-many-values", f"more than {MAX_EVENTS} values")
        if getattr(event, "anchor", None) is not None:
            raise self._refusal(event, "yaml-anchor", f"anchor or alias {event.anchor!r}")
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!" and not _is_core(tag):
            code = "yaml-tag" if tag.startswith(_CORE_TAG) else "yaml-local-tag"
            raise self._refusal(event, code, f"tag {tag!r}")
        return event

    def _read_node(self, event: Any, depth: int) -> JsonValue:
        if isinstance(event, yaml.ScalarEvent):
            return _resolve(event)
        if depth >= MAX_DEPTH:
            raise self._refusal(event, "yaml-too-deep", f"nested more than {MAX_DEPTH} levels")
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := self._next(), yaml.SequenceEndEvent):
                items.append(self._read_node(event, depth + 1))
            return items
        return self._read_mapping(depth)

    def _read_mapping(self, depth: int) -> dict[str, JsonValue]:
        """Return the mapping whose start event was just read."""
        values: dict[str, JsonValue] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent):
                key = _well_formed(event.value)
            else:
                key = json.dumps(self._read_node(event, depth + 1), ensure_ascii=False)
            if key in values:
                message = f"The key {key!r} stands twice; the last value counts, remove the other."
                line = self._first_line + event.start_mark.line
                self.findings.append(Finding("yaml-duplicate-key", message, line))
            values[key] = self._read_node(self._next(), depth + 1)
        return values

    def _refusal(self, event: Any, code: str, what: str) -> ParseError:
        line = self._first_line + event.start_mark.line
        return ParseError(
            f"The frontmatter is refused: {what}; write plain 'key: value' lines.",
            code=code,
            line=line,
        )


def _is_core(tag: str) -> bool:
    return tag.startswith(_CORE_TAG) and tag[len(_CORE_TAG) :] in _CORE_TYPES


def _well_formed(text: str) -> str:
    """Replace lone surrogates, which no file could store."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _resolve(event: Any) -> str | int | float | bool | None:
    """Return a scalar as a YAML 1.2 core type if its written form survives."""
    text: str = event.value
    if not event.implicit[0]:
        return _well_formed(text)
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        number: int | float = float(text) if "." in text else int(text)
        return number if repr(number) == text else text
    return _well_formed(text)
