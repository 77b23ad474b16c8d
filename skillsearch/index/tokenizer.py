"""Text to terms: Unicode words, identifier parts, light English stemming, CJK bigrams.

One analysis serves documents and queries alike; `VERSION` changes whenever a text would give
other terms, so that an index made by another analysis is not searched with this one.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import Stemmer

VERSION = 1

_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
"""Combining marks that stand inside words but are no ``\\w``: Latin, Cyrillic, Hebrew, Arabic."""
_INDIC = "\u0900-\u0963\u0966-\u0dff"
"""The Indic blocks whole but for the danda: their vowel signs are no ``\\w`` either."""
_BIGRAM_SCRIPTS = (
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han, kana
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # Hangul
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0eff\u1000-\u109f\u1780-\u17d3"  # Thai, Lao, Burmese, Khmer
    "\U00020000-\U0003134f"  # Han, supplementary planes
)
"""Scripts written without spaces between words, or, as Hangul, with particles joined to them."""

_TOKEN = re.compile(
    # Nine words in ten are plain: a run of ASCII that no other letter, mark or symbol joins.
    rf"(?P<plain>[A-Za-z0-9]++(?![^\W_]|[+#{_MARKS}{_INDIC}]))"
    rf"|(?P<bigrams>[{_BIGRAM_SCRIPTS}]+)"
    r"|(?P<symbolic>(?<![^\W_])(?:[cC]\+\+|[cCfF]\#|\.(?:NET|net|Net)\b))"
    rf"|(?P<word>(?:(?![{_BIGRAM_SCRIPTS}])[^\W_]|[{_MARKS}{_INDIC}])+)"
)
_MARK = r"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f])"
"""Every character that combines, the two that Python takes for letters too, and other symbols."""
_LONG_RUN = re.compile(rf"({_MARK}{{30}}){_MARK}+")
"""30 marks are the limit of Unicode's stream-safe text format (UAX 15)."""
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_STEMMER = Stemmer.Stemmer("english", 0)
_MIN_STEMMED = 4
"""Shorter words are kept as they are: stemming would only confuse them."""
_MAX_TERM = 64
"""Longer words are keys, hashes and encoded data: cut, so that they cost no memory."""

STOP_WORDS = frozenset(
    """
    a about after all also am an and any are as at be because been before being but by can could
    did do does doing don each else etc for from had has have having he her here hers him his how
    i if in into is it its itself just let may me might more most must my no nor not of off on
    once only or other our ours out over own please s same shall she should so some such t than
    that the their theirs them then there these they this those through to too under until up us
    very was we were what when where which while who whom why will with would you your yours
    """.split()
)
"""English words that carry no topic. Without this, BM25Okapi's floor would let them outweigh
real words."""


def terms(text: str) -> list[str]:
    """Split a text into the terms that are indexed and searched, in order, repeats kept.

    Words are folded (NFKC, lower case, accents off Latin letters), English ones stemmed
    (Snowball), stop words dropped. ``camelCase`` gives its parts and the whole; runs of Han, kana,
    Hangul and of the scripts of South-East Asia give overlapping bigrams. Linear in the length.

    Args:
        text: Any text; lone surrogates and control characters are harmless.

    Returns:
        The terms in the order of the text.
    """
    found: list[str] = []
    for match in _TOKEN.finditer(normalized(text)):
        token = match.group()
        if match.lastgroup == "bigrams":
            found.extend(bigrams(token))
        elif match.lastgroup == "symbolic":
            found.append(token.lower())
        else:
            found.extend(_word_terms(token[:_MAX_TERM]))
    return found


def normalized(text: str) -> str:
    """Bring a text to Unicode's form NFKC, in linear time.

    Sorting a long run of combining marks takes quadratic time: a skill of 200 KB would cost a
    minute. So runs of marks are cut to a length that no writing needs.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _LONG_RUN.sub(r"\1 ", text))


def is_bigram(term: str) -> bool:
    """Tell whether a term is a piece of a run of `bigrams` rather than a word."""
    match = None if term.isascii() else _TOKEN.match(term)
    return match is not None and match.lastgroup == "bigrams"


def bigrams(run: str) -> list[str]:
    """Return the overlapping pairs of characters of a run, or the run where it is but one."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


@lru_cache(maxsize=1 << 17)
def _word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of one word: the whole, and the parts of an identifier."""
    whole = _term(word)
    parts = _identifier_parts(word)
    return tuple(term for term in (whole, *map(_term, parts)) if term)


def _identifier_parts(word: str) -> list[str]:
    """Split ``camelCase`` and ``HTTPServer``; brand names of two humps (GitHub) stay whole."""
    if word.islower() or word.isupper() or not word.isascii():
        return []
    humps = [hump for hump in _HUMPS.findall(word) if not hump.isdigit()]
    is_identifier = len(humps) > 2 or (len(humps) == 2 and word[0].islower())
    return [hump for hump in humps if len(hump) > 1] if is_identifier else []


def _term(word: str) -> str:
    """Fold, drop and stem one word; empty where nothing is left."""
    folded = word.lower()
    if folded in STOP_WORDS:
        return ""
    if not folded.isascii():
        folded = _fold_accents(folded)
    if len(folded) < _MIN_STEMMED or not (folded.isascii() and folded.isalpha()):
        return folded
    return _stem(folded)


def _fold_accents(word: str) -> str:
    """Take the accents off a word of Latin letters; other scripts keep their marks."""
    decomposed = unicodedata.normalize("NFKD", word)
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return bare if bare.isascii() else word


def _stem(word: str) -> str:
    """Stem an English word."""
    stem: str = _STEMMER.stemWord(word)
    return stem
