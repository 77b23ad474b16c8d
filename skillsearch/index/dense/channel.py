"""One dense channel of a corpus: what one embedder makes of all its segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.dense.float16 import as_floats
from skillsearch.index.dense.vectors import DenseFields
from skillsearch.index.storage.numbering import locate, numbered, within

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DenseChannel:
    """What one embedder makes of all segments of a corpus.

    Attributes:
        segments: The fields of each segment; documents are numbered through all of them.
    """

    segments: tuple[DenseFields, ...]

    @property
    def size(self) -> int:
        """Number of documents, those that are gone included."""
        return sum(segment.size for segment in self.segments)

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
        if len(self.segments) == 1:
            return self.segments[0].nearest(query, k, excluded)
        found, near = [], []
        for first, segment in numbered(self.segments):
            left_out = excluded[within(excluded, first, segment)] - first
            documents = segment.nearest(query, k, left_out)
            found.append(documents + first)
            near.append(segment.similarities(query, documents))
        documents = np.concatenate(found)
        best = np.lexsort((documents, -np.concatenate(near)))[:k]
        return np.sort(documents[best])

    def nearest_to_each(
        self, queries: NDArray[np.float32], k: int, excluded: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Return what `nearest` does for each of many queries; see `DenseFields`."""
        if len(self.segments) == 1:
            return self.segments[0].nearest_to_each(queries, k, excluded)
        return [self.nearest(query, k, excluded) for query in queries]

    def cosines(
        self, query: NDArray[np.float32], documents: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Return the cosine of a query and some documents in each field.

        Args:
            query: Unit vector, float32, shape (dimensions,).
            documents: Their numbers, ascending.

        Returns:
            Those of the metadata, and those of the bodies, None where these are not embedded;
            float32, in the order of the documents.
        """
        if len(self.segments) == 1:
            return self.segments[0].cosines(query, documents)
        found = [
            segment.cosines(query, documents[within(documents, first, segment)] - first)
            for first, segment in numbered(self.segments)
        ]
        bodies = [body for _, body in found if body is not None]
        metadata = np.concatenate([metadata for metadata, _ in found])
        return metadata, np.concatenate(bodies) if bodies else None

    def vector_of(self, number: int) -> NDArray[np.float32]:
        """Return the vector of the metadata of one document, float32."""
        at, place = locate(self.segments, number)
        return as_floats(self.segments[at].metadata[place])
