"""Finds each document's representative: a namesake that shadows it, or the first of its copies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.index.corpus import IndexSettings, load_segment, save_tombstones
from skillsearch.index.dense.likeness import copies_from
from skillsearch.index.dense.vectors import DenseIndex
from skillsearch.index.documents.families import Likeness, find_families
from skillsearch.index.documents.shadowing import shadowed_numbers
from skillsearch.index.storage.arrivals import note_arrivals
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.index.storage.numbering import Numbers
from skillsearch.types.indexing import Progress


@dataclass(frozen=True, slots=True)
class Representatives:
    """Finds each document's representative.

    `folder` is the index folder. `before` is the store of the index before, if there is one, and
    `renumber` the number that each of its documents has now, -1 if it is gone or changed; without
    it all families are formed anew. `progress` is told the stage ``compare``.
    """

    settings: IndexSettings
    folder: Path
    before: DocumentStore | None
    renumber: NDArray[np.integer]
    progress: Progress

    def save(self, folder: Path) -> None:
        """Write the tombstones of a corpus of one segment, if some of its documents do not count.

        A CacheError if it cannot be read again.
        """
        documents, lexical, dense, _ = load_segment(folder, "", with_body=self.settings.with_body)
        store = self.find(DocumentStore([documents]), DenseIndex((dense,)))
        if len(store.uncounted):
            tallies = [((part,), part.tally(store.signs)) for part in lexical]
            save_tombstones(folder, store, tallies)

    def find(self, store: DocumentStore, dense: DenseIndex) -> DocumentStore:
        """Return a store that knows its shadowed documents and families, given its vectors."""
        shadowed = shadowed_numbers(store, self.settings.roots)
        limits = copies_from(self.settings.model.spec)
        likeness = Likeness(store, dense, limits, self.settings.aliases)
        leaders = self._leaders_before(store.size, shadowed)
        ids = None if self.before is None else self.before.ids[self.before.living]
        arrivals = note_arrivals(self.folder, store.ids[store.living], ids)
        families = find_families(likeness, shadowed, leaders, arrivals, self.progress)
        return DocumentStore(store.segments, store.deleted, store.places, shadowed, families)

    def _leaders_before(self, size: int, shadowed: Numbers) -> Numbers | None:
        """Return the leader before of each document, -1 if it has to be looked for.

        That is so if one of its family is gone.
        """
        if self.before is None:
            return None
        carried = np.full(size, -1, np.int64)
        table = self.before.families
        is_kept = self.renumber >= 0
        old = np.flatnonzero(is_kept)
        new, leaders = self.renumber[old], table.leaders_of(old)
        carried[new] = self.renumber[leaders]
        # A document that is shadowed now and was not, or the reverse, has another rank.
        shadowed_before = new[np.isin(old, self.before.shadowed)]
        is_moved = np.isin(new, np.setxor1d(shadowed_before, shadowed))
        lost = table.leaders_of(np.concatenate([np.flatnonzero(~is_kept), old[is_moved]]))
        carried[new[is_moved | np.isin(leaders, lost)]] = -1
        return carried
