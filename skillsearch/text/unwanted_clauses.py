"""Clauses of a request that say what is not wanted: "no Docker", "and nothing is sent"; pure.

Such a clause is told by the words that it begins with, or by what it says of its subject ("is off
the table"). A complaint ("no page is printed") begins alike, and is what the request is about, so
only the plainest forms take their words out of the request. Every expression is bounded.
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
_MOST_CHARS = 600
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
    rows = _TABLES[title].items()
    return {key: lazy_pattern(as_expression(phrases), re.IGNORECASE) for key, phrases in rows}


_UNWANTED, _NEGATED = _begin_with("unwanted"), _begin_with("negated")
_REFUSED, _DISMISSED = _anywhere("refused"), _anywhere("dismissed")
_OPPOSING = as_expression(_TABLES["opposing"]["all"])
_BETWEEN = lazy_pattern(
    r"(?:[,;:.!?\u2026\u2014\u2013]{1,3}|[ ]-)\s{1,4}|\n\s{0,8}"
    r"|[\u3001\u3002\uff0c\uff01\uff1a\uff1b\uff1f]"
    rf"|(?<!thing)[ ](?=(?:{_OPPOSING})[ ])"
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
    refused, negated, rest = [], [], []
    for begin, end in pairwise([0, *ends, len(text)]):
        says = partial(_says, text[begin:end].strip(), language)
        if begin and (says(_UNWANTED) or says(_REFUSED)):
            refused.append((begin, end))
        elif says(_DISMISSED) or (begin and says(_NEGATED)):
            negated.append((begin, end))
        else:
            rest.append(text[begin:end])
    return (refused, negated) if _THREE_WORDS.search(" ".join(rest)) else ([], [])


def _says(clause: str, language: str, patterns: Mapping[str, re.Pattern[str]]) -> bool:
    languages = {language} if language else {*patterns} - {"en"}
    return any(patterns[each].search(clause) for each in languages & patterns.keys())
