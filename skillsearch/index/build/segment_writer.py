"""The documents of a run → all parts of a segment, written one document after the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.embedders.embedding_keys import KEY_BYTES
from skillsearch.index.chunk_index import ChunkWriter, term_set
from skillsearch.index.corpus import Corpus
from skillsearch.index.dense.vectors import DenseWriter
from skillsearch.index.documents import KNOWN, Document
from skillsearch.index.fields import FieldTexts, embeds_body
from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.segments import FULL, METADATA
from skillsearch.index.storage.document_segment import DocumentWriter
from skillsearch.index.storage.numbering import numbered

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

_BLOCK = 4_096
"""Vectors that are held in memory at a time."""


class SegmentWriter:
    """Writes a segment of new documents and of such that another corpus has.

    Vectors come last, out of the caches: until then only their keys are kept. Use it as a context
    manager: leaving it closes the files, finished or not.

    Attributes:
        size: How many documents there are so far.
        reused: How many of them the other corpus has.
        others: How many of them a model for English does not know.
    """

    def __init__(
        self,
        folder: Path,
        caches: Sequence[EmbeddingCache],
        before: Corpus | None,
        *,
        with_body: bool,
    ) -> None:
        """Begin to write.

        Args:
            folder: Where to write.
            caches: The vectors of each dense channel.
            before: The other corpus.
            with_body: False for the metadata alone.

        Raises:
            OSError: When a file cannot be written.
        """
        self.size = self.reused = self.others = 0
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
        """Write a new document, whose id follows those written before.

        Args:
            texts: Its texts.

        Raises:
            OSError: When it cannot be written.
        """
        self._fields[METADATA].add(self.size, texts.metadata_terms)
        if self._with_body:
            self._fields[FULL].add(self.size, texts.full_terms)
        self._chunks.add(self.size, [term_set(chunk.terms) for chunk in texts.chunks])
        self._add(texts.document)

    def keep(self, document: Document, number: int) -> None:
        """Write a document of the other corpus, whose id follows those written before.

        Args:
            document: The document.
            number: Its number there.

        Raises:
            OSError: When it cannot be written.
        """
        assert self._before is not None
        self._renumber[number] = self.size
        chunks, place = self._before.chunks_of(number)
        if chunks is not None:
            self._chunks.add(self.size, chunks.terms_of(place))
        self.reused += 1
        self._add(document)

    def finish(self) -> None:
        """Write the rest.

        Raises:
            OSError: When it cannot be written whole.
            KeyError: When the vector of a text is in none of the caches.
        """
        self._documents.finish()
        for name, writer in self._fields.items():
            self._take_over(name, writer)
            writer.finish(self.size)
        chunk_keys = _words(self._chunk_keys)
        for begin in range(0, len(chunk_keys), _BLOCK):
            self._chunks.add_vectors(self._caches[0].matrix(chunk_keys[begin : begin + _BLOCK]))
        self._chunks.finish(self.size)
        for number, cache in enumerate(self._caches):
            self._write_dense(number, cache)
            cache.compact(self._all_keys(number))

    def _add(self, document: Document) -> None:
        """Write what is written of every document."""
        self._documents.add(document)
        for (metadata, bodies), keys in zip(self._keys, document.keys, strict=True):
            metadata += bytes.fromhex(keys[0])
            bodies += bytes.fromhex(keys[1])
        for _, _, key in document.chunks:
            self._chunk_keys += bytes.fromhex(key)
        self.others += document.fluency < KNOWN
        self.size += 1

    def _take_over(self, name: str, writer: LexicalWriter) -> None:
        """Have a field take the postings of the documents that were kept."""
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
        for begin in range(0, self.size, _BLOCK):
            block = slice(begin, begin + _BLOCK)
            body = cache.matrix(bodies[block]) if with_body else None
            writer.add(cache.matrix(metadata[block]), body)
        writer.finish()

    def _all_keys(self, number: int) -> NDArray[np.uint64]:
        """Return the keys of all texts of a channel."""
        keys = [*self._keys[number], *([self._chunk_keys] if number == 0 else [])]
        return np.concatenate(list(map(_words, keys)))


def _words(keys: bytearray) -> NDArray[np.uint64]:
    """Return keys that stand one behind the other as an array of two words each."""
    assert len(keys) % KEY_BYTES == 0
    return np.frombuffer(keys, "<u8").reshape(-1, 2)
