"""One way through all files: what changed is read, the rest kept, and all of it written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from skillsearch.index.build.reading import Comparison, read_file
from skillsearch.index.build.segment_writer import SegmentWriter
from skillsearch.index.build.snapshot import SeenFiles
from skillsearch.index.build.text_embedding import Channel, TextEmbedding
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.documents import Document
from skillsearch.index.segments import save_shadowed
from skillsearch.types import Diagnostic, Progress, Root, SkillFile

_BLOCK = 512
"""Files that are looked at together; the vectors of kept documents are checked at once."""


class IndexingPass:
    """Writes a segment of all files, in order of their ids and in memory that stays flat.

    Attributes:
        seen: Every file as it was found.
        diagnostics: What was reported, of documents that were kept as well.
        size: How many documents were written.
        reused: How many of them were kept.
        removed: How many documents of the index before are gone.
        embedded: How many texts were embedded.
        truncated: How many of them were cut at the token limit.
    """

    def __init__(
        self,
        comparison: Comparison,
        previous: OpenedIndex | None,
        channels: Sequence[Channel],
        roots: Sequence[Root],
        *,
        with_body: bool,
        progress: Progress,
    ) -> None:
        """Prepare to go through the files.

        Args:
            comparison: The files, and which of them changed.
            previous: The index that they were compared with.
            channels: The dense channels.
            roots: The roots, in order of precedence.
            with_body: False for the metadata alone.
            progress: Told how many files are read and how many texts are embedded.
        """
        self.seen = SeenFiles()
        self.diagnostics: list[Diagnostic] = []
        self.size = self.reused = self.removed = self.embedded = self.truncated = 0
        self._comparison = comparison
        self._previous = previous
        self._channels = channels
        self._scripts = [channel.embedder.scripts for channel in channels]
        self._roots = [str(root.path) for root in roots]
        self._with_body = with_body
        self._progress = progress
        self._reported = diagnostics_by_path(previous)
        self._before = _Numbered(previous)

    def write(self, folder: Path, check: Callable[[int, int], None]) -> None:
        """Write the segment.

        Args:
            folder: Where to write.
            check: Called now and then with how many documents a model for English does not know
                and how many there can be at most, and in the end with how many there are. It may
                raise, to end the pass.

        Raises:
            EmbedderError: When a text could not be embedded.
            OSError: When a file cannot be written whole.
            KeyError: When a vector was lost meanwhile.
        """
        files = self._comparison.files
        caches = [channel.cache for channel in self._channels]
        before = self._previous.corpus if self._previous else None
        with SegmentWriter(folder, caches, before, with_body=self._with_body) as writer:
            with TextEmbedding(self._channels, self._progress) as embedding:
                try:
                    for begin in range(0, len(files), _BLOCK):
                        places = range(begin, min(begin + _BLOCK, len(files)))
                        self._go_through(places, writer, embedding)
                        check(writer.others, len(files))
                    check(writer.others, writer.size)
                    embedding.finish()
                finally:
                    self.embedded, self.truncated = embedding.embedded, embedding.truncated
            writer.finish()
        save_shadowed(folder, self._roots, with_body=self._with_body)
        self.size, self.reused = writer.size, writer.reused
        self.removed += self._before.size

    def _go_through(
        self, places: Sequence[int], writer: SegmentWriter, embedding: TextEmbedding
    ) -> None:
        """Keep or read some files."""
        files = self._comparison.files
        before = [self._before.find(files[place].doc_id) for place in places]
        kept = {
            place: found
            for place, found in zip(places, before, strict=True)
            if found and self._comparison.is_kept[place]
        }
        lacking = embedding.lacking([document for _, document in kept.values()])
        usable = {
            place: found
            for (place, found), lacks in zip(kept.items(), lacking, strict=True)
            if not lacks
        }
        for place, found in zip(places, before, strict=True):
            size = writer.size
            if place in usable:
                self._keep(place, *usable[place], writer)
            else:
                self._read(place, writer, embedding)
            self.removed -= bool(found) and writer.size > size
            self._progress("read", place + 1, len(files))

    def _keep(self, place: int, number: int, document: Document, writer: SegmentWriter) -> None:
        """Take over a document unread."""
        writer.keep(document, number)
        self.seen.add(document.path, self._comparison.seen(place))
        self.diagnostics.extend(self._reported.get(document.path, ()))

    def _read(self, place: int, writer: SegmentWriter, embedding: TextEmbedding) -> None:
        """Read a file, unless it was read already and cannot be indexed."""
        file: SkillFile = self._comparison.files[place]
        found = self._comparison.refused.get(place) or read_file(file)
        texts = found.texts(self._scripts, with_body=self._with_body)
        self.seen.add(str(file.path), found.seen)
        self.diagnostics.extend(found.diagnostics)
        if texts is not None:
            writer.add(texts)
            embedding.add(texts, (place + 1) / len(self._comparison.files))


class _Numbered:
    """The documents of an index with their numbers, found in ascending order of ids."""

    def __init__(self, index: OpenedIndex | None) -> None:
        self._corpus = index.corpus if index else None
        self.size = len(index.corpus.documents) if index else 0
        self._documents = self._iterate()
        self._next = next(self._documents, None)

    def find(self, doc_id: str) -> tuple[int, Document] | None:
        """Return the document with an id and its number; every id follows the one before."""
        while self._next is not None and self._next[1].doc_id < doc_id:
            self._next = next(self._documents, None)
        found = self._next
        return found if found is not None and found[1].doc_id == doc_id else None

    def _iterate(self) -> Iterator[tuple[int, Document]]:
        """Yield all documents in order of their ids."""
        if self._corpus is not None:
            documents = self._corpus.documents
            for number in documents.living.tolist():
                yield number, documents[number]


def diagnostics_by_path(index: OpenedIndex | None) -> dict[str, list[Diagnostic]]:
    """Return what was reported when an index was made, by path."""
    found: dict[str, list[Diagnostic]] = {}
    for diagnostic in index.diagnostics() if index else ():
        found.setdefault(diagnostic.path, []).append(diagnostic)
    return found
