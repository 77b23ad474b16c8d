"""The text of a request, from the arguments of a command or from stdin."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_MAX_STDIN_BYTES = 4 << 20


def text_of(words: Sequence[str]) -> str:
    """Return the request that a command was given.

    Args:
        words: Its arguments; a lone ``-`` stands for what stdin holds.

    Returns:
        The text, ends stripped where it came from stdin.
    """
    if tuple(words) != ("-",):
        return " ".join(words)
    data = sys.stdin.buffer.read(_MAX_STDIN_BYTES)
    return data.decode("utf-8", "replace").strip()
