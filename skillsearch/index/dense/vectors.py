"""The vectors of a dense channel: of the metadata of all documents, maybe of their bodies too.

Both fields are searched together: a row of the FAISS index is the metadata vector plus a share of
the body vector, so that one scan finds the documents that are best by both. Of many vectors, codes
are scanned first; this is the only importer of faiss.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.files.arrays import ArrayWriter, map_array
from skillsearch.index.storage.numbering import locate, numbered, within, without

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Up to this many vectors an exact scan is as fast as one of codes, and touches as little memory.
FLAT_LIMIT = 5_000
# Weight of the body beside the metadata when candidates are looked for. With fusion weights of the
# two between 10 to 1.5 and 1 to 1, at least .99 of the ten best of 6,357 skills are among the 50
# found so.
BODY_SHARE = 0.25
# Candidates taken from the codes before the exact scoring: CODED_FACTOR times those asked for, at
# least CODED_CANDIDATES, and of a large corpus one document in CODED_SHARE, up to CODED_MOST, since
# more documents are more alike. On 6,357 real skills .999 of the ten best are found; among a
# million, a thousand texts a thousand times over with noise, .94.
CODED_CANDIDATES = 200
CODED_FACTOR = 3
CODED_SHARE = 200
CODED_MOST = 2_500
# Vectors that are scored at a time.
_BLOCK = 256
# All bits but the three copies of the sign behind the first, which widening to 32 bits left.
_SIGN_AND_VALUE = np.int32(-0x70000001)
# The exponent of a float32 counts from -127, the exponent of a half from -15.
_REBIAS = np.float32(2.0**112)
# Vectors that the codes are learned from.
TRAINING_ROWS = 20_000
# Dimensions of a code at most: with six, a tenth of the ten best of a million are missed.
_CODED_DIMENSIONS = 4
_CENTROIDS = 16
_TRAINING_ROUNDS = 10  # Twice as many find no more.


class DenseCodes:
    """A FAISS index over codes of rows, by inner product.

    A four-bit code stands for a few dimensions (product quantization: Jégou, Douze and Schmid, PAMI
    2011; scanned in registers: André, Kermarrec and Le Scouarnec, VLDB 2015).
    """

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def build(cls, sample: NDArray[np.float32]) -> DenseCodes:
        """Begin an empty index of codes that are learned from a sample of rows."""
        import faiss

        faiss.omp_set_num_threads(1)
        dimensions = sample.shape[1]
        width = max(n for n in range(1, _CODED_DIMENSIONS + 1) if dimensions % n == 0)
        name = f"PQ{dimensions // width}x4fs"
        codes: Any = faiss.index_factory(dimensions, name, faiss.METRIC_INNER_PRODUCT)
        codes.pq.cp.niter = _TRAINING_ROUNDS
        codes.pq.cp.min_points_per_centroid = 1
        rows = max(len(sample), _CENTROIDS)
        codes.train(np.resize(sample, (rows, dimensions)))
        return cls(codes)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and their length."""
        return int(self._index.ntotal), int(self._index.d)

    def add(self, rows: NDArray[np.float32]) -> None:
        """Append rows."""
        self._index.add(np.ascontiguousarray(rows))

    def search(self, query: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Return about the k rows nearest to a query, ascending."""
        _, found = self._index.search(query[np.newaxis, :], min(k, self.shape[0]))
        return np.sort(found[0][found[0] >= 0])

    def save(self, path: Path) -> None:
        """Write the index."""
        import faiss

        # `faiss.write_index` does not notice that a full disk swallowed the end of a file.
        path.write_bytes(faiss.serialize_index(self._index).data)

    @classmethod
    def load(cls, path: Path) -> DenseCodes:
        """Map what `save` wrote; a CacheError if the file is missing or damaged."""
        import faiss

        faiss.omp_set_num_threads(1)
        try:
            return cls(faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC))
        except RuntimeError as exc:
            raise CacheError(f"the dense index {path.name} cannot be read: {exc}") from exc


@dataclass(frozen=True, slots=True)
class DenseFields:
    """The vectors of one segment, a row a document; maybe mapped.

    Unit length or zero; float32, in a large corpus float16: half the memory for an error below
    0.0002. Without bodies `body` is None; in a large corpus `codes` find rows of both together.
    """

    metadata: NDArray[Any]
    body: NDArray[Any] | None
    codes: DenseCodes | None = None
    coded_share: int = CODED_SHARE

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.metadata)

    def nearest_to_each(
        self, queries: NDArray[np.float32], k: int, excluded: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Return the k documents nearest to each query by both fields, ascending."""
        if self.codes:
            return [self._nearest(self.codes, query, k, excluded) for query in queries]
        near = as_floats(self.metadata) @ queries.T
        if self.body is not None:
            near += np.float32(BODY_SHARE) * (as_floats(self.body) @ queries.T)
        near[excluded] = -np.inf
        count = min(k, self.size - len(excluded))
        return [_highest(column, count) for column in near.T]

    def _nearest(
        self, codes: DenseCodes, query: NDArray[np.float32], k: int, excluded: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        wanted = max(CODED_FACTOR * k, CODED_CANDIDATES)
        wanted = max(wanted, min(self.size // self.coded_share, CODED_MOST))
        asked = wanted + min(len(excluded), wanted)
        while True:
            found = without(codes.search(query, asked), excluded)
            if len(found) >= min(wanted, self.size - len(excluded)) or asked >= self.size:
                break
            asked *= 4
        if len(found) <= k:
            return found
        return found[_highest(self.similarities(query, found), k)]

    def similarities(
        self, query: NDArray[np.float32], documents: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return how near some documents are by both fields."""
        metadata, body = self.cosines(query, documents)
        return metadata if body is None else metadata + np.float32(BODY_SHARE) * body

    def cosines(
        self, query: NDArray[np.float32], documents: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Return the cosines of the metadata, and of the bodies if they are embedded."""
        metadata = _products(self.metadata, documents, query)
        return metadata, None if self.body is None else _products(self.body, documents, query)

    @classmethod
    def load(cls, folder: Path, name: str, *, with_body: bool) -> DenseFields:
        """Map what a `DenseWriter` wrote; a CacheError if a file is missing or does not fit."""
        names = ("metadata", "body") if with_body else ("metadata",)
        metadata, *bodies = (map_array(folder / f"{name}-{field}.npy") for field in names)
        path = folder / f"{name}.faiss"
        codes = DenseCodes.load(path) if path.exists() else None
        shape = codes.shape if codes else metadata.shape
        for rows in (metadata, *bodies):
            if rows.dtype not in (np.float16, np.float32) or rows.ndim != 2 or rows.shape != shape:
                raise CacheError(f"the vectors of {name!r} do not fit each other or their codes")
        return cls(metadata, bodies[0] if bodies else None, codes)


@dataclass(frozen=True, slots=True)
class DenseChannel:
    """The vectors of one embedder; documents are numbered through all segments."""

    segments: tuple[DenseFields, ...]

    def nearest_to_each(
        self, queries: NDArray[np.float32], k: int, excluded: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Return the k documents nearest to each query by both fields, ascending."""
        parts = list(numbered(self.segments))
        near = [
            part.nearest_to_each(queries, k, excluded[within(excluded, first, part)] - first)
            for first, part in parts
        ]
        if len(parts) == 1:
            return near[0]
        found = []
        for query, *nearest in zip(queries, *near, strict=True):
            pairs = list(zip(parts, nearest, strict=True))
            documents = np.concatenate([one + first for (first, _), one in pairs])
            similarities = [part.similarities(query, one) for (_, part), one in pairs]
            best = np.lexsort((documents, -np.concatenate(similarities)))[:k]
            found.append(np.sort(documents[best]))
        return found

    def cosines(
        self, query: NDArray[np.float32], documents: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Return what `DenseFields.cosines` does, for documents in ascending order."""
        found = [
            segment.cosines(query, documents[within(documents, first, segment)] - first)
            for first, segment in numbered(self.segments)
        ]
        metadata, bodies = zip(*found, strict=True)
        return np.concatenate(metadata), None if bodies[0] is None else np.concatenate(bodies)

    def vector_of(self, number: int) -> NDArray[np.float32]:
        """Return the metadata vector of one document."""
        at, place = locate(self.segments, number)
        return as_floats(self.segments[at].metadata[place])


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
        flat_limit: int | None = None,
        training_rows: int = TRAINING_ROWS,
    ) -> None:
        """Begin to write; `beside_codes` rounds the vectors like those of a large segment."""
        self._path = folder / f"{name}.faiss"
        self._training_rows = training_rows
        limit = FLAT_LIMIT if flat_limit is None else flat_limit
        self._has_codes = size > limit and not beside_codes
        self._type = np.float16 if self._has_codes or beside_codes else np.float32
        fields = ("metadata", "body") if with_body else ("metadata",)
        self._writers = [
            ArrayWriter(folder / f"{name}-{field}.npy", self._type, (dimensions,))
            for field in fields
        ]
        self._waiting: list[NDArray[np.float32]] = []
        self._codes: DenseCodes | None = None

    def add(self, metadata: NDArray[Any], body: NDArray[Any] | None) -> None:
        """Write the vectors of the next documents, one row each."""
        rows = [metadata] if body is None else [metadata, body]
        rounded = [one.astype(self._type) for one in rows]
        for writer, one in zip(self._writers, rounded, strict=True):
            writer.append(one)
        if not self._has_codes:
            return
        blend = as_floats(rounded[0])
        if body is not None:
            blend = blend + np.float32(BODY_SHARE) * as_floats(rounded[1])
        if self._codes:
            self._codes.add(blend)
            return
        self._waiting.append(blend)
        if sum(map(len, self._waiting)) >= self._training_rows:
            self._begin_codes()

    def finish(self) -> None:
        """Write the rest."""
        for writer in self._writers:
            writer.close()
        if self._has_codes:
            (self._codes or self._begin_codes()).save(self._path)

    def _begin_codes(self) -> DenseCodes:
        rows, self._waiting = np.concatenate(self._waiting), []
        self._codes = DenseCodes.build(rows[: self._training_rows])
        self._codes.add(rows)
        return self._codes


def as_floats(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return finite float16 vectors as float32, exactly, four times as fast as NumPy."""
    if rows.dtype != np.float16:
        return rows.astype(np.float32, copy=False)
    bits = np.ascontiguousarray(rows).view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= _SIGN_AND_VALUE
    floats = bits.view(np.float32)
    # A product, so that numbers below the least normal half come out right too.
    floats *= _REBIAS
    return floats


def _products(
    rows: NDArray[Any], documents: NDArray[np.int64], query: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the products of a query with some rows, in blocks that stay in one core's cache."""
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
