"""What a request does not want and what a skill is not for, apart from the rest; pure.

Precise rather than complete: "without Docker" excludes Docker, "without errors" nothing. Every
expression is bounded, so time is linear even in a hostile text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text.tables import as_expression, read_tables
from skillsearch.text.unwanted_clauses import unwanted_clauses

_TABLES = read_tables(Path(__file__).with_name("exclusion_words.txt"))
_MOST_WORDS = 8
"""Words that a request excludes at once, articles included."""
_REACH = 40
"""Characters before a Japanese or Korean marker that hold what it excludes."""
_SENTENCE_CHARS = 300


def _phrases(*titles: str) -> str:
    """Return one expression for all phrases of some tables."""
    rows = (row for title in titles for row in _TABLES[title].values())
    return as_expression(chain.from_iterable(rows))


def _words(title: str) -> frozenset[str]:
    return frozenset(word for row in _TABLES[title].values() for word in row)


_SPACED = lazy_pattern(
    rf"\b(?:(?P<use>{_phrases('use')})|(?P<named>{_phrases('named')}))(?![\w-])", re.IGNORECASE
)
_UNSPACED = lazy_pattern(
    rf"(?:{_phrases('unspaced')}|(?P<named>{_phrases('unspaced named')}))[ ]?"
    r"(?P<what>[A-Za-z][\w.+#-]{0,40}(?:[ ][A-Z][\w.+#-]{0,40})?"
    r"|(?(named)(?!)|(?:(?![来來去而但就做])[\u4e00-\u9fff]){1,8}))",
    re.ASCII,
)
_BEHIND = lazy_pattern(_phrases("behind").replace("{1,3}", "{0,3}"))
_LAST_NAME = lazy_pattern(r"[A-Za-z][A-Za-z0-9.+#-]{0,30}(?: [A-Z][A-Za-z0-9.+#-]{0,30})?$")
_NOT_BUT = lazy_pattern(
    rf"\b(?:{_phrases('not')})[ ](?P<what>[^\s,;]{{1,40}}),?[ ](?:{_phrases('but')})\b",
    re.IGNORECASE,
)

_WORD = lazy_pattern(
    r"(?P<before>[ \t\n]{1,3}[\"'`“«(]?)(?P<word>[^\W_][\w.+#/@\u2019'-]{0,60})(?P<after>[\"'`”»]?)"
)
_ENDS, _NARROWS, _JOINS = _words("ends"), _words("narrows"), _words("joins")
_ARTICLES, _VAGUE, _TOOLS = _words("articles"), _words("vague"), _words("tools")
_STRICT = frozenset(phrase.split("_")[0] for phrase in _TABLES["named"]["de"])
"""Before a noun of German, which is capitalised, name or not."""

_SENTENCE = (
    # A list below the marker belongs to it, and so does "e.g.".
    r"(?:\s{0,3}:?[ \t]{0,3}(?:\n[ \t]{0,8}[-*\u2022][^\n]{1,300}){1,20}"
    r"|(?:e\.g\.|i\.e\.|vs\.|(?!,?[ ]but[ ]|\n[ \t]{0,8}(?:\n|[-*\u2022#]|[^\W\d][\w ]{0,30}:))"
    r"(?:[^.!?;。\uff01\uff1f\uff1b]|[.!?](?!\s|$))){1,600})"
)
_NOT_FOR = lazy_pattern(
    rf"(?:(?<![\w-])(?:{_phrases('description')})(?![\w-])|(?:{_phrases('description unspaced')}))"
    rf"{_SENTENCE}[.!?;。\uff01\uff1f\uff1b]?",
    re.IGNORECASE,
)
_USE_ANOTHER = lazy_pattern(
    r"(?:(?<=[.;!?)]\s)|^)For[ ][^.;:\n]{1,120}?,?[ ](?:please[ ])?(?:use|see|prefer|try)[ ]"
    r"(?:[^.;,\n]{1,80}?[ ](?:skill\b(?:[ ]instead)?|instead\b)"
    r"|(?:the[ ])?[`/]?[a-z0-9][a-z0-9_:-]{0,63}`?(?=[.;]?(?:\s|$)))"
    r"(?:[^.;\n]|\.(?!\s|$)){0,120}[.;]?",
    re.MULTILINE,
)
_NOT_FOR_BEHIND = lazy_pattern(_phrases("description behind").replace("{1,3}", "{0,3}"))
_LAST_END = lazy_pattern(r"[.!?;。\uff01\uff1f\uff1b\n](?=[^.!?;。\uff01\uff1f\uff1b\n]*$)")
_REST = lazy_pattern(r"[^.!?;。\uff01\uff1f\uff1b\n]{0,20}[.!?;。\uff01\uff1f\uff1b]?")

_Span = tuple[int, int, int, int]
"""Where a clause begins and ends, and where what it excludes does."""


class SplitRequest(NamedTuple):
    """A request without what it excludes, and what that is: things by name, and whole clauses.

    `rest` is `wanted` without clauses such as "don't send it": what they name is excluded, but
    their words may belong to the wish.
    """

    wanted: str
    things: tuple[str, ...]
    clauses: tuple[str, ...]
    rest: str


def split_request(text: str, language: str = "en") -> SplitRequest:
    """Split a request in a language; of one that only says what not to use, nothing is wanted."""
    foreign = () if text.isascii() else _foreign(text)
    things = sorted((*_wanted_not(text), *_not_but(text), *foreign))
    refused, negated = ([span * 2 for span in spans] for spans in unwanted_clauses(text, language))
    rest, excluded = _split(text, sorted((*things, *refused, *negated)))
    if not excluded:
        return SplitRequest(text, (), (), text)
    wanted, _ = _split(text, sorted((*things, *refused)))
    named = tuple(text[first:stop].strip() for _, _, first, stop in things)
    clauses = tuple(
        text[begin:end].strip()
        for begin, end, *_ in sorted((*refused, *negated))
        if not any(begin < stop and first < end for _, _, first, stop in things)
    )
    if not any(map(str.isalnum, wanted)):
        return SplitRequest("", named, clauses, "")
    if not any(map(str.isalnum, rest)):
        return SplitRequest(text, (), (), text)
    return SplitRequest(wanted, named, clauses, rest)


def split_description(text: str) -> tuple[str, str]:
    """Return what a description says that the skill is for, and what not; never the first empty."""
    matches = chain(_NOT_FOR.finditer(text), _USE_ANOTHER.finditer(text))
    spans = [(*match.span(), *match.span()) for match in matches]
    for match in _NOT_FOR_BEHIND.finditer(text):
        first = max(0, match.start() - _SENTENCE_CHARS)
        end = _LAST_END.search(text[first : match.start()])
        begin = first + end.end() if end else first
        rest = _REST.match(text, match.end())
        spans.append((begin, rest.end() if rest else match.end(), begin, match.start()))
    handled, excluded = _split(text, sorted(spans))
    return (handled, excluded) if any(map(str.isalnum, handled)) else (text, "")


def _wanted_not(text: str) -> Iterator[_Span]:
    for match in _SPACED.finditer(text):
        end = _end_of_use(text, match.end()) if match["use"] else _end_of_names(text, match)
        if end > match.end():
            yield match.start(), end, match.end(), end


def _not_but(text: str) -> Iterator[_Span]:
    for match in _NOT_BUT.finditer(text):
        if _is_name(match["what"]):
            yield match.start(), match.end("what"), *match.span("what")


def _foreign(text: str) -> Iterator[_Span]:
    """Yield clauses in languages whose markers and names are not parted by blanks."""
    for match in _UNSPACED.finditer(text):
        yield (*match.span(), *match.span("what"))
    for match in _BEHIND.finditer(text):
        first = max(0, match.start() - _REACH)
        if name := _LAST_NAME.search(text[first : match.start()]):
            yield first + name.start(), match.end(), first + name.start(), match.start()


def _following(text: str, at: int) -> Iterator[tuple[str, str, int]]:
    """Yield each word of a clause as written, in lower case, and where it ends."""
    for _ in range(_MOST_WORDS):
        if not (match := _WORD.match(text, at)):
            return
        word = match["word"].rstrip(".'\u2019-/")
        at = match.end()
        yield word, word.casefold(), match.start("word") + len(word)
        if word != match["word"]:
            return


def _end_of_use(text: str, at: int) -> int:
    """Return where what is not to be used ends; `at` if it is not said, or narrowed."""
    end, joined, has_name = at, False, False
    for word, folded, stop in _following(text, at):
        is_name = _is_name(word)
        if folded in _NARROWS and not is_name:
            return end if has_name else at
        is_vague = end == at and folded in _VAGUE
        if is_vague or folded in _ENDS or (joined and not is_name):
            break
        joined = folded in _JOINS
        if not joined and folded not in _ARTICLES:
            end, has_name = stop, has_name or is_name
    return end


def _end_of_names(text: str, marker: re.Match[str]) -> int:
    """Return where the names after a marker end; where it ends itself if there is none."""
    is_strict = marker["named"].casefold().split()[0] in _STRICT
    end = marker.end()
    for word, folded, stop in _following(text, end):
        if _is_name(word, is_strict=is_strict):
            end = stop
        elif folded not in _JOINS and folded not in _ARTICLES:
            # "Without git history" wants git.
            return end if folded in _ENDS | _NARROWS else marker.end()
    return end


def _is_name(word: str, *, is_strict: bool = False) -> bool:
    """Return whether a word looks like the name of a tool."""
    if (word := word.strip("`\"'.")).casefold() in _TOOLS:
        return True
    if word.endswith("ING") or len(word) < 2 or not word[0].isalnum():
        return False
    has_capital = word[1:] != word[1:].lower() or (word[0].isupper() and not is_strict)
    return has_capital or (any(map(str.isdigit, word)) and any(map(str.isalpha, word)))


def _split(text: str, spans: Iterable[_Span]) -> tuple[str, str]:
    """Cut clauses, sorted by their begin, out of a text."""
    rest_parts, cut, last = [], [], 0
    for begin, end, first, stop in spans:
        if begin < last:
            continue
        rest_parts.append(text[last:begin])
        cut.append(text[first:stop].strip())
        last = end
    rest_parts.append(text[last:])
    rest = " ".join(filter(None, map(str.strip, rest_parts)))
    return (rest, "\n".join(cut)) if cut else (text, "")
