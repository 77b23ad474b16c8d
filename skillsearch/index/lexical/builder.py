"""The terms of documents → the arrays of one lexical field, in memory that does not grow with them.

Terms are gathered into runs, sorted, counted, and put by in files of the folder that is being
written; at the end all runs are merged. A term is sorted as one 64-bit number, its rank in the run
above the place of its document, so that a sort is one call of NumPy that moves nothing else.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.files.arrays import ArrayWriter, save_array
from skillsearch.index.lexical.okapi import average_idf, damping, saturation
from skillsearch.index.lexical.postings import LexicalSegment
from skillsearch.index.lexical.runs import (
    MAX_FREQUENCY,
    OldRun,
    Postings,
    Run,
    SpilledRun,
    blocks,
    merge,
)
from skillsearch.text.tokenizer import term_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

RUN_TERMS = 1 << 22
"""Terms in a run, repeats included: some 100 MB while it is sorted."""
_PACKED_TERMS = 1 << 16
"""Terms that are kept in a list, which takes them fastest, before they go into an array."""
_PLACE_BITS = 32
"""For the place of a document in its run, where it is sorted below the rank of a term."""
_LEAST_MEAN_LENGTH = 1e-9


class LexicalWriter:
    """Writes one field of a segment, document by document."""

    def __init__(self, folder: Path, name: str, *, run_terms: int = RUN_TERMS) -> None:
        """Prepare to write.

        Args:
            folder: Where the arrays go; runs lie there too until the end.
            name: First part of the file names.
            run_terms: Terms that are kept in memory.
        """
        self._folder = folder
        self._name = name
        self._run_terms = run_terms
        self._packed_terms = min(_PACKED_TERMS, run_terms)
        self._runs: list[Run] = []
        self._lengths: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        self._start_run()

    def add(self, document: int, terms: Sequence[str]) -> None:
        """Count the terms of a document; a frequency above 65,535 is cut to it.

        Args:
            document: Its number, higher than that of every document added before.
            terms: Its terms, repeats kept.

        Raises:
            OSError: When a run cannot be written.
        """
        if not terms:
            return
        self._waiting.extend(map(self._numbers.__getitem__, terms))
        self._documents.append(document)
        self._sizes.append(len(terms))
        if len(self._waiting) >= self._packed_terms:
            self._pack_waiting()

    def take_over(self, segment: LexicalSegment, renumber: NDArray[np.int32]) -> None:
        """Take the postings of documents that are indexed already.

        Args:
            segment: The segment that has them; it must stay readable until `finish`.
            renumber: The new number of each of its documents, -1 to leave it out.
        """
        self._runs.append(OldRun(segment, renumber))
        kept = renumber >= 0
        self._lengths.append((renumber[kept], np.asarray(segment.lengths)[kept]))

    def finish(self, size: int) -> None:
        """Write the arrays; they depend on the documents alone, not on where runs ended.

        Args:
            size: Number of documents, those without any term included.

        Raises:
            OSError: When a file cannot be written whole.
        """
        if self._documents:
            self._end_run()
        lengths = np.zeros(size, np.int32)
        for documents, values in self._lengths:
            lengths[documents] = values
        mean_length = max(float(lengths.sum(dtype=np.int64)) / max(size, 1), _LEAST_MEAN_LENGTH)
        frequencies = self._write_postings(lengths, mean_length)
        for run in self._runs:
            run.remove()
        starts = np.zeros(len(frequencies) + 1, np.int64)
        np.cumsum(frequencies, out=starts[1:])
        statistics = np.array([mean_length, average_idf(frequencies, size)], np.float64)
        save_array(self._path("starts"), starts)
        save_array(self._path("lengths"), lengths)
        save_array(self._path("statistics"), statistics)

    def _write_postings(self, lengths: NDArray[np.int32], mean_length: float) -> NDArray[np.int64]:
        """Merge all runs into the arrays that go by term or posting; return how many each has."""
        found = [np.zeros(0, np.int64)]
        dampings = damping(lengths, mean_length)
        with (
            closing(ArrayWriter(self._path("hashes"), np.uint64)) as hashes,
            closing(ArrayWriter(self._path("documents"), np.int32)) as documents,
            closing(ArrayWriter(self._path("frequencies"), np.uint16)) as frequencies,
            closing(ArrayWriter(self._path("peaks"), np.float32)) as peaks,
        ):
            for first, last in blocks(self._runs):
                merged = merge([run.read(first, last) for run in self._runs], len(lengths))
                if not len(merged.hashes):
                    continue
                added = saturation(merged.frequencies, dampings[merged.documents])
                begins = np.cumsum(merged.sizes) - merged.sizes
                hashes.append(merged.hashes)
                documents.append(merged.documents)
                frequencies.append(merged.frequencies)
                peaks.append(np.maximum.reduceat(added, begins))
                found.append(merged.sizes)
        return np.concatenate(found)

    def _start_run(self) -> None:
        """Begin with no documents; terms are numbered as they come."""
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._waiting: list[int] = []
        self._terms: list[NDArray[np.int32]] = []
        self._held = 0
        self._documents = array("i")
        self._sizes = array("i")

    def _pack_waiting(self) -> None:
        """Move the terms that came last into an array, and end a run that is long enough."""
        self._terms.append(np.array(self._waiting, np.int32))
        self._held += len(self._waiting)
        self._waiting.clear()
        if self._held >= self._run_terms:
            self._end_run()

    def _end_run(self) -> None:
        """Sort the terms gathered so far, count equal ones and put the postings by."""
        self._terms.append(np.array(self._waiting, np.int32))
        documents = np.array(self._documents, np.int32)
        hashes = np.fromiter(map(term_hash, self._numbers), np.uint64, len(self._numbers))
        order = np.argsort(hashes)
        ranks = np.empty(len(order), np.uint64)
        ranks[order] = np.arange(len(order), dtype=np.uint64)
        packed = ranks[np.concatenate(self._terms)]
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
        path = self._folder / f".{self._name}-run-{len(self._runs)}"
        postings = (documents[places], frequencies.astype(np.uint16))
        self._runs.append(SpilledRun.write(path, Postings(hashes[order], sizes, *postings)))

    def _path(self, part: str) -> Path:
        """Return the file of an array."""
        return self._folder / f"{self._name}-{part}.npy"
