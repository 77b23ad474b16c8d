"""The nearest of many vectors by codes of them; the only importer of faiss, if there are any.

A four-bit code stands for a few dimensions (product quantization: Jégou, Douze and Schmid, PAMI
2011; scanned in registers: André, Kermarrec and Le Scouarnec, VLDB 2015).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.errors import CacheError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Vectors that the codes are learned from.
TRAINING_ROWS = 20_000
# Dimensions of a code at most: with six, a tenth of the ten best of a million are missed.
_CODED_DIMENSIONS = 4
_CENTROIDS = 16
_TRAINING_ROUNDS = 10  # Twice as many find no more.


class DenseCodes:
    """A FAISS index over codes of rows, by inner product."""

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
