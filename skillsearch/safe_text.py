"""Text that others wrote, made safe to show: nothing in it can move a cursor or hide from a reader.

Removed are control characters and escapes, marks that turn the direction of writing, tag
characters, and what has no width. Two joiners stay where a script or an emoji needs them.
"""

from __future__ import annotations

import re
import unicodedata

_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_JOINER = re.compile("[\u200c\u200d]")
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
    lines = _BREAKS.sub("\n", text)
    plain = _SURROGATE.sub("\ufffd", _HIDDEN.sub("", lines))
    return _JOINER.sub(_keep_joiner, plain)


def one_line(text: str, limit: int | None = None) -> str:
    """Return a text as `visible` does, on one line.

    Args:
        text: Any text.
        limit: Characters it may have at most; a longer one is cut and ends in an ellipsis.

    Returns:
        The text, each run of blanks and line breaks as one blank.
    """
    line = " ".join(visible(text).split())
    if limit is None or len(line) <= limit:
        return line
    return line[: limit - len(_CUT)].rstrip() + _CUT


def _keep_joiner(match: re.Match[str]) -> str:
    """Return a joiner where both its neighbours can be joined, else nothing."""
    text, at = match.string, match.start()
    before = unicodedata.category(text[at - 1]) if at else ""
    after = unicodedata.category(text[at + 1]) if at + 1 < len(text) else ""
    return match[0] if before in _JOINS_AFTER and after in _JOINS_BEFORE else ""
