"""Finds the chunk of a document that fits a query best: where in a hit to read."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.arrays import ArrayWriter, save_array
from skillsearch.index.dense.likeness import LEAST_OF_CHUNK
from skillsearch.index.lexical.field import LexicalField, TermWeights
from skillsearch.index.storage.array_table import ArrayTable
from skillsearch.index.storage.numbering import find_sorted, run_starts
from skillsearch.text.tokenizer import term_hash

TermShares = tuple[NDArray[np.uint64], NDArray[np.float64]]
# Products of equal vectors can differ in their last bits; round so that ties stay ties.
_SCORE_DIGITS = 6


@dataclass(frozen=True, slots=True)
class ChunkIndex(ArrayTable):
    """The chunks of all documents, one row each, by document.

    Vectors are of unit length, or 0 for a chunk that is not embedded yet: words alone name it.
    `terms` are the hashes of the distinct terms, ascending within a chunk.
    """

    starts: NDArray[np.int64]
    vectors: NDArray[np.float16]
    term_starts: NDArray[np.int64]
    terms: NDArray[np.uint64]

    KIND: ClassVar[str] = "chunks"
    MATRIX: ClassVar[str] = "vectors"

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    def best(self, query: NDArray[np.float32], shares: TermShares, document: int) -> int | None:
        """Return the place of the chunk of a document that fits best, the first on a tie.

        Its score is the cosine plus the weighted share of the query's terms that it holds.
        None if no chunk holds any or is similar.
        """
        begin, end = self.starts[document : document + 2].tolist()
        cosines = self.vectors[begin:end].astype(np.float32) @ query
        # The total share of the query's terms that each chunk holds.
        starts = self.term_starts[begin : end + 1]
        hashes, weights = shares
        rows = find_sorted(hashes, self.terms[starts[0] : starts[-1]])
        chunks = np.repeat(np.arange(end - begin), np.diff(starts))[rows >= 0]
        held = np.bincount(chunks, weights[rows[rows >= 0]], minlength=end - begin)
        if not (can_be_named := (held > 0) | (cosines >= LEAST_OF_CHUNK)).any():
            return None
        scores = np.round(cosines + held, _SCORE_DIGITS)
        return int(np.argmax(np.where(can_be_named, scores, -np.inf)))

    def terms_of(self, document: int) -> list[NDArray[np.uint64]]:
        """Return the terms of each chunk of a document, as a `ChunkWriter` takes them."""
        rows = range(*self.starts[document : document + 2].tolist())
        return [self.terms[slice(*self.term_starts[row : row + 2].tolist())] for row in rows]

    def vectors_of(self, document: int) -> NDArray[np.float16]:
        """Return the vectors of the chunks of a document."""
        return self.vectors[slice(*self.starts[document : document + 2].tolist())]

    @classmethod
    def find(cls, folder: Path, prefix: str = "") -> ChunkIndex | None:
        """Map what a `ChunkWriter` wrote; None if it had no chunks."""
        is_there = any(path.exists() for path in cls.paths(folder, prefix))
        return cls.load(folder, prefix) if is_there else None

    def is_consistent(self) -> bool:
        """Return whether there is one of everything for each chunk, and for each of its terms."""
        return (
            len(self.starts) > 0
            and len(self.vectors) == int(self.starts[-1]) == len(self.term_starts) - 1
            and len(self.terms) == int(self.term_starts[-1])
        )


class ChunkWriter:
    """Writes a `ChunkIndex`: the terms of the chunks first, their vectors in the same order."""

    def __init__(self, folder: Path, dimensions: int, prefix: str = "") -> None:
        """Begin to write files with a prefix; without any chunk there will be none."""
        self._paths = ChunkIndex.paths(folder, prefix)
        self._documents, self._lengths = array("q"), array("q")
        _, vectors, _, terms = self._paths
        self._vectors = ArrayWriter(vectors, np.float16, (dimensions,))
        self._terms = ArrayWriter(terms, np.uint64)

    def add(self, document: int, term_sets: Sequence[NDArray[np.uint64]]) -> None:
        """Write the `term_set` of each chunk of a document; numbers ascend."""
        for terms in term_sets:
            self._documents.append(document)
            self._lengths.append(len(terms))
            self._terms.append(terms)

    def add_vectors(self, rows: NDArray[np.float32 | np.float16]) -> None:
        """Write the vectors of the next chunks, (chunks, dimensions)."""
        self._vectors.append(rows.astype(np.float16))

    def close(self) -> None:
        """Close the open files, finished or not."""
        self._terms.close()
        self._vectors.close()

    def finish(self, size: int) -> None:
        """Write the rest for a number of documents."""
        self.close()
        starts, vectors, term_starts, terms = self._paths
        if not self._documents:
            vectors.unlink()
            terms.unlink()
            return
        save_array(starts, run_starts(np.bincount(self._documents, minlength=size)))
        save_array(term_starts, run_starts(np.array(self._lengths, np.int64)))


def term_shares(field: LexicalField, query: TermWeights) -> TermShares:
    """Return the hashes of terms, ascending, and each one's share by Lucene's idf, never 0."""
    order = np.argsort(query.hashes)
    frequencies = query.document_frequencies[order]
    weights = np.log1p((field.statistics.documents - frequencies + 0.5) / (frequencies + 0.5))
    return query.hashes[order], weights / weights.sum() if len(weights) else weights


def term_set(terms: Iterable[str]) -> NDArray[np.uint64]:
    """Return the hashes of the distinct terms of a chunk, ascending."""
    return np.array(sorted(set(map(term_hash, terms))), np.uint64)
