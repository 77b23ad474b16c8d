"""Which update of an index brought each skill: of two copies the one that was there first leads.

This is kept beside the generations, since it cannot be told from the skills: their texts, names and
times are whatever their authors make them.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.files.atomic_files import read_record, write_record
from skillsearch.index.storage.numbering import Hashes, Numbers, find_sorted
from skillsearch.types.json_values import object_of

ARRIVALS = "arrivals.json"


def note_arrivals(folder: Path, ids: Hashes, before: Hashes | None) -> Numbers:
    """Return a number for each skill that is higher the later it came, and remember it.

    `ids` are hashes of document ids, `before` those in the index before. The skills of the first
    index have 0, and so has what came unseen: without an index before, as after damage.
    """
    recorded = _load(folder / ARRIVALS)
    places = find_sorted(recorded[:, 0], ids)
    numbers = recorded[:, 1].astype(np.int64)
    arrivals = np.where(places >= 0, np.append(numbers, 0)[places], 0)
    if before is not None:
        arrivals[(places < 0) & ~np.isin(ids, before)] = numbers.max(initial=0) + 1
    late = np.argsort(ids)
    late = late[arrivals[late] > 0]
    pairs = np.stack([ids[late], arrivals[late].astype(np.uint64)], axis=1)
    if not np.array_equal(pairs, recorded):
        write_record(folder / ARRIVALS, {"arrivals": pairs.tolist()})
    return arrivals


def _load(path: Path) -> Hashes:
    """Return the ids of skills that came later, ascending, each with its number."""
    with suppress(CacheError, KeyError, TypeError, ValueError, OverflowError):
        return np.array(object_of(read_record(path))["arrivals"], np.uint64).reshape(-1, 2)
    return np.zeros((0, 2), np.uint64)
