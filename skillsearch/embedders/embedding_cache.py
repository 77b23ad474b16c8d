"""Vectors by the text that they embed, in append-only files per embedder.

    embeddings-FINGERPRINT-N.keys      the key of each text and the digest of its vector
    embeddings-FINGERPRINT-N.vectors   the vectors, in the same order

A torn or damaged vector is only a miss, and an interrupted run keeps all that was flushed.
Compaction writes the files of the next number, the keys last: the highest number that has keys
counts. Only the process that holds the index lock appends.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import xxhash

from skillsearch.files.atomic_files import write_atomically

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

    from skillsearch.types import EmbeddingMatrix

    Keys: TypeAlias = Sequence[bytes] | NDArray[np.uint64]
    """Keys of texts, as `text_key` or as `key_array` gives them."""

logger = logging.getLogger(__name__)

# Vectors that are held in memory at a time.
_BLOCK = 1 << 12
# Rewrite the files once they hold this many times the vectors in use, and some slack.
_COMPACT_FACTOR = 2
_COMPACT_SLACK = 2_000
# Words of 64 bits in a record: two of the key, one of the digest.
WORDS = 3
# Added keys that a dictionary finds, before they are sorted in among the others.
_RECENT = 1 << 16
_FILE_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


class EmbeddingCache:
    """The saved vectors of one embedder; a context manager that closes the files."""

    def __init__(self, folder: Path, fingerprint: str, dimensions: int) -> None:
        """Open the cache of an embedder in an index folder, empty if there is none."""
        self._folder = folder
        self._name = f"embeddings-{fingerprint[:16]}"
        self.dimensions = dimensions
        self._vector_bytes = 4 * dimensions
        self._number = max((number for number, _ in self._files("keys")), default=0)
        self._appending: list[io.BufferedWriter] = []
        self._reading: io.BufferedReader | None = None
        records = np.zeros((0, WORDS), np.uint64)
        with contextlib.suppress(FileNotFoundError):
            # Only what was written whole counts.
            words = np.fromfile(self._path("keys", self._number), "<u8")
            size = self._path("vectors", self._number).stat().st_size
            whole = min(len(words) // WORDS, size // self._vector_bytes)
            records = words[: whole * WORDS].reshape(-1, WORDS)
        self._keys = KeyTable(records)

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
        return self._keys.size - len(self._keys.damaged)

    def rows_of(self, keys: Keys) -> NDArray[np.int64]:
        """Return the row of each key, -1 for none, without reading the vectors."""
        return self._keys.rows_of(keys)

    def has(self, keys: Keys) -> NDArray[np.bool_]:
        """Return for which keys there is an intact vector, by reading them."""
        wanted = key_array(keys)
        found = np.zeros(len(wanted), np.bool_)
        for begin in range(0, len(wanted), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            found[block] = self._read(self.rows_of(wanted[block]))[1]
        return found

    def matrix(self, keys: Keys) -> EmbeddingMatrix:
        """Return the vectors of keys, one row each; a KeyError if one is missing."""
        wanted = key_array(keys)
        vectors, are_intact = self._read(self.rows_of(wanted))
        if not are_intact.all():
            raise KeyError(wanted[np.argmin(are_intact)].tobytes())
        return vectors

    def add(self, key: bytes, vector: NDArray[np.float32]) -> None:
        """Keep a vector under its text's key; it outlives the process from the next `flush` on."""
        data = np.asarray(vector, "<f4")
        head, tail = key_array([key])[0].tolist()
        record = np.array([head, tail, _digest(head, data)], "<u8")
        if not self._appending:
            self._remove_outdated()
            for kind, size in (("vectors", self._vector_bytes), ("keys", 8 * WORDS)):
                file = self._path(kind, self._number).open("ab")
                self._appending.append(file)
                file.truncate(self._keys.size * size)  # Go on behind the last whole vector.
        vectors, keys = self._appending
        vectors.write(data.tobytes())
        keys.write(record.tobytes())
        self._keys.add(record)

    def flush(self) -> None:
        """Hand what was added to the system, so that a kill does not lose it."""
        for file in self._appending:
            file.flush()

    def close(self) -> None:
        """Write out what is buffered and close the files."""
        files = [*self._appending, self._reading]
        self._appending, self._reading = [], None
        with contextlib.ExitStack() as stack:
            for file in filter(None, files):
                stack.callback(file.close)

    def compact(self, keys: Keys) -> None:
        """Drop vectors that are not among the keys in use, once they outweigh those that are."""
        rows, first = np.unique(self.rows_of(keys), return_index=True)
        if len(self) <= _COMPACT_FACTOR * len(rows) + _COMPACT_SLACK:
            return
        rows = rows[np.argsort(first)]
        records = self._keys.records[rows]
        with self._path("vectors", self._number + 1).open("wb") as file:
            for begin in range(0, len(rows), _BLOCK):
                file.write(self._read(rows[begin : begin + _BLOCK])[0].data)
        write_atomically(self._path("keys", self._number + 1), records.astype("<u8").tobytes())
        self.close()
        self._number += 1
        self._keys = KeyTable(records)
        self._remove_outdated()

    def _path(self, kind: str, number: int) -> Path:
        return self._folder / f"{self._name}-{number}.{kind}"

    def _files(self, kind: str) -> list[tuple[int, Path]]:
        """Return all files of keys or of vectors with their numbers."""
        paths = self._folder.glob(f"{self._name}-*.{kind}")
        named = ((path.stem.rpartition("-")[2], path) for path in paths)
        return [(int(number), path) for number, path in named if re.fullmatch(_FILE_NUMBER, number)]

    def _remove_outdated(self) -> None:
        """Remove what compactions left, killed ones too."""
        for number, path in (*self._files("keys"), *self._files("vectors")):
            if number != self._number:
                path.unlink(missing_ok=True)

    def _read(self, rows: NDArray[np.int64]) -> tuple[EmbeddingMatrix, NDArray[np.bool_]]:
        """Return vectors, and which are as they were written; a row of -1 is not."""
        vectors = np.zeros((len(rows), self.dimensions), np.float32)
        are_intact = np.zeros(len(rows), np.bool_)
        places = np.argsort(rows, kind="stable")[np.count_nonzero(rows < 0) :]
        wanted = rows[places]
        found = np.zeros((len(wanted), self.dimensions), "<f4")
        if len(wanted):
            self.flush()
            if self._reading is None:
                self._reading = self._path("vectors", self._number).open("rb")
            # In the order of the file, adjacent vectors in one go.
            begins = np.flatnonzero(np.diff(wanted, prepend=-2) != 1).tolist()
            for begin, end in itertools.pairwise([*begins, len(wanted)]):
                self._reading.seek(int(wanted[begin]) * self._vector_bytes)
                self._reading.readinto(found[begin:end].data)
        records = self._keys.records[wanted].tolist()
        for place, row, vector, (head, _, digest) in zip(
            places.tolist(), wanted.tolist(), found, records, strict=True
        ):
            are_intact[place] = _digest(head, vector) == digest
            if not are_intact[place] and row not in self._keys.damaged:
                self._keys.damaged.add(row)
                logger.warning("%s: vector %d is damaged and will be made again", self._name, row)
        vectors[places] = found
        return vectors, are_intact


