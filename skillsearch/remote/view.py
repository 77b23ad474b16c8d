"""One version of an index in Milvus, as a reader sees it.

Milvus only selects the candidates of a query; put into a local index with the statistics of all
documents, `index.search` gives them the scores of the whole index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import CacheError
from skillsearch.index.chunk_index import ChunkIndex
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.dense.likeness import copies_from
from skillsearch.index.dense.vectors import DenseFields, DenseIndex
from skillsearch.index.documents.document import ANALYSIS, Document
from skillsearch.index.documents.families import Likeness, find_families
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.postings import LexicalSegment, TermTally, length_norms, saturation
from skillsearch.index.search.candidates import count_candidates, most_used
from skillsearch.index.search.query import QueryForm
from skillsearch.index.storage.cache import Generation
from skillsearch.index.storage.document_store import DocumentSegment, DocumentStore
from skillsearch.remote import rows as packed
from skillsearch.remote.client import Field, MilvusRow, MilvusServer
from skillsearch.remote.generations import Head, read_head
from skillsearch.remote.rows import HEAD, RemoteGeneration, frequencies_at, term_id
from skillsearch.text.tokenizer import term_hash

_MAX_CANDIDATES = 1_000
"""Documents that words and vectors are asked for each; the messages of Milvus are limited."""
QUERY_TERMS = 1_000  # terms that Milvus looks for, the rarest of the query; scores use all
_NAMED = 1_000  # skills of one name that are read
_PAGE = 1_000

Frequencies = Mapping[int, tuple[int, int]]
"""Document frequencies of terms in both lexical fields, by the hash of the term."""


class RemoteView(NamedTuple):
    """One version of a generation, and the frequencies of a query's terms, 0 for unknown ones."""

    server: MilvusServer
    generation: RemoteGeneration
    head: Head
    frequencies: Frequencies

    @classmethod
    def open(
        cls, server: MilvusServer, alias: str, query: Collection[str] = ()
    ) -> RemoteView | None:
        """Read the current version; None if it was garbage-collected: retry.

        Raises CollectionMissingError without an index of this name, CacheError for an unusable one.
        """
        hashes = list(dict.fromkeys(map(term_hash, query)))
        ids = [HEAD, *map(term_id, hashes)]
        rows = server.get(alias, ids, ["note", *packed.FREQUENCIES])
        if HEAD not in rows:
            raise CacheError(f"the collection {alias!r} has no head")
        head = Head.from_row(rows[HEAD])
        if head.settings.analysis != ANALYSIS:
            raise CacheError("it was made by another version of skillsearch")
        frequencies: dict[int, tuple[int, int]] = {}
        for term, key in zip(hashes, ids[1:], strict=True):
            pair = frequencies_at(rows.get(key), head.version)
            if pair is None:
                return None
            frequencies[term] = pair
        return cls(server, RemoteGeneration(alias, head.number), head, frequencies)

    @property
    def name(self) -> str:
        """Name and version of the generation."""
        return f"{self.generation.documents}@{self.head.version}"

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of a row that `index_of` needs."""
        return ("record", "counts", "chunks", "shadowed", *packed.DENSE)

    def still_holds(self) -> bool:
        """Return whether everything read through this view belongs to its version.

        Rows are removed two versions after they ended, so one new version does no harm.
        """
        now = read_head(self.server, self.generation.alias)
        if now is None:
            return False
        return now.number == self.head.number and now.version <= self.head.version + 1

    def index_of(self, rows: Sequence[MilvusRow]) -> OpenedIndex:
        """Return an index of rows with `fields` for one query; `CacheError` if one is damaged."""
        settings = self.head.settings
        pairs = [(packed.document_of(row), row) for row in rows]
        pairs.sort(key=lambda pair: pair[0].doc_id)
        documents, rows = [document for document, _ in pairs], [row for _, row in pairs]
        counted = [packed.counts_of(row) for row in rows]
        model = settings.model
        vectors = tuple(_matrix(rows, name, model.dimensions) for name in packed.DENSE)
        dense = DenseIndex((DenseFields(vectors),))
        store = _CandidateStore(documents, self.head, [row["shadowed"] for row in rows])
        likeness = Likeness(store, dense, copies_from(model.spec), settings.aliases)
        store.families = find_families(likeness, store.shadowed)
        corpus = Corpus(
            store,
            tuple(self._field(field, counted) for field in range(1 + settings.with_body)),
            dense,
            (_chunk_index(documents, rows, model.dimensions),),
        )
        generation = Generation(self.generation.documents, Path(), {}, {})
        return OpenedIndex(generation, settings, corpus)

    def candidates(self, form: QueryForm, n: int, condition: str = "") -> list[MilvusRow]:
        """Read the candidates of a query for n hits, with `fields`, each once."""
        k = min(count_candidates(n), _MAX_CANDIDATES)
        visible = f"{self.head.condition} and shadowed == false"
        if condition:
            visible += f" and {condition}"
        documents = self.generation.documents
        if self.head.searched <= k:
            return self.server.query(documents, visible, self.fields, k)
        named = f"name_key == {packed.name_key(form.text)}"
        if used := most_used(form.usage):
            named = f"({named} or key in [{_keys(used)}])"
        rows = self.server.query(documents, f"{named} and {visible}", self.fields, k)
        if queries := self._queries(form):
            rows += self.server.nearest(documents, queries, visible, k, self.fields)
        return list({row["id"]: row for row in rows}.values())

    def named(
        self,
        names: Collection[str],
        doc_ids: Collection[str] = (),
        fields: Sequence[Field] = ("record",),
        limit: int = _NAMED,
    ) -> list[MilvusRow]:
        """Read documents with certain names or ids."""
        numbers = ", ".join(str(packed.name_key(name)) for name in names)
        condition = f"(name_key in [{numbers}] or key in [{_keys(doc_ids)}])"
        return self._matching(condition, fields, limit)

    def content(self, doc_id: str) -> bytes | None:
        """Return the SKILL.md of a document as it was indexed; None if it is gone."""
        rows = self._matching(f'key == "{packed.key_of(doc_id)}"', ("content",), 1)
        return packed.unpack(rows[0]["content"]) if rows else None

    def rows(self, fields: Sequence[Field]) -> Iterator[MilvusRow]:
        """Read all documents, in no order."""
        documents, condition = self.generation.documents, self.head.condition
        for page in self.server.iterate(documents, condition, ("id", *fields), _PAGE):
            yield from page

    def _matching(self, condition: str, fields: Sequence[Field], limit: int) -> list[MilvusRow]:
        """Read documents that meet a condition, even shadowed ones."""
        condition = f"{condition} and {self.head.condition}"
        return self.server.query(self.generation.documents, condition, fields, limit)

    def _queries(self, form: QueryForm) -> dict[str, tuple[str, object]]:
        """Return the metric and the query of each vector field."""
        with_body = self.head.settings.with_body
        queries: dict[str, tuple[str, object]] = {}
        for field, name in enumerate(packed.LEXICAL[: 1 + with_body]):
            held = {term: self.frequencies[term][field] for term in map(term_hash, form.counts)}
            rarest = sorted(filter(held.get, held), key=held.__getitem__)
            if text := " ".join(map(packed.token, rarest[:QUERY_TERMS])):
                queries[f"sparse_{name}"] = ("BM25", text)
        if form.has_vector:
            queries |= dict.fromkeys(packed.DENSE, ("IP", form.vector))
        return queries

    def _field(self, field: int, counted: Sequence[packed.CountedTerms]) -> LexicalField:
        """Make a lexical field of the query's terms, with the statistics of all documents."""
        statistics = self.head.statistics(packed.LEXICAL[field])
        terms = np.array(sorted(self.frequencies), np.uint64)
        columns = [document.frequencies[field] for document in counted]
        hashes = np.concatenate([np.zeros(0, np.uint64), *(each.hashes for each in counted)])
        counts = np.concatenate([np.zeros(0, np.uint16), *columns])
        numbers = np.repeat(np.arange(len(counted), dtype=np.int32), list(map(len, columns)))
        positions = np.flatnonzero(np.isin(hashes, terms) & (counts > 0))
        positions = positions[np.argsort(hashes[positions], kind="stable")]
        rows, starts = np.unique(hashes[positions], return_index=True)
        documents, occurrences = numbers[positions], counts[positions]
        lengths = np.array([document.lengths[field] for document in counted], np.int32)
        added = saturation(occurrences, length_norms(lengths, statistics.mean_length)[documents])
        segment = LexicalSegment(
            hashes=rows,
            starts=np.append(starts, len(positions)).astype(np.int64),
            documents=documents,
            frequencies=occurrences,
            peaks=np.maximum.reduceat(added, starts) if len(rows) else added,
            lengths=lengths,
            statistics=np.array([statistics.mean_length, statistics.average_idf]),
        )
        shown = segment.document_frequencies(segment.rows(terms))
        everywhere = np.array([self.frequencies[term][field] for term in terms.tolist()], np.int64)
        return LexicalField((segment,), statistics, TermTally(terms, everywhere - shown))


