"""The writing systems of a text, so that an embedder is not asked about those it cannot read.

An English-only embedder maps Korean to noise that looks alike. So letters it cannot read are
removed before a text is embedded, and its verdict is trusted by the share of letters left.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# From this share of readable letters on, an embedder is trusted in full.
TRUSTED_SHARE = 0.5
# A text with a larger share of other letters cannot be read as a whole.
ILLEGIBLE_SHARE = 0.1
# Letters whose names do not begin with their script; after NFKC they are plain letters.
_WIDE_FORMS = {"FULLWIDTH": "Latin", "FEMININE": "Latin", "MASCULINE": "Latin", "MICRO": "Latin"}


def trust(text: str, scripts: frozenset[str] | None) -> float:
    """Return how far an embedder that reads some scripts, or all (None), can judge a text.

    It is the share of letters in those scripts over `TRUSTED_SHARE`, at most 1, and 1 without any.
    """
    foreign = _foreign_letters(text, scripts)
    if not foreign:
        return 1.0
    letters = sum(map(str.isalpha, text))
    return min((letters - sum(map(text.count, foreign))) / letters / TRUSTED_SHARE, 1.0)


def is_legible(text: str, scripts: frozenset[str] | None) -> bool:
    """Return whether at most `ILLEGIBLE_SHARE` of the letters are in scripts other than these."""
    foreign = sum(map(text.count, _foreign_letters(text, scripts)))
    return foreign <= ILLEGIBLE_SHARE * sum(map(str.isalpha, text))


def readable(text: str, scripts: frozenset[str] | None) -> str:
    """Return a text with each run of letters in other scripts as a blank; empty if none is left."""
    foreign = _foreign_letters(text, scripts)
    if not foreign:
        return text
    plain = text.translate(dict.fromkeys(map(ord, foreign), " "))
    return " ".join(plain.split()) if any(map(str.isalnum, plain)) else ""


def _foreign_letters(text: str, scripts: frozenset[str] | None) -> list[str]:
    if scripts is None or (text.isascii() and "Latin" in scripts):
        return []
    return [char for char in set(text) if char.isalpha() and script(char) not in scripts]


@lru_cache(maxsize=1 << 14)
def script(char: str) -> str:
    """Return the script of a letter, the first word of its Unicode name, such as ``Latin``."""
    name = unicodedata.name(char, "unknown").split(" ", 1)[0].split("-", 1)[0]
    return _WIDE_FORMS.get(name, name.capitalize())
