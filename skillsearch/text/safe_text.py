"""Text by others, made safe to show: nothing in it moves a cursor or hides from a reader.

Control characters and escapes, direction marks, tag characters and zero-width characters are
removed. The joiners, variation selectors and flag tags that a script or an emoji needs stay, once
per character they belong to: a run of such marks could spell a text that nobody sees.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from skillsearch.fast_start.patterns import lazy_pattern

if TYPE_CHECKING:
    from skillsearch.types.json_values import Json

_BREAK = "\r\x0b\x0c\x85\u2028\u2029"
_CONTROLS = "\x00-\x08\x0e-\x1f\x7f-\x9f"
_NEVER = (
    f"{_CONTROLS}\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe03-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
)
_NEVER_ASTRAL = "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
"""With `_NEVER`: what is not text, and Unicode's default ignorable characters except:"""
_ATTACHED = "\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe02\ufe0e\ufe0f\U000e0000-\U000e0fff"
"""Joiners, variation selectors and tags."""
_SUSPECT = lazy_pattern(f"[{_BREAK}{_NEVER}{_ATTACHED}\ud800-\udfff\U00013430-\U0001d17a]")
"""All of these, and some letters: a text without any of them is passed on after one quick look."""
_BREAKS = lazy_pattern(f"[{_BREAK}]")
_HIDDEN = lazy_pattern(f"[{_NEVER}{_NEVER_ASTRAL}]")
_SURROGATE = lazy_pattern("[\ud800-\udfff]")
_RUN = lazy_pattern(f"[{_ATTACHED}]+")
_UNSEEN = lazy_pattern(f"[{_NEVER.removeprefix(_CONTROLS)}{_ATTACHED}]+")
_ZWJ = "\u200d"
_JOINERS = "\u200c\u200d"
_JOINING = lazy_pattern(
    "[\u0600-\u0dff\u0f00-\u109f\u1780-\u18af\u1900-\u1aaf\u1b00-\u1c4f\ua800-\ua95f\ua980-\uaa7f"
    "\uaae0-\uaaff\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00010fff"
    "\U00011000-\U00011fff\U0001e900-\U0001e95f]"
)
"""Scripts whose letters join or stack, so that a joiner between two of them changes their shape."""
_MONGOLIAN = lazy_pattern("[\u1820-\u18aa]")
_IDEOGRAPH = lazy_pattern("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KEYCAPS = frozenset("#*0123456789")
_SYMBOLS = frozenset({"So", "Sm"})
_SHAPED = _SYMBOLS | {"Po"}
_EMOJI_SIGNS = frozenset("\u203c\u2049\u2139\u3030")
"""Emoji that Unicode does not class as symbols."""
_JOINS_AFTER = frozenset({"Lo", "Mn", "Mc"})
_VIRAMA = 9
"""Combining class of the sign that mutes a vowel; a joiner behind it counts at a word's end too."""
_FLAG = "\U0001f3f4"
_FLAG_TAGS = frozenset(
    "".join(chr(0xE0000 + ord(char)) for char in country) + "\U000e007f"
    for country in ("gbeng", "gbsct", "gbwls")
)
_CUT = "…"


def visible(text: str) -> str:
    """Return a text without what a terminal would obey or a reader would not see; its lines stay.

    Line feeds and tabs are the only control characters left; lone surrogates become U+FFFD.
    """
    if _SUSPECT.search(text) is None:
        return text
    plain = _HIDDEN.sub("", _BREAKS.sub("\n", text.replace("\r\n", "\n")))
    return plain if plain.isascii() else _RUN.sub(_keep_needed, _SURROGATE.sub("\ufffd", plain))


def hidden_runs(text: str) -> Iterator[str]:
    """Yield the characters that `visible` removes, run by run, but for breaks and controls."""
    if _SUSPECT.search(text) is None:
        return
    for run in _UNSEEN.finditer(text):
        begin, end = run.span()
        seen = visible(text[max(0, begin - 1) : end + 1])
        if removed := "".join(char for char in run[0] if char not in seen):
            yield removed


def all_visible(value: object) -> Json:
    """Return a JSON value with all its texts, keys included, as `visible` returns them.

    What is no JSON value raises `TypeError`.
    """
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(str(key)): all_visible(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [all_visible(item) for item in value]
    if value is None or isinstance(value, int | float):
        return value
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def one_line(text: str, limit: int | None = None) -> str:
    """Return a text as `visible` does, on one line with single blanks, maybe cut by `shorten`."""
    line = " ".join(visible(text).split())
    return line if limit is None else shorten(line, limit)


def shorten(text: str, limit: int) -> str:
    """Cut a text of more than `limit` characters; it then ends in an ellipsis."""
    if len(text) <= limit:
        return text
    return text[: limit - len(_CUT)].rstrip().rstrip(_JOINERS) + _CUT


def listed(texts: Iterable[str], n: int) -> str:
    """Join texts for a message: at most `n` of them, and how many more there are."""
    items = list(texts)
    more = f" and {len(items) - n:,} more" if len(items) > n else ""
    return ", ".join(items[:n]) + more


def _keep_needed(match: re.Match[str]) -> str:
    """Return what a base needs of a run: the tags of a flag, or a selector and a joiner."""
    text, run = match.string, match[0]
    base = text[match.start() - 1 : match.start()] or " "
    if base == _FLAG and run in _FLAG_TAGS:
        return run
    selector = run[0] if run[0] not in _JOINERS and _has_variant(base, run[0]) else ""
    after = text[match.end() : match.end() + 1] or " "
    return selector + run[-1] if _joins(base, run[-1], after) else selector


def _has_variant(base: str, selector: str) -> bool:
    if selector >= "\U000e0000":
        return "\U000e0100" <= selector <= "\U000e010f" and _IDEOGRAPH.match(base) is not None
    if selector < "\u200c":
        return _MONGOLIAN.match(base) is not None
    if base.isascii():
        return base in _KEYCAPS and selector == "\ufe0f"
    if selector >= "\ufe0e":
        return unicodedata.category(base) in _SYMBOLS or base in _EMOJI_SIGNS
    return unicodedata.category(base) in _SHAPED or _IDEOGRAPH.match(base) is not None


def _joins(base: str, joiner: str, after: str) -> bool:
    if joiner not in _JOINERS:
        return False
    if (category := unicodedata.category(base)) in _JOINS_AFTER:
        if not _JOINING.match(base):
            return False
        is_letter = _JOINING.match(after) and unicodedata.category(after) == "Lo"
        return bool(is_letter) or unicodedata.combining(base) == _VIRAMA
    is_symbol = category in _SYMBOLS or "\U0001f3fb" <= base <= "\U0001f3ff"
    return joiner == _ZWJ and is_symbol and unicodedata.category(after) in _SYMBOLS


def counted(count: int, noun: str) -> str:
    """Return a number of things in words, as in ``1 skill``, ``1,200 skills``, ``2 queries``."""
    plural = f"{noun[:-1]}ies" if noun.endswith(("ry", "ly", "py")) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"
