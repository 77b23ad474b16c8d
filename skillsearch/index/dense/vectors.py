"""The vectors of an index: of the metadata of all documents, and of their examples.

Each field is a FAISS index, and both are searched together, by the metadata vector plus a share of
the vector of examples. Of many vectors, codes of that sum are scanned first, another FAISS index.
This is the only importer of faiss.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.dense.faiss_files import FaissWriter, Rows, map_rows
from skillsearch.index.storage.numbering import NOTHING, Floats, Numbers, divided, numbered, without

if TYPE_CHECKING:
    from faiss import Index, IndexPQFastScan


# Up to this many vectors an exact scan is as fast as one of codes, and touches as little memory.
FLAT_LIMIT = 5_000
# Weight of the second field beside the metadata when candidates are looked for. With fusion
# weights of metadata and body between 10 to 1.5 and 1 to 1, at least .99 of the ten best of 6,357
# skills are among the 50 found so.
SECOND_SHARE = 0.25
# Candidates taken from the codes before the exact scoring: CODED_FACTOR times those asked for, at
# least CODED_CANDIDATES, and of a large corpus one document in CODED_SHARE, up to CODED_MOST, since
# more documents are more alike. On 6,357 real skills .999 of the ten best are found; among a
# million, a thousand texts a thousand times over with noise, .94.
CODED_CANDIDATES = 200
CODED_FACTOR = 3
CODED_SHARE = 200
CODED_MOST = 2_500
# So many times the candidates are scored without codes, if no more documents are left.
_SCORED_WHOLE = 8
# Vectors that are scored at a time.
_BLOCK = 256
# All bits but the three copies of the sign behind the first, which widening to 32 bits left.
_SIGN_AND_VALUE = np.int32(-0x70000001)
# The exponent of a float32 counts from -127, the exponent of a half from -15.
_REBIAS = np.float32(2.0**112)
# Vectors that the codes are learned from.
TRAINING_ROWS = 8_192
# Dimensions of a code at most: with six, a tenth of the ten best of a million are missed.
_CODED_DIMENSIONS = 4
_CENTROIDS = 16
_LEAST_NORM = 1e-12
_TRAINING_ROUNDS = 10  # Twice as many find no more.


@dataclass(frozen=True, slots=True)
class DenseFields:
    """The vectors of one segment, a row a document: of the metadata, and maybe of the examples.

    That is the mean of the examples of each skill: as good as the most similar of them, for a
    quarter of the bytes. For a skill without any the metadata stands.

    Unit length or zero, maybe mapped; float32, but float16 for examples and in a large corpus: half
    the memory for an error below 0.0002. In a large corpus `codes` find rows of both together.
    """

    fields: tuple[Rows, ...]
    codes: Index | None = None
    coded_share: int = CODED_SHARE

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.fields[0])

    @property
    def dimensions(self) -> int:
        """Dimensions of each vector."""
        return int(self.fields[0].shape[1])

    def nearest_to_each(self, queries: Floats, k: int, excluded: Numbers) -> list[Numbers]:
        """Return the k documents nearest to each query by both fields, ascending."""
        if codes := self.codes:
            return [self._nearest(codes, query, k, excluded) for query in queries]
        near = _blend([_products(rows, None, queries.T) for rows in self.fields])
        near[excluded] = -np.inf
        return [_highest(column, min(k, self.size - len(excluded))) for column in near.T]

    def _nearest(self, codes: Index, query: Floats, k: int, excluded: Numbers) -> Numbers:
        share = min(self.size // self.coded_share, CODED_MOST)
        wanted = max(CODED_FACTOR * k, CODED_CANDIDATES, share)
        count, remaining = wanted + min(len(excluded), wanted), self.size - len(excluded)
        if remaining <= _SCORED_WHOLE * wanted:
            near, count = without(np.arange(self.size), excluded), self.size
        else:
            near = without(search_codes(codes, query, count), excluded)
        while len(near) < wanted and count < self.size:
            count *= 4
            near = without(search_codes(codes, query, count), excluded)
        return near if len(near) <= k else near[_highest(self.similarities(query, near), k)]

    def similarities(self, query: Floats, documents: Numbers) -> Floats:
        """Return how near some documents are by both fields."""
        return _blend(self.cosines(query, documents))

    def cosines(self, query: Floats, documents: Numbers) -> list[Floats]:
        """Return the cosines of the metadata, and of the examples if there are any."""
        return [_products(rows, documents, query) for rows in self.fields]

    @classmethod
    def load(cls, folder: Path, name: str) -> DenseFields:
        """Map what a `DenseWriter` wrote; a CacheError if a file is missing or does not fit."""
        metadata, examples, path = _files(folder, name)
        fields = tuple(map(map_rows, [metadata, *([examples] if examples.exists() else [])]))
        codes = load_codes(path) if path.exists() else None
        shape = (codes.ntotal, codes.d) if codes else fields[0].shape
        if any(rows.shape != shape for rows in fields):
            raise CacheError(f"the vectors of {name!r} do not fit each other or their codes")
        return cls(fields, codes)


@dataclass(frozen=True, slots=True)
class DenseIndex:
    """The vectors of all documents, which are numbered through all segments; none without any."""

    segments: tuple[DenseFields, ...]

    def nearest_to_each(self, queries: Floats, k: int, excluded: Numbers) -> list[Numbers]:
        """Return the k documents nearest to each query by both fields, ascending."""
        parts = list(numbered(self.segments))
        divided_excluded = divided(excluded, self.segments)
        near = [part.nearest_to_each(queries, k, own) for _, part, own in divided_excluded]
        if len(parts) == 1:
            return near[0]
        merged = []
        for query, *nearest in zip(queries, *near, strict=True):
            pairs = list(zip(parts, nearest, strict=True))
            documents = np.concatenate([rows + first for (first, _), rows in pairs])
            similarities = [part.similarities(query, rows) for (_, part), rows in pairs]
            best = np.lexsort((documents, -np.concatenate(similarities)))[:k]
            merged.append(np.sort(documents[best]))
        return merged

    def cosines(self, query: Floats, documents: Numbers) -> list[Floats]:
        """Return the same as `DenseFields.cosines`, for documents in ascending order."""
        parts = [part.cosines(query, own) for _, part, own in divided(documents, self.segments)]
        # Where a segment has no second field, the metadata stands for it.
        filled = [(*fields, fields[-1])[: max(map(len, parts))] for fields in parts]
        return [np.concatenate(fields) for fields in zip(*filled, strict=True)]

    @property
    def is_rounded(self) -> bool:
        """Whether these are the vectors of a large corpus."""
        return self.segments[0].fields[0].dtype == np.float16

    def vectors_of(self, numbers: Numbers, field: int = 0) -> Floats:
        """Return the vectors of some documents in a field, in any order; or IndexError."""
        size = sum(segment.size for segment in self.segments)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < size:
            raise IndexError(numbers)
        vectors = np.empty((len(numbers), self.segments[0].dimensions), np.float32)
        for first, segment in numbered(self.segments):
            is_here = (numbers >= first) & (numbers < first + segment.size)
            # Where a segment has no second field, the metadata stands for it.
            rows = segment.fields[min(field, len(segment.fields) - 1)]
            vectors[is_here] = as_floats(rows[numbers[is_here] - first])
        return vectors


class DenseWriter:
    """Writes the fields of a segment block by block."""

    def __init__(
        self,
        folder: Path,
        name: str,
        dimensions: int,
        size: int,
        *,
        with_examples: bool = False,
        beside_codes: bool = False,
        flat_limit: int = FLAT_LIMIT,
        training_rows: int = TRAINING_ROWS,
    ) -> None:
        """Begin to write; `beside_codes` rounds the vectors like those of a large segment."""
        metadata, examples, self._path = _files(folder, name)
        self._training_rows = training_rows
        self._has_codes = size > flat_limit and not beside_codes
        types = {metadata: np.float16 if self._has_codes or beside_codes else np.float32}
        # A mean of examples is no more exact than that.
        types |= {examples: np.float16} if with_examples else {}
        self._writers = [FaissWriter(path, kind, (dimensions,)) for path, kind in types.items()]
        self._types = list(types.values())
        self._waiting: list[Floats] = []
        self._codes: Index | None = None

    def add(self, *fields: Rows) -> None:
        """Write the vectors of the next documents, a matrix for each field."""
        rounded = [rows.astype(kind) for rows, kind in zip(fields, self._types, strict=True)]
        for writer, rows in zip(self._writers, rounded, strict=True):
            writer.append(rows)
        if not self._has_codes:
            return
        blend = _blend(list(map(as_floats, rounded)))
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
            save_codes(self._codes or self._begin_codes(), self._path)

    def _begin_codes(self) -> Index:
        rows, self._waiting = np.concatenate(self._waiting), []
        self._codes = codes = train_codes(rows[: self._training_rows])
        codes.add(rows)
        return codes


def mean_vector(rows: Rows) -> Floats:
    """Return the mean of some vectors at unit length, or zero, rounded to halves."""
    total: Floats = rows.sum(axis=0)
    mean = total / np.float32(max(float(np.linalg.norm(total)), _LEAST_NORM))
    return mean.astype(np.float16).astype(np.float32)


def train_codes(sample: Floats) -> Index:
    """Return an empty FAISS index over codes of rows, by inner product, learned from a sample.

    A four-bit code stands for a few dimensions (product quantization: Jégou, Douze and Schmid, PAMI
    2011; scanned in registers: André, Kermarrec and Le Scouarnec, VLDB 2015).
    """
    faiss, dimensions = _faiss(), sample.shape[1]
    width = max(n for n in range(1, _CODED_DIMENSIONS + 1) if dimensions % n == 0)
    name = f"PQ{dimensions // width}x4fs"
    codes: IndexPQFastScan = faiss.index_factory(dimensions, name, faiss.METRIC_INNER_PRODUCT)
    codes.pq.cp.niter = _TRAINING_ROUNDS
    codes.pq.cp.min_points_per_centroid = 1
    codes.train(np.resize(sample, (max(len(sample), _CENTROIDS), dimensions)))
    return codes


def search_codes(codes: Index, query: Floats, k: int) -> Numbers:
    """Return about the k rows nearest to a query, ascending."""
    _, near = codes.search(query[np.newaxis, :], min(k, codes.ntotal))
    return np.sort(near[0][near[0] >= 0])


def save_codes(codes: Index, path: Path) -> None:
    """Write codes; `faiss.write_index` does not notice that a full disk swallowed the end."""
    path.write_bytes(_faiss().serialize_index(codes).data)


def load_codes(path: Path) -> Index:
    """Map what `save_codes` wrote; a CacheError if the file is missing or damaged."""
    faiss = _faiss()
    try:
        codes: Index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        return codes
    except RuntimeError as exc:
        raise CacheError(f"the dense index {path.name} cannot be read: {exc}") from exc


def _faiss() -> Any:
    import faiss

    faiss.omp_set_num_threads(1)
    return faiss


def as_floats(rows: Rows) -> Floats:
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


def _files(folder: Path, name: str) -> list[Path]:
    """Return the files of metadata, examples and codes."""
    return [folder / f"{name}-{part}.faiss" for part in ("metadata", "examples", "codes")]


def _blend(fields: list[Floats]) -> Floats:
    """Return the mean of the metadata's value and, by its share, that of the second field."""
    metadata, *others = fields
    if not others:
        return metadata
    second = np.float32(SECOND_SHARE / (1 + SECOND_SHARE))
    return metadata * (np.float32(1) - second) + second * others[0]


def _products(rows: Rows, documents: Numbers | None, queries: Floats) -> Floats:
    """Return the products of some rows, or all, with one query or several in columns.

    In blocks that stay in one core's cache: mapped rows are not aligned, and copied before use.
    """
    count = len(rows if documents is None else documents)
    products = np.empty((count, *queries.shape[1:]), np.float32)
    for begin in range(0, count, _BLOCK):
        block = slice(begin, begin + _BLOCK)
        some = rows[block].copy() if documents is None else rows[documents[block]]
        products[block] = as_floats(some) @ queries
    return products


def _highest(scores: Floats, count: int) -> Numbers:
    """Return the numbers of the highest scores, ascending; of equal ones the first."""
    if count <= 0:
        return NOTHING
    lowest = np.partition(scores, -count)[-count]
    highest = np.flatnonzero(scores >= lowest)
    order = np.lexsort((highest, -scores[highest]))
    return np.sort(highest[order[:count]])