def _digest(head: int, vector: NDArray[np.float32]) -> int:
    return xxhash.xxh3_64_intdigest(vector.data, seed=head)


def key_array(keys: Keys) -> NDArray[np.uint64]:
    """Return keys as an array of two words each, shape (keys, 2)."""
    if isinstance(keys, np.ndarray):
        return keys
    return np.frombuffer(b"".join(keys), "<u8").reshape(-1, 2)


class KeyTable:
    """Records of keys and digests, found by key; 40 bytes each, and no Python object.

    `records` are two words of key and one of digest each, with room for more behind the first
    `size`; `damaged` rows are never found.
    """

    def __init__(self, records: NDArray[np.uint64]) -> None:
        """Take the records, shape (records, 3)."""
        self.damaged: set[int] = set()
        self._sort(records)

    def rows_of(self, keys: Keys) -> NDArray[np.int64]:
        """Return the last row of each key that is not damaged, -1 for none."""
        wanted = key_array(keys)
        found = self._sorted_rows(wanted)
        if self._recent:
            for place, key in enumerate(wanted):
                found[place] = self._recent.get(key.tobytes(), found[place])
        return found

    def add(self, record: NDArray[np.uint64]) -> None:
        """Add a record behind all others."""
        self._recent[record[:2].tobytes()] = self.size
        self.records[self.size] = record
        self.size += 1
        if self.size == len(self.records):
            self._sort(self.records)

    def _sort(self, records: NDArray[np.uint64]) -> None:
        self.size = len(records)
        self.records = np.concatenate([records, np.zeros((_RECENT, WORDS), np.uint64)])
        self._order = np.argsort(records[:, 0])
        self._heads = records[self._order, 0]
        self._recent: dict[bytes, int] = {}

    def _sorted_rows(self, wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
        found = np.full(len(wanted), -1, np.int64)
        places = np.searchsorted(self._heads, wanted[:, 0])
        asked = np.arange(len(wanted))
        while len(asked):
            # All records with the same first word are compared: a key has two if the first was
            # damaged.
            asked = asked[places[asked] < len(self._heads)]
            asked = asked[self._heads[places[asked]] == wanted[asked, 0]]
            rows = self._order[places[asked]]
            fits = self.records[rows, 1] == wanted[asked, 1]
            if self.damaged:
                fits &= ~np.isin(rows, list(self.damaged))
            found[asked[fits]] = np.maximum(found[asked[fits]], rows[fits])
            places[asked] += 1
        return found
