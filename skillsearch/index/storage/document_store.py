"""The documents of a corpus, numbered through all segments, in each by the order of their ids."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import CacheError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.arrays import ArrayWriter, save_array
from skillsearch.index.documents.document import SKETCH_SIZE, Document, name_hash
from skillsearch.index.storage.array_table import ArrayTable
from skillsearch.index.storage.family_table import FamilyTable
from skillsearch.index.storage.generation_parts import DamageGuard
from skillsearch.index.storage.memo import Memo
from skillsearch.index.storage.numbering import (
    NOTHING,
    Hashes,
    Numbers,
    divided,
    find_sorted,
    locate,
    numbered,
    run_starts,
    union,
    without,
)
from skillsearch.skills.folders import remoteness
from skillsearch.text.tokenizer import term_hash
from skillsearch.types.answers import Selection
from skillsearch.types.skills import Diagnostic

_DECODER = json.JSONDecoder()
_MOST_MEANINGS = 10_000
"""Names, each in some roots, of which a store remembers the id that they mean."""
_MOST_SELECTIONS = 8
"""Selections of which it remembers the documents that they leave."""


class Column(cached_property[NDArray[Any]]):
    """An array with a value of each document: an attribute of `DocumentStore`, which names it.

    That attribute is all there is to a column: segments compute it of their documents, save and
    map it, and a store joins those of its segments, without a copy if there is one.
    """

    def __init__(
        self, dtype: type[np.generic], value: Callable[[Document], object], width: int = 0
    ) -> None:
        """Take the type, what a document has there, and how many numbers if it is not one."""
        super().__init__(self._joined)
        self.value, self.width = value, width
        self.form = np.dtype(dtype), 1 + (width > 0)

    def _joined(self, store: DocumentStore) -> NDArray[Any]:
        arrays = [segment.columns[str(self.attrname)] for segment in store.segments]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


class Label(NamedTuple):
    """What tells which skill a document is, and by what a selection may leave it out."""

    doc_id: str
    name: str
    tags: Sequence[str]
    lapses: Sequence[str]
    paths: Sequence[str]


# The label stands first in a record, by itself, so that it can be read alone.
_FIELDS = tuple(field.name for field in fields(Document) if field.name not in Label._fields)


class DocumentStore(Iterable[Document]):
    """The documents of a corpus of one segment, or of two: a base and a delta.

    Its length and iteration cover the living documents; every number and array covers all.
    `places` are how many ids of the base, deleted ones included, come before each of the delta;
    no search finds living documents that are `shadowed`: their name means another. Of
    the `families` of near-copies only the leaders count in statistics.
    """

    hubness = Column(np.float32, lambda document: document.hubness)
    hidden = Column(np.bool_, lambda document: document.hidden)
    excludes = Column(np.bool_, lambda document: bool(document.excluded))
    bounded = Column(np.bool_, lambda document: bool(document.paths))
    exampled = Column(np.bool_, lambda document: bool(document.examples))
    languages = Column(np.uint64, lambda document: term_hash(document.language))
    # Hashes of the alias of the root, and of the id.
    roots = Column(np.uint64, lambda document: term_hash(document.alias))
    ids = Column(np.uint64, lambda document: term_hash(document.doc_id))
    remoteness = Column(np.uint8, lambda document: remoteness(document.folder))
    # What tells copies: hashes of the description, and of the body or 0.
    abouts = Column(np.uint64, lambda document: term_hash(document.description))
    bodies = Column(np.uint64, lambda document: int(document.body_hash[:16] or "0", 16))
    sketches = Column(np.uint32, lambda document: document.sketched, width=2 * SKETCH_SIZE)
    names = Column(np.uint64, lambda document: name_hash(document.name))

    def __init__(
        self,
        segments: Sequence[DocumentSegment],
        deleted: Numbers = NOTHING,
        places: Numbers = NOTHING,
        shadowed: Numbers = NOTHING,
        families: FamilyTable | None = None,
        guard: DamageGuard | nullcontext[None] | None = None,
    ) -> None:
        """Take the segments; documents are read in the `guard`, if any."""
        self.segments = tuple(segments)
        self.deleted, self.places, self.shadowed = deleted, places, shadowed
        self.families = families or FamilyTable()
        self._root_counts: dict[int, int] = {}
        self.meanings = Memo[tuple[str, ...], str](_MOST_MEANINGS)
        self.selections = Memo[Selection, DocumentStore](_MOST_SELECTIONS)
        self.skipped: tuple[Diagnostic, ...] = ()  # of those that strict selections left out
        self.guard: DamageGuard | nullcontext[None] = guard or nullcontext()

    @classmethod
    def build(cls, documents: Sequence[Document]) -> DocumentStore:
        """Store documents that are sorted by id."""
        return cls([DocumentSegment.build(documents)])

    def narrowed(
        self, deleted: Numbers, shadowed: Numbers, skipped: tuple[Diagnostic, ...]
    ) -> DocumentStore:
        """Return a store in which more documents are deleted; statistics stay those of all."""
        families = self.families
        store = DocumentStore(self.segments, deleted, self.places, shadowed, families, self.guard)
        store.skipped = skipped
        store.uncounted = union(store.left_out, families.waiting(store.left_out))
        return store

    @property
    def size(self) -> int:
        """Number of documents, deleted ones included."""
        return sum(segment.size for segment in self.segments)

    def __len__(self) -> int:
        return self.size - len(self.deleted)

    @cached_property
    def living(self) -> Numbers:
        """Numbers of the documents that are not deleted, in order of their ids, int64."""
        numbers = np.arange(self.segments[0].size)
        if len(self.segments) > 1:
            with self.guard:
                numbers = np.insert(numbers, self.places, np.arange(len(numbers), self.size))
        return without(numbers, self.deleted)

    @cached_property
    def left_out(self) -> Numbers:
        """Numbers of the documents that no search finds, also deleted ones, int64, ascending."""
        return np.sort(np.concatenate([self.deleted, self.shadowed]))

    @cached_property
    def uncounted(self) -> Numbers:
        """Numbers of the documents that count in no statistic, int64, ascending."""
        return union(self.left_out, self.families.members)

    @cached_property
    def signs(self) -> NDArray[np.int8]:
        """-1 for each document that does not count, else 0."""
        signs = np.zeros(self.size, np.int8)
        signs[self.uncounted] = -1
        return signs

    @cached_property
    def counted(self) -> Numbers:
        """Numbers of the documents that count, one a family, in order of their ids, int64."""
        return without(self.living, self.uncounted)

    @property
    def counted_size(self) -> int:
        """Number of documents that count."""
        return self.size - len(self.uncounted)

    def __getitem__(self, number: int) -> Document:
        """Read one document, maybe deleted; raises IndexError if there is no such number."""
        at, position = locate(self.segments, number)
        with self.guard:
            return self.segments[at].read(position)

    def __iter__(self) -> Iterator[Document]:
        return (self[number] for number in self.living.tolist())

    def labels(self, numbers: Numbers) -> Iterator[Label]:
        """Yield the labels of documents, in ascending order, without reading the rest of each."""
        with self.guard:
            for _, segment, positions in divided(numbers, self.segments):
                records, starts = segment.records.data, segment.starts.tolist()
                for position in positions.tolist():
                    text = str(records[starts[position] : starts[position + 1]], "ascii")
                    yield Label(*_DECODER.raw_decode(text, 1)[0])

    def in_order(self, numbers: Numbers) -> Numbers:
        """Return a key for each number that sorts documents by their ids, int64."""
        if len(self.segments) == 1:
            return numbers
        first, second = (segment.size for segment in self.segments)
        is_added = numbers >= first
        added = np.where(is_added, numbers - first, second)
        places = self.places[np.where(is_added, added, 0)] if second else numbers
        return np.where(is_added, places, numbers) * (second + 1) + added

    def named(self, name: str) -> list[int]:
        """Return the documents with a name, ignoring case, hyphens and spaces."""
        with self.guard:
            pools = [segment.named(name) + first for first, segment in numbered(self.segments)]
        numbers = np.concatenate(pools)
        numbers = without(numbers, self.deleted)
        return list(map(int, numbers[np.argsort(self.in_order(numbers), kind="stable")]))

    def number_of(self, doc_id: str) -> int | None:
        """Return the number of the living document with an id, or None."""
        with self.guard:
            for first, segment in numbered(self.segments):
                position = segment.number_of(doc_id)
                if position is not None and not self.is_deleted(first + position):
                    return first + position
        return None

    def numbers_of(self, doc_ids: Iterable[str]) -> Numbers:
        """Return the numbers of the living documents with ids, in the order of the ids."""
        numbers = map(self.number_of, doc_ids)
        return np.array([number for number in numbers if number is not None], np.int64)

    def of_roots(self, aliases: Iterable[str]) -> Numbers:
        """Return the ascending numbers of all documents of roots, deleted ones included."""
        return np.flatnonzero(find_sorted(np.sort(_hashes(aliases)), self.roots) >= 0)

    def with_prefix(self, prefix: str) -> Iterator[Document]:
        """Yield the living documents whose ids begin with a prefix, segment by segment."""
        for first, segment in numbered(self.segments):
            with self.guard:
                begin = segment.position_of(prefix)
            for number in range(first + begin, first + segment.size):
                if not (document := self[number]).doc_id.startswith(prefix):
                    break
                if not self.is_deleted(number):
                    yield document

    def count_roots(self, leader: int) -> int:
        """Return in how many roots the family of a leader is, counted once: it may be large."""
        if leader not in self._root_counts:
            family = (leader, *self.families.followers(leader)[0].tolist())
            roots = {self[number].root for number in family if not self.is_deleted(number)}
            self._root_counts[leader] = len(roots)
        return self._root_counts[leader]

    def root_places(self, aliases: Sequence[str]) -> NDArray[np.int16]:
        """Return for each document the place of its root among some, by their aliases."""
        ranks = np.full(self.size, len(aliases), np.int16)
        for rank, alias in enumerate(_hashes(aliases)):
            ranks[self.roots == alias] = rank
        return ranks

    def is_deleted(self, number: int) -> bool:
        """Return whether the document of a number is deleted."""
        return bool(find_sorted(self.deleted, np.array([number]))[0] >= 0)


COLUMNS: dict[str, Column] = {
    name: column for name, column in vars(DocumentStore).items() if isinstance(column, Column)
}


@dataclass(frozen=True, slots=True)
class DocumentSegment(ArrayTable):
    """Documents in order of their ids: records of JSON, their `COLUMNS`, and an index of names.

    `by_name` has the numbers of the documents in order of the column `names`.
    """

    records: NDArray[np.uint8]
    starts: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]
    by_name: NDArray[np.int32]

    KIND: ClassVar[str] = "documents"

    @classmethod
    def build(cls, documents: Sequence[Document]) -> DocumentSegment:
        """Store documents that are sorted by id."""
        rows = _Rows()
        records = b"".join(map(rows.add, documents))
        return cls.of({"records": np.frombuffer(records, np.uint8), **rows.arrays()})

    @classmethod
    def of(cls, arrays: dict[str, NDArray[Any]]) -> DocumentSegment:
        """Make a segment of its arrays and columns by name."""
        return cls(columns={name: arrays.pop(name) for name in COLUMNS}, **arrays)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays and columns by name."""
        return {**ArrayTable.arrays(self), **self.columns}

    @classmethod
    def forms(cls) -> dict[str, tuple[np.dtype[Any], int]]:
        """Return the type and the number of dimensions of each array and column, by its name."""
        return cls._annotated() | {name: column.form for name, column in COLUMNS.items()}

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    def read(self, number: int) -> Document:
        """Read one document by its number; raises CacheError if its record has an unknown form."""
        record = self.records[self.starts[number] : self.starts[number + 1]].tobytes()
        try:
            (doc_id, name, *last), *values = json.loads(record)
            return Document.from_json((doc_id, name, *values, *last))
        except (TypeError, ValueError) as exc:
            raise CacheError(f"document {number} has an unknown form") from exc

    def position_of(self, doc_id: str) -> int:
        """Return the number of documents whose ids come before this one."""
        return bisect_left(range(self.size), doc_id, key=lambda number: self.read(number).doc_id)

    def number_of(self, doc_id: str) -> int | None:
        """Return the number of the document with an id, or None."""
        position = self.position_of(doc_id)
        return position if position < self.size and self.read(position).doc_id == doc_id else None

    def named(self, name: str) -> Numbers:
        """Return the documents with a name, compared by `name_hash`, ascending."""
        wanted, names = name_hash(name), self.columns["names"]
        # NumPy would convert all of `by_name` to search through it.
        begin, end = (
            bisect(self.by_name, wanted, key=lambda number: int(names[number]))
            for bisect in (bisect_left, bisect_right)
        )
        return self.by_name[begin:end].astype(np.int64)

    def is_consistent(self) -> bool:
        """Return whether there is one of everything for each document."""
        columns = (*self.columns.values(), self.by_name)
        return {len(column) for column in columns} == {len(self.starts) - 1}


