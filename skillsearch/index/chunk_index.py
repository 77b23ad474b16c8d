"""Finds the chunk of a document that matches a query best.

Documents are ranked without it; it only tells where in a hit to read. A corpus without chunks has
no such part.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.files.arrays import ArrayWriter, map_array, save_array
from skillsearch.index.lexical.field import LexicalField, TermWeights
from skillsearch.text.tokenizer import term_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray


LEAST_COSINE = 0.3
"""A chunk without any term of the query needs this trusted similarity to be named."""
_SCORE_DIGITS = 6
"""Products of equal vectors can differ in their last bits; round so that ties stay ties."""


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """The chunks of all documents, one row each; the arrays may be memory-mapped.

    Attributes:
        starts: Row of each document's first chunk, int64, (documents + 1,).
        vectors: Embedded text of each chunk, unit length or zero, float16.
        term_starts: Start of each chunk's terms, int64, (chunks + 1,).
        terms: Hashes of the distinct terms, uint64, ascending within a chunk.
    """

    starts: NDArray[np.int64]
    vectors: NDArray[np.float16]
    term_starts: NDArray[np.int64]
    terms: NDArray[np.uint64]

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    def best(
        self, query: NDArray[np.float32], shares: TermShares, document: int, trust: float
    ) -> int | None:
        """Return the place of the chunk of a document that matches best, the first on a tie.

        Its score is the trusted cosine plus the weighted share of the query's terms that it
        holds. It must hold such a term or be similar to the query.

        Args:
            query: Unit vector of the query, float32.
            shares: `term_shares` of the query.
            document: Number of the document.
            trust: How far the vectors of query and document can be trusted, 0 to 1.

        Returns:
            Its place in the document, or None.
        """
        begin, end = self.starts[document : document + 2].tolist()
        cosines = trust * (self.vectors[begin:end].astype(np.float32) @ query)
        held = self._shares_held(begin, end, shares)
        can_be_named = (held > 0) | (cosines >= LEAST_COSINE)
        if not can_be_named.any():
            return None
        scores = np.round(cosines + held, _SCORE_DIGITS)
        return int(np.argmax(np.where(can_be_named, scores, -np.inf)))

    def terms_of(self, document: int) -> list[NDArray[np.uint64]]:
        """Return the terms of each chunk of a document, as a `ChunkWriter` takes them."""
        return [self._terms(row) for row in range(*self.starts[document : document + 2].tolist())]

    @classmethod
    def load(cls, folder: Path, prefix: str = "") -> ChunkIndex | None:
        """Map the arrays that a `ChunkWriter` wrote; None if there are none.

        Raises CacheError when an array is missing or does not fit the others.
        """
        paths = [folder / f"{prefix}chunks-{field.name}.npy" for field in fields(cls)]
        if not any(path.exists() for path in paths):
            return None
        index = cls(*map(map_array, paths))
        if not index._is_consistent():
            raise CacheError("the arrays of the chunks do not fit each other")
        return index

    def _is_consistent(self) -> bool:
        """Return whether types and shapes are what the searches rely on."""
        types = (np.int64, np.float16, np.int64, np.uint64)
        arrays = [getattr(self, field.name) for field in fields(self)]
        return (
            all(a.dtype == t for a, t in zip(arrays, types, strict=True))
            and [a.ndim for a in arrays] == [1, 2, 1, 1]
            and len(self.starts) > 0
            and len(self.vectors) == int(self.starts[-1]) == len(self.term_starts) - 1
            and len(self.terms) == int(self.term_starts[-1])
        )

    def _terms(self, row: int) -> NDArray[np.uint64]:
        return self.terms[self.term_starts[row] : self.term_starts[row + 1]]

    def _shares_held(self, begin: int, end: int, shares: TermShares) -> NDArray[np.float64]:
        """Return the total share of the query's terms that each of some chunks holds."""
        if not len(shares.hashes):
            return np.zeros(end - begin)
        starts = self.term_starts[begin : end + 1]
        terms = self.terms[starts[0] : starts[-1]]
        places = np.minimum(np.searchsorted(shares.hashes, terms), len(shares.hashes) - 1)
        is_asked = shares.hashes[places] == terms
        chunks = np.repeat(np.arange(end - begin), np.diff(starts))[is_asked]
        weights = shares.shares[places[is_asked]]
        return np.bincount(chunks, weights, minlength=end - begin).astype(np.float64)


class ChunkWriter:
    """Writes a `ChunkIndex`: the terms of the chunks first, their vectors in the same order."""

    def __init__(self, folder: Path, dimensions: int, prefix: str = "") -> None:
        """Prepare to write files with a prefix; without any chunk there will be none."""
        self._folder = folder
        self._dimensions = dimensions
        self._prefix = prefix
        self._counts: dict[int, int] = {}
        self._lengths = array("q")
        self._terms: ArrayWriter | None = None
        self._vectors: ArrayWriter | None = None

    def add(self, document: int, term_sets: Sequence[NDArray[np.uint64]]) -> None:
        """Write the `term_set` of each chunk of a document; numbers ascend."""
        if not len(term_sets):
            return
        if self._terms is None:
            self._terms = ArrayWriter(self._path("terms"), np.uint64)
        self._counts[document] = len(term_sets)
        for terms in term_sets:
            self._lengths.append(len(terms))
            self._terms.append(terms)

    def add_vectors(self, rows: NDArray[np.float32]) -> None:
        """Write the vectors of the next chunks, float32, (chunks, dimensions)."""
        if len(rows):
            if self._vectors is None:
                path = self._path("vectors")
                self._vectors = ArrayWriter(path, np.float16, (self._dimensions,))
            self._vectors.append(rows.astype(np.float16))

    def close(self) -> None:
        """Close the open files, finished or not."""
        for writer in (self._terms, self._vectors):
            if writer is not None:
                writer.close()

    def finish(self, size: int) -> None:
        """Write the rest for a number of documents."""
        if self._terms is None or self._vectors is None:
            return
        self._terms.close()
        self._vectors.close()
        counts = np.zeros(size, np.int64)
        counts[list(self._counts)] = list(self._counts.values())
        save_array(self._path("starts"), _starts(counts))
        save_array(self._path("term_starts"), _starts(np.array(self._lengths, np.int64)))

    def _path(self, name: str) -> Path:
        return self._folder / f"{self._prefix}chunks-{name}.npy"


class TermShares(NamedTuple):
    """The distinct terms of a query, each with its share of the total weight.

    Attributes:
        hashes: Hash of each term, uint64, ascending.
        shares: Its share, float64, above 0; they sum to 1.
    """

    hashes: NDArray[np.uint64]
    shares: NDArray[np.float64]


def term_shares(field: LexicalField, query: TermWeights) -> TermShares:
    """Return each term's share of the query by Lucene's idf, above 0 even for common terms."""
    order = np.argsort(query.hashes)
    frequencies = query.document_frequencies[order]
    count = field.statistics.documents
    weights = np.log1p((count - frequencies + 0.5) / (frequencies + 0.5))
    return TermShares(query.hashes[order], weights / weights.sum() if len(weights) else weights)


def term_set(terms: Iterable[str]) -> NDArray[np.uint64]:
    """Return the hashes of the distinct terms of a chunk, ascending."""
    return np.array(sorted(set(map(term_hash, terms))), np.uint64)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the start of each run, given their lengths, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
