"""Vectors by the text that they embed, in append-only files per embedder.

``embeddings-FINGERPRINT-N.keys`` has the key of each text and the digest of its vector, the file
``.vectors`` beside it the vectors in the same order. A torn or damaged vector is only a miss, and
an interrupted run keeps all that was flushed. Compaction writes the files of the next number, the
keys last: the highest number that has keys counts. Only who holds the index lock appends.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from skillsearch.files.atomic_files import write_atomically

Keys = Sequence[bytes] | NDArray[np.uint64]
"""Keys of texts, as `text_key` or as `key_array` gives them."""

logger = logging.getLogger(__name__)

# Vectors that are held in memory at a time.
_BLOCK = 1 << 12
# Rewrite the files once they hold this many times the vectors in use, and some slack.
_COMPACT_FACTOR = 2
_COMPACT_SLACK = 2_000
# Words of 64 bits in a record: two of the key, one of the digest.
_WORDS = 3
# Added keys that a dictionary finds, before they are sorted in among the others.
_RECENT = 1 << 16
_FILE_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


class EmbeddingCache(contextlib.AbstractContextManager["EmbeddingCache"]):
    """The saved vectors of one embedder; a context manager that closes the files.

    Records of keys and digests take 40 bytes each, and no Python object: those that were there are
    found in a sorted array, those added since in a dictionary. Damaged rows are never found.
    """

    def __init__(
        self, folder: Path, fingerprint: str, dimensions: int, *, recent: int = _RECENT
    ) -> None:
        """Open the cache of an embedder in an index folder, empty if there is none."""
        self._folder, self._most_recent = folder, recent
        self._name = f"embeddings-{fingerprint[:16]}"
        self.dimensions = dimensions
        self._number = max((number for number, _ in self._files("keys")), default=0)
        self._appending: list[io.BufferedWriter] = []
        self._damaged: set[int] = set()
        records = np.zeros((0, _WORDS), np.uint64)
        with contextlib.suppress(FileNotFoundError):
            # Only what was written whole counts.
            words = np.fromfile(self._path("keys", self._number), "<u8")
            size = self._path("vectors", self._number).stat().st_size
            whole = min(len(words) // _WORDS, size // (4 * dimensions))
            records = words[: whole * _WORDS].reshape(-1, _WORDS)
        self._sort(records)

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._size - len(self._damaged)

    def rows_of(self, keys: Keys) -> NDArray[np.int64]:
        """Return the last row of each key, -1 for none, without reading the vectors."""
        wanted = key_array(keys)
        found = np.full(len(wanted), -1, np.int64)
        # All records with the same first word are compared: a key has two if one was damaged.
        begins = np.searchsorted(self._heads, wanted[:, 0])
        counts = np.searchsorted(self._heads, wanted[:, 0], "right") - begins
        asked = np.repeat(np.arange(len(wanted)), counts)
        places = np.arange(len(asked)) + np.repeat(begins + counts - np.cumsum(counts), counts)
        rows = self._order[places]
        fits = self._records[rows, 1] == wanted[asked, 1]
        if self._damaged:
            fits &= ~np.isin(rows, list(self._damaged))
        np.maximum.at(found, asked[fits], rows[fits])
        if self._recent:
            for place, key in enumerate(wanted):
                found[place] = self._recent.get(key.tobytes(), found[place])
        return found

    def has(self, keys: Keys) -> NDArray[np.bool_]:
        """Return for which keys there is an intact vector, by reading them."""
        rows = self.rows_of(keys)
        blocks = [self._read(rows[at : at + _BLOCK])[1] for at in range(0, len(rows), _BLOCK)]
        return np.concatenate([np.zeros(0, np.bool_), *blocks])

    def matrix(self, keys: Keys) -> NDArray[np.float32]:
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
            for kind, size in (("vectors", 4 * self.dimensions), ("keys", 8 * _WORDS)):
                file = self._path(kind, self._number).open("ab")
                self._appending.append(file)
                file.truncate(self._size * size)  # Go on behind the last whole vector.
        for file, array in zip(self._appending, (data, record), strict=True):
            file.write(array.tobytes())
        self._recent[key] = self._size
        self._records[self._size] = record
        self._size += 1
        if self._size == len(self._records):
            self._sort(self._records)

    def flush(self) -> None:
        """Hand what was added to the system, so that a kill does not lose it."""
        for file in self._appending:
            file.flush()

    def close(self) -> None:
        """Write out what is buffered and close the files."""
        with contextlib.ExitStack() as stack:
            for file in self._appending:
                stack.callback(file.close)
            self._appending = []

    def compact(self, keys: Keys, *, slack: int = _COMPACT_SLACK) -> None:
        """Drop vectors that are not among the keys in use, once they outweigh those that are."""
        rows, first = np.unique(self.rows_of(keys), return_index=True)
        if len(self) <= _COMPACT_FACTOR * len(rows) + slack:
            return
        rows = rows[np.argsort(first)]
        records = self._records[rows]
        with self._path("vectors", self._number + 1).open("wb") as file:
            for begin in range(0, len(rows), _BLOCK):
                file.write(self._read(rows[begin : begin + _BLOCK])[0].data)
        write_atomically(self._path("keys", self._number + 1), records.astype("<u8").tobytes())
        self.close()
        self._number += 1
        self._damaged = set()
        self._sort(records)
        self._remove_outdated()

    def _path(self, kind: str, number: int) -> Path:
        return self._folder / f"{self._name}-{number}.{kind}"

    def _files(self, kind: str) -> list[tuple[int, Path]]:
        paths = self._folder.glob(f"{self._name}-*.{kind}")
        named = ((path.stem.rpartition("-")[2], path) for path in paths)
        return [(int(number), path) for number, path in named if re.fullmatch(_FILE_NUMBER, number)]

    def _remove_outdated(self) -> None:
        """Remove what compactions left, killed ones too."""
        for number, path in (*self._files("keys"), *self._files("vectors")):
            if number != self._number:
                path.unlink(missing_ok=True)

    def _sort(self, records: NDArray[np.uint64]) -> None:
        """Take records, and make room for more behind them."""
        self._size = len(records)
        self._records = np.concatenate([records, np.zeros((self._most_recent, _WORDS), np.uint64)])
        self._order = np.argsort(records[:, 0])
        self._heads = records[self._order, 0]
        self._recent: dict[bytes, int] = {}

    def _read(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return vectors, and which are as they were written; a row of -1 is not."""
        vectors = np.zeros((len(rows), self.dimensions), np.float32)
        are_intact = np.zeros(len(rows), np.bool_)
        places = np.argsort(rows, kind="stable")[np.count_nonzero(rows < 0) :]
        if not len(places):
            return vectors, are_intact
        self.flush()
        wanted = rows[places]  # in the order of the file
        found = np.zeros((len(wanted), self.dimensions), "<f4")
        begins = np.flatnonzero(np.diff(wanted, prepend=-2) != 1).tolist()
        with self._path("vectors", self._number).open("rb") as file:
            # Adjacent vectors in one go; a mapping would count twice as much memory.
            for begin, end in itertools.pairwise([*begins, len(wanted)]):
                file.seek(int(wanted[begin]) * 4 * self.dimensions)
                file.readinto(found[begin:end].data)
        records = self._records[wanted].tolist()
        for place, row, vector, (head, _, digest) in zip(
            places.tolist(), wanted.tolist(), found, records, strict=True
        ):
            are_intact[place] = _digest(head, vector) == digest
            if not are_intact[place] and row not in self._damaged:
                self._damaged.add(row)
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
