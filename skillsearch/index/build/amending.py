"""A few changed skills → the small segment beside a large one, which is not written again.

The small segment is written whole each time; with what is gone from the large one it stays small:
beyond `MOST_CHANGED` skills the two become one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.index.chunk_index import ChunkWriter, term_set
from skillsearch.index.corpus import Corpus
from skillsearch.index.dense.vectors import DenseFields, DenseWriter
from skillsearch.index.documents import Document
from skillsearch.index.fields import FieldTexts
from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.postings import LexicalSegment, TermTally
from skillsearch.index.precedence import shadowed_numbers
from skillsearch.index.segments import DELTA, FULL, METADATA, Revision
from skillsearch.index.storage.document_segment import DocumentSegment
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.discovery import Scope

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_DOCUMENTS = 20_000
"""Skills of a corpus from which on a change is written beside it. Fewer are written anew within
seconds, and stay one segment."""
MOST_CHANGED = 5_000
"""Skills that came, changed or went since the large segment was written, before all are written
anew; to write so many takes half a second."""
MOST_AT_ONCE = 1_000
"""Skills that may come, change or go in one run; their terms are held in memory."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to become of a corpus.

    Attributes:
        texts: Skills that came or changed, by document id.
        removed: Ids of skills that are gone.
    """

    texts: Mapping[str, FieldTexts]
    removed: frozenset[str]

    def __len__(self) -> int:
        return len(self.texts) + len(self.removed)


def can_amend(corpus: Corpus, changes: int) -> bool:
    """Tell whether a number of changes is better written beside a corpus than into it.

    Args:
        corpus: As it is.
        changes: How many skills came, changed or went.

    Returns:
        False where the corpus is small, or too much has changed since it was written.
    """
    store = corpus.documents
    base = store.segments[0].size
    changed = store.size - base + len(store.gone)
    fits = changes <= MOST_AT_ONCE and changed + 2 * changes <= MOST_CHANGED
    return base >= LEAST_DOCUMENTS and fits


class Amender:
    """Writes the small segment of a corpus, and what it makes of the large one."""

    def __init__(self, corpus: Corpus, changes: Changes, roots: Sequence[str]) -> None:
        """Decide which documents the small segment will hold.

        Args:
            corpus: As it is, of one segment or of two.
            changes: What is to become of it; every key of its texts is in the embedding caches.
            roots: Paths of the roots, in order of precedence.
        """
        self._corpus = corpus
        self._texts = changes.texts
        self._base = corpus.documents.segments[0]
        before = corpus.documents
        added = before.segments[1:]
        replaced = changes.removed | changes.texts.keys()
        kept: list[tuple[Document, int]] = []
        for number in range(self._base.size, self._base.size + sum(one.size for one in added)):
            document = before[number]
            if document.doc_id not in replaced:
                kept.append((document, number - self._base.size))
        fresh = [(texts.document, -1) for texts in changes.texts.values()]
        self._members = sorted([*kept, *fresh], key=lambda member: member[0].doc_id)
        found = {self._base.number_of(doc_id) for doc_id in replaced}
        newly = [number for number in found if number is not None]
        self._gone = np.union1d(before.gone, np.array(newly, np.int64))
        self._roots = roots

    @property
    def size(self) -> int:
        """Number of documents once it is done."""
        return self._base.size - len(self._gone) + len(self._members)

    def save(self, folder: Path, caches: Sequence[EmbeddingCache]) -> None:
        """Write the small segment and the revision.

        Args:
            folder: Where to write.
            caches: The vectors of each dense channel.

        Raises:
            OSError: When a file cannot be written whole.
        """
        added = DocumentSegment.build([document for document, _ in self._members])
        added.save(folder, DELTA)
        fields = {METADATA: self._corpus.lexical_metadata}
        if self._corpus.lexical_full is not None:
            fields[FULL] = self._corpus.lexical_full
        written = {
            name: (field.segments[0], self._write_lexical(folder, name, field))
            for name, field in fields.items()
        }
        for number, cache in enumerate(caches):
            self._write_dense(folder, number, cache)
        if FULL in fields:
            self._write_chunks(folder, caches[0])
        known = self._corpus.documents.places
        places = np.array(
            [
                self._base.place_of(document.doc_id) if old < 0 else known[old]
                for document, old in self._members
            ],
            np.int64,
        )
        store = DocumentStore([self._base, added], self._gone, places)
        shadowed = shadowed_numbers(store, self._roots)
        store = DocumentStore([self._base, added], self._gone, places, shadowed)
        corrections = {
            name: self._correct(field, written[name][1], store) for name, field in fields.items()
        }
        Revision.of(store, written, corrections).save(folder)

    def _write_lexical(self, folder: Path, name: str, field: LexicalField) -> LexicalSegment:
        """Write the postings of a field."""
        writer = LexicalWriter(folder, f"{DELTA}{name}")
        for segment in field.segments[1:]:
            renumber = np.full(segment.size, -1, np.int32)
            for number, (_, old) in enumerate(self._members):
                if old >= 0:
                    renumber[old] = number
            writer.take_over(segment, renumber)
        for number, (document, old) in enumerate(self._members):
            if old < 0:
                texts = self._texts[document.doc_id]
                terms = texts.metadata_terms if name == METADATA else texts.full_terms
                writer.add(number, terms)
        writer.finish(len(self._members))
        return LexicalSegment.load(folder, f"{DELTA}{name}")

    def _correct(
        self, field: LexicalField, added: LexicalSegment, documents: DocumentStore
    ) -> TermTally:
        """Count how many documents fewer have each term of those that are not searched."""
        base = field.segments[0]
        before = _signs(self._corpus.documents)
        now = _signs(documents)
        tallies = [field.corrections, added.tally(now[base.size :])]
        tallies += [segment.tally(-before[base.size :]) for segment in field.segments[1:]]
        change = now[: base.size] - before[: base.size]
        if change.any():
            tallies.append(base.tally(change))
        return TermTally.total(tallies)

    def _write_dense(self, folder: Path, number: int, cache: EmbeddingCache) -> None:
        """Write the vectors of a channel."""
        segments = self._corpus.dense[number].segments
        base = segments[0]
        writer = DenseWriter(
            folder,
            f"{DELTA}dense-{number}",
            base.metadata.shape[1],
            len(self._members),
            with_body=base.body is not None,
            beside_codes=not base.codes.is_exact,
        )
        for document, old in self._members:
            if old >= 0:
                rows = _rows_of(segments[1], old)
            else:
                keys = document.keys[number][: 1 if base.body is None else 2]
                rows = [cache.matrix([bytes.fromhex(key)]) for key in keys]
            writer.add(rows[0], rows[1] if len(rows) > 1 else None)
        writer.finish()

    def _write_chunks(self, folder: Path, cache: EmbeddingCache) -> None:
        """Write the chunks of the bodies."""
        dimensions = self._corpus.dense[0].segments[0].metadata.shape[1]
        writer = ChunkWriter(folder, dimensions, DELTA)
        before = self._corpus.chunks[1] if len(self._corpus.chunks) > 1 else None
        for number, (document, old) in enumerate(self._members):
            if old < 0:
                chunks = self._texts[document.doc_id].chunks
                writer.add(number, [term_set(chunk.terms) for chunk in chunks])
                keys = [bytes.fromhex(chunk.record[2]) for chunk in chunks]
                writer.add_vectors(cache.matrix(keys))
            elif before:
                writer.add(number, before.terms_of(old))
                begin, end = before.starts[old : old + 2].tolist()
                writer.add_vectors(before.vectors[begin:end].astype(np.float32))
        writer.finish(len(self._members))


def kept_parts(parts: Collection[str]) -> list[str]:
    """Return the parts of a generation that its amended form has as they are."""
    return [part for part in parts if not part.startswith(DELTA) and part != "diagnostics.json"]


def _signs(documents: DocumentStore) -> NDArray[np.int8]:
    """Return -1 for each document that is not searched, else 0."""
    signs = np.zeros(documents.size, np.int8)
    signs[documents.left_out] = -1
    return signs


def _rows_of(fields: DenseFields, number: int) -> list[NDArray[Any]]:
    """Return the vectors of one document, each as a matrix of one row."""
    both = (fields.metadata, fields.body)
    return [rows[number : number + 1] for rows in both if rows is not None]


def ids_in(documents: DocumentStore, scopes: Iterable[Scope]) -> set[str]:
    """Return the ids of the documents that lie where was looked.

    Args:
        documents: All documents.
        scopes: The folders that were looked at.

    Returns:
        Their ids.
    """
    found: set[str] = set()
    for scope in scopes:
        own = f"{scope.root.alias}:{scope.relative or '.'}"
        if documents.number_of(own) is not None:
            found.add(own)
        if scope.is_deep:
            folder = f"{scope.relative}/" if scope.relative else ""
            found.update(documents.ids_with(f"{scope.root.alias}:{folder}"))
    return found
