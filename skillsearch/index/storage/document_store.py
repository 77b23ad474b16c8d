"""The documents of a corpus, numbered through all segments, in each by the order of their ids."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import CacheError
from skillsearch.files.arrays import ArrayWriter, save_array
from skillsearch.index.documents import KNOWN, SKETCH_SIZE, Document, name_hash
from skillsearch.index.storage.array_table import ArrayTable
from skillsearch.index.storage.family_table import FamilyTable
from skillsearch.index.storage.generation_parts import DamageGuard
from skillsearch.index.storage.numbering import (
    NOTHING,
    find_sorted,
    locate,
    numbered,
    run_starts,
    union,
    within,
    without,
)
from skillsearch.skills.folders import remoteness
from skillsearch.text.tokenizer import term_hash
from skillsearch.types import Diagnostic, Selection

_DECODER = json.JSONDecoder()


def _column(name: str) -> cached_property[NDArray[Any]]:
    """Return a property: a column of all segments, without a copy if there is one segment."""

    def joined(store: DocumentStore) -> NDArray[Any]:
        arrays = [getattr(segment, name) for segment in store.segments]
        column: NDArray[Any] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return column

    return cached_property(joined)


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

    trust = _column("trust")
    fluency = _column("fluency")
    hubness = _column("hubness")
    hidden = _column("hidden")
    excludes = _column("excludes")
    bounded = _column("bounded")
    exampled = _column("exampled")
    roots = _column("roots")
    ids = _column("ids")
    remoteness = _column("remoteness")
    abouts = _column("abouts")
    bodies = _column("bodies")
    sketches = _column("sketches")
    names = _column("names")

    def __init__(
        self,
        segments: Sequence[DocumentSegment],
        deleted: NDArray[np.int64] = NOTHING,
        places: NDArray[np.int64] = NOTHING,
        shadowed: NDArray[np.int64] = NOTHING,
        families: FamilyTable | None = None,
        guard: DamageGuard | nullcontext[None] | None = None,
    ) -> None:
        """Take the segments; documents are read in the `guard`, if any."""
        self.segments = tuple(segments)
        self.deleted, self.places, self.shadowed = deleted, places, shadowed
        self.families = families or FamilyTable()
        self._root_counts: dict[int, int] = {}
        self.meanings: dict[tuple[str, ...], str] = {}  # ids of what names mean in some roots
        self.selections: dict[Selection, DocumentStore] = {}  # what each was found to leave
        self.skipped: tuple[Diagnostic, ...] = ()  # of those that strict selections left out
        self.guard: DamageGuard | nullcontext[None] = guard or nullcontext()

    @classmethod
    def build(cls, documents: Sequence[Document]) -> DocumentStore:
        """Store documents that are sorted by id."""
        return cls([DocumentSegment.build(documents)])

    @property
    def size(self) -> int:
        """Number of documents, deleted ones included."""
        return sum(segment.size for segment in self.segments)

    def __len__(self) -> int:
        return self.size - len(self.deleted)

    @cached_property
    def living(self) -> NDArray[np.int64]:
        """Numbers of the documents that are not deleted, in order of their ids, int64."""
        numbers = np.arange(self.segments[0].size)
        if len(self.segments) > 1:
            with self.guard:
                numbers = np.insert(numbers, self.places, np.arange(len(numbers), self.size))
        return without(numbers, self.deleted)

    @cached_property
    def left_out(self) -> NDArray[np.int64]:
        """Numbers of the documents that no search finds, also deleted ones, int64, ascending."""
        return np.sort(np.concatenate([self.deleted, self.shadowed]))

    @cached_property
    def uncounted(self) -> NDArray[np.int64]:
        """Numbers of the documents that count in no statistic, int64, ascending."""
        return union(self.left_out, self.families.members)

    @cached_property
    def signs(self) -> NDArray[np.int8]:
        """-1 for each document that does not count, else 0."""
        signs = np.zeros(self.size, np.int8)
        signs[self.uncounted] = -1
        return signs

    @cached_property
    def counted(self) -> NDArray[np.int64]:
        """Numbers of the documents that count, one a family, in order of their ids, int64."""
        return without(self.living, self.uncounted)

    @property
    def counted_size(self) -> int:
        """Number of documents that count."""
        return self.size - len(self.uncounted)

    @cached_property
    def other_share(self) -> float:
        """Share of the documents in languages that a model for English does not know."""
        counted = self.counted
        return float(np.mean(self.fluency[counted] < KNOWN)) if len(counted) else 0.0

    @cached_property
    def mean_trust(self) -> float:
        """Mean trust of the documents; 1 without any."""
        counted = self.counted
        return float(np.mean(self.trust[counted], dtype=np.float64)) if len(counted) else 1.0

    def __getitem__(self, number: int) -> Document:
        """Read one document, maybe deleted; raises IndexError if there is no such number."""
        at, place = locate(self.segments, number)
        with self.guard:
            return self.segments[at].read(place)

    def __iter__(self) -> Iterator[Document]:
        return (self[number] for number in self.living.tolist())

    def labels(self, numbers: NDArray[np.int64]) -> Iterator[Label]:
        """Yield the labels of some documents, ascending, read alone."""
        with self.guard:
            for first, segment in numbered(self.segments):
                records, starts = segment.records.data, segment.starts.tolist()
                for place in (numbers[within(numbers, first, segment)] - first).tolist():
                    text = str(records[starts[place] : starts[place + 1]], "ascii")
                    yield Label(*_DECODER.raw_decode(text, 1)[0])

    def in_order(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
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
            found = np.concatenate(
                [segment.named(name) + first for first, segment in numbered(self.segments)]
            )
        found = without(found, self.deleted)
        return list(map(int, found[np.argsort(self.in_order(found), kind="stable")]))

    def number_of(self, doc_id: str) -> int | None:
        """Return the number of the living document with an id, or None."""
        with self.guard:
            for first, segment in numbered(self.segments):
                place = segment.number_of(doc_id)
                if place is not None and not self.is_deleted(first + place):
                    return first + place
        return None

    def of_roots(self, aliases: Iterable[str]) -> NDArray[np.int64]:
        """Return the numbers of the documents of some roots, also deleted ones, ascending."""
        return np.flatnonzero(find_sorted(np.sort(_hashes(aliases)), self.roots) >= 0)

    def with_prefix(self, prefix: str) -> Iterator[Document]:
        """Yield the living documents whose ids begin with a prefix, segment by segment."""
        for first, segment in numbered(self.segments):
            with self.guard:
                begin = segment.place_of(prefix)
            for number in range(first + begin, first + segment.size):
                document = self[number]
                if not document.doc_id.startswith(prefix):
                    break
                if not self.is_deleted(number):
                    yield document

    def count_roots(self, leader: int) -> int:
        """Return in how many roots the family of a leader is, counted once: it may be large."""
        if leader not in self._root_counts:
            family = (leader, *self.families.followers(leader)[0].tolist())
            roots = {self[one].root for one in family if not self.is_deleted(one)}
            self._root_counts[leader] = len(roots)
        return self._root_counts[leader]

    def root_places(self, aliases: Sequence[str]) -> NDArray[np.int16]:
        """Return for each document the place of its root among some, by their aliases."""
        found = np.full(self.size, len(aliases), np.int16)
        for place, alias in enumerate(_hashes(aliases)):
            found[self.roots == alias] = place
        return found

    def is_deleted(self, number: int) -> bool:
        """Return whether the document of a number is deleted."""
        return bool(find_sorted(self.deleted, np.array([number]))[0] >= 0)


@dataclass(frozen=True, slots=True)
class DocumentSegment(ArrayTable):
    """Documents in order of their ids: records of JSON, what searches need of each, a name index.

    `excludes` says which have `Document.excluded`, `bounded` which have `Document.paths`,
    `exampled` which have examples; `roots` has a hash of the alias of each one's root, `names` the
    `name_hash` of each, `by_name` their numbers in its order; `ids` has a hash of each id,
    `remoteness` that of its folder. What tells copies: `abouts` has a hash of the description,
    `bodies` one of the body or 0, `sketches` are `Document.sketched`.
    """

    records: NDArray[np.uint8]
    starts: NDArray[np.int64]
    trust: NDArray[np.float32]
    fluency: NDArray[np.float32]
    hubness: NDArray[np.float32]
    hidden: NDArray[np.bool_]
    excludes: NDArray[np.bool_]
    bounded: NDArray[np.bool_]
    exampled: NDArray[np.bool_]
    roots: NDArray[np.uint64]
    ids: NDArray[np.uint64]
    remoteness: NDArray[np.uint8]
    abouts: NDArray[np.uint64]
    bodies: NDArray[np.uint64]
    sketches: NDArray[np.uint32]
    names: NDArray[np.uint64]
    by_name: NDArray[np.int32]

    KIND: ClassVar[str] = "documents"
    MATRIX: ClassVar[str] = "sketches"

    @classmethod
    def build(cls, documents: Sequence[Document]) -> DocumentSegment:
        """Store documents that are sorted by id."""
        rows = bytearray()
        records = b"".join(_record(document, rows) for document in documents)
        return cls(np.frombuffer(records, np.uint8), *_columns(rows))

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    def read(self, number: int) -> Document:
        """Read one document by its number; raises CacheError if its record has an unknown form."""
        record = self.records[self.starts[number] : self.starts[number + 1]].tobytes()
        try:
            (doc_id, name, *last), *values = json.loads(record)
            return Document(*(doc_id, name, *values, *last))
        except (TypeError, ValueError) as exc:
            raise CacheError(f"document {number} has an unknown form") from exc

    def place_of(self, doc_id: str) -> int:
        """Return the number of documents whose ids come before this one."""
        return bisect_left(range(self.size), doc_id, key=lambda number: self.read(number).doc_id)

    def number_of(self, doc_id: str) -> int | None:
        """Return the number of the document with an id, or None."""
        place = self.place_of(doc_id)
        return place if place < self.size and self.read(place).doc_id == doc_id else None

    def named(self, name: str) -> NDArray[np.int64]:
        """Return the documents with a name, compared by `name_hash`, ascending."""
        wanted = name_hash(name)
        # NumPy would convert all of `by_name` to search through it.
        begin, end = (
            bisect(self.by_name, wanted, key=lambda number: int(self.names[number]))
            for bisect in (bisect_left, bisect_right)
        )
        return self.by_name[begin:end].astype(np.int64)

    def fits(self) -> bool:
        """Return whether there is one of everything for each document."""
        columns = [getattr(self, field.name) for field in fields(self)[2:]]
        return {len(column) for column in columns} == {len(self.starts) - 1}


# What a document adds to each column but the first and the last: to `starts`, a length.
_ROW = np.dtype(
    [
        (name, kind, (2 * SKETCH_SIZE,) if name == DocumentSegment.MATRIX else ())
        for name, kind in [*DocumentSegment.types().items()][1:-1]
    ]
)


class DocumentWriter:
    """Writes a `DocumentSegment` one document at a time, keeping only 200 bytes of each."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        """Begin to write files with a prefix."""
        self._paths = DocumentSegment.paths(folder, prefix)
        self._rows = bytearray()
        self._records = ArrayWriter(self._paths[0], np.uint8)

    def add(self, document: Document) -> None:
        """Write the document whose id follows those written before."""
        self._records.append(np.frombuffer(_record(document, self._rows), np.uint8))

    def close(self) -> None:
        """Close the open file, finished or not."""
        self._records.close()

    def finish(self) -> None:
        """Write the rest."""
        self._records.close()
        for path, column in zip(self._paths[1:], _columns(self._rows), strict=True):
            save_array(path, column)


def _hashes(aliases: Iterable[str]) -> NDArray[np.uint64]:
    return np.array([term_hash(alias) for alias in aliases], np.uint64)


def _record(document: Document, rows: bytearray) -> bytes:
    """Return the record of a document, and append its `_ROW`."""
    # `astuple` would copy everything, which takes longer than all else here.
    groups = Label._fields, _FIELDS
    label, *values = ([getattr(document, name) for name in names] for names in groups)
    record = json.dumps([label, *values[0]]).encode()
    numbers = (document.trust, document.fluency, document.hubness)
    has = map(bool, (document.excluded, document.paths, document.examples))
    folder = remoteness(document.folder)
    place = term_hash(document.alias), term_hash(document.doc_id), folder
    body = int(document.body_hash[:16] or "0", 16)
    copied = term_hash(document.description), body, document.sketched
    row = (len(record), *numbers, document.hidden, *has, *place, *copied, name_hash(document.name))
    rows += np.array(row, _ROW).tobytes()
    return record


def _columns(rows: bytearray) -> tuple[NDArray[Any], ...]:
    """Return the arrays of a segment besides its records, in order."""
    size, *columns = (np.frombuffer(rows, _ROW)[name].copy() for name in _ROW.names or ())
    by_name = np.argsort(columns[-1], kind="stable").astype(np.int32)
    return (run_starts(size), *columns, by_name)
