"""Clauses of a request that say what is not wanted: "no Docker", "and nothing is sent"; pure.

Such a clause is told by the words that it begins with, or by what it says of its subject ("is off
the table"). A complaint ("no page is printed") begins alike, and is what the request is about, so
only the plainest forms take their words out of the request, and none that sounds like a complaint.
Every expression is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text.tables import as_expression, read_tables

_TABLES = read_tables(Path(__file__).with_suffix(".txt"))
_UNSPACED = {"ja", "ko", "th", "zh"}
"""Languages in which a phrase may begin within what looks like a word."""
_MOST_CHARS = 400
"""Requests that are longer tell what is so rather than what is not wanted."""


def _begin_with(title: str) -> dict[str, re.Pattern[str]]:
    """Return the expressions of a table by language, behind a few words that say nothing."""
    patterns = {}
    for language, phrases in _TABLES[title].items():
        lead = as_expression(_TABLES["lead"][language])
        begin = rf"^(?:(?:{lead})[ ]?){{0,3}}(?:{as_expression(phrases)})"
        patterns[language] = lazy_pattern(begin, re.IGNORECASE)
    return patterns


def _anywhere(title: str) -> dict[str, re.Pattern[str]]:
    """Return the expressions of a table by language, from the begin of a word where it shows."""
    patterns = {}
    for language, phrases in _TABLES[title].items():
        begin = "" if language in _UNSPACED else r"(?<!\w)"
        patterns[language] = lazy_pattern(f"{begin}(?:{as_expression(phrases)})", re.IGNORECASE)
    return patterns


_UNWANTED, _NEGATED = _begin_with("unwanted"), _begin_with("negated")
_REFUSED, _DISMISSED = _anywhere("refused"), _anywhere("dismissed")
_COMPLAINT = _anywhere("complaint")
_OPPOSING = as_expression(_TABLES["opposing"]["all"])
_BETWEEN = lazy_pattern(
    r"(?:[,;:.!?\u2026\u2014\u2013]{1,3}|[ ]-)\s{1,4}(?!(?:please|prosz\u0119)[:.,!])|\n\s{0,8}"
    r"|[ ]\(|\)[ ]"
    r"|[\u3001\u3002\uff0c\uff01\uff1a\uff1b\uff1f\u060c\u061b\u061f\u0964]"
    # Behind "not A but" in Korean, before "A, not B" in Chinese and Thai.
    r"|(?<=[\ub9d0\ube7c]\uace0)[ ]|(?=\u800c(?:\u4e0d\u662f|\u975e))"
    r"|[ ](?=(?:\u0e41\u0e15\u0e48)?(?:\u0e22\u0e31\u0e07)?"
    r"(?:\u0e44\u0e21\u0e48|\u0e2d\u0e22\u0e48\u0e32))"
    rf"|(?<!thing)[ ](?=(?:{_OPPOSING})[ ])",
    re.IGNORECASE,
)
_THREE_WORDS = lazy_pattern(r"(?:[^\W_]+\W+){2}[^\W_]|[\u3040-\u9fff\uac00-\ud7af]{6}")
"""What a request must say besides."""

_Span = tuple[int, int]


def unwanted_clauses(text: str, language: str) -> tuple[list[_Span], list[_Span]]:
    """Return where the clauses are that refuse something, and those that are only negated.

    The words of the first belong to what is not wanted. Those of the second may belong to the wish
    as well: "don't stop". The first clause of a request is the wish, unless it dismisses something.
    A text whose `language` is not known may be in any but English, which is told by few words.
    """
    if len(text) > _MOST_CHARS or not (ends := [match.end() for match in _BETWEEN.finditer(text)]):
        return [], []
    spans: dict[str, list[_Span]] = {"refused": [], "negated": [], "wanted": []}
    for begin, end in pairwise([0, *ends, len(text)]):
        kind = _kind_of(text[begin:end].strip(), language, is_first=not begin)
        spans[kind].append((begin, end))
    rest = " ".join(text[slice(*span)] for span in spans["wanted"])
    return (spans["refused"], spans["negated"]) if _THREE_WORDS.search(rest) else ([], [])


def _kind_of(clause: str, language: str, *, is_first: bool) -> str:
    """Return whether a clause is refused, negated or wanted."""
    says = partial(_says, clause, language)
    refuses = says(_REFUSED) or (not is_first and says(_UNWANTED))
    if refuses and not is_first and not says(_COMPLAINT):
        return "refused"
    if refuses or says(_DISMISSED) or (not is_first and says(_NEGATED)):
        return "negated"
    return "wanted"


def _says(clause: str, language: str, patterns: Mapping[str, re.Pattern[str]]) -> bool:
    languages = {language} if language else {*patterns} - {"en"}
    return any(patterns[each].search(clause) for each in languages & patterns.keys())
