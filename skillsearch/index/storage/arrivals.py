"""Which update of an index brought each skill: of two copies the one that was there first leads.

This is kept beside the generations, since it cannot be told from the skills: their texts, names and
times are whatever their authors make them.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.files.atomic_files import read_record, write_record
from skillsearch.index.storage.numbering import find_sorted

if TYPE_CHECKING:
    from numpy.typing import NDArray

ARRIVALS = "arrivals.json"


def note_arrivals(
    folder: Path, ids: NDArray[np.uint64], before: NDArray[np.uint64] | None
) -> NDArray[np.int64]:
    """Return a number for each skill that is higher the later it came, and remember it.

    `ids` are hashes of document ids, `before` those in the index before. The skills of the first
    index have 0, and so has what came unseen: without an index before, as after damage.
    """
    keys, numbers = _load(folder / ARRIVALS)
    places = find_sorted(keys, ids)
    found = np.where(places >= 0, np.append(numbers, 0)[places], 0)
    if before is not None:
        found[(places < 0) & ~np.isin(ids, before)] = numbers.max(initial=0) + 1
    order = np.argsort(ids)
    order = order[found[order] > 0]
    if (ids[order].tobytes(), found[order].tobytes()) != (keys.tobytes(), numbers.tobytes()):
        record = {"keys": ids[order].tobytes().hex(), "numbers": found[order].tolist()}
        write_record(folder / ARRIVALS, record)
    return found


def _load(path: Path) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    with suppress(CacheError, KeyError, TypeError, ValueError):
        record = read_record(path)
        keys = np.frombuffer(bytes.fromhex(record["keys"]), "<u8")
        numbers = np.array(record["numbers"], np.int64)
        if len(keys) == len(numbers):
            return keys, numbers
    return np.zeros(0, np.uint64), np.zeros(0, np.int64)
