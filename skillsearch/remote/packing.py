"""Bytes in Milvus: a text field holds 65,535 bytes, so they go into an array of texts."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence

from skillsearch.errors import CacheError

MAX_PIECES = 128
PIECE_CHARS = 60_000
"""Characters of one text; Milvus takes 65,535 bytes, and these are ASCII."""
_MAX_BYTES = 16 << 20
"""More than any row of ours holds unpacked: a SKILL.md has 1 MiB at most."""


def pack(data: bytes) -> list[str]:
    """Return bytes as texts, compressed.

    Args:
        data: Any bytes.

    Returns:
        ASCII texts; none for no bytes.
    """
    if not data:
        return []
    text = base64.b64encode(zlib.compress(data, 6)).decode("ascii")
    return [text[begin : begin + PIECE_CHARS] for begin in range(0, len(text), PIECE_CHARS)]


def unpack(pieces: Sequence[str]) -> bytes:
    """Return what `pack` was given.

    Args:
        pieces: The texts.

    Returns:
        The bytes.

    Raises:
        CacheError: When they are damaged, or would be larger than any of ours.
    """
    try:
        packed = base64.b64decode("".join(pieces), validate=True)
        if not packed:
            return b""
        inflater = zlib.decompressobj()
        data = inflater.decompress(packed, _MAX_BYTES)
    except (binascii.Error, zlib.error, TypeError, ValueError) as exc:
        raise CacheError(f"a row of the collection is damaged: {exc}") from exc
    if not inflater.eof:
        raise CacheError("a row of the collection is cut off or too large")
    return data
