"""Postings that are put by, sorted, until those of all documents are merged.

Hashes are spread evenly, so all runs are divided into the same ranges of them, and a block of
ranges is merged at a time. There too a posting is sorted as one 64-bit number: the rank of its
term in the block above its document above its frequency.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from skillsearch.index.lexical.postings import LexicalSegment

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK_POSTINGS = 1 << 21
"""Postings merged at a time, but for a term that alone has more."""
_BLOCK_TERMS = 1 << 17
"""Terms of all runs merged at a time: rank, document and frequency fit 17, 31 and 16 bits."""
_FREQUENCY_BITS = 16
MAX_FREQUENCY = (1 << _FREQUENCY_BITS) - 1
_RANGES = 1 << 12
_RANGE_STARTS = np.arange(_RANGES, dtype=np.uint64) << np.uint64(52)
"""The first hash of each of the equal ranges that runs are divided into."""


class Postings(NamedTuple):
    """Postings by term, hashes ascending, documents ascending within a term.

    Attributes:
        hashes: Hash of each term, uint64.
        sizes: How many postings each term has, int64.
        documents: Document of each posting, int32.
        frequencies: Occurrences behind each posting, uint16.
    """

    hashes: NDArray[np.uint64]
    sizes: NDArray[np.int64]
    documents: NDArray[np.int32]
    frequencies: NDArray[np.uint16]


class Run(Protocol):
    """Sorted postings that are put by, divided by the ranges of their hashes."""

    @property
    def terms(self) -> NDArray[np.int64]:
        """Number of terms below each range, and of all."""

    @property
    def postings(self) -> NDArray[np.int64]:
        """Number of postings below each range, and of all."""

    def read(self, first: int, last: int) -> Postings:
        """Read the postings of the ranges from `first` up to but without `last`."""

    def remove(self) -> None:
        """Delete what was only put by."""


@dataclass(frozen=True, slots=True)
class SpilledRun:
    """A run in a file of its own: the arrays of `Postings` one behind the other."""

    path: Path
    terms: NDArray[np.int64]
    postings: NDArray[np.int64]

    @classmethod
    def write(cls, path: Path, block: Postings) -> SpilledRun:
        """Put postings by."""
        with path.open("wb") as file:
            for part in block:
                file.write(part.data)
        terms = _range_starts(block.hashes)
        starts = np.concatenate([[0], np.cumsum(block.sizes)])
        return cls(path, terms, starts[terms])

    def read(self, first: int, last: int) -> Postings:
        """Read some ranges, through no mapping that would stay in memory."""
        begin, end, terms = self.terms[[first, last, -1]].tolist()
        begun, ended, postings = self.postings[[first, last, -1]].tolist()
        behind = 16 * terms
        return Postings(
            np.fromfile(self.path, np.uint64, end - begin, offset=8 * begin),
            np.fromfile(self.path, np.int64, end - begin, offset=8 * (terms + begin)),
            np.fromfile(self.path, np.int32, ended - begun, offset=behind + 4 * begun),
            np.fromfile(
                self.path, np.uint16, ended - begun, offset=behind + 4 * postings + 2 * begun
            ),
        )

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink()


class OldRun:
    """The postings of another segment, under new numbers."""

    def __init__(self, segment: LexicalSegment, renumber: NDArray[np.int32]) -> None:
        self._segment = segment
        self._renumber = renumber
        self.terms = _range_starts(segment.hashes)
        self.postings = np.asarray(segment.starts[self.terms])

    def read(self, first: int, last: int) -> Postings:
        """Read some ranges; a term none of whose documents is kept has no postings."""
        segment = self._segment
        terms = slice(int(self.terms[first]), int(self.terms[last]))
        postings = slice(int(self.postings[first]), int(self.postings[last]))
        documents = self._renumber[segment.documents[postings]]
        kept = documents >= 0
        below = np.concatenate([[0], np.cumsum(kept)])
        starts = segment.starts[terms.start : terms.stop + 1] - postings.start
        return Postings(
            np.asarray(segment.hashes[terms]),
            np.diff(below[starts]),
            documents[kept],
            segment.frequencies[postings][kept],
        )

    def remove(self) -> None:
        """Leave the segment as it is."""


def _range_starts(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return where each range of ascending hashes begins, and where the last one ends."""
    return np.append(np.searchsorted(hashes, _RANGE_STARTS), len(hashes))


def blocks(runs: Sequence[Run]) -> Iterator[tuple[int, int]]:
    """Divide the ranges into blocks that are merged at a time: from the first up to the last."""
    postings = sum((np.diff(run.postings) for run in runs), np.zeros(_RANGES, np.int64))
    terms = sum((np.diff(run.terms) for run in runs), np.zeros(_RANGES, np.int64))
    first = held = known = 0
    for place, (size, count) in enumerate(zip(postings.tolist(), terms.tolist(), strict=True)):
        if place > first and (held + size > _BLOCK_POSTINGS or known + count > _BLOCK_TERMS):
            yield first, place
            first, held, known = place, 0, 0
        held, known = held + size, known + count
    yield first, _RANGES


def merge(parts: Sequence[Postings], size: int) -> Postings:
    """Bring the postings of the same hashes of several runs together.

    Args:
        parts: Postings of each run.
        size: Documents are numbered below this.

    Returns:
        All of them.
    """
    bits = size.bit_length()
    hashes = np.unique(np.concatenate([part.hashes for part in parts] or [_RANGE_STARTS[:0]]))
    packed = np.empty(sum(len(part.documents) for part in parts), np.uint64)
    filled = 0
    for part in parts:
        ranks = np.searchsorted(hashes, part.hashes).astype(np.uint64)
        end = filled + len(part.documents)
        packed[filled:end] = _pack(
            np.repeat(ranks, part.sizes), part.documents, part.frequencies, bits
        )
        filled = end
    packed.sort()
    rows, documents, frequencies = _unpack(packed, bits)
    sizes = np.bincount(rows, minlength=len(hashes))
    return Postings(hashes[sizes > 0], sizes[sizes > 0], documents, frequencies)


def _pack(
    ranks: NDArray[np.uint64],
    documents: NDArray[np.integer],
    frequencies: NDArray[np.integer],
    bits: int,
) -> NDArray[np.uint64]:
    """Make one number of each posting, its document in so many bits; `ranks` are used up."""
    ranks <<= np.uint64(bits)
    ranks |= documents.astype(np.uint64)
    ranks <<= np.uint64(_FREQUENCY_BITS)
    ranks |= frequencies.astype(np.uint64)
    return ranks


def _unpack(
    packed: NDArray[np.uint64], bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint16]]:
    """Return rank, document and frequency of each posting; `packed` is used up."""
    frequencies = (packed & np.uint64(MAX_FREQUENCY)).astype(np.uint16)
    packed >>= np.uint64(_FREQUENCY_BITS)
    documents = (packed & np.uint64((1 << bits) - 1)).astype(np.int32)
    packed >>= np.uint64(bits)
    return packed.astype(np.int64), documents, frequencies
