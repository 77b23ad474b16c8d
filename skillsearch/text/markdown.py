"""Markdown lines: fenced code, paragraphs and sections; pure.

Fences are CommonMark's (https://spec.commonmark.org/0.31.2/#fenced-code-blocks), outside lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_OPENING = re.compile(r" {0,3}(?P<mark>`{3,}+(?=[^`]*\Z)|~{3,}+)")
_CLOSING = re.compile(r" {0,3}(?P<mark>`{3,}+|~{3,}+)[ \t]*\r?\Z")
_HEADING = re.compile(r"#{1,6}[ \t]+(?=\S)")


class Line(NamedTuple):
    """One line of a text, without its line feed, and its offset; fence lines count as fenced."""

    text: str
    start: int
    is_fenced: bool


def lines(text: str) -> Iterator[Line]:
    """Yield the lines of a Markdown text with Unix line ends, in linear time.

    An unclosed fence extends to the end. A final line feed starts no line.
    """
    fence, start = "", 0
    for line in text.removesuffix("\n").split("\n"):
        if fence:
            closing = _CLOSING.match(line)
            yield Line(line, start, True)
            fence = "" if closing and closing["mark"].startswith(fence) else fence
        else:
            opening = _OPENING.match(line)
            fence = opening["mark"] if opening else ""
            yield Line(line, start, bool(fence))
        start += len(line) + 1


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of lines without a fence or a blank line."""
    begin, end = -1, -1
    for line in lines(text):
        if not line.is_fenced and line.text.strip():
            begin, end = line.start if begin < 0 else begin, line.start + len(line.text)
        elif begin >= 0:
            yield begin, end
            begin = -1
    if begin >= 0:
        yield begin, end


def sections(body: str) -> Iterator[tuple[str, str]]:
    """Yield heading and text of each section, the text before the first heading under an empty one.

    A ``#`` inside a code fence is not a heading.
    """
    heading = ""
    section: list[str] = []
    for line in lines(body):
        found = None if line.is_fenced else _HEADING.match(line.text)
        if found:
            yield heading, "\n".join(section)
            heading, section = _heading_text(line.text[found.end() :]), []
        else:
            section.append(line.text)
    yield heading, "\n".join(section)


def _heading_text(text: str) -> str:
    """Return a heading without the marks that may close it; the ``#`` of ``C#`` stays."""
    text = text.rstrip()
    bare = text.rstrip("#")
    return bare.rstrip() if bare[-1:] in (" ", "\t") else text
