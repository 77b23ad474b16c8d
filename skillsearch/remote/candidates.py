"""The candidates of a query as a small corpus, scored as if all documents were there.

Milvus only selects the candidates. They are few enough to be put into the parts of a local index,
with the statistics of all documents that BM25 and the calibration need: then `index.search` gives
the scores of the whole index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.index.chunk_index import ChunkIndex
from skillsearch.index.corpus import Corpus
from skillsearch.index.dense.vectors import DenseChannel, DenseFields
from skillsearch.index.documents import Document
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.okapi import length_norms, saturation
from skillsearch.index.lexical.postings import LexicalSegment, TermTally
from skillsearch.index.storage.document_store import DocumentSegment, DocumentStore
from skillsearch.remote.client import Row
from skillsearch.remote.generations import Head
from skillsearch.remote.rows import CountedTerms, checked, chunks_of, counts_of, document_of
from skillsearch.remote.schema import LEXICAL, dense_fields

if TYPE_CHECKING:
    from numpy.typing import NDArray

Frequencies = Mapping[int, tuple[int, int]]
"""Document frequencies of terms in both lexical fields, by the hash of the term."""


class CandidateStore(DocumentStore):
    """Some of many documents.

    Numbers, arrays and iteration cover those that are here; its length, `searched_size`,
    `other_share` and `mean_trust` describe all documents, as a search needs them.
    """

    def __init__(
        self, documents: Sequence[Document], head: Head, shadowed: Sequence[bool] = ()
    ) -> None:
        """Take documents sorted by id, the head of the index, and which of them are shadowed."""
        segments = [DocumentSegment.build(documents)]
        super().__init__(segments, shadowed=np.flatnonzero(np.array(shadowed, np.bool_)))
        self._head = head
        self.other_share = head.others / head.searched if head.searched else 0.0
        self.mean_trust = head.trust / head.searched if head.searched else 1.0

    def __len__(self) -> int:
        return self._head.documents

    @property
    def searched_size(self) -> int:
        """Number of all documents that searches can find."""
        return self._head.searched


def candidate_fields(head: Head) -> tuple[str, ...]:
    """Return the fields of a row that `make_corpus` needs."""
    settings = head.settings
    dense = dense_fields(len(settings.channels), with_body=settings.with_body)
    return ("record", "counts", "chunks", "shadowed", *chain(*dense))


def make_corpus(rows: Sequence[Row], head: Head, frequencies: Frequencies) -> Corpus:
    """Make a corpus that answers one query; raise `CacheError` if a row is damaged.

    The rows have `candidate_fields`, each document once; `frequencies` are those of the terms of
    the query.
    """
    pairs = sorted(((document_of(row), row) for row in rows), key=lambda pair: pair[0].doc_id)
    documents, rows = [document for document, _ in pairs], [row for _, row in pairs]
    counted = [counts_of(row) for row in rows]
    with_body, channels = head.settings.with_body, head.settings.channels
    dense = []
    fields = dense_fields(len(channels), with_body=with_body)
    for channel, names in zip(channels, fields, strict=True):
        vectors, *bodies = (_matrix(rows, name, channel.dimensions) for name in names)
        dense.append(DenseChannel((DenseFields(vectors, bodies[0] if bodies else None),)))
    return Corpus(
        CandidateStore(documents, head, [row["shadowed"] for row in rows]),
        tuple(_field(place, counted, head, frequencies) for place in range(1 + with_body)),
        tuple(dense),
        (_chunk_index(documents, rows, channels[0].dimensions),),
    )


def _field(
    place: int, counted: Sequence[CountedTerms], head: Head, frequencies: Frequencies
) -> LexicalField:
    """Make a lexical field of the query's terms, with the statistics of all documents."""
    statistics = head.statistics(LEXICAL[place])
    terms = np.array(sorted(frequencies), np.uint64)
    hashes = np.concatenate([np.zeros(0, np.uint64), *(one.hashes for one in counted)])
    columns = [one.frequencies[place] for one in counted]
    counts = np.concatenate([np.zeros(0, np.uint16), *columns])
    numbers = np.repeat(np.arange(len(counted), dtype=np.int32), [len(one) for one in columns])
    kept = np.flatnonzero(np.isin(hashes, terms) & (counts > 0))
    kept = kept[np.argsort(hashes[kept], kind="stable")]
    rows, starts = np.unique(hashes[kept], return_index=True)
    documents, occurrences = numbers[kept], counts[kept]
    lengths = np.array([one.lengths[place] for one in counted], np.int32)
    added = saturation(occurrences, length_norms(lengths, statistics.mean_length)[documents])
    segment = LexicalSegment(
        hashes=rows,
        starts=np.append(starts, len(kept)).astype(np.int64),
        documents=documents,
        frequencies=occurrences,
        peaks=np.maximum.reduceat(added, starts) if len(rows) else added,
        lengths=lengths,
        statistics=np.array([statistics.mean_length, statistics.average_idf]),
    )
    shown = segment.document_frequencies(segment.rows(terms))
    everywhere = np.array([frequencies[term][place] for term in terms.tolist()], np.int64)
    return LexicalField((segment,), statistics, TermTally(terms, everywhere - shown))


def _matrix(rows: Sequence[Row], field: str, dimensions: int) -> NDArray[np.float32]:
    with checked("the vector of a row"):
        vectors = [row[field] for row in rows]
        matrix = np.array(vectors, np.float32).reshape(len(rows), dimensions)
    if not np.isfinite(matrix).all():
        raise CacheError("a vector of the collection is not finite")
    return matrix


def _chunk_index(
    documents: Sequence[Document], rows: Sequence[Row], dimensions: int
) -> ChunkIndex | None:
    """Make the index of all chunks, None if there are none.

    Raises `CacheError` unless each document has the chunks that its record names.
    """
    matrices, sets = [], []
    for document, row in zip(documents, rows, strict=True):
        vectors, terms = chunks_of(row)
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
