"""Prompts that go on with a conversation, told by the words of some languages."""

from __future__ import annotations

import re

MAX_WORDS, MAX_CHARS = 14, 140  # a longer prompt says by itself what it is about
_WORD = re.compile(r"[^\W_]+")
with open(f"{__file__.removesuffix('.py')}.txt", encoding="utf-8") as _file:  # pathlib is slow
    _EMPTY, _FIRST, _ANYWHERE, _UNSPACED = (set(line.split()) for line in [*_file][1::2])


def has_no_task(prompt: str) -> bool:
    """Return whether a prompt has no word that says what is to be done."""
    return (_EMPTY | _FIRST | _ANYWHERE).issuperset(_WORD.findall(prompt.lower()))


def is_followup(prompt: str) -> bool:
    """Return whether a prompt is short and points at what came before."""
    words = _WORD.findall(prompt.lower()) or [""]
    points = words[0] in _FIRST or not _ANYWHERE.isdisjoint(words)
    points = points or any(word in prompt for word in _UNSPACED)
    return points and len(words) <= MAX_WORDS and len(prompt) <= MAX_CHARS
