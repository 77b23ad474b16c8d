"""The vectors of one dense channel: an index of the metadata and one of the bodies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.dense import DenseIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DenseFields:
    """The fields of a corpus as one embedder sees them.

    Attributes:
        metadata: Vectors of the metadata.
        body: Vectors of the heads of the bodies; None in an index of metadata alone.
    """

    metadata: DenseIndex
    body: DenseIndex | None

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many vectors each field has; all the same where nothing is wrong."""
        return tuple(len(field.vectors) for field in self._fields())

    def nearest(self, query: NDArray[np.float32], k: int) -> list[NDArray[np.int64]]:
        """Return the numbers of the k documents nearest to a query in each field, best first."""
        return [field.search(query, k)[0] for field in self._fields()]

    def save(self, folder: Path, name: str) -> None:
        """Write both indexes.

        Args:
            folder: Where to write.
            name: First part of the file names.

        Raises:
            OSError: When a file cannot be written whole.
        """
        self.metadata.save(folder, f"{name}-metadata")
        if self.body is not None:
            self.body.save(folder, f"{name}-body")

    @classmethod
    def load(cls, folder: Path, name: str, *, with_body: bool) -> DenseFields:
        """Map what `save` wrote.

        Args:
            folder: Where it was written.
            name: First part of the file names.
            with_body: False for an index of metadata alone.

        Returns:
            The fields.

        Raises:
            CacheError: When a file is missing, damaged or does not fit the others.
        """
        body = DenseIndex.load(folder, f"{name}-body") if with_body else None
        return cls(DenseIndex.load(folder, f"{name}-metadata"), body)

    def _fields(self) -> list[DenseIndex]:
        """Return the indexes that are there."""
        return [self.metadata] if self.body is None else [self.metadata, self.body]
