"""The vectors of one dense channel: of the metadata of all documents, maybe of the bodies too.

Both fields are searched together: a row of the FAISS index is the vector of the metadata plus a
share of that of the body, so that one scan finds the documents that are best by both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.files.arrays import ArrayWriter, map_array
from skillsearch.index.dense.float16 import as_floats
from skillsearch.index.dense.nearest import FLAT_LIMIT, TRAINING_ROWS, DenseCodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

BODY_SHARE = 0.25
"""What the body counts beside the metadata when candidates are looked for. With weights of the two
in the fusion between 10 to 1.5 and 1 to 1, at least .99 of the ten best of 6,357 skills
are among the 50 found so."""
CODED_CANDIDATES = 200
CODED_FACTOR = 3
CODED_SHARE = 200
CODED_MOST = 2_500
"""Candidates taken from the codes before the exact scoring: so many times those asked for, no
fewer than `CODED_CANDIDATES`, and of a large corpus one document in `CODED_SHARE`, up to
`CODED_MOST`, for the more documents there are the more are alike. On 6,357 real skills .999 of the
ten best are found; among a million, a thousand texts a thousand times over with noise, .94."""
_BLOCK = 256
"""Vectors that are scored at a time."""


@dataclass(frozen=True, slots=True)
class DenseFields:
    """The fields of a segment as one embedder sees them.

    Attributes:
        metadata: One row a document, unit length or zero, maybe memory-mapped; float32, in a
            large corpus float16: half the disk and memory for an error below 0.0002.
        body: The same of the heads of the bodies; None where they are not embedded.
        codes: Finds rows of both together.
    """

    metadata: NDArray[Any]
    body: NDArray[Any] | None
    codes: DenseCodes

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.metadata)

    def nearest(
        self, query: NDArray[np.float32], k: int, excluded: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the k documents nearest to a query by both fields, ascending.

        Args:
            query: Unit vector, float32, shape (dimensions,).
            k: How many documents at most.
            excluded: Numbers of documents that must not be among them.

        Returns:
            Document numbers.
        """
        if not self.size:
            return np.zeros(0, np.int64)
        wanted = k
        if not self.codes.is_exact:
            share = min(self.size // CODED_SHARE, CODED_MOST)
            wanted = max(CODED_FACTOR * k, CODED_CANDIDATES, share)
        asked = wanted + min(len(excluded), wanted)
        while True:
            found = self.codes.search(query, asked)
            if len(excluded):
                found = found[~np.isin(found, excluded)]
            if len(found) >= min(wanted, self.size - len(excluded)) or asked >= self.size:
                break
            asked *= 4
        if len(found) <= k:
            return found
        return found[_highest(self.similarities(query, found), k)]

    def nearest_to_each(
        self, queries: NDArray[np.float32], k: int, excluded: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Return what `nearest` does for each of many queries.

        Where the vectors themselves are searched, by one product of matrices; a scan of codes
        costs the same for many as for one.

        Args:
            queries: Unit vectors, float32, shape (queries, dimensions).
            k: How many documents at most for each.
            excluded: Numbers of documents that must not be among them.

        Returns:
            Document numbers, ascending, in the order of the queries.
        """
        if not self.codes.is_exact or not self.size:
            return [self.nearest(query, k, excluded) for query in queries]
        near = as_floats(self.metadata) @ queries.T
        if self.body is not None:
            near += np.float32(BODY_SHARE) * (as_floats(self.body) @ queries.T)
        near[excluded] = -np.inf
        count = min(k, self.size - len(excluded))
        return [_highest(column, count) for column in near.T]

    def similarities(
        self, query: NDArray[np.float32], documents: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return how near some documents are by both fields, float32, in their order."""
        metadata, body = self.cosines(query, documents)
        return metadata if body is None else metadata + np.float32(BODY_SHARE) * body

    def cosines(
        self, query: NDArray[np.float32], documents: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Return the cosine of a query and some documents in each field, float32, in their order.

        Args:
            query: Unit vector, float32, shape (dimensions,).
            documents: Their numbers.

        Returns:
            Those of the metadata, and those of the bodies; None where there are none.
        """
        metadata = _products(self.metadata, documents, query)
        return metadata, None if self.body is None else _products(self.body, documents, query)

    @classmethod
    def load(cls, folder: Path, name: str, *, with_body: bool) -> DenseFields:
        """Map what a `DenseWriter` wrote.

        Args:
            folder: Where it was written.
            name: First part of the file names.
            with_body: Whether the bodies are embedded.

        Returns:
            The fields.

        Raises:
            CacheError: When a file is missing, damaged or does not fit the others.
        """
        codes = DenseCodes.load(folder / f"{name}.faiss")
        metadata = map_array(folder / f"{name}-metadata.npy")
        body = map_array(folder / f"{name}-body.npy") if with_body else None
        for rows in (metadata, metadata if body is None else body):
            if rows.dtype not in (np.float16, np.float32) or rows.shape != codes.shape:
                raise CacheError(f"the vectors of {name!r} do not fit its FAISS index")
        return cls(metadata, body, codes)


class DenseWriter:
    """Writes the fields of a segment block by block."""

    def __init__(
        self,
        folder: Path,
        name: str,
        dimensions: int,
        size: int,
        *,
        with_body: bool,
        beside_codes: bool = False,
    ) -> None:
        """Begin to write.

        Args:
            folder: Where `DenseFields.load` is to find the files.
            name: First part of the file names.
            dimensions: Length of a vector.
            size: Number of documents that will come.
            with_body: Whether the bodies are embedded.
            beside_codes: True for the few documents of a segment beside a large one, whose
                vectors are rounded as those of the large one are.

        Raises:
            OSError: When the files cannot be written.
        """
        self._path = folder / f"{name}.faiss"
        self._dimensions = dimensions
        self._has_codes = size > FLAT_LIMIT and not beside_codes
        self._type = np.float16 if self._has_codes or beside_codes else np.float32
        fields = ("metadata", "body") if with_body else ("metadata",)
        self._writers = [
            ArrayWriter(folder / f"{name}-{field}.npy", self._type, (dimensions,))
            for field in fields
        ]
        self._waiting: list[NDArray[np.float32]] = []
        self._codes: DenseCodes | None = None

    def add(self, metadata: NDArray[Any], body: NDArray[Any] | None) -> None:
        """Write the vectors of the documents that follow.

        Args:
            metadata: One row a document.
            body: The same of the bodies; None where they are not embedded.

        Raises:
            OSError: When they cannot be written.
        """
        rows = [metadata] if body is None else [metadata, body]
        rounded = [one.astype(self._type) for one in rows]
        for writer, one in zip(self._writers, rounded, strict=True):
            writer.append(one)
        blend = as_floats(rounded[0])
        if body is not None:
            blend = blend + np.float32(BODY_SHARE) * as_floats(rounded[1])
        if self._codes is not None:
            self._codes.add(blend)
            return
        self._waiting.append(blend)
        if self._has_codes and sum(map(len, self._waiting)) >= TRAINING_ROWS:
            self._begin_codes()

    def finish(self) -> None:
        """Write the rest.

        Raises:
            OSError: When it cannot be written whole.
        """
        for writer in self._writers:
            writer.close()
        codes = self._codes or self._begin_codes()
        codes.save(self._path)

    def _begin_codes(self) -> DenseCodes:
        """Make codes of the rows that came so far."""
        nothing = np.zeros((0, self._dimensions), np.float32)
        rows = np.concatenate([nothing, *self._waiting])
        self._waiting = []
        sample = rows[:TRAINING_ROWS] if self._has_codes else None
        codes = self._codes = DenseCodes.build(self._dimensions, sample)
        codes.add(rows)
        return codes


def _products(
    rows: NDArray[Any], documents: NDArray[np.int64], query: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the products of a query with some rows, a block at a time, which stays in the cache.

    Of larger blocks the linear algebra library makes a task for several threads.
    """
    products = np.empty(len(documents), np.float32)
    for begin in range(0, len(documents), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        products[block] = as_floats(rows.take(documents[block], axis=0)) @ query
    return products


def _highest(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the numbers of the highest scores, ascending; of equal ones the first."""
    if count <= 0:
        return np.zeros(0, np.int64)
    lowest = np.partition(scores, -count)[-count]
    found = np.flatnonzero(scores >= lowest)
    order = np.lexsort((found, -scores[found]))
    return np.sort(found[order[:count]])