class DocumentWriter:
    """Writes a `DocumentSegment` one document at a time, keeping only 200 bytes of each."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        """Begin to write files with a prefix."""
        paths = DocumentSegment.paths(folder, prefix)
        self._paths = dict(zip(DocumentSegment.forms(), paths, strict=True))
        self._rows = _Rows()
        self._records = ArrayWriter(self._paths["records"], np.uint8)

    def add(self, document: Document) -> None:
        """Write the document whose id follows those written before."""
        self._records.append(np.frombuffer(self._rows.add(document), np.uint8))

    def close(self) -> None:
        """Close the open file, finished or not."""
        self._records.close()

    def finish(self) -> None:
        """Write the rest."""
        self.close()
        for name, array in self._rows.arrays().items():
            save_array(self._paths[name], array)


def _hashes(aliases: Iterable[str]) -> Hashes:
    return np.array([term_hash(alias) for alias in aliases], np.uint64)


class _Rows:
    """Gathers the values of each document for the records and columns of a segment."""

    def __init__(self) -> None:
        kinds = [(name, column.form[0], column.width or ()) for name, column in COLUMNS.items()]
        self._dtype = np.dtype([("size", np.int64), *kinds])
        self._rows = bytearray()

    def add(self, document: Document) -> bytes:
        """Take the next document, and return its record."""
        # `astuple` would copy everything, which takes longer than all else here.
        groups = Label._fields, _FIELDS
        label, values = ([getattr(document, name) for name in names] for names in groups)
        record = json.dumps([label, *values]).encode()
        row = (len(record), *(column.value(document) for column in COLUMNS.values()))
        self._rows += np.array(row, self._dtype).tobytes()
        return record

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a segment besides its records, by name."""
        rows = np.frombuffer(self._rows, self._dtype)
        columns = {name: rows[name].copy() for name in COLUMNS}
        by_name = np.argsort(columns["names"], kind="stable").astype(np.int32)
        return {"starts": run_starts(rows["size"]), **columns, "by_name": by_name}
