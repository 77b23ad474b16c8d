"""Writes a few changed skills as a delta segment beside the base segment, which is kept.

The delta segment is written whole each time, until so much has changed that the two are merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.index.build.embedding import EmbeddingQueue
from skillsearch.index.build.full_writer import Update, Written
from skillsearch.index.chunk_index import ChunkWriter, term_set
from skillsearch.index.corpus import DELTA, FULL, METADATA, Corpus, Tombstones
from skillsearch.index.dense.vectors import DenseWriter
from skillsearch.index.fields import FieldTexts
from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.postings import LexicalSegment, TermTally
from skillsearch.index.names import shadowed_numbers
from skillsearch.index.storage.document_store import DocumentSegment, DocumentStore

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DeltaLimits:
    """When changes are written as a delta instead of into the corpus.

    Attributes:
        least_documents: A smaller corpus is rewritten within seconds, and stays one segment.
        most_changed: Skills that came, changed or went since the base segment was written, before
            all is rewritten; a delta of this size is written in half a second.
        most_at_once: Skills that may come, change or go in one run; their terms are held in memory.
    """

    least_documents: int = 20_000
    most_changed: int = 5_000
    most_at_once: int = 1_000

    def allow(self, corpus: Corpus, changes: int) -> bool:
        """Return whether so many changes of a corpus are better written as a delta."""
        store = corpus.documents
        base = store.segments[0].size
        changed = store.size - base + len(store.deleted) + 2 * changes
        fits = changes <= self.most_at_once and changed <= self.most_changed
        return base >= self.least_documents and fits


LIMITS = DeltaLimits()


class DeltaWriter:
    """Applies changes to an index by writing a delta segment and tombstones.

    Attributes:
        is_empty: Whether no document came, changed or went.
        kept: The parts of the generation before that stay as they are.
    """

    def __init__(self, update: Update) -> None:
        """Read the files that came or changed, and decide which documents the delta has."""
        assert update.previous is not None
        self._update = update
        self._corpus = update.previous.corpus
        self.kept = [
            part
            for part in update.previous.generation.parts
            if not part.startswith(DELTA) and part != "diagnostics.json"
        ]
        before = self._corpus.documents
        self._base = before.segments[0]
        gone = set(update.changes.removed_ids)
        self._texts: dict[str, FieldTexts] = {}
        files = update.changes.to_read
        for done, file in enumerate(files, start=1):
            if texts := update.texts(file):
                self._texts[file.doc_id] = texts
            else:
                gone.add(file.doc_id)
            update.progress("read", done, len(files))
        self._gone = {doc_id for doc_id in gone if before.number_of(doc_id) is not None}
        self.is_empty = not self._gone and not self._texts
        replaced = self._gone | self._texts.keys()
        # The documents of the delta, each with its number in the delta before, or -1.
        members = [(texts.document, -1) for texts in self._texts.values()]
        for number in range(self._base.size, before.size):
            document = before[number]
            if document.doc_id not in replaced:
                members.append((document, number - self._base.size))
        self._members = sorted(members, key=lambda member: member[0].doc_id)
        found = {self._base.number_of(doc_id) for doc_id in replaced}
        newly = [number for number in found if number is not None]
        self._deleted = np.union1d(before.deleted, np.array(newly, np.int64))

    def write(self, folder: Path) -> Written:
        """Embed what is new, and write the delta segment and the tombstones."""
        channels = self._update.channels
        with EmbeddingQueue(channels, self._update.progress) as queue:
            for done, texts in enumerate(self._texts.values(), start=1):
                queue.add(texts, done / len(self._texts))
            queue.finish()
        added = DocumentSegment.build([document for document, _ in self._members])
        added.save(folder, DELTA)
        fields = {METADATA: self._corpus.lexical_metadata}
        if self._corpus.lexical_full is not None:
            fields[FULL] = self._corpus.lexical_full
        written = {
            name: (field.segments[0], self._write_lexical(folder, name, field))
            for name, field in fields.items()
        }
        for number, channel in enumerate(channels):
            self._write_dense(folder, number, channel.cache)
        if FULL in fields:
            self._write_chunks(folder, channels[0].cache)
        known = self._corpus.documents.places
        places = [
            self._base.place_of(document.doc_id) if old < 0 else known[old]
            for document, old in self._members
        ]
        store_with = partial(
            DocumentStore, [self._base, added], self._deleted, np.array(places, np.int64)
        )
        store = store_with(shadowed_numbers(store_with(), self._update.roots))
        adjustments = {
            name: self._adjust(field, written[name][1], store) for name, field in fields.items()
        }
        Tombstones.of(store, written, adjustments).save(folder)
        size, new = len(store), len(self._texts)
        return Written(size, size - new, queue.embedded, len(self._gone), queue.truncated)

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
                writer.add(number, texts.metadata_terms if name == METADATA else texts.full_terms)
        writer.finish(len(self._members))
        return LexicalSegment.load(folder, f"{DELTA}{name}")

    def _adjust(
        self, field: LexicalField, added: LexicalSegment, documents: DocumentStore
    ) -> TermTally:
        """Return the document-frequency adjustments for the documents that are not searched."""
        base = field.segments[0]
        before, now = _signs(self._corpus.documents), _signs(documents)
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
        with_body = base.body is not None
        writer = DenseWriter(
            folder,
            f"{DELTA}dense-{number}",
            base.metadata.shape[1],
            len(self._members),
            with_body=with_body,
            beside_codes=base.codes is not None,
        )
        for document, old in self._members:
            rows: list[NDArray[Any]]
            if old >= 0:
                both = (segments[1].metadata, segments[1].body)
                rows = [column[old : old + 1] for column in both if column is not None]
            else:
                keys = document.keys[number][: 1 + with_body]
                rows = [cache.matrix([bytes.fromhex(key)]) for key in keys]
            writer.add(rows[0], rows[1] if with_body else None)
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
