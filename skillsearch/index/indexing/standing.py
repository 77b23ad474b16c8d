"""Which documents of a new generation others stand for: namesakes that shadow them, near-copies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.index.corpus import IndexSettings, load_segment, save_tombstones
from skillsearch.index.dense.likeness import copies_from
from skillsearch.index.dense.vectors import DenseChannel
from skillsearch.index.families import Likeness, find_families
from skillsearch.index.names import shadowed_numbers
from skillsearch.index.storage.arrivals import note_arrivals
from skillsearch.index.storage.document_store import DocumentSegment, DocumentStore
from skillsearch.index.storage.numbering import Numbers


@dataclass(frozen=True, slots=True)
class Standing:
    """Finds out who stands for whom in a corpus of some segments.

    `place` is the folder of the index. `before` is the store of the index before, if there is one,
    and `renumber` the number that each of its documents has now, -1 if it is gone or changed;
    without it all families are formed anew.
    """

    settings: IndexSettings
    place: Path
    before: DocumentStore | None
    renumber: NDArray[np.integer]

    def save(self, folder: Path) -> None:
        """Write the tombstones of a corpus of one segment, if some of its documents do not count.

        A CacheError if it cannot be read again.
        """
        channels, with_body = len(self.settings.channels), self.settings.with_body
        documents, lexical, dense, _ = load_segment(folder, "", channels, with_body)
        nothing = np.zeros(0, np.int64)
        store = self.find([documents], [DenseChannel((one,)) for one in dense], nothing, nothing)
        if len(store.uncounted):
            save_tombstones(folder, store, [((one,), one.tally(store.signs)) for one in lexical])

    def find(
        self,
        segments: list[DocumentSegment],
        dense: list[DenseChannel],
        deleted: Numbers,
        places: Numbers,
    ) -> DocumentStore:
        """Return the store of some segments, given their vectors by channel, with who stands."""
        store = DocumentStore(segments, deleted, places)
        shadowed = shadowed_numbers(store, self.settings.roots)
        limits = [copies_from(channel.model) for channel in self.settings.channels]
        likeness = Likeness(store, dense, limits, self.settings.aliases)
        before = self._carried(store.size, shadowed)
        known = None if self.before is None else self.before.ids[self.before.living]
        arrivals = note_arrivals(self.place, store.ids[store.living], known)
        families = find_families(likeness, shadowed, before, arrivals)
        return DocumentStore(segments, deleted, places, shadowed, families)

    def _carried(self, size: int, shadowed: Numbers) -> Numbers | None:
        """Return the leader before of each document, -1 if it has to be looked for.

        That is so if one of its family is gone.
        """
        if self.before is None:
            return None
        found = np.full(size, -1, np.int64)
        table = self.before.families
        is_kept = self.renumber >= 0
        old = np.flatnonzero(is_kept)
        new, leaders = self.renumber[old], table.leaders_of(old)
        found[new] = self.renumber[leaders]
        # What came into the shade, or out of it, has another place in the order.
        was = new[np.isin(old, self.before.shadowed)]
        is_moved = np.isin(new, np.setxor1d(was, shadowed))
        lost = table.leaders_of(np.concatenate([np.flatnonzero(~is_kept), old[is_moved]]))
        found[new[is_moved | np.isin(leaders, lost)]] = -1
        return found
