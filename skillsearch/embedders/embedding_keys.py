"""The keys of embedded texts, sorted: where the vector of each lies, and what its digest is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Keys: TypeAlias = Sequence[bytes] | NDArray[np.uint64]
    """Keys of texts, as `text_key` or as `key_array` gives them."""

KEY_BYTES = 16
WORDS = 3
"""Of a record, 64 bits each: two of the key, one of the digest."""
_RECENT = 1 << 16
"""Keys added that a dictionary finds, before they are sorted in among the others."""


def text_key(text: str) -> bytes:
    """Return the key of a text: the first 16 bytes of its sha256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:KEY_BYTES]


def key_array(keys: Keys) -> NDArray[np.uint64]:
    """Return keys as an array of two words each, shape (keys, 2)."""
    if isinstance(keys, np.ndarray):
        return keys
    return np.frombuffer(b"".join(keys), "<u8").reshape(-1, 2)


class KeyTable:
    """Records of keys and digests, found by key; 40 bytes each, and no object of Python."""

    def __init__(self, records: NDArray[np.uint64]) -> None:
        """Take records: two words of key and one of digest each, uint64, shape (records, 3)."""
        self._damaged: set[int] = set()
        self._sort(records)

    @property
    def size(self) -> int:
        """Number of records."""
        return len(self._records) + self._added

    @property
    def living(self) -> int:
        """Number of records that are not damaged."""
        return self.size - len(self._damaged)

    def rows_of(self, keys: Keys) -> NDArray[np.int64]:
        """Return the last row of each key that is not damaged, -1 for none."""
        wanted = key_array(keys)
        found = self._sorted_rows(wanted)
        if self._recent:
            for place, key in enumerate(wanted):
                found[place] = self._recent.get(key.tobytes(), found[place])
        return found

    def records_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the records of rows."""
        found = np.empty((len(rows), WORDS), np.uint64)
        sorted_in = len(self._records)
        is_recent = rows >= sorted_in
        found[~is_recent] = self._records[rows[~is_recent]]
        found[is_recent] = self._recent_records[rows[is_recent] - sorted_in]
        return found

    def add(self, record: NDArray[np.uint64]) -> None:
        """Add a record behind all others."""
        self._recent[record[:2].tobytes()] = self.size
        self._recent_records[self._added] = record
        self._added += 1
        if self._added == _RECENT:
            self._sort(np.concatenate([self._records, self._recent_records]))

    def mark_damaged(self, row: int) -> bool:
        """Find a row no more; tell whether it was found before."""
        is_new = row not in self._damaged
        self._damaged.add(row)
        return is_new

    def _sort(self, records: NDArray[np.uint64]) -> None:
        """Sort records by the first word of their keys."""
        self._records = records
        self._order = np.argsort(records[:, 0])
        self._heads = records[self._order, 0]
        self._recent: dict[bytes, int] = {}
        self._recent_records = np.zeros((_RECENT, WORDS), np.uint64)
        self._added = 0

    def _sorted_rows(self, wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Find keys among the sorted records."""
        found = np.full(len(wanted), -1, np.int64)
        places = np.searchsorted(self._heads, wanted[:, 0])
        asked = np.arange(len(wanted))
        while len(asked):
            # Of records with the same first word all are looked at: a key has two where the first
            # was damaged.
            asked = asked[places[asked] < len(self._heads)]
            asked = asked[self._heads[places[asked]] == wanted[asked, 0]]
            rows = self._order[places[asked]]
            fits = self._records[rows, 1] == wanted[asked, 1]
            if self._damaged:
                fits &= ~np.isin(rows, list(self._damaged))
            found[asked[fits]] = np.maximum(found[asked[fits]], rows[fits])
            places[asked] += 1
        return found
