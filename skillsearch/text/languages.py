"""The natural language of a text, told by its script, its function words and its letters.

No model and no dictionary: words such as "the" and "para" are a third of any running text, and some
letters are used by one language alone. If these do not tell, nothing is guessed.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text.tables import read_tables

_TABLES = read_tables(Path(__file__).with_name("language_words.txt"))
FUNCTION_WORDS = {code: frozenset(row) for code, row in _TABLES["function words"].items()}
REQUEST_WORDS = {code: frozenset(row) for code, row in _TABLES["request words"].items()}
TELLING_LETTERS = {code: row[0] for code, row in _TABLES["telling letters"].items()}
TELLING_ENDINGS = {code: tuple(row) for code, row in _TABLES["telling endings"].items()}
LANGUAGE_NAMES = {code: row[0] for code, row in _TABLES["names"].items()}
UNKNOWN = "unknown"
"""Stands for a language that could not be detected."""
SCRIPTS = _TABLES["scripts"]
"""For each script: letters that make about one word, its main language, and its blocks."""

_HEAD_CHARS = 4_000
"""The rest says no more about the language and costs time."""
_PLAIN_CHARS = 600
"""Enough of a text whose head has no letter beyond ASCII: most are English and cost no more."""
_OTHER_LETTER = lazy_pattern("[\u00c0-\u1fff\u2c80-\ud7ff\uff01-\uffdc]")
_NO_PROSE = lazy_pattern(r"```.*?(?:```|\Z)|`[^`\n]*`|<[^<>\n]*>|https?://\S+", re.DOTALL)
"""Code, markup and addresses."""
_LATIN_LETTER = "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_LATIN_TOKEN = lazy_pattern(rf"[{_LATIN_LETTER}\d_./@#$\\-]+")
"""A word, or the whole of a path, an address or an identifier."""
_OTHER_WORD = lazy_pattern(rf"(?:(?![{_LATIN_LETTER}])[^\W\d_]|[\u0900-\u0903\u093a-\u094f])+")

_BLOCKS = sorted(
    (*(chr(int(end, 16)) for end in block.split("-")), script)
    for script, (_, _, *blocks) in SCRIPTS.items()
    for block in blocks
)
"""First and last letter of each block, and its script."""
_STARTS = [start for start, *_ in _BLOCKS]
_CANDIDATES = {  # of the scripts that several of our languages share
    "Arabic": {"ar", "fa", "ur"},
    "Cyrillic": {"ru", "uk", "bg", "sr"},
    "Devanagari": {"hi", "mr", "ne"},
}
_LATIN = frozenset(FUNCTION_WORDS) - {code for codes in _CANDIDATES.values() for code in codes}

_KANA_SHARE = 0.1
"""Japanese prose has a third of kana or more; a Chinese text may quote some."""
_JAPANESE_HAN = frozenset("検録変対図読売続込働駅総労発価気実単帯拡権済黒処圧応択沢両広関")
"""Simplified in Japan alone: they show Japanese in a query without kana."""
_JAPANESE_HAN_SHARE = 0.03
_RUNNING = 2.5
"""In running text two words in five are function words."""
_FOREIGN_SHARE = 0.2
"""From this share of the words on, another script outweighs Latin names and technical terms."""
_LEAST_SCORE = 1.0
_LEAST_LEAD = 1.5
"""How many times the score of the next language the first must have."""
_SURE_SCORE = 4.0
_MIXED_SHARE = 0.4
"""With so sure a score, and this share of English's, a text is in another language: skills that
are written in one have English names, terms and often an English description."""


def _weights(owned: Mapping[str, Iterable[str]]) -> dict[str, list[tuple[str, float]]]:
    """Return the votes of each word or letter: the fewer languages share it, the heavier each."""
    owners: dict[str, list[str]] = {}
    for language, words in owned.items():
        for word in words:
            owners.setdefault(word, []).append(language)
    # What English has too votes for English alone, so that English is never mistaken.
    return {
        word: [(code, 1 / len(codes)) for code in (["en"] if "en" in codes else codes)]
        for word, codes in owners.items()
    }


_WEIGHTS = _weights(
    {code: words | REQUEST_WORDS.get(code, frozenset()) for code, words in FUNCTION_WORDS.items()}
)
_LETTER_WEIGHTS = _weights(TELLING_LETTERS)
_ALL_ENDINGS = tuple(ending for endings in TELLING_ENDINGS.values() for ending in endings)
_LATIN_FUNCTION_WORDS = frozenset[str]().union(*(FUNCTION_WORDS[code] for code in _LATIN))


def language_of(text: str) -> str:
    """Return the ISO 639-1 code of the language that a text is mostly in; empty if unclear.

    Only the head is read, without code and addresses. Chinese with many English product names is
    Chinese, and English that quotes a few words of another script is English.
    """
    head = text[:_HEAD_CHARS]
    is_plain = head.isascii() or _OTHER_LETTER.search(head) is None
    head = head[:_PLAIN_CHARS] if is_plain else unicodedata.normalize("NFKC", head)
    head = _NO_PROSE.sub(" ", head)
    latin = _latin_words(head)
    shares = {} if is_plain else _words_by_script(head)
    if foreign := sum(shares.values()):
        running = _RUNNING * sum(word in _LATIN_FUNCTION_WORDS for word in latin)
        if foreign >= max(running, _FOREIGN_SHARE * (len(latin) + foreign)):
            return _of_scripts(head, shares)
        if foreign > _FOREIGN_SHARE * running:
            return ""
    return _most_likely(latin, _LATIN)


def word_language(word: str, language: str) -> str:
    """Return the language of a word: the text's if it uses the script, else the script's main."""
    if not (script := _script(word[0])):
        return language if language in _LATIN else "en"
    return language if language in _CANDIDATES.get(script, ()) else SCRIPTS[script][1]


def _script(char: str) -> str:
    """Return the script of a letter; empty if it is in none of our blocks: mostly Latin."""
    number = bisect_right(_STARTS, char) - 1
    return _BLOCKS[number][2] if number >= 0 and char <= _BLOCKS[number][1] else ""


def _latin_words(text: str) -> list[str]:
    """Return the Latin words of a text in lower case, without identifiers, acronyms and letters."""
    tokens = (token.rstrip(".-") for token in _LATIN_TOKEN.findall(text))
    words = [token for token in tokens if token.isalpha() and not token.isupper()]
    return [word.lower() for word in words if len(word) > 1 or not word.isascii()]


def _words_by_script(text: str) -> dict[str, float]:
    """Return about how many words of each non-Latin script a text has."""
    words: dict[str, float] = {}
    for char, count in Counter(text).items():
        if (script := _script(char)) and char.isalpha():
            words[script] = words.get(script, 0) + count / int(SCRIPTS[script][0])
    return words


def _of_scripts(text: str, shares: dict[str, float]) -> str:
    kana, han = shares.pop("Kana", 0), shares.pop("Han", 0)
    if kana or han:
        telling = sum(map(text.count, _JAPANESE_HAN)) / int(SCRIPTS["Han"][0])
        is_japanese = max(kana / _KANA_SHARE, telling / _JAPANESE_HAN_SHARE) >= kana + han
        shares["Kana" if is_japanese else "Han"] = kana + han
    script = max(shares, key=lambda script: shares[script])
    if shares[script] < sum(shares.values()) / 2:
        return ""
    if script not in _CANDIDATES:
        return SCRIPTS[script][1]
    words = [word.lower() for word in _OTHER_WORD.findall(text)]
    return _most_likely(words, _CANDIDATES[script]) or SCRIPTS[script][1]


def _most_likely(words: list[str], candidates: Collection[str]) -> str:
    """Return the candidate that the distinct words vote for; empty if none leads."""
    scores = dict.fromkeys(candidates, 0.0)
    for word in set(words):
        for language, weight in _WEIGHTS.get(word) or _letter_votes(word):
            if language in scores:
                scores[language] += weight
    english = scores.pop("en", 0.0)
    first, second = sorted(scores, key=lambda code: -scores[code])[:2]
    score = scores[first]
    is_mixed = score >= _SURE_SCORE and score >= _MIXED_SHARE * english
    to_beat = scores[second] if is_mixed else max(scores[second], english)
    if score >= max(_LEAST_SCORE, _LEAST_LEAD * to_beat):
        return first
    return "en" if not is_mixed and english >= max(_LEAST_SCORE, _LEAST_LEAD * score) else ""


def _letter_votes(word: str) -> list[tuple[str, float]]:
    """Return the votes of the ending and the letters of a word without a vote of its own."""
    if word.isascii() and not word.endswith(_ALL_ENDINGS):
        return []
    ends = (code for code, endings in TELLING_ENDINGS.items() if word.endswith(endings))
    votes = [(code, 1.0) for code in ends]
    for letter in _LETTER_WEIGHTS.keys() & set(word):
        votes.extend(_LETTER_WEIGHTS[letter])
    return votes


def language_name(language: str) -> str:
    """Return the English name of a language, ``Korean`` for ``ko``; an unknown code unchanged."""
    return LANGUAGE_NAMES.get(language, language)
