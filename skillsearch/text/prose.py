"""Whether a text is made of sentences, or stuffed with keywords to be found; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from skillsearch.text import markdown
from skillsearch.text.languages import FUNCTION_WORDS, language_of
from skillsearch.text.safe_text import shorten

_ANALYTIC = ("ca", "da", "de", "en", "es", "fr", "it", "nl", "no", "pt", "sv")
"""Languages of which a third of the words are function words; others have fewer."""
_ANY_FUNCTION_WORD = frozenset[str]().union(*(FUNCTION_WORDS[code] for code in _ANALYTIC))
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?")
_LATIN_SHARE = 0.9
_LAST_LATIN = "\u024f"
_COST = 6
"""Keywords that one function word makes up for. Of 3 to 8, 6 to 8 tell stuffing best."""
_LEAST_WORDS = 30
_NO_SENTENCE = re.compile(r"[|#>*+!<\[\u2500-\u257f-]|\d+[.)]|```")
"""How lines of Markdown begin that need no sentence."""
_NO_WORDS = re.compile(r"`[^`\n]{0,300}`|\]\([^)\n]{0,300}\)|https?://\S+")


def keyword_stretch(text: str) -> tuple[int, str]:
    """Find the longest stretch of keywords: how many more it has than sentences would, and where.

    A text mostly in other than Latin letters has none. A list of words has no language, or seems to
    have any; so in a language that has few function words, each costs twice as much.
    """
    if not _is_latin(text):
        return 0, ""
    language = language_of(text)
    function_words = FUNCTION_WORDS["en"] | FUNCTION_WORDS.get(language, frozenset())
    if language not in _ANALYTIC:
        function_words |= _ANY_FUNCTION_WORD
    cost = _COST if language in ("", *_ANALYTIC) else 2 * _COST
    most = score = begin = 0
    best = (0, 0)
    for word in _WORD.finditer(text):
        begin = begin if score else word.start()
        score = max(0, score + (-cost if word[0].lower() in function_words else 1))
        if score > most:
            most, best = score, (begin, word.end())
    return most, text[slice(*best)]


def repetition(text: str) -> float:
    """Return which share of the runs of three words has occurred before; 0 for a short text."""
    if len(words := [word.lower() for word in _WORD.findall(text)]) < _LEAST_WORDS:
        return 0.0
    runs = list(zip(words, words[1:], words[2:], strict=False))
    return 1 - len(set(runs)) / len(runs)


def prose(body: str) -> Iterator[str]:
    """Yield the paragraphs of a Markdown text, without code, lists, tables, headings and links."""
    for begin, end in markdown.paragraphs(body):
        lines = (line.strip() for line in body[begin:end].split("\n"))
        if sentences := "\n".join(line for line in lines if not _NO_SENTENCE.match(line)):
            yield _NO_WORDS.sub(" ", sentences)


def first_paragraph(body: str, most: int) -> str:
    """Return the first paragraph of a Markdown text that is prose, in one line; "" without one."""
    return shorten(" ".join(next(prose(body), "").split()), most)


def _is_latin(text: str) -> bool:
    letters = list(filter(str.isalpha, text))
    return sum(letter <= _LAST_LATIN for letter in letters) >= _LATIN_SHARE * len(letters)
