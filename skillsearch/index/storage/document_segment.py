"""The documents of a segment, read one record at a time."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.files.arrays import ArrayWriter, map_array, save_array
from skillsearch.index.documents import Document, name_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray


_FIELDS = tuple(field.name for field in fields(Document))


@dataclass(frozen=True, slots=True)
class DocumentSegment:
    """Documents in order of their ids; the arrays may be memory-mapped.

    Attributes:
        records: The documents as JSON, one behind the other, uint8.
        starts: Where each record begins, and where the last ends, int64, (documents + 1,).
        trust: `Document.trust` of each, float32.
        fluency: `Document.fluency` of each, float32.
        hidden: `Document.hidden` of each, bool.
        names: `name_hash` of each, uint64.
        by_name: Numbers in ascending order of `names`, ties by number, int32.
    """

    records: NDArray[np.uint8]
    starts: NDArray[np.int64]
    trust: NDArray[np.float32]
    fluency: NDArray[np.float32]
    hidden: NDArray[np.bool_]
    names: NDArray[np.uint64]
    by_name: NDArray[np.int32]

    @classmethod
    def build(cls, documents: Sequence[Document]) -> DocumentSegment:
        """Store documents that are sorted by id."""
        columns = _Columns()
        lines = [columns.add(document) for document in documents]
        return cls(np.frombuffer(b"".join(lines), np.uint8), **columns.arrays())

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    def read(self, number: int) -> Document:
        """Read one document.

        Args:
            number: Its number, one that there is.

        Returns:
            The document.

        Raises:
            CacheError: When its record has an unknown form.
        """
        record = self.records[self.starts[number] : self.starts[number + 1]].tobytes()
        try:
            return Document(*json.loads(record))
        except (TypeError, ValueError) as exc:
            raise CacheError(f"document {number} has an unknown form") from exc

    def place_of(self, doc_id: str) -> int:
        """Return how many documents have an id before this one."""
        return bisect_left(range(self.size), doc_id, key=lambda number: self.read(number).doc_id)

    def number_of(self, doc_id: str) -> int | None:
        """Return the number of the document with an id, or None where there is none."""
        place = self.place_of(doc_id)
        return place if place < self.size and self.read(place).doc_id == doc_id else None

    def named(self, name: str) -> NDArray[np.int64]:
        """Return the documents that have a name, as `name_hash` compares names, ascending."""
        wanted = name_hash(name)
        # NumPy would convert all of `by_name` to search through it.
        begin, end = (
            bisect(self.by_name, wanted, key=lambda number: int(self.names[number]))
            for bisect in (bisect_left, bisect_right)
        )
        return self.by_name[begin:end].astype(np.int64)

    def save(self, folder: Path, prefix: str = "") -> None:
        """Write the arrays as ``documents-ARRAY.npy`` files.

        Args:
            folder: Where to write.
            prefix: Stands before the file names.

        Raises:
            OSError: When one cannot be written whole.
        """
        for field in fields(self):
            path = folder / f"{prefix}documents-{field.name}.npy"
            save_array(path, getattr(self, field.name))

    @classmethod
    def load(cls, folder: Path, prefix: str = "") -> DocumentSegment:
        """Map what `save` or a `DocumentWriter` wrote.

        Args:
            folder: Where it was written.
            prefix: Stands before the file names.

        Returns:
            The documents.

        Raises:
            CacheError: When a file is missing or does not fit the others.
        """
        names = [field.name for field in fields(cls)]
        arrays = [map_array(folder / f"{prefix}documents-{name}.npy") for name in names]
        types = (np.uint8, np.int64, np.float32, np.float32, np.bool_, np.uint64, np.int32)
        are_right = (a.dtype == t and a.ndim == 1 for a, t in zip(arrays, types, strict=True))
        if not all(are_right) or {len(one) for one in arrays[2:]} != {len(arrays[1]) - 1}:
            raise CacheError("the arrays of the documents do not fit each other")
        return cls(*arrays)


class DocumentWriter:
    """Writes a `DocumentSegment` one document at a time, holding but the short arrays."""

    def __init__(self, folder: Path) -> None:
        """Begin to write.

        Args:
            folder: Where `DocumentSegment.load` is to find the files.

        Raises:
            OSError: When they cannot be written.
        """
        self._folder = folder
        self._columns = _Columns()
        self._records = ArrayWriter(folder / "documents-records.npy", np.uint8)

    def add(self, document: Document) -> None:
        """Write the document whose id follows those written before.

        Args:
            document: The document.

        Raises:
            OSError: When it cannot be written.
        """
        self._records.append(np.frombuffer(self._columns.add(document), np.uint8))

    def close(self) -> None:
        """Close what is open, as where the rest is not to be written."""
        self._records.close()

    def finish(self) -> None:
        """Write the rest.

        Raises:
            OSError: When it cannot be written whole.
        """
        self._records.close()
        for name, column in self._columns.arrays().items():
            save_array(self._folder / f"documents-{name}.npy", column)


class _Columns:
    """Gathers the arrays of a segment beside its records, 41 bytes a document."""

    def __init__(self) -> None:
        self._starts = array("q", [0])
        self._trust, self._fluency = array("f"), array("f")
        self._hidden, self._names = array("b"), array("Q")

    def add(self, document: Document) -> bytes:
        """Take a document and return its record."""
        # `astuple` would copy everything, which takes longer than all else here.
        record = json.dumps([getattr(document, name) for name in _FIELDS]).encode()
        self._starts.append(self._starts[-1] + len(record))
        self._trust.append(document.trust)
        self._fluency.append(document.fluency)
        self._hidden.append(document.hidden)
        self._names.append(name_hash(document.name))
        return record

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""
        names = np.array(self._names, np.uint64)
        return {
            "starts": np.array(self._starts, np.int64),
            "trust": np.array(self._trust, np.float32),
            "fluency": np.array(self._fluency, np.float32),
            "hidden": np.array(self._hidden, np.bool_),
            "names": names,
            "by_name": np.argsort(names, kind="stable").astype(np.int32),
        }
