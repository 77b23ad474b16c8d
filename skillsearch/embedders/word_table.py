"""A file with the rows of words in 4 bits, positions, and the tokenizer that numbers the words.

It is mapped: a text costs the pages of its own words, and all models of a process share them.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.unigram import ModelArrays, UnigramTokenizer
from skillsearch.errors import EmbedderError, translated

WORDS_NAME = "words.bin"
# Numbers of a Q4_0 block: a float16 scale, then 16 bytes. The low halves of the bytes are the first
# 16 numbers, the high halves the others; each is 8 above its multiple of the scale.
BLOCK = 32
BLOCK_BYTES = 2 + BLOCK // 2
_TABLES = 2  # kept: that of the package, and of another model


@dataclass(frozen=True, slots=True, eq=False)
class WordTable:
    """The words of a model; `positions` are added to the rows of a text, from its first token."""

    path: Path
    tokenizer: UnigramTokenizer
    positions: NDArray[np.float32]
    _blocks: NDArray[np.uint8]

    @staticmethod
    def load(path: Path) -> WordTable:
        """Map a verified file, once for all models that share it.

        An EmbedderError if it cannot be used.
        """
        with translated(lambda exc: EmbedderError(f"{path} cannot be read: {exc}")):
            stat = path.stat()
            return _load_once(path, (stat.st_ino, stat.st_size, stat.st_mtime_ns))

    @property
    def dimensions(self) -> int:
        """Length of a row."""
        return int(self._blocks.shape[1]) * BLOCK

    def rows(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the rows of words, without positions."""
        return unpack(self._blocks[list(ids)])


@lru_cache(maxsize=_TABLES)
def _load_once(path: Path, _stamp: tuple[int, ...]) -> WordTable:
    parts = read_parts(path)
    blocks, positions = parts.pop("words"), parts.pop("positions")
    return WordTable(path, UnigramTokenizer(parts), positions, blocks)


def unpack(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the numbers of Q4_0 blocks, (rows, blocks, `BLOCK_BYTES`), exactly, one row each."""
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    halves = blocks[..., 2:]
    numbers = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32)
    numbers -= 8
    numbers *= scales
    return numbers.reshape(len(blocks), -1)


def read_parts(path: Path) -> ModelArrays:
    """Map the arrays of a verified file, read-only: a line of JSON says where each one is."""
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    end = bytes(data[: 1 << 20]).index(b"\n")
    parts = {}
    for name, (dtype, shape, start) in json.loads(bytes(data[:end])).items():
        parts[name] = np.frombuffer(data, dtype, math.prod(shape), end + 1 + start).reshape(shape)
    return parts
