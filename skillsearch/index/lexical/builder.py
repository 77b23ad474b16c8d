"""The terms of documents → the arrays of one lexical field, in bounded memory.

Terms are gathered into runs, sorted, counted and spilled to files; at the end all runs are merged.
Hashes are spread evenly, so every run is divided into the same ranges of them, and a block of
ranges is merged at a time. Whatever is sorted is packed into one 64-bit number (rank of the term,
then document, then frequency), so that a sort is one NumPy call that moves nothing else.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skillsearch.files.arrays import ArrayWriter, save_array
from skillsearch.index.lexical.okapi import average_idf, length_norms, saturation
from skillsearch.index.lexical.postings import LexicalSegment
from skillsearch.index.storage.numbering import run_starts
from skillsearch.text.tokenizer import term_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Terms in a run, repeats included: some 100 MB while it is sorted.
RUN_TERMS = 1 << 22
# For the place of a document in its run, sorted below the rank of a term.
_PLACE_BITS = 32
_LEAST_MEAN_LENGTH = 1e-9
# Postings merged at a time, unless a single term has more.
_BLOCK_POSTINGS = 1 << 21
# Terms of all runs merged at a time: rank, document and frequency fit 17, 31 and 16 bits.
_BLOCK_TERMS = 1 << 17
_FREQUENCY_BITS = 16
MAX_FREQUENCY = (1 << _FREQUENCY_BITS) - 1
_RANGES = 1 << 12
# The first hash of each of the equal ranges that runs are divided into.
_RANGE_STARTS = np.arange(_RANGES, dtype=np.uint64) << np.uint64(52)
_POSTING_ARRAYS = (
    ("hashes", np.uint64),
    ("documents", np.int32),
    ("frequencies", np.uint16),
    ("peaks", np.float32),
)


class Postings(NamedTuple):
    """Postings by term: hashes ascending, documents ascending within a term, `sizes` postings."""

    hashes: NDArray[np.uint64]
    sizes: NDArray[np.int64]
    documents: NDArray[np.int32]
    frequencies: NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class SpilledRun:
    """Sorted postings in a temporary file: the arrays of `Postings` one behind the other.

    `terms` and `postings` are how many lie below each range of hashes, and of all.
    """

    path: Path
    terms: NDArray[np.int64]
    postings: NDArray[np.int64]

    @classmethod
    def write(cls, path: Path, block: Postings) -> SpilledRun:
        """Spill postings."""
        with path.open("wb") as file:
            for part in block:
                file.write(part.data)
        terms = _range_starts(block.hashes)
        return cls(path, terms, run_starts(block.sizes)[terms])

    def read(self, first: int, last: int) -> Postings:
        """Read the ranges from `first` up to but without `last`; a mapping would stay in memory."""
        arrays, place = [], 0
        types = (np.uint64, np.int64, np.int32, np.uint16)
        bounds = (self.terms, self.terms, self.postings, self.postings)
        for kind, bound in zip(map(np.dtype, types), bounds, strict=True):
            begin, end, size = bound[[first, last, -1]].tolist()
            offset = place + kind.itemsize * begin
            arrays.append(np.fromfile(self.path, kind, end - begin, offset=offset))
            place += kind.itemsize * size
        return Postings(*arrays)


class OldRun:
    """The postings of a segment, read like a `SpilledRun`; `renumber` has -1 for none."""

    def __init__(self, segment: LexicalSegment, renumber: NDArray[np.int32]) -> None:
        self._segment = segment
        self._renumber = renumber
        self.terms = _range_starts(segment.hashes)
        self.postings = np.asarray(segment.starts[self.terms])

    def read(self, first: int, last: int) -> Postings:
        """Read some ranges; terms whose documents are all left out stay, without postings."""
        segment = self._segment
        terms, postings = (
            slice(*bounds[[first, last]].tolist()) for bounds in (self.terms, self.postings)
        )
        documents = self._renumber[segment.documents[postings]]
        kept = documents >= 0
        starts = segment.starts[terms.start : terms.stop + 1] - postings.start
        return Postings(
            np.asarray(segment.hashes[terms]),
            np.diff(run_starts(kept)[starts]),
            documents[kept],
            segment.frequencies[postings][kept],
        )


class LexicalWriter:
    """Writes one field of a segment, document by document."""

    def __init__(self, folder: Path, name: str, *, run_terms: int = RUN_TERMS) -> None:
        """Prepare to write ``NAME-*.npy``; a run ends after `run_terms` terms."""
        self._prefix, self._run_terms = folder / name, run_terms
        self._runs: list[SpilledRun | OldRun] = []
        self._lengths: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        self._start_run()

    def add(self, document: int, terms: Sequence[str]) -> None:
        """Count the terms of a document, numbered upwards; frequencies are cut at 65,535."""
        if not terms:
            return
        self._terms.extend(map(self._numbers.__getitem__, terms))
        self._documents.append(document)
        self._sizes.append(len(terms))
        if len(self._terms) >= self._run_terms:
            self._end_run()

    def take_over(self, segment: LexicalSegment, renumber: NDArray[np.int32]) -> None:
        """Take the postings of a segment, readable until `finish`; new numbers or -1 for none."""
        self._runs.append(OldRun(segment, renumber))
        kept = renumber >= 0
        self._lengths.append((renumber[kept], np.asarray(segment.lengths)[kept]))

    def finish(self, size: int) -> None:
        """Write the arrays for `size` documents; they do not depend on where runs ended."""
        if self._documents:
            self._end_run()
        lengths = np.zeros(size, np.int32)
        for documents, values in self._lengths:
            lengths[documents] = values
        mean_length = max(float(lengths.sum(dtype=np.int64)) / max(size, 1), _LEAST_MEAN_LENGTH)
        frequencies = self._write_postings(lengths, mean_length)
        for run in self._runs:
            if isinstance(run, SpilledRun):
                run.path.unlink()
        statistics = np.array([mean_length, average_idf(frequencies, size)], np.float64)
        save_array(self._path("starts"), run_starts(frequencies))
        save_array(self._path("lengths"), lengths)
        save_array(self._path("statistics"), statistics)

    def _write_postings(self, lengths: NDArray[np.int32], mean_length: float) -> NDArray[np.int64]:
        """Merge all runs into the arrays by term and posting; return each document frequency."""
        found = [np.zeros(0, np.int64)]
        norms = length_norms(lengths, mean_length)
        with ExitStack() as stack:
            hashes, documents, frequencies, peaks = (
                stack.enter_context(closing(ArrayWriter(self._path(part), kind)))
                for part, kind in _POSTING_ARRAYS
            )
            for first, last in blocks(self._runs):
                merged = merge([run.read(first, last) for run in self._runs], len(lengths))
                if not len(merged.hashes):
                    continue
                added = saturation(merged.frequencies, norms[merged.documents])
                hashes.append(merged.hashes)
                documents.append(merged.documents)
                frequencies.append(merged.frequencies)
                peaks.append(np.maximum.reduceat(added, run_starts(merged.sizes)[:-1]))
                found.append(merged.sizes)
        return np.concatenate(found)

    def _start_run(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._terms, self._documents, self._sizes = array("i"), array("i"), array("i")

    def _end_run(self) -> None:
        documents = np.array(self._documents, np.int32)
        hashes = np.fromiter(map(term_hash, self._numbers), np.uint64, len(self._numbers))
        order = np.argsort(hashes)
        ranks = np.empty(len(order), np.uint64)
        ranks[order] = np.arange(len(order), dtype=np.uint64)
        packed = ranks[np.frombuffer(self._terms, np.int32)]
        packed <<= np.uint64(_PLACE_BITS)
        packed |= np.repeat(np.arange(len(documents), dtype=np.uint64), self._sizes)
        self._start_run()
        packed.sort()
        begins = np.flatnonzero(np.diff(packed, prepend=~packed[:1]))
        frequencies = np.minimum(np.diff(begins, append=len(packed)), MAX_FREQUENCY)
        packed = packed[begins]
        places = (packed & np.uint64((1 << _PLACE_BITS) - 1)).astype(np.int64)
        sizes = np.bincount((packed >> np.uint64(_PLACE_BITS)).astype(np.int64))
        lengths = np.bincount(places, weights=frequencies)
        self._lengths.append((documents, lengths.astype(np.int32)))
        path = self._prefix.with_name(f".{self._prefix.name}-run-{len(self._runs)}")
        postings = (documents[places], frequencies.astype(np.uint16))
        self._runs.append(SpilledRun.write(path, Postings(hashes[order], sizes, *postings)))

    def _path(self, part: str) -> Path:
        return self._prefix.with_name(f"{self._prefix.name}-{part}.npy")


def _range_starts(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    return np.append(np.searchsorted(hashes, _RANGE_STARTS), len(hashes))


def blocks(runs: Sequence[SpilledRun | OldRun]) -> Iterator[tuple[int, int]]:
    """Divide the ranges into blocks that are merged at a time: (first, end)."""
    postings = sum((np.diff(run.postings) for run in runs), np.zeros(_RANGES, np.int64))
    terms = sum((np.diff(run.terms) for run in runs), np.zeros(_RANGES, np.int64))
    first = held = known = 0
    for place, (size, number) in enumerate(zip(postings.tolist(), terms.tolist(), strict=True)):
        if place > first and (held + size > _BLOCK_POSTINGS or known + number > _BLOCK_TERMS):
            yield first, place
            first, held, known = place, 0, 0
        held, known = held + size, known + number
    yield first, _RANGES


def merge(parts: Sequence[Postings], size: int) -> Postings:
    """Merge the postings of several runs, whose documents are numbered below `size`.

    For the sort, each posting is one number: rank of the term, document, frequency.
    """
    bits = np.uint64(size.bit_length())
    hashes = np.unique(np.concatenate([part.hashes for part in parts] or [_RANGE_STARTS[:0]]))
    packed = np.empty(sum(len(part.documents) for part in parts), np.uint64)
    filled = 0
    for part in parts:
        numbers = np.repeat(np.searchsorted(hashes, part.hashes).astype(np.uint64), part.sizes)
        numbers <<= bits
        numbers |= part.documents.astype(np.uint64)
        numbers <<= np.uint64(_FREQUENCY_BITS)
        numbers |= part.frequencies.astype(np.uint64)
        packed[filled : filled + len(numbers)] = numbers
        filled += len(numbers)
    packed.sort()
    frequencies = (packed & np.uint64(MAX_FREQUENCY)).astype(np.uint16)
    packed >>= np.uint64(_FREQUENCY_BITS)
    documents = (packed & np.uint64((1 << size.bit_length()) - 1)).astype(np.int32)
    packed >>= bits
    sizes = np.bincount(packed.astype(np.int64), minlength=len(hashes))
    return Postings(hashes[sizes > 0], sizes[sizes > 0], documents, frequencies)
