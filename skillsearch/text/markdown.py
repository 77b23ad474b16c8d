"""Markdown lines: fenced code, paragraphs and sections; pure.

Fences are CommonMark's (https://spec.commonmark.org/0.31.2/#fenced-code-blocks), outside lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from skillsearch.fast_start.patterns import lazy_pattern

_OPENING = lazy_pattern(r" {0,3}(?P<mark>`{3,}+(?=[^`]*\Z)|~{3,}+)")
_CLOSING = lazy_pattern(r" {0,3}(?P<mark>`{3,}+|~{3,}+)[ \t]*\r?\Z")
_HEADING = lazy_pattern(r"#{1,6}[ \t]+(?=\S)")


class MarkdownLine(NamedTuple):
    """One line of a text, without its line feed, and its offset; fence lines count as fenced."""

    text: str
    start: int
    is_fenced: bool


def lines(text: str) -> Iterator[MarkdownLine]:
    """Yield the lines of a Markdown text, in linear time; an unclosed fence extends to the end."""
    fence, start = "", 0
    for line in text.removesuffix("\n").split("\n"):
        if fence:
            closing = _CLOSING.match(line)
            yield MarkdownLine(line, start, True)
            fence = "" if closing and closing["mark"].startswith(fence) else fence
        else:
            opening = _OPENING.match(line)
            fence = opening["mark"] if opening else ""
            yield MarkdownLine(line, start, bool(fence))
        start += len(line) + 1


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of lines without a fence or a blank line."""
    groups = groupby(lines(text), lambda line: not line.is_fenced and line.text.strip() != "")
    for run in (list(group) for is_text, group in groups if is_text):
        yield run[0].start, run[-1].start + len(run[-1].text)


def sections(body: str) -> Iterator[tuple[str, str]]:
    """Yield heading and text of each section; the text before the first has an empty heading."""
    heading = ""
    section: list[str] = []
    for line in lines(body):
        if not line.is_fenced and (mark := _HEADING.match(line.text)):
            yield heading, "\n".join(section)
            # Marks may close a heading; the ``#`` of ``C#`` stays.
            text = line.text[mark.end() :].rstrip()
            bare = text.rstrip("#")
            heading, section = bare.rstrip() if bare.endswith((" ", "\t")) else text, []
        else:
            section.append(line.text)
    yield heading, "\n".join(section)
