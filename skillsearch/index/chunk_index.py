"""The chunks of an indexed corpus: which chunk of a document fits a query best.

Documents are ranked without it; it only tells where in a hit to read. A corpus without chunks has
no such part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.index.arrays import map_array, save_array
from skillsearch.index.lexical import LexicalIndex, term_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skillsearch.types import EmbeddingMatrix

LEAST_COSINE = 0.3
"""From this trusted similarity on a chunk is named that holds no term of the query."""
_SCORE_DIGITS = 6
"""Products of equal vectors can differ in their last bits, and ties must not."""


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """The chunks of all documents, one row each; the arrays may be memory-mapped.

    Attributes:
        starts: Row of each document's first chunk, int64, shape (documents + 1,).
        vectors: Embedded text of each chunk, unit length or zero, float16.
        term_starts: Where each chunk's terms begin, int64, shape (chunks + 1,).
        terms: Hashes of the distinct terms, uint64, ascending within a chunk.
    """

    starts: NDArray[np.int64]
    vectors: NDArray[np.float16]
    term_starts: NDArray[np.int64]
    terms: NDArray[np.uint64]

    @classmethod
    def build(
        cls,
        term_sets: Mapping[int, Sequence[NDArray[np.uint64]]],
        size: int,
        vectors: EmbeddingMatrix,
    ) -> ChunkIndex | None:
        """Index chunks; the same chunks give the same bytes.

        Args:
            term_sets: `term_set` of each chunk of each document that has any, by its number.
            size: Number of documents.
            vectors: One row a chunk, in the order of the documents.

        Returns:
            The index; None where there are no chunks.
        """
        if not term_sets:
            return None
        counts = np.zeros(size, np.int64)
        sets: list[NDArray[np.uint64]] = []
        for number in sorted(term_sets):
            counts[number] = len(term_sets[number])
            sets.extend(term_sets[number])
        terms = np.concatenate(sets)
        lengths = np.array([len(terms) for terms in sets], np.int64)
        return cls(_starts(counts), vectors.astype(np.float16), _starts(lengths), terms)

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    def best(
        self, query: NDArray[np.float32], shares: TermShares, document: int, trust: float
    ) -> int | None:
        """Find the chunk of a document that fits a query best.

        Its score is the trusted cosine similarity plus the share of the query's terms, by their
        weight, that it holds.

        Args:
            query: Vector of the query, float32, (dimensions,).
            shares: `term_shares` of the query.
            document: Number of the document.
            trust: How far the vectors of query and document can be trusted, 0 to 1.

        Returns:
            Its place in the document, the first on a tie; None where no chunk holds a term of the
            query or is similar to it.
        """
        begin, end = self.starts[document : document + 2].tolist()
        cosines = trust * (self.vectors[begin:end].astype(np.float32) @ query)
        held = self._shares_held(begin, end, shares)
        can_be_named = (held > 0) | (cosines >= LEAST_COSINE)
        if not can_be_named.any():
            return None
        scores = np.round(cosines + held, _SCORE_DIGITS)
        return int(np.argmax(np.where(can_be_named, scores, -np.inf)))

    def term_sets(self, renumber: NDArray[np.int32]) -> dict[int, list[NDArray[np.uint64]]]:
        """Give back the terms that this index was made of.

        Args:
            renumber: The new number of each document, -1 to leave it out, int32, (documents,).

        Returns:
            As `build` takes them, of the documents kept, under their new numbers.
        """
        with_chunks = np.flatnonzero((np.diff(self.starts) > 0) & (renumber >= 0))
        return {
            int(renumber[number]): [
                self._terms(row) for row in range(self.starts[number], self.starts[number + 1])
            ]
            for number in with_chunks
        }

    def save(self, folder: Path) -> None:
        """Write the arrays as ``chunks-ARRAY.npy`` files.

        Args:
            folder: Where to write.

        Raises:
            OSError: When a file cannot be written whole.
        """
        for field in fields(self):
            save_array(folder / f"chunks-{field.name}.npy", getattr(self, field.name))

    @classmethod
    def load(cls, folder: Path) -> ChunkIndex | None:
        """Map the arrays that `save` wrote.

        Args:
            folder: Where they were written.

        Returns:
            The index; None where there is none.

        Raises:
            CacheError: When an array is missing or does not fit the others.
        """
        paths = [folder / f"chunks-{field.name}.npy" for field in fields(cls)]
        if not any(path.exists() for path in paths):
            return None
        index = cls(*map(map_array, paths))
        if not index._is_consistent():
            raise CacheError("the arrays of the chunks do not fit each other")
        return index

    def _is_consistent(self) -> bool:
        """Tell whether types and shapes are what the searches rely on."""
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
        """Return the terms of a chunk."""
        return self.terms[self.term_starts[row] : self.term_starts[row + 1]]

    def _shares_held(self, begin: int, end: int, shares: TermShares) -> NDArray[np.float64]:
        """Return the sum of the shares of the terms that each of some chunks holds."""
        if not len(shares.hashes):
            return np.zeros(end - begin)
        starts = self.term_starts[begin : end + 1]
        terms = self.terms[starts[0] : starts[-1]]
        places = np.minimum(np.searchsorted(shares.hashes, terms), len(shares.hashes) - 1)
        is_asked = shares.hashes[places] == terms
        chunks = np.repeat(np.arange(end - begin), np.diff(starts))[is_asked]
        weights = shares.shares[places[is_asked]]
        return np.bincount(chunks, weights, minlength=end - begin).astype(np.float64)


class TermShares(NamedTuple):
    """The distinct terms of a query, and the part that each has in the weight of all.

    Attributes:
        hashes: Hash of each term, uint64, ascending.
        shares: Its part, float64, above 0; their sum is 1.
    """

    hashes: NDArray[np.uint64]
    shares: NDArray[np.float64]


def term_shares(terms: Iterable[str], index: LexicalIndex) -> TermShares:
    """Weigh terms by Lucene's idf, which stays above 0 for one that most documents have.

    Args:
        terms: Distinct terms.
        index: Knows how many documents have each.

    Returns:
        Their shares; those of unknown terms too.
    """
    wanted = sorted(terms, key=term_hash)
    rows = index.rows(wanted)
    frequencies = np.zeros(len(wanted))
    for place, term in enumerate(wanted):
        if term in rows:
            frequencies[place] = index.starts[rows[term] + 1] - index.starts[rows[term]]
    weights = np.log1p((index.size - frequencies + 0.5) / (frequencies + 0.5))
    hashes = np.fromiter(map(term_hash, wanted), np.uint64, len(wanted))
    return TermShares(hashes, weights / weights.sum() if wanted else weights)


def term_set(terms: Iterable[str]) -> NDArray[np.uint64]:
    """Return the hashes of the distinct terms of a chunk, ascending."""
    return np.array(sorted(set(map(term_hash, terms))), np.uint64)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each of some runs begins, given their lengths, and where the last ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
