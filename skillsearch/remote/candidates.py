"""The candidates of a query as a small corpus, scored as if all documents were there.

Milvus only selects the candidates. They are few enough to be put into the parts of a local index,
with the statistics of all documents that BM25 and the calibration need: then `index.search.run`
gives the scores of the whole index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.index.chunk_index import ChunkIndex
from skillsearch.index.corpus import Corpus
from skillsearch.index.dense.nearest import DenseCodes
from skillsearch.index.dense.vectors import BODY_SHARE, DenseChannel, DenseFields
from skillsearch.index.documents import Document
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.okapi import length_norms, saturation
from skillsearch.index.lexical.postings import LexicalSegment, TermTally
from skillsearch.index.storage.document_store import DocumentSegment, DocumentStore
from skillsearch.remote.client import Row
from skillsearch.remote.generations import Head
from skillsearch.remote.rows import Chunks, CountedTerms, checked, chunks_of, counts_of, document_of
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

    Args:
        rows: Rows with `candidate_fields`, each document once.
        head: The head of the generation.
        frequencies: Document frequencies of the terms of the query.

    Returns:
        The corpus.
    """
    read = sorted(((document_of(row), row) for row in rows), key=lambda pair: pair[0].doc_id)
    documents = [document for document, _ in read]
    counted = [counts_of(row) for _, row in read]
    with_body, channels = head.settings.with_body, head.settings.channels
    metadata, full = (_field(place, counted, head, frequencies) for place in (0, 1))
    dense = []
    fields = dense_fields(len(channels), with_body=with_body)
    for channel, names in zip(channels, fields, strict=True):
        matrices = [_matrix([row[name] for _, row in read], channel.dimensions) for name in names]
        dense.append(DenseChannel((_dense(matrices),)))
    chunks = [chunks_of(row) for _, row in read]
    _check_chunks(documents, chunks, channels[0].dimensions)
    return Corpus(
        CandidateStore(documents, head, [row["shadowed"] for _, row in read]),
        metadata,
        full if with_body else None,
        tuple(dense),
        (_chunk_index(chunks, channels[0].dimensions),),
    )


def _field(
    place: int, counted: Sequence[CountedTerms], head: Head, frequencies: Frequencies
) -> LexicalField:
    """Make a lexical field of the query's terms, with the statistics of all documents."""
    statistics = head.statistics(LEXICAL[place])
    terms = np.array(sorted(frequencies), np.uint64)
    sizes = [len(one.hashes) for one in counted]
    nothing = np.zeros(0, np.uint64)
    hashes = np.concatenate([nothing, *(one.hashes for one in counted)])
    columns = [one.full if place else one.metadata for one in counted]
    counts = np.concatenate([np.zeros(0, np.uint16), *columns])
    numbers = np.repeat(np.arange(len(counted), dtype=np.int32), sizes)
    kept = np.flatnonzero(np.isin(hashes, terms) & (counts > 0))
    kept = kept[np.argsort(hashes[kept], kind="stable")]
    rows, starts = np.unique(hashes[kept], return_index=True)
    documents, occurrences = numbers[kept], counts[kept]
    lengths = np.array([one.lengths[place] for one in counted], np.int32)
    added = saturation(occurrences, length_norms(lengths, statistics.mean_length)[documents])
    ends = np.append(starts, len(kept)).astype(np.int64)
    segment = LexicalSegment(
        hashes=rows,
        starts=ends,
        documents=documents,
        frequencies=occurrences,
        peaks=np.maximum.reduceat(added, starts) if len(rows) else added,
        lengths=lengths,
        statistics=np.array([statistics.mean_length, statistics.average_idf]),
    )
    shown = segment.document_frequencies(segment.rows(terms))
    everywhere = np.array([frequencies[term][place] for term in terms.tolist()], np.int64)
    return LexicalField((segment,), statistics, TermTally(terms, everywhere - shown))


def _matrix(vectors: Sequence[Sequence[float]], dimensions: int) -> NDArray[np.float32]:
    with checked("the vector of a row"):
        matrix = np.array(vectors, np.float32).reshape(len(vectors), dimensions)
    if not np.isfinite(matrix).all():
        raise CacheError("a vector of the collection is not finite")
    return matrix


def _dense(matrices: Sequence[NDArray[np.float32]]) -> DenseFields:
    """Make the fields of a dense channel from the vectors of metadata and maybe bodies."""
    metadata, body = matrices[0], matrices[1] if len(matrices) > 1 else None
    codes = DenseCodes.build(metadata.shape[1], None)
    codes.add(metadata if body is None else metadata + np.float32(BODY_SHARE) * body)
    return DenseFields(metadata, body, codes)


def _check_chunks(
    documents: Sequence[Document], chunks: Sequence[Chunks | None], dimensions: int
) -> None:
    """Raise `CacheError` unless each document has the chunks that its record names."""
    for document, found in zip(documents, chunks, strict=True):
        shape = (0, dimensions) if found is None else found.vectors.shape
        if shape != (len(document.chunks), dimensions):
            raise CacheError("the chunks of a row do not fit its record")


def _chunk_index(chunks: Sequence[Chunks | None], dimensions: int) -> ChunkIndex | None:
    """Make the index of all chunks; None if there are none."""
    present = [one for one in chunks if one is not None]
    if not present:
        return None
    sets = [terms for one in present for terms in one.terms]
    return ChunkIndex(
        starts=_starts([0 if one is None else len(one.terms) for one in chunks]),
        vectors=np.concatenate([one.vectors for one in present]),
        term_starts=_starts([len(terms) for terms in sets]),
        terms=np.concatenate(sets),
    )


def _starts(lengths: Sequence[int]) -> NDArray[np.int64]:
    """Return where each of some runs starts, and where the last ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
