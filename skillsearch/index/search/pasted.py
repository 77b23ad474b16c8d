"""What a request says to do, apart from the text that is pasted into it; pure.

"Summarise this source: ..." asks for a summary, whatever the source is about. The instruction may
stand before what is pasted, behind it, or between two texts. Precise rather than complete: a long
task told in sentences has no pasted text. Every expression is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text import markdown
from skillsearch.text.tables import as_expression, read_tables

_LEAST_PASTED = 25
"""Least words of a pasted text; a shorter list after a colon belongs to the request."""
_LEAST_ORDER, _MOST_ORDER = 2, 60
"""Words of an order."""
_MOST_UNMARKED = 40
"""Words of an order without a word that tells it."""
_MOST_SENTENCES = 4
_SHARE = 0.5
"""An order has at most this share of the words of a request."""
_MOST_CHARS, _MOST_LINES = 100_000, 2_000
_FIRST_WORDS = 2
"""Of a sentence; one of them tells an order."""
_LAST_WORDS = 8
"""Before a colon; one of them names the pasted text."""
_FORMED_SHARE = 0.4
"""Of the lines of a paragraph that look like code, a log or a table; from then on all of it is."""
_WRAPPED_LINE = 160
"""Characters. With a longer line a paragraph is not wrapped: each line is a paragraph."""
_MOST_NAME_WORDS = 3
"""Of whoever signs a letter."""
_SPACELESS = ("zh", "ja", "ko", "th")

_LINE_END = lazy_pattern(r"\r\n?|[ \t]{0,9}\u23ce[ \t]{0,9}")
_SENTENCE_END = lazy_pattern(r"[.!?](?=\s|\Z)|[。\uff01\uff1f]")
_QUESTION = lazy_pattern("[?\uff1f\u061f]")
_COLON = lazy_pattern(r"[:\uff1a](?=\s|[\"'“„«「])")
_WORD = lazy_pattern(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_RULE = lazy_pattern(r"\s{0,3}([-=*_~#+])(?:\s?\1){2,200}\s{0,9}")
_TAG = lazy_pattern(r"\s{0,9}<(?P<end>/?)[A-Za-z][\w-]{0,30}>\s{0,9}")
_LONG_QUOTATION = lazy_pattern(
    r"""(?:(?<=\s)|\A)(?:"(?=\S)[^"]{120,20000}(?<=\S)"|“[^“”]{120,20000}”|„[^„“”]{120,20000}[“”]"""
    r"""|«[^«»]{120,20000}»)|「[^「」]{60,20000}」"""
)


class _Part(NamedTuple):
    text: str
    is_pasted: bool


def instruction(text: str) -> str:
    """Return what a request says about the text that is pasted into it; empty without such a text.

    It is what stands outside of code, quotations, logs, tables and letters, else the paragraph or
    the line before or behind the others that orders something, else what orders something before a
    colon. What is pasted is at least as long.
    """
    size = _count(text)
    if len(text) > _MOST_CHARS or size < _LEAST_PASTED + _LEAST_ORDER:
        return ""
    text = _LINE_END.sub("\n", text)
    if text.lstrip().startswith("#"):  # a task with headings
        return ""
    for order in (_outside(text), _before_colon(text)):
        most = min(_MOST_ORDER, _SHARE * size, size - _LEAST_PASTED)
        if _LEAST_ORDER <= _count(order) <= most:
            return order
    return ""


def _outside(text: str) -> str:
    """Return the text that is not pasted: all if it is short, else an order at an end."""
    if len(parts := _parts(text)) < 2:
        rest = _LONG_QUOTATION.sub(" ", text)
        return "" if rest == text else rest.strip(" \n:")
    own = [part for part in parts if not part.is_pasted and _is_short(part.text)]
    looks_pasted = _count_all(part for part in parts if part.is_pasted) >= _LEAST_PASTED
    if not looks_pasted or _count_all(own) > _MOST_ORDER:
        own = _ordering(parts, own, looks_pasted=looks_pasted)
    return "\n".join(part.text for part in own)


def _ordering(parts: list[_Part], own: list[_Part], *, looks_pasted: bool) -> list[_Part]:
    """Return which of a request's own parts order something: those at its ends, else the last.

    If none does, those at the ends may, or the first alone if nothing looks pasted.
    """
    ends = [part for part in (parts[0], parts[-1]) if part in own]
    if orders := [part for part in own if _orders(part.text)]:
        return [part for part in ends if part in orders] or orders[-1:]
    unmarked = ends if looks_pasted else [part for part in ends if part is parts[0]]
    return [part for part in unmarked if _count(part.text) <= _MOST_UNMARKED]


