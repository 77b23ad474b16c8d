"""The nearest of many vectors; the only importer of faiss.

Small corpora are scanned exactly. In larger ones a four-bit code stands for a few dimensions
(product quantization: Jégou, Douze and Schmid, PAMI 2011; scanned in registers: André, Kermarrec
and Le Scouarnec, VLDB 2015), and the best candidates are scored again from the vectors themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np

from skillsearch.errors import CacheError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Up to this many vectors an exact scan is as fast as a coded one, and touches as little memory.
FLAT_LIMIT = 5_000
# Vectors that the codes are learned from.
TRAINING_ROWS = 20_000
# Dimensions of a code at most: with six, a tenth of the ten best of a million are missed.
_CODED_DIMENSIONS = 4
_CENTROIDS = 16
# Twice as many find no more.
_TRAINING_ROUNDS = 10


class DenseCodes:
    """A FAISS index over rows by inner product: the rows themselves, or codes of them."""

    def __init__(self, index: Any) -> None:
        """Wrap a FAISS index."""
        self._index = index

    @classmethod
    def build(cls, dimensions: int, sample: NDArray[np.float32] | None) -> DenseCodes:
        """Begin an empty index; the same sample and rows give the same bytes.

        Codes are learned from the sample of rows; without one the rows themselves are kept.
        """
        faiss.omp_set_num_threads(1)
        if sample is None:
            return cls(faiss.IndexFlatIP(dimensions))
        width = max(n for n in range(1, _CODED_DIMENSIONS + 1) if dimensions % n == 0)
        name = f"PQ{dimensions // width}x4fs"
        codes: Any = faiss.index_factory(dimensions, name, faiss.METRIC_INNER_PRODUCT)
        codes.pq.cp.niter = _TRAINING_ROUNDS
        codes.pq.cp.min_points_per_centroid = 1
        rows = max(len(sample), _CENTROIDS)
        codes.train(np.resize(sample, (rows, dimensions)))
        return cls(codes)

    @property
    def is_exact(self) -> bool:
        """Whether the rows themselves are kept."""
        return isinstance(self._index, faiss.IndexFlat)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and their length."""
        return int(self._index.ntotal), int(self._index.d)

    def add(self, rows: NDArray[np.float32]) -> None:
        """Append rows."""
        self._index.add(np.ascontiguousarray(rows))

    def search(self, query: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Return the k rows nearest to a query, ascending; with codes, about the nearest."""
        _, found = self._index.search(query[np.newaxis, :], min(k, self.shape[0]))
        return np.sort(found[0][found[0] >= 0])

    def save(self, path: Path) -> None:
        """Write the index."""
        # `faiss.write_index` does not notice that a full disk swallowed the end of a file.
        path.write_bytes(faiss.serialize_index(self._index).data)

    @classmethod
    def load(cls, path: Path) -> DenseCodes:
        """Map what `save` wrote; a CacheError if the file is missing or damaged."""
        faiss.omp_set_num_threads(1)
        try:
            return cls(faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC))
        except RuntimeError as exc:
            raise CacheError(f"the dense index {path.name} cannot be read: {exc}") from exc
