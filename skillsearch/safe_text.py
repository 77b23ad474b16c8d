"""Text that others wrote, made safe to show: nothing in it can move a cursor or hide from a reader.

Removed are control characters and escapes, marks that turn the direction of writing, tag
characters, and what has no width. Joiners and variation selectors stay where a script or an
emoji needs them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_BREAKS = re.compile("[\r\x0b\x0c\x85\u2028\u2029]")
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe03-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""What Unicode calls default ignorable, but for `_ATTACHED`, and what is no text at all."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_ATTACHED = re.compile("[\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe02\ufe0e\ufe0f]+")
"""Joiners and variation selectors; a run of them could spell a hidden text."""
_JOINERS = "\u200c\u200d"
_KEYCAPS = frozenset("#*0123456789")
_JOINS_AFTER = frozenset({"Lo", "Mn", "Mc", "So", "Sk"})
"""Letters without case, their vowel signs, emoji and skin tones: what a joiner may follow."""
_JOINS_BEFORE = frozenset({"Lo", "So", "Sm"})
_CUT = "…"


def visible(text: str) -> str:
    """Return a text without what a terminal would obey or a reader not see; its lines stay.

    Args:
        text: Any text.

    Returns:
        The text with line feeds and tabs as its only control characters, and U+FFFD in the place
        of each lone surrogate.
    """
    lines = _BREAKS.sub("\n", text.replace("\r\n", "\n"))
    plain = _HIDDEN.sub("", lines)
    if plain.isascii():
        return plain
    return _ATTACHED.sub(_keep_needed, _SURROGATE.sub("\ufffd", plain))


def one_line(text: str, limit: int | None = None) -> str:
    """Return a text as `visible` does, on one line.

    Args:
        text: Any text.
        limit: Characters it may have at most; a longer one is cut and ends in an ellipsis.

    Returns:
        The text, each run of blanks and line breaks as one blank.
    """
    line = " ".join(visible(text).split())
    return line if limit is None else shorten(line, limit)


def shorten(text: str, limit: int) -> str:
    """Return a text of at most some characters; a longer one is cut and ends in an ellipsis."""
    if len(text) <= limit:
        return text
    return text[: limit - len(_CUT)].rstrip().rstrip(_JOINERS) + _CUT


def listed(texts: Iterable[str], most: int) -> str:
    """Join texts for a message; of too many the first, and how many more there are."""
    found = list(texts)
    more = f" and {len(found) - most:,} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _keep_needed(match: re.Match[str]) -> str:
    """Return of a run the selector that its base can have, and the joiner of its neighbours."""
    text, run = match.string, match[0]
    base = text[match.start() - 1 : match.start()] or " "
    after = text[match.end() : match.end() + 1] or " "
    has_selector = base in _KEYCAPS if base.isascii() else not base.isspace()
    selector = run[0] if has_selector and run[0] not in _JOINERS else ""
    if run[-1] not in _JOINERS or unicodedata.category(base) not in _JOINS_AFTER:
        return selector
    return selector + run[-1] if unicodedata.category(after) in _JOINS_BEFORE else selector
