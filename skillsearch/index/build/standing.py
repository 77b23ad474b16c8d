"""Which documents of a new generation others stand for: namesakes that shadow them, near-copies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.index.corpus import (
    IndexSettings,
    lexical_names,
    load_segment,
    save_tombstones,
)
from skillsearch.index.dense.vectors import DenseChannel, DenseFields
from skillsearch.index.families import Likeness, find_families
from skillsearch.index.names import shadowed_numbers
from skillsearch.index.storage.arrivals import note_arrivals
from skillsearch.index.storage.document_store import DocumentSegment, DocumentStore

Numbers = NDArray[np.int64]


class Standing:
    """Finds out who stands for whom in a corpus of some segments.

    `place` is the folder of the index. `before` is the store of the index before, and `renumber`
    the number that each of its documents has now, -1 if it is gone or changed; without them all
    families are formed anew.
    """

    def __init__(
        self,
        settings: IndexSettings,
        place: Path,
        before: DocumentStore | None = None,
        renumber: NDArray[np.integer] | None = None,
    ) -> None:
        self._settings, self._place = settings, place
        self._before, self._renumber = before, renumber

    def save(self, folder: Path) -> None:
        """Write the tombstones of a corpus of one segment, if some of its documents do not count.

        A CacheError if it cannot be read again.
        """
        with_body = self._settings.with_body
        channels = len(self._settings.channels)
        documents, lexical, dense, _ = load_segment(folder, "", channels, with_body)
        store = self.find([documents], [[one] for one in dense])
        if len(store.uncounted):
            names = lexical_names(with_body=with_body)
            pairs = zip(names, lexical, strict=True)
            save_tombstones(
                folder, store, {name: ((one,), one.tally(store.signs)) for name, one in pairs}
            )

    def find(
        self,
        segments: list[DocumentSegment],
        dense: list[list[DenseFields]],
        deleted: Numbers | None = None,
        places: Numbers | None = None,
    ) -> DocumentStore:
        """Return the store of some segments, given their vectors by channel, with who stands."""
        nothing = np.zeros(0, np.int64)
        gone = nothing if deleted is None else deleted
        placed = nothing if places is None else places
        store = DocumentStore(segments, gone, placed)
        shadowed = shadowed_numbers(store, self._settings.root_paths)
        channels = self._settings.channels
        limits = [channel.likeness for channel in channels]
        found = [DenseChannel(tuple(fields)) for fields in dense]
        likeness = Likeness(store, found, limits, self._settings.aliases)
        before = self._carried(store.size, shadowed)
        known = self._before.ids[self._before.living] if self._before else None
        arrivals = note_arrivals(self._place, store.ids[store.living], known)
        families = find_families(likeness, shadowed, before, arrivals)
        return DocumentStore(segments, gone, placed, shadowed, families)

    def _carried(self, size: int, shadowed: Numbers) -> Numbers | None:
        """Return the leader before of each document, -1 if it has to be looked for.

        That is so if one of its family is gone.
        """
        if self._before is None or self._renumber is None:
            return None
        found = np.full(size, -1, np.int64)
        table = self._before.families
        is_kept = self._renumber >= 0
        old = np.flatnonzero(is_kept)
        new, leaders = self._renumber[old], table.leaders_of(old)
        found[new] = self._renumber[leaders]
        # What came into the shade, or out of it, has another place in the order.
        was = new[np.isin(old, self._before.shadowed)]
        is_moved = np.isin(new, np.setxor1d(was, shadowed))
        lost = table.leaders_of(np.concatenate([np.flatnonzero(~is_kept), old[is_moved]]))
        found[new[is_moved | np.isin(leaders, lost)]] = -1
        return found