class _CandidateStore(DocumentStore):
    """Some of many documents; its length describes all of them, as a search needs."""

    def __init__(self, documents: Sequence[Document], head: Head, shadowed: Sequence[bool]) -> None:
        """Take documents sorted by id, the head of the index, and which of them are shadowed."""
        segments = [DocumentSegment.build(documents)]
        super().__init__(segments, shadowed=np.flatnonzero(np.array(shadowed, np.bool_)))
        self._head = head

    def __len__(self) -> int:
        return self._head.documents

    @property
    def counted_size(self) -> int:
        """Number of all documents that searches can find, copies included."""
        return self._head.searched


def _keys(doc_ids: Iterable[str]) -> str:
    """Return the keys of documents as the elements of a list in a condition."""
    return ", ".join(f'"{packed.key_of(doc_id)}"' for doc_id in doc_ids)


def _matrix(rows: Sequence[MilvusRow], field: Field, dimensions: int) -> NDArray[np.float32]:
    with packed.checked("the vector of a row"):
        vectors = [row[field] for row in rows]
        matrix = np.array(vectors, np.float32).reshape(len(rows), dimensions)
    if not np.isfinite(matrix).all():
        raise CacheError("a vector of the collection is not finite")
    return matrix


def _chunk_index(
    documents: Sequence[Document], rows: Sequence[MilvusRow], dimensions: int
) -> ChunkIndex | None:
    """Make the index of all chunks, None without any; `CacheError` if a record has others."""
    matrices, sets = [], []
    for document, row in zip(documents, rows, strict=True):
        vectors, terms = packed.chunks_of(row)
        if len(vectors) != len(document.chunks) or (terms and vectors.shape[1] != dimensions):
            raise CacheError("the chunks of a row do not fit its record")
        if terms:
            matrices.append(vectors)
        sets += terms
    if not matrices:
        return None
    counts = [len(document.chunks) for document in documents]
    return ChunkIndex(
        starts=np.cumsum([0, *counts], dtype=np.int64),
        vectors=np.concatenate(matrices),
        term_starts=np.cumsum([0, *map(len, sets)], dtype=np.int64),
        terms=np.concatenate(sets),
    )
