"""Writes an index: all skills as one segment, or a few changed ones as a delta next to it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import KEY_BYTES
from skillsearch.errors import CacheError
from skillsearch.index.chunk_index import ChunkWriter, term_set
from skillsearch.index.corpus import (
    DELTA,
    METADATA,
    Corpus,
    IndexSettings,
    OpenedIndex,
    lexical_names,
    load_segment,
    save_tombstones,
)
from skillsearch.index.dense.vectors import DenseIndex, DenseWriter, mean_vector
from skillsearch.index.documents.document import Document, FieldTexts, field_texts
from skillsearch.index.indexing.changes import FileChanges
from skillsearch.index.indexing.embedding import CachedEmbedder, EmbeddingQueue
from skillsearch.index.indexing.options import SegmentLimits
from skillsearch.index.indexing.representatives import Representatives
from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.lexical.postings import TermTally
from skillsearch.index.storage.document_store import DocumentStore, DocumentWriter
from skillsearch.index.storage.numbering import numbered
from skillsearch.types.indexing import Progress
from skillsearch.types.skills import SkillFile

_VECTORS = 4_096
"""Vectors held in memory at a time."""
_NO_KEY = "00" * KEY_BYTES
"""In place of the key of a text that is not embedded."""


@dataclass(frozen=True, slots=True)
class Update:
    """Changes to be written to the index in a folder, and what embeds them."""

    changes: FileChanges
    settings: IndexSettings
    cached: CachedEmbedder
    progress: Progress
    limits: SegmentLimits
    folder: Path

    def texts(self, file: SkillFile) -> FieldTexts | None:
        """Read a file; None if it cannot be indexed."""
        if not (skill := self.changes.reader.read(file)):
            return None
        is_pending = str(file.root.path) in self.settings.pending
        return field_texts(skill, with_body=self.settings.with_body, metadata_only=is_pending)


@dataclass(frozen=True, slots=True)
class Written:
    """Counts of a new generation, named as in `IndexReport`."""

    indexed: int
    reused: int
    embedded: int = 0
    removed: int = 0
    truncated: int = 0


def write_full(folder: Path, update: Update) -> Written:
    """Write all files in order of their ids as one segment."""
    files, is_kept = update.changes.files, update.changes.is_kept
    corpus = update.changes.index.corpus if update.changes.index else None
    removed = len(corpus.documents) if corpus else 0
    with SegmentWriter(folder, update) as writer:
        for position, before in enumerate(_matches(files, corpus)):
            size = writer.size
            if corpus and before and is_kept[position]:
                writer.keep(corpus, *before)
            elif texts := update.texts(files[position]):
                writer.add(texts, (position + 1) / len(files))
            removed -= bool(before) and writer.size > size
            update.progress("read", position + 1, len(files))
        writer.finish()
    store = corpus.documents if corpus else None
    finder = Representatives(
        update.settings, update.folder, store, writer.renumber, update.progress
    )
    finder.save(folder)
    queue = writer.queue
    return Written(writer.size, writer.reused, queue.embedded, removed, queue.truncated)


class SegmentWriter(AbstractContextManager["SegmentWriter"]):
    """Writes a segment of new documents and of documents taken over from the index before.

    Vectors come last, from the `queue` or the index before. Leaving it as a context manager closes
    the files, finished or not. Its `size` counts all documents so far, `reused` those that were
    taken over; `renumber` has the number here of each document of the index before, -1 if it is not
    taken over.
    """

    def __init__(
        self, folder: Path, update: Update, prefix: str = "", *, beside_codes: bool = False
    ) -> None:
        """Begin to write files with a prefix; `beside_codes` is as for `DenseWriter`."""
        self.size = self.reused = 0
        self.queue = EmbeddingQueue(update.cached, update.progress, folder)
        self._folder, self._prefix, self._beside_codes = folder, prefix, beside_codes
        self._update = update
        self._before = before = update.changes.index.corpus if update.changes.index else None
        self._taken_over = [field.segments for field in before.lexical] if before else []
        self.renumber = np.full(before.documents.size if before else 0, -1, np.int32)
        self._documents = DocumentWriter(folder, prefix)
        names = lexical_names(with_body=update.settings.with_body)
        self._fields = [
            LexicalWriter(folder, f"{prefix}{name}", with_words=name == METADATA) for name in names
        ]
        self._dimensions = update.settings.model.dimensions
        self._chunks = ChunkWriter(folder, self._dimensions, prefix)
        # The number in the index before of each document, -1 if it is new, and the keys of the new.
        self._numbers = array("q")
        self._keys = bytearray()
        # The same of each document that has chunks.
        self._chunked: list[tuple[int, bytes]] = []
        # The keys of the examples of each document that has any, by its number.
        self._examples: dict[int, list[bytes]] = {}

    def __exit__(self, *error: object) -> None:
        self.queue.__exit__(*error)
        self._documents.close()
        self._chunks.close()

    def add(self, texts: FieldTexts, share: float) -> None:
        """Write a new document, whose id follows those written before; see `EmbeddingQueue.add`."""
        self.queue.add(texts, share)
        for writer, terms in zip(self._fields, (texts.metadata_terms, texts.full_terms)):  # noqa: B905 (maybe only metadata)
            writer.add(self.size, terms)
        self._chunks.add(self.size, [term_set(chunk.terms) for chunk in texts.chunks])
        self._keys += bytes.fromhex(texts.document.key)
        if texts.document.examples:
            self._examples[self.size] = texts.example_keys
        self._add(texts.document, -1)

    def keep(self, before: Corpus, number: int, document: Document) -> None:
        """Take over a document by its number in the index before; ids ascend as in `add`."""
        self.renumber[number] = self.size
        chunks, position = before.chunks_of(number)
        if chunks is not None:
            self._chunks.add(self.size, chunks.terms_of(position))
        self.reused += 1
        if document.examples:
            self._examples[self.size] = []
        self._add(document, number)

    def finish(self) -> None:
        """Write the rest; a CacheError if vectors of the index before are less exact than ours."""
        is_rounding = self._beside_codes or self.size > self._update.limits.most_flat
        if self.reused and self._dense_before.is_rounded and not is_rounding:
            raise CacheError("the vectors of so few skills are kept as they are, not rounded")
        self.queue.flush()
        self._documents.finish()
        for number, writer in enumerate(self._fields):
            for first, segment in numbered(self._taken_over[number] if self._taken_over else ()):
                renumber = self.renumber[first : first + segment.size]
                if (renumber >= 0).any():
                    writer.take_over(segment, renumber)
            writer.finish(self.size)
        self.queue.finish()
        for number, keys in self._chunked:
            self._chunks.add_vectors(self._chunk_vectors(number, keys))
        self._chunks.finish(self.size)
        dense = DenseWriter(
            self._folder,
            f"{self._prefix}dense",
            self._dimensions,
            self.size,
            with_examples=bool(self._examples),
            beside_codes=self._beside_codes,
            flat_limit=self._update.limits.most_flat,
        )
        fields = [self._vectors(), *([self._example_vectors()] if self._examples else [])]
        for blocks in zip(*fields, strict=True):
            dense.add(*blocks)
        dense.finish()

    @property
    def _dense_before(self) -> DenseIndex:
        """The vectors of the index before, which has some if documents are taken over."""
        if self._before is None:
            raise CacheError("there is no index before to take vectors from")
        return self._before.dense

    def _vectors(self) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of the metadata of all documents, block by block."""
        numbers = np.frombuffer(self._numbers, np.int64)
        keys = np.frombuffer(self._keys, f"V{KEY_BYTES}")
        for begin in range(0, self.size, _VECTORS):
            old = numbers[begin : begin + _VECTORS]
            is_new = old < 0
            rows = np.empty((len(old), self._dimensions), np.float32)
            count = np.count_nonzero(is_new)
            rows[is_new] = self.queue.vectors.matrix(keys[:count].tolist())
            keys = keys[count:]
            if count < len(old):
                rows[~is_new] = self._dense_before.vectors_of(old[~is_new])
            yield rows

    def _example_vectors(self) -> Iterator[NDArray[np.float32]]:
        """Yield for each document the mean vector of its examples, or its metadata vector."""
        begin = 0
        for rows in self._vectors():
            old = np.frombuffer(self._numbers, np.int64)[begin : begin + len(rows)]
            if (old >= 0).any():
                rows[old >= 0] = self._dense_before.vectors_of(old[old >= 0], 1)
            for position in range(len(rows)):
                if keys := self._examples.get(begin + position):
                    rows[position] = mean_vector(self.queue.vectors.matrix(keys))
            begin += len(rows)
            yield rows

    def _chunk_vectors(self, number: int, keys: bytes) -> NDArray[Any]:
        """Return the vectors of the chunks of a document."""
        if self._before and number >= 0:
            chunks, position = self._before.chunks_of(number)
            if chunks is None:
                raise CacheError("the chunks of the index do not fit its documents")
            return chunks.vectors_of(position)
        if not any(keys):
            return np.zeros((len(keys) // KEY_BYTES, self._dimensions), np.float32)
        return self.queue.vectors.matrix(np.frombuffer(keys, f"V{KEY_BYTES}").tolist())

    def _add(self, document: Document, number: int) -> None:
        self._documents.add(document)
        self._numbers.append(number)
        if document.chunks:
            keys = "".join(key or _NO_KEY for _, _, key in document.chunks)
            self._chunked.append((number, bytes.fromhex(keys)))
        self.size += 1


def _matches(
    files: Sequence[SkillFile], corpus: Corpus | None
) -> Iterator[tuple[int, Document] | None]:
    """Yield for each file, by document id, its document in a corpus and the number of that."""
    documents = (
        ((n, corpus.documents[n]) for n in corpus.documents.living.tolist()) if corpus else iter(())
    )
    document = next(documents, None)
    for file in files:
        while document and document[1].doc_id < file.doc_id:
            document = next(documents, None)
        yield document if document and document[1].doc_id == file.doc_id else None


class DeltaWriter:
    """Applies changes to an index; it `is_empty` if there are none, and parts `reused` stay."""

    def __init__(self, update: Update, index: OpenedIndex) -> None:
        """Read the files that came or changed, and decide which documents the delta has."""
        self._update, self._corpus = update, index.corpus
        ours = (part for part in index.generation.parts if not part.startswith(DELTA))
        self.reused = [part for part in ours if part != "diagnostics.json"]
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
        unchanged = ((before[number], number) for number in range(self._base.size, before.size))
        # The documents of the delta, each with its number in the delta before, if it was there.
        members = [(texts.document, -1) for texts in self._texts.values()]
        members += [member for member in unchanged if member[0].doc_id not in replaced]
        self._members = sorted(members, key=lambda member: member[0].doc_id)
        numbers = {self._base.number_of(doc_id) for doc_id in replaced}
        newly = [number for number in numbers if number is not None]
        self._deleted = np.union1d(before.deleted, np.array(newly, np.int64))

    def write(self, folder: Path) -> Written:
        """Embed the new texts, and write the delta segment and the tombstones."""
        update, base = self._update, self._base
        vectors = self._corpus.dense.segments[0]
        has_codes = vectors.codes is not None
        with SegmentWriter(folder, update, DELTA, beside_codes=has_codes) as writer:
            for done, (document, old) in enumerate(self._members, start=1):
                if old < 0:
                    writer.add(self._texts[document.doc_id], done / len(self._members))
                else:
                    writer.keep(self._corpus, old, document)
            writer.finish()
        earlier = self._corpus.documents
        places = [
            base.position_of(document.doc_id) if old < 0 else earlier.places[old - base.size]
            for document, old in self._members
        ]
        with_body = update.settings.with_body
        documents, lexical, dense, _ = load_segment(folder, DELTA, with_body=with_body)
        # The numbers of the base stay.
        added_numbers = writer.renumber[base.size :]
        added_numbers = np.where(added_numbers >= 0, added_numbers + base.size, -1)
        renumber = np.concatenate([np.arange(base.size), added_numbers])
        renumber[self._deleted] = -1
        store = DocumentStore([base, documents], self._deleted, np.array(places, np.int64))
        finder = Representatives(update.settings, update.folder, earlier, renumber, update.progress)
        store = finder.find(store, DenseIndex((vectors, dense)))
        before, now, size = earlier.signs, store.signs, base.size
        fields = []
        for field, added in zip(self._corpus.lexical, lexical, strict=True):
            first = field.segments[0]
            tallies = [field.corrections, added.tally(now[size:])]
            tallies += [segment.tally(-before[size:]) for segment in field.segments[1:]]
            if (now[:size] != before[:size]).any():
                tallies.append(first.tally(now[:size] - before[:size]))
            fields.append(((first, added), TermTally.total(tallies)))
        save_tombstones(folder, store, fields)
        size, new, queue = len(store), len(self._texts), writer.queue
        return Written(size, size - new, queue.embedded, len(self._gone), queue.truncated)
