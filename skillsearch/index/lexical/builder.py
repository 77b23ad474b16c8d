"""The terms of documents → the arrays of one lexical field, in bounded memory.

Terms are gathered into runs, sorted, counted and spilled to files; at the end all runs are merged.
Hashes are spread evenly, so every run is divided into the same ranges of them, and a block of
ranges is merged at a time. Whatever is sorted is packed into one 64-bit number (rank of the term,
then document, then frequency), so that a sort is one NumPy call that moves nothing else.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import compress, count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.files.arrays import ArrayWriter, map_array, save_array
from skillsearch.index.lexical.postings import (
    LEAST_PREFIX,
    LexicalSegment,
    Postings,
    average_idf,
    length_norms,
    saturation,
)
from skillsearch.index.storage.numbering import find_sorted, run_starts
from skillsearch.text.tokenizer import term_hash

# Terms in a run, repeats included: some 25 MB of words, and as much while they are sorted.
RUN_TERMS = 1 << 20
# For the place of a document in its run, sorted below the rank of a term.
_PLACE_BITS = 32
_LEAST_MEAN_LENGTH = 1e-9
# Postings merged at a time, unless a single term has more, and terms of all runs: rank, document
# and frequency fit 17, 31 and 16 bits.
BLOCK = (1 << 20, 1 << 17)
_FREQUENCY_BITS = 16
MAX_FREQUENCY = (1 << _FREQUENCY_BITS) - 1
_RANGES = 1 << 12
# The first hash of each of the equal ranges that runs are divided into.
_RANGE_STARTS = np.arange(_RANGES, dtype=np.uint64) << np.uint64(52)
_PARTS = {"hashes": np.uint64, "documents": np.int32, "frequencies": np.uint16, "peaks": np.float32}


class SpilledPostings:
    """Postings to be merged: spilled ones, or those of a segment, with new numbers or -1 for none.

    `terms` and `postings` are how many lie below each range of hashes, and of all.
    """

    def __init__(self, load: Callable[[], Postings], new: NDArray[np.int32] | None = None) -> None:
        """Take what maps the postings; if they stayed mapped, they would stay in memory."""
        self._load, self._renumber = load, new
        table = load()
        self.terms = np.append(np.searchsorted(table.hashes, _RANGE_STARTS), len(table.hashes))
        self.postings = np.asarray(table.starts[self.terms])

    def read(self, first: int, last: int) -> Postings:
        """Read the ranges from `first` up to but without `last`; terms may be without postings."""
        table = self._load()
        below = self.terms, self.postings
        terms, postings = (slice(*bounds[[first, last]].tolist()) for bounds in below)
        starts = table.starts[terms.start : terms.stop + 1] - postings.start
        documents, frequencies = table.documents[postings], table.frequencies[postings]
        if self._renumber is not None:
            documents = self._renumber[documents]
            remain = documents >= 0
            starts = run_starts(remain)[starts]
            documents, frequencies = documents[remain], frequencies[remain]
        return Postings(*map(np.array, (table.hashes[terms], starts, documents, frequencies)))


class LexicalWriter:
    """Writes one field of a segment, document by document."""

    def __init__(
        self,
        folder: Path,
        name: str,
        run_terms: int = RUN_TERMS,
        block: tuple[int, int] = BLOCK,
        *,
        with_words: bool = False,
    ) -> None:
        """Prepare to write ``NAME-*.npy``; a run ends after `run_terms` terms."""
        self._words: set[str] | None = set() if with_words else None
        self._prefix, self._run_terms, self._block = folder / name, run_terms, block
        self._runs: list[SpilledPostings] = []
        self._spilled: list[Path] = []
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
        self._runs.append(SpilledPostings(lambda: segment, renumber))
        if self._words is not None:
            self._words.update(map(segment.word, range(len(segment.word_ends))))
        remain = renumber >= 0
        self._lengths.append((renumber[remain], np.asarray(segment.lengths)[remain]))

    def finish(self, size: int) -> None:
        """Write the arrays for `size` documents; they do not depend on where runs ended."""
        if self._documents:
            self._end_run()
        lengths = np.zeros(size, np.int32)
        for documents, values in self._lengths:
            lengths[documents] = values
        mean_length = max(float(lengths.sum(dtype=np.int64)) / max(size, 1), _LEAST_MEAN_LENGTH)
        frequencies = self._write_postings(lengths, mean_length)
        for path in self._spilled:
            path.unlink()
        statistics = np.array([mean_length, average_idf(frequencies, size)], np.float64)
        save_array(self._path("starts"), run_starts(frequencies))
        save_array(self._path("lengths"), lengths)
        save_array(self._path("statistics"), statistics)
        words = sorted(self._words or ())
        hashes = np.fromiter(map(term_hash, words), np.uint64, len(words))
        is_there = find_sorted(map_array(self._path("hashes")), hashes) >= 0
        stored = [word.encode() for word in compress(words, is_there.tolist())]
        save_array(self._path("words"), np.frombuffer(b"".join(stored), np.uint8))
        save_array(self._path("word_ends"), np.cumsum([*map(len, stored)], dtype=np.int64))

    def _write_postings(self, lengths: NDArray[np.int32], mean_length: float) -> NDArray[np.int64]:
        """Merge all runs into the arrays by term and posting; return each document frequency."""
        counts = [np.zeros(0, np.int64)]
        norms = length_norms(lengths, mean_length)
        with ExitStack() as stack:
            hashes, documents, frequencies, peaks = (
                stack.enter_context(closing(ArrayWriter(self._path(part), dtype)))
                for part, dtype in _PARTS.items()
            )
            for first, last in blocks(self._runs, self._block):
                merged = merge([run.read(first, last) for run in self._runs], len(lengths))
                if not len(merged.hashes):
                    continue
                added = saturation(merged.frequencies, norms[merged.documents])
                hashes.append(merged.hashes)
                documents.append(merged.documents)
                frequencies.append(merged.frequencies)
                peaks.append(np.maximum.reduceat(added, merged.starts[:-1]))
                counts.append(np.diff(merged.starts))
        return np.concatenate(counts)

    def _start_run(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._terms, self._documents, self._sizes = array("i"), array("i"), array("i")

    def _end_run(self) -> None:
        if self._words is not None:
            self._words.update(word for word in self._numbers if len(word) > LEAST_PREFIX)
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
        folder, name = self._prefix.parent, f".{self._prefix.name}-run-{len(self._runs)}"
        Postings(
            hashes[order], run_starts(sizes), documents[places], frequencies.astype(np.uint16)
        ).save(folder, name)
        self._runs.append(SpilledPostings(partial(Postings.load, folder, name)))
        self._spilled += Postings.paths(folder, name)

    def _path(self, part: str) -> Path:
        return self._prefix.with_name(f"{self._prefix.name}-{part}.npy")


def blocks(runs: Sequence[SpilledPostings], most: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Divide the ranges into blocks (first, end) of `most` postings and terms, or of one range."""
    below = np.zeros((2, _RANGES + 1), np.int64)
    for run in runs:
        below += np.stack([run.postings, run.terms])
    first = 0
    while first < _RANGES:
        pairs = zip(below, most, strict=True)
        ends = [row.searchsorted(row[first] + n, "right") for row, n in pairs]
        end = max(int(min(ends)) - 1, first + 1)
        yield first, end
        first = end


def merge(parts: Sequence[Postings], size: int) -> Postings:
    """Merge the postings of several runs, whose documents are numbered below `size`."""
    bits = np.uint64(size.bit_length())
    hashes = np.unique(np.concatenate([part.hashes for part in parts] or [_RANGE_STARTS[:0]]))
    packed = np.empty(sum(len(part.documents) for part in parts), np.uint64)
    filled = 0
    for part in parts:
        ranks = np.searchsorted(hashes, part.hashes).astype(np.uint64)
        numbers = np.repeat(ranks, np.diff(part.starts))
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
    return Postings(hashes[sizes > 0], run_starts(sizes[sizes > 0]), documents, frequencies)
