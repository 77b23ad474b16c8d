"""Markdown lines: which are fenced code, where paragraphs and sections lie; pure.

Fences are CommonMark's (https://spec.commonmark.org/0.31.2/#fenced-code-blocks), without the
lists and quotes that a fence can stand in: one that is indented by more than three blanks is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_OPENING = re.compile(r" {0,3}(?P<mark>`{3,}+(?=[^`]*\Z)|~{3,}+)")
_CLOSING = re.compile(r" {0,3}(?P<mark>`{3,}+|~{3,}+)[ \t]*\r?\Z")
_HEADING = re.compile(r"#{1,6}[ \t]+(?=\S)")


class Line(NamedTuple):
    """One line of a text.

    Attributes:
        text: The line without its line feed.
        start: Where it begins in the text.
        is_fenced: True for the lines of a fence and all between them.
    """

    text: str
    start: int
    is_fenced: bool


def lines(text: str) -> Iterator[Line]:
    """Yield the lines of a Markdown text.

    A fence has at least three backticks or tildes, and it ends with a line of no fewer of them
    and nothing else; one that nobody closed goes on to the end. Time is linear in the text.

    Args:
        text: Markdown, its line ends those of Unix.

    Yields:
        Each line; a line feed at the end of the text begins none.
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
    """Yield where each stretch of lines begins and ends that has no fence and no blank line.

    Args:
        text: Markdown, its line ends those of Unix.

    Yields:
        Two places in the text, the second behind the last character.
    """
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
    """Split Markdown along its headings; a ``#`` inside a code fence is no heading.

    Args:
        body: Markdown.

    Yields:
        Heading and text of each section, the text before the first heading under an empty one.
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
    """Return a heading without the marks that may close it; those of ``C#`` do not."""
    text = text.rstrip()
    bare = text.rstrip("#")
    return bare.rstrip() if bare[-1:] in (" ", "\t") else text
