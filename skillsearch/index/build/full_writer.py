"""Writes all skills as one segment: reads what changed, and takes over the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from skillsearch.embedders.embedding import KEY_BYTES
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.index.build.changes import FileChanges
from skillsearch.index.build.embedding_queue import Channel, EmbeddingQueue
from skillsearch.index.build.reading import FileReader
from skillsearch.index.build.snapshot import SeenFile
from skillsearch.index.chunk_index import ChunkWriter, term_set
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.dense.vectors import DenseWriter
from skillsearch.index.documents import Document
from skillsearch.index.fields import FieldTexts, embeds_body
from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.segments import FULL, METADATA, save_shadowed
from skillsearch.index.storage.document_store import DocumentWriter
from skillsearch.index.storage.numbering import numbered
from skillsearch.types import Diagnostic, Progress, Root

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

_BLOCK = 512
"""Files handled together: the vectors of kept documents are looked up at once."""
_VECTORS = 4_096
"""Vectors held in memory at a time."""


class FullWriter:
    """Writes a segment of all files in order of their ids, in memory that stays flat.

    Attributes:
        seen: The files that were read, by path.
        diagnostics: What was reported of them.
        size: How many documents were written.
        reused: How many of them were taken over.
        removed: How many documents of the old index are gone.
        embedded: How many texts were embedded.
        truncated: How many of them were cut at the token limit.
        kept: No part of the old generation.
    """

    def __init__(
        self,
        changes: FileChanges,
        previous: OpenedIndex | None,
        channels: Sequence[Channel],
        reader: FileReader,
        *,
        roots: Sequence[Root],
        with_body: bool,
        progress: Progress,
    ) -> None:
        """Prepare to write the files of a walk, compared with the old index."""
        self.seen: dict[str, SeenFile] = {}
        self.diagnostics: list[Diagnostic] = []
        self.size = self.reused = self.removed = self.embedded = self.truncated = 0
        self.kept: Sequence[str] = ()
        self._changes = changes
        self._corpus = previous.corpus if previous else None
        self._channels = channels
        self._scripts = [channel.embedder.scripts for channel in channels]
        self._reader = reader
        self._roots = [str(root.path) for root in roots]
        self._with_body = with_body
        self._progress = progress
        self._before = _Numbered(self._corpus)

    def write(self, folder: Path) -> None:
        """Write the segment; raises KeyError if a vector was lost meanwhile."""
        files = self._changes.files
        caches = [channel.cache for channel in self._channels]
        with SegmentWriter(folder, caches, self._corpus, with_body=self._with_body) as writer:
            with EmbeddingQueue(self._channels, self._progress) as queue:
                for begin in range(0, len(files), _BLOCK):
                    self._write_block(range(begin, min(begin + _BLOCK, len(files))), writer, queue)
                queue.finish()
                self.embedded, self.truncated = queue.embedded, queue.truncated
            writer.finish()
        save_shadowed(folder, self._roots, with_body=self._with_body)
        self.size, self.reused = writer.size, writer.reused
        self.removed += self._before.size

    def _write_block(
        self, places: Sequence[int], writer: SegmentWriter, queue: EmbeddingQueue
    ) -> None:
        """Take over or read some files."""
        files, is_kept = self._changes.files, self._changes.is_kept
        before = {place: self._before.find(files[place].doc_id) for place in places}
        kept = {place: found for place, found in before.items() if found and is_kept[place]}
        lacking = queue.lacking([document for _, document in kept.values()])
        usable = dict(
            place for place, lacks in zip(kept.items(), lacking, strict=True) if not lacks
        )
        for place, found in before.items():
            size = writer.size
            if place in usable:
                number, document = usable[place]
                writer.keep(document, number)
            else:
                self._read(place, writer, queue)
            self.removed -= bool(found) and writer.size > size
            self._progress("read", place + 1, len(files))

    def _read(self, place: int, writer: SegmentWriter, queue: EmbeddingQueue) -> None:
        """Read a file, unless it was read already and cannot be indexed."""
        file, refused = self._changes.files[place], self._changes.refused.get(place)
        found = refused or self._reader.read(file)
        self.seen[str(file.path)] = found.seen
        self.diagnostics.extend(found.diagnostics)
        texts = found.texts(self._scripts, with_body=self._with_body)
        if texts is not None:
            writer.add(texts)
            queue.add(texts, (place + 1) / len(self._changes.files))


class SegmentWriter:
    """Writes a segment of new documents and of documents taken over from another corpus.

    Vectors come last, from the caches; until then only their keys are kept. Use it as a context
    manager: leaving it closes the files, finished or not.

    Attributes:
        size: How many documents there are so far.
        reused: How many of them were taken over.
    """

    def __init__(
        self,
        folder: Path,
        caches: Sequence[EmbeddingCache],
        before: Corpus | None,
        *,
        with_body: bool,
    ) -> None:
        """Begin to write; `before` is the other corpus, and there is one cache a channel."""
        self.size = self.reused = 0
        self._folder = folder
        self._caches = caches
        self._before = before
        self._with_body = with_body
        self._renumber = np.full(before.documents.size if before else 0, -1, np.int32)
        self._documents = DocumentWriter(folder)
        self._fields = {METADATA: LexicalWriter(folder, METADATA)}
        if with_body:
            self._fields[FULL] = LexicalWriter(folder, FULL)
        self._chunks = ChunkWriter(folder, caches[0].dimensions)
        self._open_files = ExitStack()
        self._open_files.callback(self._documents.close)
        self._open_files.callback(self._chunks.close)
        self._keys = [(bytearray(), bytearray()) for _ in caches]
        self._chunk_keys = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open_files.close()

    def add(self, texts: FieldTexts) -> None:
        """Write a new document, whose id follows those written before."""
        self._fields[METADATA].add(self.size, texts.metadata_terms)
        if self._with_body:
            self._fields[FULL].add(self.size, texts.full_terms)
        self._chunks.add(self.size, [term_set(chunk.terms) for chunk in texts.chunks])
        self._add(texts.document)

    def keep(self, document: Document, number: int) -> None:
        """Take over a document by its number in the other corpus; ids ascend as in `add`."""
        assert self._before is not None
        self._renumber[number] = self.size
        chunks, place = self._before.chunks_of(number)
        if chunks is not None:
            self._chunks.add(self.size, chunks.terms_of(place))
        self.reused += 1
        self._add(document)

    def finish(self) -> None:
        """Write the rest; raises KeyError if a vector is in none of the caches."""
        self._documents.finish()
        for name, writer in self._fields.items():
            self._take_over(name, writer)
            writer.finish(self.size)
        chunk_keys = _words(self._chunk_keys)
        for begin in range(0, len(chunk_keys), _VECTORS):
            self._chunks.add_vectors(self._caches[0].matrix(chunk_keys[begin : begin + _VECTORS]))
        self._chunks.finish(self.size)
        for number, cache in enumerate(self._caches):
            self._write_dense(number, cache)
            cache.compact(self._all_keys(number))

    def _add(self, document: Document) -> None:
        """Write what every document has."""
        self._documents.add(document)
        for (metadata, bodies), keys in zip(self._keys, document.keys, strict=True):
            metadata += bytes.fromhex(keys[0])
            bodies += bytes.fromhex(keys[1])
        for _, _, key in document.chunks:
            self._chunk_keys += bytes.fromhex(key)
        self.size += 1

    def _take_over(self, name: str, writer: LexicalWriter) -> None:
        """Copy the postings of the documents that were kept."""
        if self._before is None or not self.reused:
            return
        full = self._before.lexical_full
        field = self._before.lexical_metadata if name == METADATA or full is None else full
        for first, segment in numbered(field.segments):
            writer.take_over(segment, self._renumber[first : first + segment.size])

    def _write_dense(self, number: int, cache: EmbeddingCache) -> None:
        """Write the vectors of a channel."""
        with_body = embeds_body(number, with_body=self._with_body)
        writer = DenseWriter(
            self._folder, f"dense-{number}", cache.dimensions, self.size, with_body=with_body
        )
        metadata, bodies = map(_words, self._keys[number])
        for begin in range(0, self.size, _VECTORS):
            block = slice(begin, begin + _VECTORS)
            body = cache.matrix(bodies[block]) if with_body else None
            writer.add(cache.matrix(metadata[block]), body)
        writer.finish()

    def _all_keys(self, number: int) -> NDArray[np.uint64]:
        """Return the keys of all texts of a channel."""
        keys = [*self._keys[number], *([self._chunk_keys] if number == 0 else [])]
        return np.concatenate(list(map(_words, keys)))


class _Numbered:
    """The documents of a corpus with their numbers, found in ascending order of ids."""

    def __init__(self, corpus: Corpus | None) -> None:
        self.size = len(corpus.documents) if corpus else 0
        self._documents = self._iterate(corpus)
        self._next = next(self._documents, None)

    def find(self, doc_id: str) -> tuple[int, Document] | None:
        """Return the number and document of an id; every id follows the one before."""
        while self._next is not None and self._next[1].doc_id < doc_id:
            self._next = next(self._documents, None)
        found = self._next
        return found if found is not None and found[1].doc_id == doc_id else None

    def _iterate(self, corpus: Corpus | None) -> Iterator[tuple[int, Document]]:
        for number in corpus.documents.living.tolist() if corpus else ():
            assert corpus is not None
            yield number, corpus.documents[number]


def _words(keys: bytearray) -> NDArray[np.uint64]:
    """Return keys that follow each other as an array of two words each."""
    assert len(keys) % KEY_BYTES == 0
    return np.frombuffer(keys, "<u8").reshape(-1, 2)
