"""The file of words that a packaged model maps: the tables of its tokenizer, and how it is packed.

``model_base.py`` writes it, and `skillsearch.embedders.word_table` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.unigram import ModelArrays, code_points, hash_substrings

# What a tokenizer uses.
_TABLES = ("piece.hash", "piece.id", "piece.score", "fold.from", "fold.to")
_SPECIAL_PIECES = frozenset({"<s>", "<pad>", "</s>", "<unk>", "<mask>"})
_ALIGNMENT = 64


def build_tables(
    pieces: Sequence[str], scores: NDArray[np.float32], folds: Mapping[int, str]
) -> ModelArrays:
    """Return the pieces by hash and the folds of single characters, for a `UnigramTokenizer`."""
    lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    starts = np.cumsum(lengths) - lengths
    hashes = hash_substrings(code_points("".join(pieces)), int(lengths.max()))[lengths - 1, starts]
    hashes[[piece in _SPECIAL_PIECES for piece in pieces]] = 0
    order = np.argsort(hashes, kind="stable")
    order = order[hashes[order] != 0]
    codes = np.array(list(folds), dtype="<u4")
    texts = np.frombuffer("\0".join(folds.values()).encode(), dtype=np.uint8)
    tables = (hashes[order], order.astype("<i4"), scores[order], codes, texts)
    return dict(zip(_TABLES, tables, strict=True))


def pack(parts: ModelArrays) -> bytes:
    """Write arrays one after the other, behind a line of JSON that says where each one is."""
    layout, data = {}, bytearray()
    for name, part in parts.items():
        data += bytes(-len(data) % _ALIGNMENT)
        layout[name] = [part.dtype.str, part.shape, len(data)]
        data += part.tobytes()
    line = json.dumps(layout).encode()
    line += b" " * (-(len(line) + 1) % _ALIGNMENT) + b"\n"
    return line + data