def _count_all(parts: Iterable[_Part]) -> int:
    return sum(_count(part.text) for part in parts)


def _before_colon(text: str) -> str:
    """Return the order before the first colon, if it names a pasted text."""
    colon = _COLON.search(text)
    head = text[: colon.start()].strip() if colon else ""
    words = _WORD.findall(head.casefold())[-_LAST_WORDS:]
    names = not _words("nouns").isdisjoint(words) or _has_any(head, "nouns")
    return head if head and names and _is_short(head) and _orders(head) else ""


def _parts(text: str) -> list[_Part]:
    """Split a text into what looks pasted and other paragraphs, or a paragraph into lines."""
    blocks = [part for part in _blocks(text) if part.text]
    parts = _with_letters([part for block in blocks for part in _by_form(block)])
    if len(parts) == 1 and not parts[0].is_pasted:
        return _lines(parts[0].text.split("\n"))
    return parts


def _blocks(text: str) -> Iterator[_Part]:
    """Yield paragraphs, and as pasted what stands in code fences, in tags and behind ``>``."""
    block: list[str] = []
    depth, was_pasted = 0, False
    for line in list(markdown.lines(text))[:_MOST_LINES]:
        tag = _TAG.fullmatch(line.text)
        is_pasted = line.is_fenced or depth > 0 or line.text.lstrip().startswith(">")
        is_blank = not line.text.strip() or bool(tag or _RULE.fullmatch(line.text))
        ends = is_blank and not is_pasted
        begins_letter = bool(block) and bool(_expression("greeting").fullmatch(line.text))
        if ends or is_pasted != was_pasted or begins_letter:
            yield from _paragraphs(block, is_pasted=was_pasted)
            block = []
        if tag:
            depth = max(depth + (-1 if tag["end"] else 1), 0)
        elif not ends:
            block.append(line.text)
        was_pasted = is_pasted
    yield from _paragraphs(block, is_pasted=was_pasted)


def _paragraphs(lines: Sequence[str], *, is_pasted: bool) -> Iterator[_Part]:
    is_wrapped = is_pasted or max(map(len, lines), default=0) <= _WRAPPED_LINE
    for text in ("\n".join(lines),) if is_wrapped else lines:
        yield _Part(text.strip(), is_pasted)


def _by_form(block: _Part) -> Iterator[_Part]:
    """Yield a paragraph, apart from its lines that look like code, a log, a table or a mail."""
    lines = block.text.split("\n")
    formed = [_expression("formed").match(line) is not None for line in lines]
    if block.is_pasted or not any(formed):
        yield block
        return
    if sum(formed) >= _FORMED_SHARE * len(lines):
        for number in range(len(lines)):
            is_end = number in (0, len(lines) - 1)
            if not is_end or (len(lines) > 2 and not _orders(lines[number])):
                formed[number] = True
    for is_formed, numbers in groupby(range(len(lines)), formed.__getitem__):
        if text := "\n".join(lines[number] for number in numbers).strip():
            yield _Part(text, is_formed)


def _with_letters(parts: list[_Part]) -> list[_Part]:
    """Join what stands between a greeting and a closing, with the name behind it, as pasted.

    A greeting of nobody begins a letter only if a closing follows.
    """
    closes = _expression("closing").match
    closings = [at for at, part in enumerate(parts) if any(map(closes, part.text.split("\n")))]
    starts = [at for at, part in enumerate(parts) if _begins_letter(part, closed=bool(closings))]
    if not starts:
        return [part for part in parts if not _expression("greeting").fullmatch(part.text)]
    start = starts[0]
    end = _end_of_letter(parts, start, closings)
    letter = "\n".join(part.text for part in parts[start : end + 1])
    return [*parts[:start], _Part(letter, True), *parts[end + 1 :]]


def _end_of_letter(parts: list[_Part], start: int, closings: list[int]) -> int:
    """Return the last part of a letter, which ends with a closing or before an order."""
    last = len(parts) - 1
    if closings and closings[-1] >= start:
        end = closings[-1]
        behind = parts[end + 1].text if end < last else ""
        is_name = behind and _count(behind) <= _MOST_NAME_WORDS and not _orders(behind)
        return end + 1 if is_name else end
    is_order_behind = start < last and (start == 0 or _orders(parts[-1].text))
    return last - 1 if is_order_behind else last


