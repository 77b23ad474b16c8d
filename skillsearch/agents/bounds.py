"""What an answer has room for: of a longer text or list, a last line says what is left out.

That line also says how to get it, so nobody takes a part for the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from skillsearch.text.safe_text import counted

MAX_CHARS = 100_000
"""Some 25,000 tokens, five times what the specification advises for a body."""
MAX_LIST_CHARS = 32_000
"""Some 8,000 tokens, for a list that an answer has beside its text, or that was asked for."""
MAX_PROMPT_CHARS = 1_000_000
"""Of a prompt with all skills, which a person asks for."""
MAX_ROWS = 1_000
AGAIN = "call again with offset={end}"

_T = TypeVar("_T")


def cut_at(text: str, end: int, then: str = AGAIN) -> str:
    """Return the line after the part of a text that ends there; nothing at its end."""
    if end >= len(text):
        return ""
    then = then.format(end=end)
    return f"(cut here: {len(text) - end:,} of {counted(len(text), 'character')} follow; {then})"


def page(text: str, offset: int = 0, then: str = AGAIN, *, room: int = MAX_CHARS) -> str:
    """Return the part of a text from an offset, with the line of `cut_at` below it."""
    end = offset + room
    return "\n".join(filter(None, [text[offset:end], cut_at(text, end, then)]))


def first(
    rows: Sequence[_T],
    noun: str,
    then: str = AGAIN,
    *,
    offset: int = 0,
    room: int = MAX_LIST_CHARS,
    most: int = MAX_ROWS,
) -> tuple[list[_T], list[str]]:
    """Return the rows from an offset that fit, at least one, and a line on the rest, if any."""
    kept: list[_T] = []
    for row in rows[offset : offset + most]:
        room -= len(str(row)) + 1
        if room < 0 and kept:
            break
        kept.append(row)
    end, total = offset + len(kept), len(rows)
    if end >= total:
        return kept, []
    then = then.format(end=end)
    return kept, [f"(not listed: {total - end:,} of {counted(total, noun)}; {then})"]
