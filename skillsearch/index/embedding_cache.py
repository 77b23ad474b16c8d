"""Vectors by the text that they embed, in one append-only file for each embedder.

Every record carries its own digest, so that a torn or damaged one is only a miss, and an
interrupted run keeps all that it embedded. Only the process that holds the index lock appends.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import xxhash

from skillsearch.index.cache import write_atomically

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

    from skillsearch.types import EmbeddingMatrix

logger = logging.getLogger(__name__)

_KEY_BYTES = 16
_COMPACT_FACTOR = 2
"""Rewrite the file once it holds this many times the records in use, and some slack."""
_COMPACT_SLACK = 2_000


def text_key(text: str) -> bytes:
    """Return the key of a text: the first 16 bytes of its sha256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_KEY_BYTES]


class EmbeddingCache:
    """The saved vectors of one embedder.

    Use it as a context manager: leaving it closes the file, whatever happened.
    """

    def __init__(self, folder: Path, fingerprint: str, dimensions: int) -> None:
        """Open the cache of an embedder, empty where there is none.

        Args:
            folder: The index folder.
            fingerprint: The embedder's fingerprint.
            dimensions: Length of its vectors.
        """
        self._path = folder / f"embeddings-{fingerprint[:16]}.bin"
        self._dimensions = dimensions
        self._record = np.dtype(
            [("key", f"V{_KEY_BYTES}"), ("vector", "<f4", dimensions), ("digest", "<u8")]
        )
        self._records = self._read_records()
        self._rows = {key.tobytes(): row for row, key in enumerate(self._records["key"])}
        self._added: dict[bytes, NDArray[np.float32]] = {}
        self._file: BinaryIO | None = None

    def __enter__(self) -> EmbeddingCache:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._rows) + len(self._added)

    def get(self, key: bytes) -> NDArray[np.float32] | None:
        """Return the vector of a text's key, or None where it must be embedded."""
        added = self._added.get(key)
        if added is not None:
            return added
        row = self._rows.get(key)
        if row is None:
            return None
        record = self._records[row]
        if _digest(key, record["vector"]) != int(record["digest"]):
            logger.warning("%s: record %d is damaged and will be made again", self._path, row)
            del self._rows[key]
            return None
        vector: NDArray[np.float32] = record["vector"]
        return vector

    def matrix(self, keys: Sequence[bytes]) -> EmbeddingMatrix:
        """Return the vectors of keys that are all present, one row each.

        Args:
            keys: Keys of texts.

        Returns:
            float32, shape (keys, dimensions), in the order of the keys.

        Raises:
            KeyError: When one of them is missing.
        """
        matrix = np.zeros((len(keys), self._dimensions), np.float32)
        for row, key in enumerate(keys):
            vector = self.get(key)
            if vector is None:
                raise KeyError(key)
            matrix[row] = vector
        return matrix

    def add(self, key: bytes, vector: NDArray[np.float32]) -> None:
        """Keep a vector under its text's key, in memory and at the end of the file.

        Args:
            key: Key of the text.
            vector: Its embedding, float32, shape (dimensions,).

        Raises:
            OSError: When it cannot be written; what was kept before stays readable.
        """
        record = np.zeros(1, self._record)
        record["key"] = np.void(key)
        record["vector"] = vector
        record["digest"] = _digest(key, vector)
        if self._file is None:
            self._file = self._open_for_append()
        self._file.write(record.tobytes())
        self._added[key] = np.asarray(vector, np.float32)

    def close(self) -> None:
        """Write out what is buffered and close the file."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def compact(self, keys: Iterable[bytes]) -> None:
        """Forget vectors that are not among the keys in use, once they outweigh those that are.

        Args:
            keys: The keys in use, all present.

        Raises:
            OSError: When the smaller file cannot be written; the larger one stays.
        """
        used = dict.fromkeys(keys)
        if len(self) <= _COMPACT_FACTOR * len(used) + _COMPACT_SLACK:
            return
        kept = np.zeros(len(used), self._record)
        for row, key in enumerate(used):
            vector = self.matrix([key])[0]
            kept[row] = (np.void(key), vector, _digest(key, vector))
        self.close()
        write_atomically(self._path, kept.tobytes())

    def _read_records(self) -> NDArray[np.void]:
        """Map the whole records of the file; a torn last one is left out."""
        try:
            whole = self._path.stat().st_size // self._record.itemsize
        except OSError:
            whole = 0
        if not whole:
            return np.zeros(0, self._record)
        return np.memmap(self._path, self._record, "r", shape=(whole,))

    def _open_for_append(self) -> BinaryIO:
        """Open the file for appending, behind its last whole record."""
        file = self._path.open("ab")
        file.truncate(len(self._records) * self._record.itemsize)
        return file


def _digest(key: bytes, vector: NDArray[np.float32]) -> int:
    """Return the checksum of one record."""
    return xxhash.xxh3_64_intdigest(key + np.ascontiguousarray(vector, "<f4").tobytes())
