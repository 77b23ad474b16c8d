"""Writes a few changed skills as a delta segment beside the base segment, which is kept.

The delta segment is written whole each time. After `MOST_CHANGED` changes the two are merged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.index.build.changes import FileChanges
from skillsearch.index.build.embedding_queue import Channel, EmbeddingQueue
from skillsearch.index.build.reading import FileReader
from skillsearch.index.build.snapshot import SeenFile
from skillsearch.index.chunk_index import ChunkWriter, term_set
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.dense.vectors import DenseFields, DenseWriter
from skillsearch.index.fields import FieldTexts
from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.postings import LexicalSegment, TermTally
from skillsearch.index.names import shadowed_numbers
from skillsearch.index.segments import DELTA, FULL, METADATA, Tombstones
from skillsearch.index.storage.document_store import DocumentSegment, DocumentStore
from skillsearch.types import Diagnostic, Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_DOCUMENTS = 20_000
"""A smaller corpus is rewritten within seconds, and stays one segment."""
MOST_CHANGED = 5_000
"""Skills that came, changed or went since the base segment was written, before all is rewritten;
a delta of this size is written in half a second."""
MOST_AT_ONCE = 1_000
"""Skills that may come, change or go in one run; their terms are held in memory."""


def can_write_delta(corpus: Corpus, changes: int) -> bool:
    """Return whether so many changes are better written as a delta than into the corpus."""
    store = corpus.documents
    base = store.segments[0].size
    changed = store.size - base + len(store.deleted)
    fits = changes <= MOST_AT_ONCE and changed + 2 * changes <= MOST_CHANGED
    return base >= LEAST_DOCUMENTS and fits


class DeltaWriter:
    """Applies changes to an index by writing a delta segment and tombstones.

    Attributes:
        seen: The files that were read, by path.
        diagnostics: What was reported of them.
        is_empty: Whether no document came, changed or went.
        size: How many documents the index has then.
        reused: How many of them are unchanged.
        removed: How many documents are gone.
        embedded: How many texts were embedded.
        truncated: How many of them were cut at the token limit.
        kept: The parts of the generation before that stay as they are.
    """

    def __init__(
        self,
        changes: FileChanges,
        previous: OpenedIndex,
        channels: Sequence[Channel],
        reader: FileReader,
        *,
        progress: Progress,
    ) -> None:
        """Read the files that came or changed."""
        self.embedded = self.truncated = 0
        self.seen: dict[str, SeenFile] = {}
        self.diagnostics: list[Diagnostic] = []
        self.kept = [
            part
            for part in previous.generation.parts
            if not part.startswith(DELTA) and part != "diagnostics.json"
        ]
        self._corpus = previous.corpus
        self._roots = [str(root.path) for root in previous.settings.roots]
        self._channels = channels
        self._progress = progress
        self._texts: dict[str, FieldTexts] = {}
        gone = changes.removed_ids(previous.settings.roots)
        scripts = [channel.embedder.scripts for channel in channels]
        files = changes.to_read
        for done, file in enumerate(files, start=1):
            found = reader.read(file)
            self.seen[str(file.path)] = found.seen
            self.diagnostics.extend(found.diagnostics)
            texts = found.texts(scripts, with_body=previous.settings.with_body)
            if texts is None:
                gone.add(file.doc_id)
            else:
                self._texts[file.doc_id] = texts
            progress("read", done, len(files))
        documents = previous.corpus.documents
        gone = {doc_id for doc_id in gone if documents.number_of(doc_id) is not None}
        self._choose_members(gone)
        self.removed = len(gone)
        self.is_empty = not gone and not self._texts
        self.size = self._base.size - len(self._deleted) + len(self._members)
        self.reused = self.size - len(self._texts)

    def _choose_members(self, gone: Collection[str]) -> None:
        """Decide which documents the delta has, each with its number in the one before or -1."""
        before = self._corpus.documents
        self._base = before.segments[0]
        replaced = gone | self._texts.keys()
        members = [(texts.document, -1) for texts in self._texts.values()]
        for number in range(self._base.size, before.size):
            document = before[number]
            if document.doc_id not in replaced:
                members.append((document, number - self._base.size))
        self._members = sorted(members, key=lambda member: member[0].doc_id)
        found = {self._base.number_of(doc_id) for doc_id in replaced}
        newly = [number for number in found if number is not None]
        self._deleted = np.union1d(before.deleted, np.array(newly, np.int64))

    def write(self, folder: Path) -> None:
        """Embed what is new, and write the delta segment and the tombstones."""
        with EmbeddingQueue(self._channels, self._progress) as queue:
            for done, texts in enumerate(self._texts.values(), start=1):
                queue.add(texts, done / len(self._texts))
            queue.finish()
            self.embedded, self.truncated = queue.embedded, queue.truncated
        added = DocumentSegment.build([document for document, _ in self._members])
        added.save(folder, DELTA)
        fields = {METADATA: self._corpus.lexical_metadata}
        if self._corpus.lexical_full is not None:
            fields[FULL] = self._corpus.lexical_full
        written = {
            name: (field.segments[0], self._write_lexical(folder, name, field))
            for name, field in fields.items()
        }
        for number, channel in enumerate(self._channels):
            self._write_dense(folder, number, channel.cache)
        if FULL in fields:
            self._write_chunks(folder, self._channels[0].cache)
        known = self._corpus.documents.places
        places = np.array(
            [
                self._base.place_of(document.doc_id) if old < 0 else known[old]
                for document, old in self._members
            ],
            np.int64,
        )
        store = DocumentStore([self._base, added], self._deleted, places)
        shadowed = shadowed_numbers(store, self._roots)
        store = DocumentStore([self._base, added], self._deleted, places, shadowed)
        adjustments = {
            name: self._adjust(field, written[name][1], store) for name, field in fields.items()
        }
        Tombstones.of(store, written, adjustments).save(folder)

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

    def _adjust(
        self, field: LexicalField, added: LexicalSegment, documents: DocumentStore
    ) -> TermTally:
        """Return the document-frequency adjustments for the documents that are not searched."""
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


def _signs(documents: DocumentStore) -> NDArray[np.int8]:
    """Return -1 for each document that is excluded from searches, else 0."""
    signs = np.zeros(documents.size, np.int8)
    signs[documents.left_out] = -1
    return signs


def _rows_of(fields: DenseFields, number: int) -> list[NDArray[Any]]:
    """Return the vectors of one document, each as a matrix of one row."""
    both = (fields.metadata, fields.body)
    return [rows[number : number + 1] for rows in both if rows is not None]