def _begins_letter(part: _Part, *, closed: bool) -> bool:
    if _expression("greeting").fullmatch(first := part.text.partition("\n")[0]):
        words = _WORD.findall(first.casefold())
        is_named = len(words) > 1 or not _words("greetings").issuperset(words)
        return (is_named or closed) and _words("assistants").isdisjoint(words)
    return part.is_pasted and "@" in part.text and bool(_expression("head").match(first))


def _lines(lines: Sequence[str]) -> list[_Part]:
    """Part the first or the last line of a paragraph from it, if that line alone is an order."""
    for order, rest in ((lines[0], lines[1:]), (lines[-1], lines[:-1])):
        if rest and _orders(order) and not any(map(_orders, rest)):
            return [_Part(order, False), _Part("\n".join(rest), True)]
    return []


def _is_short(text: str) -> bool:
    return _count(text) <= _MOST_ORDER and len(_SENTENCE_END.findall(text)) <= _MOST_SENTENCES


def _orders(text: str) -> bool:
    """Return whether a text asks or orders something, by a mark or how a sentence begins."""
    if _QUESTION.search(text) or _has_any(text, "orders"):
        return True
    begins = (_WORD.findall(part.casefold())[:_FIRST_WORDS] for part in _SENTENCE_END.split(text))
    return any(not _words("orders").isdisjoint(words) for words in begins)


def _count(text: str) -> int:
    """Count words; two letters of a script without blanks count as one."""
    dense = sum(char >= "\u2e80" for char in text)
    return len(_WORD.findall(text)) + dense // 2


@cache
def _tables() -> dict[str, dict[str, list[str]]]:
    return read_tables(Path(__file__).with_name("pasted_words.txt"))


@cache
def _words(title: str) -> frozenset[str]:
    rows = _tables()[title].items()
    return frozenset(word for code, row in rows if code not in _SPACELESS for word in row)


def _has_any(text: str, title: str) -> bool:
    rows = _tables()[title]
    return any(word in text for code in _SPACELESS for word in rows.get(code, ()))


@cache
def _expression(name: str) -> re.Pattern[str]:
    """Return the expression for a line of some kind; few requests need one."""
    greetings, closings, heads, code = (
        as_expression(phrase for row in _tables()[title].values() for phrase in row)
        for title in ("greetings", "closings", "heads", "code")
    )
    honoured = r"[^\s.?!。]{1,20}(?:様|さん|先生|님|经理|女士|您好|你好)[^.?!。\n]{0,20}"
    formed = (
        rf"\s{{0,40}}(?i:{heads}):\s",
        r"\s{0,40}[\[(]?\d{2,4}[-/.:]\d{1,2}[-/.:\dT]",  # a time
        r"(?:\s{0,40}|\S{1,40}\s)(?:ERR!?|ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL)\b",
        r"\s{0,40}(?:Traceback|Caused by|Exception in|at [\w.$/<]{1,120}\(|File \")",
        r"\s{0,40}[\w.]{0,80}(?:Error|Exception|Warning)\b:",
        r"\s{0,40}(?:[{}\[\]<|;*/@$%&+=~]|//|--|#!|#{1,6}\S?.{0,80}\w\(|\"[^\"]{1,80}\":)",
        r"\s{0,40}(?:import|from) [\w.*{}, ]{1,80}(?: (?:import|as|from) .{1,80})?;?$",
        rf"\s{{0,40}}(?:{code}|{code.upper()})\b.{{0,200}}(?:[({{;:\\]\s*$| = |\w\()",
        r".{0,2000}(?:[;{}\\]|\)[:;,]?|=>|->)\s{0,9}$",
        r".{0,200}(?: \| |\t|\s=\s|\S\(\S{0,80}\)\S{0,3}$)",
        r"(?:[^,;\s][^,;\n]{0,80}[,;](?=\S)){2}",  # a row of a table
    )
    patterns = {
        "greeting": rf"(?i)\W{{0,3}}(?:(?:{greetings})\b[^.?!\n]{{0,50}}|{honoured})[^\w\s]?\s*",
        "closing": rf"(?i)\W{{0,3}}(?:{closings})",
        "head": rf"(?i)(?:{heads}):\s",
        "formed": "|".join(formed),
    }
    return re.compile(patterns[name])
