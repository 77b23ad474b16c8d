"""Requests that a skill's own text says it is for: quoted phrases, lists of uses, headings; pure.

Every expression is bounded, so time is linear even in a hostile text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text.markdown import lines
from skillsearch.text.tables import read_tables

_MAX_BODY_CHARS = 1 << 20
_MAX_LINE_CHARS = 1_000
_CLAUSE_CHARS = 300
"""How far before a quoted phrase a negating word may stand."""

_TABLES = read_tables(Path(__file__).with_name("request_phrases.txt"))


def _any_of(title: str) -> re.Pattern[str]:
    phrases = chain.from_iterable(_TABLES[title].values())
    return lazy_pattern("|".join(phrases).replace("_", " "), re.IGNORECASE)


_HEADING = lazy_pattern(r"(?P<level>#{1,6})[ \t]+(?P<text>.*)")
_ITEM = lazy_pattern(r"\s*(?:[-*+•]|[0-9]{1,3}[.)])\s+(?P<text>.*)")
_LEAD = lazy_pattern(r"[^|>]{1,150}[:\uff1a]\W*|\*\*[^*]{1,150}\*\*")
"""A line that introduces the list below it."""
_QUOTED = lazy_pattern(
    """"([^"\n]{1,300})"|“([^”\n]{1,300})”|„([^“”\n]{1,300})[“”]|«([^»\n]{1,300})»"""
    r"""|「([^」\n]{1,300})」|『([^』\n]{1,300})』|\u2018([^\u2019\n]{1,300})\u2019(?!\w)"""
    r"""|(?<!\w)'((?:[^'\n]|(?<=\w)'(?=\w)){1,300})'(?!\w)"""
)
_SENTENCE_END = lazy_pattern(r"[.!?;](?=\s)|[。\uff01\uff1f\uff1b\n]")
_NEGATED, _REQUESTS, _EXAMPLES = map(_any_of, ("negated", "requests", "examples"))
_SOMEONE_ASKS = lazy_pattern(
    r"(?:(?:use )?(?:when|if) )?(?:the |a )?(?:users?|you|someone) (?:explicitly )?"
    r"(?:asks?|wants?|needs?|says?|requests?)(?: you| me)?(?: (?:to|for|about|help with))? ",
    re.IGNORECASE,
)
_ASIDE = lazy_pattern(r"\s*(?:[→—\u2013:\uff1a(\uff08]| -+ |=>|->)")
"""An item goes on from the request to what to do about it."""
_LINK = lazy_pattern(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_MARKS = lazy_pattern(r"\*{1,3}|(?<!\w)_{1,3}|_{1,3}(?!\w)")
_NUMBERING = lazy_pattern(
    r"^(?:[^\W\d]+ #?[0-9]+[.0-9]*[a-z]? ?[.):\uff1a\u2013—-]\s*|#?[0-9]+[.0-9]*[a-z]?[.):]?\s+"
    r"|第?[0-9一二三四五六七八九十]+[步章节節]?[、.:\uff1a]\s*)",
    re.IGNORECASE,
)
_ENDS = lazy_pattern(r"^[^\w`/<\[{(\"'“「『«„]+|[\s.,;:\uff1a。、…—\u2013-]+$")
_WORD = lazy_pattern(r"[^\W_]+")


class MarkdownBlock(NamedTuple):
    """A line of Markdown, or a list item with its continuation lines."""

    kind: Literal["heading", "lead", "item", "text"]
    text: str
    level: int = 0


def blocks(body: str) -> Iterator[MarkdownBlock]:
    """Yield what stands outside fenced code."""
    item: list[str] = []
    unfenced = ("" if line.is_fenced else line.text for line in lines(body[:_MAX_BODY_CHARS]))
    # The blank line at the end closes the last item.
    for line in (*(text[:_MAX_LINE_CHARS] for text in unfenced), ""):
        heading, listed = _HEADING.match(line), _ITEM.match(line)
        text = line.strip()
        if item and text and line[0] in " \t" and not heading and not listed:
            item.append(text)
            continue
        if item:
            yield MarkdownBlock("item", " ".join(item))
            item = []
        if heading:
            yield MarkdownBlock("heading", heading["text"].strip(" #"), len(heading["level"]))
        elif listed:
            item = [listed["text"].strip()]
        elif text:
            yield MarkdownBlock("lead" if _LEAD.fullmatch(text) else "text", text)


def section_headings(parsed: Iterable[MarkdownBlock]) -> Iterator[str]:
    """Return headings of level 2 and 3 without their numbers; deeper ones are details."""
    headings = (each.text for each in parsed if each.kind == "heading" and each.level in (2, 3))
    return (plain(_NUMBERING.sub("", plain(text), count=1)) for text in headings)


def requests(parsed: Iterable[MarkdownBlock]) -> Iterator[str]:
    """Yield, as written, what a body gives as requests of users.

    These are quoted phrases and list items below a line like "When to use", and quoted phrases
    alone below one like "Examples".
    """
    takes: Literal["", "quoted", "requests"] = ""
    for kind, text, _ in parsed:
        if kind in ("heading", "lead"):
            takes = _introduced(plain(text))
        phrases = list(quoted(text)) if takes and kind != "heading" else []
        yield from phrases
        is_request = takes == "requests" and kind == "item" and not phrases
        if is_request and "`" not in text and not _NEGATED.search(text):
            yield _ASIDE.split(_SOMEONE_ASKS.sub("", plain(text), count=1), maxsplit=1)[0]


def quoted(text: str) -> Iterator[str]:
    """Yield the phrases in quotation marks, without those that the text says not to use it for."""
    masked = _QUOTED.sub(lambda match: "x" * len(match[0]), text)
    for match in _QUOTED.finditer(text):
        before = masked[max(0, match.start() - _CLAUSE_CHARS) : match.start()]
        if not _NEGATED.search(_SENTENCE_END.split(before)[-1]):
            yield next(filter(None, match.groups()))


def plain(text: str) -> str:
    """Return a phrase without emphasis, links, and punctuation at its ends."""
    return _ENDS.sub("", " ".join(_MARKS.sub("", _LINK.sub(r"\1", text)).split()))


def words(text: str) -> list[str]:
    """Return the words of a text, without punctuation and underscores."""
    return _WORD.findall(text)


def fold_words(text: str) -> str:
    """Return the words of a text in lower case, joined by single blanks."""
    return " ".join(words(text.casefold()))


def fold_blanks(text: str) -> str:
    """Return a text in lower case with single blanks."""
    return " ".join(text.casefold().split())


def _introduced(line: str) -> Literal["", "quoted", "requests"]:
    if _NEGATED.search(line):
        return ""
    if _REQUESTS.search(line):
        return "requests"
    return "quoted" if _EXAMPLES.search(line) else ""
