"""The generations of an index in Milvus: their heads, their life cycle, and who may write them."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from skillsearch.errors import (
    CacheError,
    CollectionMissingError,
    ConfigError,
    LockTimeoutError,
    RemoteError,
    UnusableError,
)
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.lexical.postings import K1, B, LexicalStatistics
from skillsearch.remote import rows as packed
from skillsearch.remote.client import MilvusRow, MilvusServer
from skillsearch.remote.rows import LEXICAL, RemoteGeneration

if TYPE_CHECKING:
    from skillsearch.remote.client import CollectionSchema, DataType, IndexParams

FORMAT = 6  # raise if the meaning of rows changes; a collection of another format is made anew
EXPIRES_S = 120  # seconds after which a claim that was not renewed belongs to a dead writer
_RENEW_S = 20
_MAX_ID, _MAX_TEXT = 64, 65_535  # bytes
_COUNTS = ("number", "documents", "shadowed", "skipped")

logger = logging.getLogger(__name__)


class FieldTotals(NamedTuple):
    """Totals of one lexical field: its length in terms, and the mean idf of distinct terms."""

    length: int
    average_idf: float


@dataclass(frozen=True, slots=True)
class Head:
    """The facts of a generation as a whole; its version is 0 before any documents are complete.

    No search finds the `shadowed` documents, which `totals` leave out; `skipped` SKILL.md files
    could not be indexed.
    """

    version: int
    number: int
    settings: IndexSettings
    documents: int
    shadowed: int
    skipped: int
    totals: Mapping[str, FieldTotals]

    @property
    def searched(self) -> int:
        """Number of documents that searches can find."""
        return self.documents - self.shadowed

    @property
    def condition(self) -> str:
        """A filter for the rows that readers see."""
        return f"since <= {self.version} and until > {self.version}"

    def statistics(self, field: str) -> LexicalStatistics:
        """Return the BM25 statistics of a lexical field."""
        length, average_idf = self.totals[field]
        return LexicalStatistics(self.searched, length / max(self.searched, 1), average_idf)

    def to_row(self) -> MilvusRow:
        """Return the row that holds the head."""
        record = {
            "format": FORMAT,
            "settings": self.settings.to_dict(),
            "totals": {name: totals._asdict() for name, totals in self.totals.items()},
            **{name: getattr(self, name) for name in _COUNTS},
        }
        return packed.note_row(packed.HEAD, packed.RECORD, self.version, record)

    @classmethod
    def from_row(cls, row: MilvusRow) -> Head:
        """Read the result of `to_row`; raise `CacheError` for damage or another format."""
        with packed.checked("the head of the collection"):
            record = json.loads(packed.unpack(row["note"]))
            if record["format"] != FORMAT:
                raise UnusableError(f"its format is {record['format']!r}, not {FORMAT}")
            totals = {}
            for name in LEXICAL:
                entry = record["totals"][name]
                totals[name] = FieldTotals(int(entry["length"]), float(entry["average_idf"]))
            return cls(
                version=int(row["version"]),
                settings=IndexSettings.from_dict(record["settings"]),
                totals=totals,
                **{name: int(record[name]) for name in _COUNTS},
            )


class Opened(NamedTuple):
    """A generation with its head, None if that cannot be read."""

    generation: RemoteGeneration
    head: Head | None


def find_current(server: MilvusServer, alias: str) -> Opened | None:
    """Find the generation that readers see, None without one; ConfigError if the name is taken."""
    target = alias if alias in server.collections() else server.target(alias)
    if target is None:
        return None
    if (generation := RemoteGeneration.of(target, alias)) is None:
        raise ConfigError(
            f"The collection {alias!r} at {server.shown} does not belong to skillsearch; choose "
            "another name: --collection NAME."
        )
    return Opened(generation, read_head(server, generation.terms))


def read_head(server: MilvusServer, terms: str) -> Head | None:
    """Read the head in a collection of terms or an alias; None if this version cannot."""
    try:
        rows = server.get(terms, [packed.HEAD], ["version", "note"])
        return Head.from_row(rows[packed.HEAD]) if rows else None
    except (CacheError, CollectionMissingError) as exc:
        logger.info("no usable head in %s: %s", terms, exc)
        return None


def prepare_next(
    server: MilvusServer, alias: str, after: int, settings: IndexSettings
) -> tuple[RemoteGeneration, Head]:
    """Return a generation above `after` that readers do not see yet, with a head of version 0.

    Interrupted ones with other settings are dropped; LockTimeoutError if one is being written.
    """
    for generation in _all(server, alias):
        if generation.number <= after:
            continue
        head = read_head(server, generation.terms)
        if head is not None and head.version == 0 and are_compatible(head.settings, settings):
            return generation, head
        with suppress(CollectionMissingError), WriteClaim(server, generation):
            _drop(server, generation)
        _drop(server, generation)
    generation = RemoteGeneration(alias, after + 1)
    server.create(generation.documents, *_documents_schema(server.library, settings))
    server.create(generation.terms, *_terms_schema(server.library))
    totals = dict.fromkeys(LEXICAL, FieldTotals(0, 0.0))
    head = Head(0, generation.number, settings, documents=0, shadowed=0, skipped=0, totals=totals)
    server.upsert(generation.terms, [head.to_row()])
    return generation, head


def are_compatible(first: IndexSettings, other: IndexSettings) -> bool:
    """Return whether rows made with either of two settings can share a collection."""

    def decisive(some: IndexSettings) -> tuple[object, ...]:
        model = some.model
        return some.with_body, some.analysis, model.fingerprint, model.dimensions

    return decisive(first) == decisive(other)


def drop_before(server: MilvusServer, alias: str, number: int) -> None:
    """Drop the generations with a lower number."""
    for generation in _all(server, alias):
        if generation.number < number:
            _drop(server, generation)


class WriteClaim:
    """The exclusive right of this process to write a generation; a context manager.

    Milvus has no locks, so a writer writes its claim and then looks for others: every read sees all
    earlier writes, so of two writers at least one sees the other's and gives way.
    """

    def __init__(self, server: MilvusServer, generation: RemoteGeneration) -> None:
        self.server = server
        self._terms = generation.terms
        self._id = f"claim-{uuid.uuid4().hex}"
        self._renewed = 0.0

    def __enter__(self) -> WriteClaim:
        """Make the claim; raise `LockTimeoutError` if another process has one."""
        self._write()
        rows = self.server.query(self._terms, f"kind == {packed.CLAIM}", ["version"], 1_000)
        oldest = time.time() - EXPIRES_S
        others = [row for row in rows if row["id"] != self._id]
        if living := [row["version"] for row in others if row["version"] > oldest]:
            self.__exit__()
            rest = max(living) - oldest
            raise LockTimeoutError(
                f"Another process is writing to {self._terms} at {self.server.shown}; try again "
                f"when it is done. If it was killed, its claim expires in {rest:.0f} s."
            )
        self.server.delete(self._terms, [row["id"] for row in others])
        return self

    def __exit__(self, *_exception: object) -> None:
        """Give up the claim; if that fails, it expires by itself."""
        try:
            self.server.delete(self._terms, [self._id])
        except RemoteError as exc:
            logger.info("the claim on %s is left to expire: %s", self._terms, exc)

    def renew(self) -> None:
        """Keep the claim alive between batches; raise `LockTimeoutError` if it was lost."""
        if time.monotonic() - self._renewed > _RENEW_S:
            self.check()
            self._write()

    def check(self) -> None:
        """Raise `LockTimeoutError` if the claim expired and another process took over."""
        if not self.server.get(self._terms, [self._id], ["version"]):
            raise LockTimeoutError(
                "This process was silent for too long, and another one is writing to "
                f"{self._terms} now; run the command again when that is done."
            )

    def _write(self) -> None:
        row = packed.note_row(self._id, packed.CLAIM, int(time.time()))
        self.server.upsert(self._terms, [row])
        self._renewed = time.monotonic()


def _all(server: MilvusServer, alias: str) -> list[RemoteGeneration]:
    """Return all generations by number, even half made and half dropped ones."""
    names = {f"{name.removesuffix('_terms')}_terms" for name in server.collections()}
    generations = [generation for name in names if (generation := RemoteGeneration.of(name, alias))]
    return sorted(generations, key=lambda generation: generation.number)


def _drop(server: MilvusServer, generation: RemoteGeneration) -> None:
    for name in {generation.documents, generation.terms}.intersection(server.collections()):
        server.drop(name)


def _documents_schema(
    library: ModuleType, settings: IndexSettings
) -> tuple[CollectionSchema, IndexParams]:
    """Return the schema and the indexes of the collection of documents; `library` is pymilvus."""
    kinds, with_body = library.DataType, settings.with_body
    schema, indexes = _begin(library)
    # Milvus counts bytes, and a character has up to four.
    schema.add_field("root", kinds.VARCHAR, max_length=4 * packed.ROOT_CHARS, is_partition_key=True)
    for name in ("key", "state", "skill", "examples"):
        schema.add_field(name, kinds.VARCHAR, max_length=_MAX_ID)
    for name in ("since", "until", "name_key"):
        schema.add_field(name, kinds.INT64)
    for name in ("hidden", "shadowed"):
        schema.add_field(name, kinds.BOOL)
    for name in ("record", "counts", "chunks", "content"):
        _add_packed(schema, kinds, name)
    for name in LEXICAL[: 1 + with_body]:
        terms, sparse = packed.TERMS[name], f"sparse_{name}"
        analyzer = {"enable_analyzer": True, "analyzer_params": {"tokenizer": "standard"}}
        schema.add_field(terms, kinds.VARCHAR, max_length=_MAX_TEXT, mmap_enabled=True, **analyzer)
        schema.add_field(sparse, kinds.SPARSE_FLOAT_VECTOR)
        bm25 = library.FunctionType.BM25
        schema.add_function(library.Function(f"bm25_{name}", bm25, [terms], [sparse]))
        params = {"bm25_k1": K1, "bm25_b": B}
        index_type = "SPARSE_INVERTED_INDEX"
        indexes.add_index(sparse, index_type=index_type, metric_type="BM25", params=params)
    for name in packed.DENSE:
        schema.add_field(name, kinds.FLOAT_VECTOR, dim=settings.model.dimensions)
        indexes.add_index(name, index_type="AUTOINDEX", metric_type="IP")
    for name in ("key", "name_key", "since", "until"):
        indexes.add_index(name, index_type="INVERTED")
    return schema, indexes


def _terms_schema(library: ModuleType) -> tuple[CollectionSchema, IndexParams]:
    """Return the schema and the indexes of the collection of terms; `library` is pymilvus."""
    kinds = library.DataType
    schema, indexes = _begin(library)
    schema.add_field("kind", kinds.INT8)
    for name in packed.FREQUENCIES:
        schema.add_field(name, kinds.INT64)
    _add_packed(schema, kinds, "note")
    # Milvus requires a vector in every collection.
    schema.add_field("nothing", kinds.FLOAT_VECTOR, dim=2)
    indexes.add_index("nothing", index_type="FLAT", metric_type="IP")
    for name in ("kind", "version"):
        indexes.add_index(name, index_type="INVERTED")
    return schema, indexes


def _begin(library: ModuleType) -> tuple[CollectionSchema, IndexParams]:
    schema = library.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", library.DataType.VARCHAR, is_primary=True, max_length=_MAX_ID)
    return schema, library.MilvusClient.prepare_index_params()


def _add_packed(schema: CollectionSchema, kinds: type[DataType], name: str) -> None:
    """Add a field of packed bytes; text fields are too small, so it is an array of texts."""
    limits = {"max_capacity": packed.MAX_PIECES, "max_length": _MAX_TEXT}
    schema.add_field(name, kinds.ARRAY, element_type=kinds.VARCHAR, mmap_enabled=True, **limits)
