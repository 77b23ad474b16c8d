"""Writes a few changed skills as a delta segment, whole each time, beside the base segment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.index.build.embedding import EmbeddingQueue
from skillsearch.index.build.full_writer import SegmentWriter, Update, Written
from skillsearch.index.corpus import DELTA, Corpus, lexical_names, save_tombstones
from skillsearch.index.fields import FieldTexts
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.postings import LexicalSegment, TermTally
from skillsearch.index.names import shadowed_numbers
from skillsearch.index.storage.document_store import DocumentSegment, DocumentStore

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class DeltaLimits:
    """When changes are written as a delta instead of into the corpus.

    A corpus below `least_documents` is rewritten within seconds. At `most_changed` skills since the
    base segment a delta is written in half a second; `most_at_once` have their terms in memory.
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
    """Applies changes to an index; it `is_empty` if there are none, and parts `kept` stay."""

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
        # The documents of the delta, each with its number in the delta before, if it was there.
        members = [(texts.document, -1) for texts in self._texts.values()]
        for number in range(self._base.size, before.size):
            document = before[number]
            if document.doc_id not in replaced:
                members.append((document, number))
        self._members = sorted(members, key=lambda member: member[0].doc_id)
        found = {self._base.number_of(doc_id) for doc_id in replaced}
        newly = [number for number in found if number is not None]
        self._deleted = np.union1d(before.deleted, np.array(newly, np.int64))

    def write(self, folder: Path) -> Written:
        """Embed what is new, and write the delta segment and the tombstones.

        A CacheError if a vector of the delta before was lost: then all is written anew.
        """
        update, base = self._update, self._base
        with EmbeddingQueue(update.channels, update.progress) as queue:
            if any(queue.lacking([document for document, old in self._members if old >= 0])):
                raise CacheError("a vector of a changed skill was lost")
            for done, texts in enumerate(self._texts.values(), start=1):
                queue.add(texts, done / len(self._texts))
            queue.finish()
        has_codes = self._corpus.dense[0].segments[0].codes is not None
        with SegmentWriter(folder, update, DELTA, beside_codes=has_codes) as writer:
            for document, old in self._members:
                if old < 0:
                    writer.add(self._texts[document.doc_id])
                else:
                    writer.keep(old, document)
            writer.finish(compact=False)
        places = [
            base.place_of(document.doc_id)
            if old < 0
            else self._corpus.documents.places[old - base.size]
            for document, old in self._members
        ]
        store_with = partial(
            DocumentStore,
            [base, DocumentSegment.load(folder, DELTA)],
            self._deleted,
            np.array(places, np.int64),
        )
        store = store_with(shadowed_numbers(store_with(), update.settings.root_paths))
        names = lexical_names(with_body=update.settings.with_body)
        fields = {}
        for name, field in zip(names, self._corpus.lexical, strict=True):
            added = LexicalSegment.load(folder, f"{DELTA}{name}")
            fields[name] = ((field.segments[0], added), self._adjust(field, added, store))
        save_tombstones(folder, store, fields)
        size, new = len(store), len(self._texts)
        return Written(size, size - new, queue.embedded, len(self._gone), queue.truncated)

    def _adjust(
        self, field: LexicalField, added: LexicalSegment, documents: DocumentStore
    ) -> TermTally:
        base = field.segments[0]
        before, now = self._corpus.documents.signs, documents.signs
        tallies = [field.corrections, added.tally(now[base.size :])]
        tallies += [segment.tally(-before[base.size :]) for segment in field.segments[1:]]
        change = now[: base.size] - before[: base.size]
        if change.any():
            tallies.append(base.tally(change))
        return TermTally.total(tallies)
