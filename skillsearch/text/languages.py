"""The natural language of a text, told by its script, its function words and its letters.

No model and no dictionary: words such as "the" and "para" are a third of any running text, and some
letters are used by one language alone. If these do not tell, nothing is guessed.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection

from skillsearch.text.language_words import (
    FUNCTION_WORDS,
    REQUEST_WORDS,
    TELLING_ENDINGS,
    TELLING_LETTERS,
)

_HEAD_CHARS = 4_000
"""The rest says no more about the language and costs time."""

_PLAIN_CHARS = 600
"""Enough of a text whose head has no letter beyond ASCII: most are English and cost no more."""
_OTHER_LETTER = re.compile("[\u00c0-\u1fff\u2c80-\ud7ff\uff01-\uffdc]")
_NO_PROSE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|<[^<>\n]*>|https?://\S+", re.DOTALL)
"""Code, markup and addresses."""
_LATIN_LETTER = "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_LATIN_TOKEN = re.compile(rf"[{_LATIN_LETTER}\d_./@#$\\-]+")
"""A word, or the whole of a path, an address or an identifier."""
_OTHER_WORD = re.compile(rf"(?:(?![{_LATIN_LETTER}])[^\W\d_]|[\u0900-\u0903\u093a-\u094f])+")

_SCRIPTS = (  # first letter, last letter, script, letters that make about one word
    ("\u0370", "\u03ff", "Greek", 5),
    ("\u0400", "\u052f", "Cyrillic", 5),
    ("\u0530", "\u058f", "Armenian", 5),
    ("\u0590", "\u05ff", "Hebrew", 4),
    ("\u0600", "\u06ff", "Arabic", 4),
    ("\u0750", "\u077f", "Arabic", 4),
    ("\u0900", "\u097f", "Devanagari", 3),
    ("\u0980", "\u09ff", "Bengali", 3),
    ("\u0a00", "\u0a7f", "Gurmukhi", 3),
    ("\u0a80", "\u0aff", "Gujarati", 3),
    ("\u0b80", "\u0bff", "Tamil", 4),
    ("\u0c00", "\u0c7f", "Telugu", 4),
    ("\u0c80", "\u0cff", "Kannada", 4),
    ("\u0d00", "\u0d7f", "Malayalam", 4),
    ("\u0d80", "\u0dff", "Sinhala", 3),
    ("\u0e00", "\u0e7f", "Thai", 4),
    ("\u0e80", "\u0eff", "Lao", 4),
    ("\u1000", "\u109f", "Burmese", 3),
    ("\u10a0", "\u10ff", "Georgian", 5),
    ("\u1100", "\u11ff", "Hangul", 3),
    ("\u1200", "\u137f", "Ethiopic", 4),
    ("\u1780", "\u17ff", "Khmer", 4),
    ("\u3040", "\u30ff", "Kana", 2),
    ("\u3400", "\u9fff", "Han", 2),
    ("\uac00", "\ud7af", "Hangul", 3),
    ("\uf900", "\ufaff", "Han", 2),
    ("\U00020000", "\U0003134f", "Han", 2),
)
_STARTS = [start for start, *_ in _SCRIPTS]
_LETTERS_A_WORD = {script: letters for *_, script, letters in _SCRIPTS}
_MAIN_LANGUAGE = {
    "Greek": "el",
    "Cyrillic": "ru",
    "Armenian": "hy",
    "Hebrew": "he",
    "Arabic": "ar",
    "Devanagari": "hi",
    "Bengali": "bn",
    "Gurmukhi": "pa",
    "Gujarati": "gu",
    "Tamil": "ta",
    "Telugu": "te",
    "Kannada": "kn",
    "Malayalam": "ml",
    "Sinhala": "si",
    "Thai": "th",
    "Lao": "lo",
    "Burmese": "my",
    "Georgian": "ka",
    "Hangul": "ko",
    "Ethiopic": "am",
    "Khmer": "km",
    "Kana": "ja",
    "Han": "zh",
}
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


def _weights() -> dict[str, list[tuple[str, float]]]:
    """Return the votes of each word: the fewer languages share it, the heavier each vote.

    A word that English has too votes for English alone, so that English is never mistaken.
    """
    owners: dict[str, list[str]] = {}
    for language in FUNCTION_WORDS:
        for word in FUNCTION_WORDS[language] | REQUEST_WORDS.get(language, frozenset()):
            owners.setdefault(word, []).append(language)
    return {
        word: [(code, 1 / len(codes)) for code in (["en"] if "en" in codes else codes)]
        for word, codes in owners.items()
    }


def _letter_weights() -> dict[str, list[tuple[str, float]]]:
    """Return the votes of each telling letter, as `_weights` does for words."""
    owners: dict[str, list[str]] = {}
    for language, letters in TELLING_LETTERS.items():
        for letter in letters:
            owners.setdefault(letter, []).append(language)
    return {letter: [(code, 1 / len(codes)) for code in codes] for letter, codes in owners.items()}


_WEIGHTS = _weights()
_LETTER_WEIGHTS = _letter_weights()
_TELLING = frozenset(_LETTER_WEIGHTS)
_ALL_ENDINGS = tuple(ending for endings in TELLING_ENDINGS.values() for ending in endings)
_LATIN_FUNCTION_WORDS = frozenset[str]().union(*(FUNCTION_WORDS[code] for code in _LATIN))


def language_of(text: str) -> str:
    """Return the ISO 639-1 code of the language that a text is mostly in; empty if unclear.

    Only the head is read, without code and addresses. Chinese with many English product names is
    Chinese, and English that quotes a few words of another script is English. It is unclear for few
    words, code, or a mixture.
    """
    head = text[:_HEAD_CHARS]
    is_plain = head.isascii() or _OTHER_LETTER.search(head) is None
    head = head[:_PLAIN_CHARS] if is_plain else unicodedata.normalize("NFKC", head)
    head = _NO_PROSE.sub(" ", head)
    latin = _latin_words(head)
    shares = {} if is_plain else _words_by_script(head)
    foreign = sum(shares.values())
    if foreign:
        running = _RUNNING * sum(word in _LATIN_FUNCTION_WORDS for word in latin)
        if foreign >= max(running, _FOREIGN_SHARE * (len(latin) + foreign)):
            return _of_scripts(head, shares)
        if foreign > _FOREIGN_SHARE * running:
            return ""
    return _most_likely(latin, _LATIN)


def word_language(word: str, language: str) -> str:
    """Return the language whose rules a word follows, by the script of its first letter.

    That is the language of the text if it uses the script; else the main language of the script,
    English for Latin, empty for an unknown script.
    """
    script = _script(word[0])
    if script == "Latin":
        return language if language in _LATIN else "en"
    main = _MAIN_LANGUAGE.get(script, "")
    return language if language in _CANDIDATES.get(script, ()) else main


def _script(char: str) -> str:
    """Return the script of a letter; also Latin if it is in none of `_SCRIPTS`."""
    place = bisect_right(_STARTS, char) - 1
    return _SCRIPTS[place][2] if place >= 0 and char <= _SCRIPTS[place][1] else "Latin"


def _latin_words(text: str) -> list[str]:
    """Return the Latin words of a text in lower case, without identifiers, acronyms and letters."""
    tokens = (token.rstrip(".-") for token in _LATIN_TOKEN.findall(text))
    words = [token for token in tokens if token.isalpha() and not token.isupper()]
    return [word.lower() for word in words if len(word) > 1 or not word.isascii()]


def _words_by_script(text: str) -> dict[str, float]:
    """Return about how many words of each non-Latin script a text has."""
    found: dict[str, float] = {}
    for char, count in Counter(text).items():
        place = bisect_right(_STARTS, char) - 1
        if place >= 0 and char <= _SCRIPTS[place][1] and char.isalpha():
            script, letters = _SCRIPTS[place][2:]
            found[script] = found.get(script, 0) + count / letters
    return found


def _of_scripts(text: str, shares: dict[str, float]) -> str:
    """Return the language of a text in other scripts than Latin."""
    kana, han = shares.pop("Kana", 0), shares.pop("Han", 0)
    if kana or han:
        telling = sum(map(text.count, _JAPANESE_HAN)) / _LETTERS_A_WORD["Han"]
        is_japanese = max(kana / _KANA_SHARE, telling / _JAPANESE_HAN_SHARE) >= kana + han
        shares["Kana" if is_japanese else "Han"] = kana + han
    script = max(shares, key=lambda script: shares[script])
    if shares[script] < sum(shares.values()) / 2:
        return ""
    if script not in _CANDIDATES:
        return _MAIN_LANGUAGE[script]
    words = [word.lower() for word in _OTHER_WORD.findall(text)]
    return _most_likely(words, _CANDIDATES[script]) or _MAIN_LANGUAGE[script]


def _most_likely(words: list[str], candidates: Collection[str]) -> str:
    """Return the candidate that the distinct words vote for; empty if none leads."""
    scores = dict.fromkeys(candidates, 0.0)
    distinct = set(words)
    votes = [vote for word in _WEIGHTS.keys() & distinct for vote in _WEIGHTS[word]]
    for word in distinct - _WEIGHTS.keys():
        if not word.isascii() or word.endswith(_ALL_ENDINGS):
            votes.extend(_letter_votes(word))
    for language, weight in votes:
        if language in scores:
            scores[language] += weight
    english = scores.pop("en", 0.0)
    first, second = sorted(scores, key=lambda code: -scores[code])[:2]
    score = scores[first]
    is_mixed = score >= _SURE_SCORE and score >= _MIXED_SHARE * english
    if score >= max(_LEAST_SCORE, _LEAST_LEAD * scores[second]) and (
        is_mixed or score >= _LEAST_LEAD * english
    ):
        return first
    return "en" if not is_mixed and english >= max(_LEAST_SCORE, _LEAST_LEAD * score) else ""


def _letter_votes(word: str) -> list[tuple[str, float]]:
    """Return the votes of a word's ending and letters."""
    ends = (code for code, endings in TELLING_ENDINGS.items() if word.endswith(endings))
    votes = [(code, 1.0) for code in ends]
    for letter in _TELLING.intersection(word):
        votes.extend(_LETTER_WEIGHTS[letter])
    return votes


_NAMES = dict(
    pair.split("=")
    for pair in (
        "am=Amharic ar=Arabic bg=Bulgarian bn=Bengali ca=Catalan cs=Czech da=Danish de=German "
        "el=Greek en=English es=Spanish fa=Persian fi=Finnish fr=French gu=Gujarati he=Hebrew "
        "hi=Hindi hu=Hungarian hy=Armenian id=Indonesian it=Italian ja=Japanese ka=Georgian "
        "km=Khmer kn=Kannada ko=Korean lo=Lao ml=Malayalam mr=Marathi my=Burmese ne=Nepali "
        "nl=Dutch no=Norwegian pa=Punjabi pl=Polish pt=Portuguese ro=Romanian ru=Russian "
        "si=Sinhala sr=Serbian sv=Swedish ta=Tamil te=Telugu th=Thai tr=Turkish uk=Ukrainian "
        "ur=Urdu vi=Vietnamese zh=Chinese"
    ).split()
)


def language_name(language: str) -> str:
    """Return the English name of a language, ``Korean`` for ``ko``; an unknown code unchanged."""
    return _NAMES.get(language, language)
