"""Writes an index: all skills as one segment, or a few changed ones as a delta beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import CacheError
from skillsearch.index.build.changes import FileChanges
from skillsearch.index.build.embedding import Channel, EmbeddingQueue
from skillsearch.index.build.standing import Standing
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
from skillsearch.index.dense.vectors import FLAT_LIMIT, DenseChannel, DenseWriter
from skillsearch.index.documents import Document, FieldTexts, embeds_body, field_texts
from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.lexical.postings import TermTally
from skillsearch.index.storage.document_store import DocumentWriter
from skillsearch.index.storage.numbering import numbered
from skillsearch.types import Progress, SkillFile

BLOCK = 512
"""Files handled together: the vectors of kept documents are looked up at once."""
_VECTORS = 4_096
"""Vectors held in memory at a time."""


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """When changes are written as a delta instead of into the corpus, and vectors beside codes.

    A corpus below `least_documents` is rewritten within seconds. At `most_changed` skills since the
    base segment a delta is written in half a second; `most_at_once` have their terms in memory. A
    segment of more than `most_flat` is searched by codes of its vectors.
    """

    least_documents: int = 20_000
    most_changed: int = 5_000
    most_at_once: int = 1_000
    most_flat: int = FLAT_LIMIT

    def allow(self, corpus: Corpus, changes: int) -> bool:
        """Return whether so many changes of a corpus are better written as a delta."""
        store = corpus.documents
        base = store.segments[0].size
        changed = store.size - base + len(store.deleted) + 2 * changes
        fits = changes <= self.most_at_once and changed <= self.most_changed
        return base >= self.least_documents and fits


@dataclass(frozen=True, slots=True)
class Update:
    """Changes to be written to the index in a place, and the open channels."""

    changes: FileChanges
    settings: IndexSettings
    channels: Sequence[Channel]
    progress: Progress
    limits: SegmentLimits
    place: Path

    def texts(self, file: SkillFile) -> FieldTexts | None:
        """Read a file; None if it cannot be indexed."""
        skill = self.changes.reader.read(file)
        scripts = [channel.embedder.scripts for channel in self.channels]
        return field_texts(skill, scripts, with_body=self.settings.with_body) if skill else None


@dataclass(frozen=True, slots=True)
class Written:
    """Counts of a new generation, named as in `IndexReport`."""

    indexed: int
    reused: int
    embedded: int = 0
    removed: int = 0
    truncated: int = 0


def write_full(folder: Path, update: Update, *, block: int = BLOCK) -> Written:
    """Write all files in order of their ids as one segment; a KeyError if a vector was lost."""
    files, is_kept = update.changes.files, update.changes.is_kept
    corpus = update.changes.index.corpus if update.changes.index else None
    matches = _matches(files, corpus)
    removed = len(corpus.documents) if corpus else 0
    with SegmentWriter(folder, update) as writer:
        for begin in range(0, len(files), block):
            places = range(begin, min(begin + block, len(files)))
            before = dict(zip(places, matches))  # noqa: B905 (some at a time)
            kept = {at: found for at, found in before.items() if found and is_kept[at]}
            lacking = writer.queue.lacking([document for _, document in kept.values()])
            usable = kept.keys() - set(compress(kept, lacking))
            for place, found in before.items():
                size = writer.size
                if corpus and place in usable:
                    writer.keep(corpus, *kept[place])
                elif texts := update.texts(files[place]):
                    writer.add(texts, (place + 1) / len(files))
                removed -= bool(found) and writer.size > size
                update.progress("read", place + 1, len(files))
        writer.finish()
    known = corpus.documents if corpus else None
    Standing(update.settings, update.place, known, writer.renumber).save(folder)
    queue = writer.queue
    return Written(writer.size, writer.reused, queue.embedded, removed, queue.truncated)


class SegmentWriter(AbstractContextManager["SegmentWriter"]):
    """Writes a segment of new documents and of documents taken over from the index before.

    Vectors come last, from the caches, which the `queue` fills; until then only their keys are
    kept. Leaving it as a context manager closes the files, finished or not. Its `size` counts all
    documents so far, `reused` those that were taken over; `renumber` has the number here of each
    document of the index before, -1 if it is not taken over.
    """

    def __init__(
        self, folder: Path, update: Update, prefix: str = "", *, beside_codes: bool = False
    ) -> None:
        """Begin to write files with a prefix; `beside_codes` is as for `DenseWriter`."""
        self.size = self.reused = 0
        self.queue = EmbeddingQueue(update.channels, update.progress)
        self._folder, self._prefix, self._beside_codes = folder, prefix, beside_codes
        self._update = update
        self._caches = [channel.cache for channel in update.channels]
        before = update.changes.index.corpus if update.changes.index else None
        self._taken_over = [field.segments for field in before.lexical] if before else []
        self.renumber = np.full(before.documents.size if before else 0, -1, np.int32)
        self._documents = DocumentWriter(folder, prefix)
        names = lexical_names(with_body=update.settings.with_body)
        self._fields = [
            LexicalWriter(folder, f"{prefix}{name}", with_words=name == METADATA) for name in names
        ]
        self._chunks = ChunkWriter(folder, self._caches[0].dimensions, prefix)
        self._keys = [(bytearray(), bytearray()) for _ in self._caches]
        self._chunk_keys = bytearray()

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
        self._add(texts.document)

    def keep(self, before: Corpus, number: int, document: Document) -> None:
        """Take over a document by its number in the index before; ids ascend as in `add`."""
        self.renumber[number] = self.size
        chunks, place = before.chunks_of(number)
        if chunks is not None:
            self._chunks.add(self.size, chunks.terms_of(place))
        self.reused += 1
        self._add(document)

    def finish(self, *, compact: bool = True) -> None:
        """Write the rest, a KeyError if a vector is lost; `compact` the caches to this segment."""
        self.queue.finish()
        self._documents.finish()
        for number, writer in enumerate(self._fields):
            for first, segment in numbered(self._taken_over[number] if self._taken_over else ()):
                renumber = self.renumber[first : first + segment.size]
                if (renumber >= 0).any():
                    writer.take_over(segment, renumber)
            writer.finish(self.size)
        chunk_keys = _words(self._chunk_keys)
        for begin in range(0, len(chunk_keys), _VECTORS):
            self._chunks.add_vectors(self._caches[0].matrix(chunk_keys[begin : begin + _VECTORS]))
        self._chunks.finish(self.size)
        for number, cache in enumerate(self._caches):
            metadata, bodies = map(_words, self._keys[number])
            with_body = embeds_body(number, with_body=self._update.settings.with_body)
            embedded = (metadata, bodies) if with_body else (metadata,)
            dense = DenseWriter(
                self._folder,
                f"{self._prefix}dense-{number}",
                cache.dimensions,
                self.size,
                with_body=with_body,
                beside_codes=self._beside_codes,
                flat_limit=self._update.limits.most_flat,
            )
            for begin in range(0, self.size, _VECTORS):
                block = slice(begin, begin + _VECTORS)
                dense.add(*(cache.matrix(keys[block]) for keys in embedded))
            dense.finish()
            if compact:
                others = [] if number else [chunk_keys]
                cache.compact(np.concatenate([metadata, bodies, *others]))

    def _add(self, document: Document) -> None:
        self._documents.add(document)
        for (metadata, bodies), keys in zip(self._keys, document.keys, strict=True):
            metadata += bytes.fromhex(keys[0])
            bodies += bytes.fromhex(keys[1])
        for _, _, key in document.chunks:
            self._chunk_keys += bytes.fromhex(key)
        self.size += 1


def _matches(
    files: Sequence[SkillFile], corpus: Corpus | None
) -> Iterator[tuple[int, Document] | None]:
    """Yield for each file, by document id, its document in a corpus and the number of that."""
    documents = (
        ((n, corpus.documents[n]) for n in corpus.documents.living.tolist()) if corpus else iter(())
    )
    known = next(documents, None)
    for file in files:
        while known and known[1].doc_id < file.doc_id:
            known = next(documents, None)
        yield known if known and known[1].doc_id == file.doc_id else None


def _words(keys: bytearray) -> NDArray[np.uint64]:
    """Return keys that follow each other as an array of two words each."""
    return np.frombuffer(keys, "<u8").reshape(-1, 2)


class DeltaWriter:
    """Applies changes to an index; it `is_empty` if there are none, and parts `kept` stay."""

    def __init__(self, update: Update, index: OpenedIndex) -> None:
        """Read the files that came or changed, and decide which documents the delta has."""
        self._update, self._corpus = update, index.corpus
        self.kept = [
            part
            for part in index.generation.parts
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
        kept = ((before[number], number) for number in range(self._base.size, before.size))
        # The documents of the delta, each with its number in the delta before, if it was there.
        members = [(texts.document, -1) for texts in self._texts.values()]
        members += [member for member in kept if member[0].doc_id not in replaced]
        self._members = sorted(members, key=lambda member: member[0].doc_id)
        found = {self._base.number_of(doc_id) for doc_id in replaced}
        newly = [number for number in found if number is not None]
        self._deleted = np.union1d(before.deleted, np.array(newly, np.int64))

    def write(self, folder: Path) -> Written:
        """Embed what is new, and write the delta segment and the tombstones.

        A CacheError if a vector of the delta before was lost: then all is written anew.
        """
        update, base = self._update, self._base
        has_codes = self._corpus.dense[0].segments[0].codes is not None
        with SegmentWriter(folder, update, DELTA, beside_codes=has_codes) as writer:
            if any(writer.queue.lacking([one for one, old in self._members if old >= 0])):
                raise CacheError("a vector of a changed skill was lost")
            for done, (document, old) in enumerate(self._members, start=1):
                if old < 0:
                    writer.add(self._texts[document.doc_id], done / len(self._members))
                else:
                    writer.keep(self._corpus, old, document)
            writer.finish(compact=False)
        places = [
            base.place_of(document.doc_id)
            if old < 0
            else self._corpus.documents.places[old - base.size]
            for document, old in self._members
        ]
        with_body, channels = update.settings.with_body, len(update.settings.channels)
        documents, lexical, dense, _ = load_segment(folder, DELTA, channels, with_body)
        # The numbers of the base stay.
        kept = writer.renumber[base.size :]
        kept = np.where(kept >= 0, kept + base.size, -1)
        renumber = np.concatenate([np.arange(base.size), kept])
        renumber[self._deleted] = -1
        pairs = zip(self._corpus.dense, dense, strict=True)
        vectors = [DenseChannel((channel.segments[0], added)) for channel, added in pairs]
        known = self._corpus.documents
        standing = Standing(update.settings, update.place, known, renumber)
        store = standing.find([base, documents], vectors, self._deleted, np.array(places, np.int64))
        before, now, size = known.signs, store.signs, base.size
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
