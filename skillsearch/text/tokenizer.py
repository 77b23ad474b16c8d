"""Text to terms: Unicode words, identifier parts, light stemming by language, bigrams.

Bump `VERSION` when a text would give other terms, so that an index of another analysis is rebuilt.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from itertools import chain, pairwise

import Stemmer
import xxhash

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text.languages import FUNCTION_WORDS, language_name, word_language

VERSION = 2

_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
"""Combining marks that stand inside words but are no ``\\w``: Latin, Cyrillic, Hebrew, Arabic."""
_INDIC = "\u0900-\u0963\u0966-\u0dff"
"""The Indic blocks whole but for the danda: their vowel signs are no ``\\w`` either."""
_STACKED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ecf\u0edc-\u0eff\u1000-\u103f\u1050-\u109f\u1780-\u17d3"
)
"""Thai, Lao, Burmese, Khmer: vowels, tones and subscripts are stacked on a consonant."""
BIGRAM_SCRIPTS = (
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # Hangul
    f"{_STACKED}"
    "\U00020000-\U0003134f"  # Han, supplementary planes
)
"""Scripts written without spaces between words, or, as Hangul, with particles joined to them."""

_TOKEN = lazy_pattern(
    # Nine words in ten are plain: a run of ASCII that no other letter, mark or symbol joins.
    rf"[A-Za-z0-9]++(?![^\W_]|[+#{_MARKS}{_INDIC}])"
    rf"|(?P<bigrams>[{BIGRAM_SCRIPTS}]+)"
    r"|(?<![^\W_])(?:[cC]\+\+|[cCfF]\#|\.(?:NET|net|Net)\b)"
    rf"|(?:(?![{BIGRAM_SCRIPTS}])[^\W_]|[{_MARKS}{_INDIC}])+"
)
_ASCII_TOKEN = lazy_pattern(r"[A-Za-z0-9]++[+#]{0,2}|(?<![A-Za-z0-9])\.(?:NET|net|Net)\b")
"""The same for a text whose letters are all ASCII, in a third of the time."""
_OTHER_LETTER = lazy_pattern(rf"[^\W\x00-\x7f]|[{_MARKS}{_INDIC}{BIGRAM_SCRIPTS}]")
_SYMBOLIC = lazy_pattern(r"[cC]\+\+|[cCfF]\#|\.[A-Za-z]+")
"""C++, C#, F# and .NET at the start of a token."""
_RUN_PARTS = lazy_pattern(
    rf"(?P<stacked>[{_STACKED}]+)|(?P<hiragana>[\u3041-\u3096][\u3041-\u309f\u30fc]*)"
    rf"|(?P<katakana>[\u30a1-\u30ff\u31f0-\u31ff]+)|(?P<han>[^{_STACKED}\u3041-\u3096\u30a1-\u30ff]+)"
)
_LEAST_HIRAGANA = 3
"""Shorter runs are particles and endings; nDCG@10 of Japanese gains 1.5 without them."""
_CLUSTER = lazy_pattern(
    "[\u0e40-\u0e44\u0ec0-\u0ec4]?"  # Thai and Lao vowels that are written before their consonant
    "."
    "(?:[\u1039\u17d2].|"  # a stacked consonant
    "[\u0e30-\u0e3a\u0e45\u0e47-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ecf"
    "\u102b-\u1038\u103a-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074"
    "\u1082-\u108d\u17b4-\u17d1\u17d3])*",
    re.DOTALL,
)
_MARK = r"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f])"
"""Every character that combines, the two that Python takes for letters too, and other symbols."""
_LONG_RUN = lazy_pattern(rf"({_MARK}{{30}}){_MARK}+")
"""30 marks are the limit of Unicode's stream-safe text format (UAX 15)."""
_MAYBE_LONG_RUN = lazy_pattern(r"[^\x00-\x7f]{31}")
"""What any long run has; it is looked for in a tenth of the time."""
_HUMPS = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_DIGIT = lazy_pattern(r"(?![0-9])\d")
_FOLDED_LETTERS = str.maketrans(
    {"ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
    | {"ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه", "ٱ": "ا", "ـ": ""}  # Arabic letters and tatweel
)
"""Letters that have no decomposition; people write them either way, or cannot type them."""
_FOLDED_MARKS = lazy_pattern(
    "[\u0300-\u0305\u0307\u0309-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06ed]|(?<![иіу])[\u0306\u0308]"
)
"""All `_MARKS`, but for those that make й, ї and ў: letters of their own, unlike ё."""
_STEMMED = frozenset(
    "ar ca cs da de el en es fi fr hi hu hy id it ne nl no pl pt ro ru sr sv ta tr".split()
)
"""Languages that Snowball stems; its algorithms have their names."""
_MIN_STEMMED = 4
"""Shorter words are kept as they are: stemming would only confuse them."""
_MAX_TERM = 64
"""Longer words are keys, hashes and encoded data: cut, so that they cost no memory."""
_KEPT_WORDS = 1 << 14
"""Words whose terms are remembered: eight times as many take 60 MB more and save no time."""

STOP_WORDS = FUNCTION_WORDS["en"]
"""English words that carry no topic. Without this, BM25Okapi's floor would let them outweigh
real words."""


def document_terms(text: str, language: str = "") -> list[str]:
    """Return the terms of a document, whose language is the same for all of its fields.

    They equal the terms of `terms`; but in a Latin language other than English each word gives its
    English stem too: for English technical terms, and for queries too short to show a language.
    """
    return terms(text, language, with_english=True)


def terms(text: str, language: str = "", *, with_english: bool = False) -> list[str]:
    """Return the terms of a query, in the order of the text, repeats kept; linear in the length.

    Words are folded (NFKC, case, accents, variants of Arabic letters) and stemmed (Snowball),
    function words dropped. ``camelCase`` gives its parts and the whole; runs of Han, kana, Hangul
    and the scripts of South-East Asia give overlapping bigrams. Without a language (ISO 639-1),
    words follow the main language of their script: Latin words are stemmed as English.
    """
    word_terms: Callable[[str], tuple[str, ...]] = _english_terms
    if language not in ("", "en"):
        word_terms = partial(_word_terms, language, with_english)
    text = normalized(text)
    if text.isascii() or not _OTHER_LETTER.search("".join(set(text))):
        tokens = _ASCII_TOKEN.findall(text)
        if len(max(tokens, key=len, default="")) > _MAX_TERM:
            tokens = [token[:_MAX_TERM] for token in tokens]
        return list(chain.from_iterable(map(word_terms, tokens)))
    collected: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if match.lastgroup == "bigrams":
            collected.extend(_run_terms(token))
        else:
            collected.extend(word_terms(token[:_MAX_TERM]))
    return collected


def normalized(text: str) -> str:
    """Return a text in Unicode's form NFKC; runs of marks are cut, whose sorting is quadratic."""
    if text.isascii():
        return text
    if _MAYBE_LONG_RUN.search(text):
        text = _LONG_RUN.sub(r"\1 ", text)
    return unicodedata.normalize("NFKC", text)


def is_bigram(term: str) -> bool:
    """Return whether a term is a bigram of a run rather than a word."""
    match = None if term.isascii() else _TOKEN.match(term)
    return match is not None and match.lastgroup == "bigrams"


def bigrams(run: Sequence[str]) -> list[str]:
    """Return the overlapping pairs of the pieces of a run, or its only piece."""
    return [first + second for first, second in pairwise(run)] or [*run]


def _run_terms(run: str) -> list[str]:
    """Return the bigrams of a run, cut where Han, katakana and hiragana meet."""
    pairs: list[str] = []
    for match in _RUN_PARTS.finditer(run):
        part = match.group()
        if match.lastgroup == "stacked":
            pairs.extend(bigrams(_CLUSTER.findall(part)))
        elif match.lastgroup != "hiragana" or len(part) >= _LEAST_HIRAGANA:
            pairs.extend(bigrams(part))
    return pairs


@lru_cache(maxsize=_KEPT_WORDS)
def _english_terms(word: str) -> tuple[str, ...]:
    """Cache `_word_terms` of most texts under a key that takes half the time to look up."""
    return _word_terms.__wrapped__("", False, word)


@lru_cache(maxsize=_KEPT_WORDS)
def _word_terms(language: str, with_english: bool, word: str) -> tuple[str, ...]:
    """Return the terms of one word: the whole, and the parts of an identifier."""
    if symbolic := _SYMBOLIC.match(word):
        return (symbolic.group().lower(),)
    word = word.rstrip("+#")
    stems: list[str] = []
    for part in (word, *_identifier_parts(word)):
        term, english = _stems(part, language)
        stems.append(term)
        if with_english and english != term:
            stems.append(english)
    return tuple(filter(None, stems))


def _identifier_parts(word: str) -> list[str]:
    """Split ``camelCase`` and ``HTTPServer``; brand names of two humps (GitHub) stay whole."""
    if word.islower() or word.isupper() or not word.isascii():
        return []
    humps = [hump for hump in _HUMPS.findall(word) if not hump.isdigit()]
    is_identifier = len(humps) > 2 or (len(humps) == 2 and word[0].islower())
    return [hump for hump in humps if len(hump) > 1] if is_identifier else []


def _stems(word: str, language: str) -> tuple[str, str]:
    """Fold a word; stem it by its language and, if Latin, as English; empty if dropped."""
    lowered = word.casefold()
    if not (folded := lowered if lowered.isascii() else _folded(lowered)):
        return "", ""
    own = word_language(folded, language)
    if lowered in (dropped := _stop_words(own)) or lowered in STOP_WORDS:
        return "", ""
    stem = _stem(folded, own)
    if folded.isascii():
        return stem, stem if own == "en" else _stem(folded, "en")
    return ("", "") if folded in dropped else (stem, stem)


def _folded(word: str) -> str:
    """Remove marks that people leave out, and write variants of a letter or digit as one."""
    bare = _FOLDED_MARKS.sub("", unicodedata.normalize("NFD", word.translate(_FOLDED_LETTERS)))
    composed = unicodedata.normalize("NFC", bare)
    return _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit.group())), composed)


@cache
def _stop_words(language: str) -> frozenset[str]:
    """Return the function words of a language, also without accents, unless it is Vietnamese."""
    words = FUNCTION_WORDS.get(language, frozenset())
    return words if language == "vi" else words | frozenset(map(_folded, words))


def _stem(word: str, language: str) -> str:
    """Stem a folded word; short ones and those with digits stay."""
    if len(word) < _MIN_STEMMED or (not word.isalpha() and any(map(str.isdigit, word))):
        return word
    if language not in _STEMMED:
        language = "en" if word.isascii() else ""
    stem: str = _stemmer(language).stemWord(word) if language else word
    return stem or word


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language_name(language).lower(), 0)


@lru_cache(maxsize=_KEPT_WORDS)
def term_hash(term: str) -> int:
    """Return the 64-bit number that stands for a term in an index (XXH3)."""
    return xxhash.xxh3_64_intdigest(term.encode("utf-8", "surrogatepass"))
