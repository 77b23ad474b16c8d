"""Prompts that go on with a conversation, told by the words of some languages."""

from __future__ import annotations

import re

MAX_WORDS = 14
"""A longer prompt says by itself what it is about."""
_WORD = re.compile(r"[^\W_]+")
with open(f"{__file__.removesuffix('.py')}.txt", encoding="utf-8") as _file:  # pathlib is slow
    _NOTHING, _FIRST, _ANYWHERE, _UNSPACED = (set(line.split()) for line in [*_file][1::2])


def needs_nothing(prompt: str) -> bool:
    """Return whether a prompt only answers, thanks or tells to go on."""
    return _NOTHING.issuperset(_WORD.findall(prompt.lower()))


def leans(prompt: str) -> bool:
    """Return whether a prompt is short and points at what came before."""
    words = _WORD.findall(prompt.lower()) or [""]
    is_short = len(words) <= MAX_WORDS and len(prompt) <= 10 * MAX_WORDS
    points = words[0] in _FIRST or not _ANYWHERE.isdisjoint(words)
    return is_short and (points or any(word in prompt for word in _UNSPACED))
