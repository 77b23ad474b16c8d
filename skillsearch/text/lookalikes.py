"""Letters and hyphens that pass for Latin ones; pure."""

from __future__ import annotations

from pathlib import Path

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text.tokenizer import normalized

_ROWS = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
_LATIN = str.maketrans(
    {char: row[0] for row in _ROWS if not row.startswith("#") for char in row[2:].casefold()}
)
_WORD = lazy_pattern(r"[^\W_]+")
_LATIN_LETTER = lazy_pattern("[a-z]")


def look(text: str) -> str:
    """Return a text, in lower case, with the Latin letters and hyphens that it looks like."""
    folded = normalized(text).casefold()
    return folded if folded.isascii() else folded.translate(_LATIN)


def lookalikes(name: str) -> list[str]:
    """Return the hyphens of a name that are none, and letters of other scripts in Latin words."""
    folded = normalized(name).casefold()
    chars = [char for char in folded if not char.isalnum() and ord(char) in _LATIN]
    for word in _WORD.findall(folded):
        if _LATIN_LETTER.search(word):
            chars += [char for char in word if ord(char) in _LATIN]
    return list(dict.fromkeys(chars))
