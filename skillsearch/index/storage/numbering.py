"""Arrays of numbers: documents numbered through segments, look-ups, runs; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
"""Numbers of documents, or their places in an array."""
Floats = NDArray[np.float32]
"""Vectors, one a row, and the values computed of them."""
Values = NDArray[np.float64]
"""Features and scores, of a document each."""
Mask = NDArray[np.bool_]
Hashes = NDArray[np.uint64]
"""Of terms, ids or texts."""
NOTHING: Numbers = np.zeros(0, np.int64)


class Sized(Protocol):
    """A part of a segment."""

    @property
    def size(self) -> int:
        """Number of documents."""


_Part = TypeVar("_Part", bound=Sized)


def numbered(parts: Iterable[_Part]) -> Iterator[tuple[int, _Part]]:
    """Yield parts, each with the number of its first document."""
    first = 0
    for part in parts:
        yield first, part
        first += part.size


def locate(parts: Sequence[Sized], number: int) -> tuple[int, int]:
    """Return the place of the part that holds a document, and its number there; or IndexError."""
    for position, (first, part) in enumerate(numbered(parts)):
        if first <= number < first + part.size:
            return position, number - first
    raise IndexError(number)


def divided(documents: Numbers, parts: Iterable[_Part]) -> Iterator[tuple[int, _Part, Numbers]]:
    """Yield what `numbered` does, with those of ascending documents that a part has, by its own."""
    for first, part in numbered(parts):
        begin, end = documents.searchsorted((first, first + part.size)).tolist()
        yield first, part, documents[begin:end] - first


def find_sorted(values: Numbers | Hashes, wanted: Numbers | Hashes) -> Numbers:
    """Return the place of each wanted number among ascending ones, -1 if it is not there."""
    if not len(values):
        return np.full(len(wanted), -1, np.int64)
    places = np.minimum(values.searchsorted(wanted), len(values) - 1)
    return np.where(values[places] == wanted, places, -1)


def run_starts(lengths: NDArray[np.integer | np.bool_]) -> Numbers:
    """Return the start of each of several consecutive runs, and the end of the last."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def union(*parts: Numbers) -> Numbers:
    """Return the distinct numbers of several arrays, ascending."""
    # `numpy.unique` does the same, but its first call imports numpy.ma: 4 % of a cold query.
    numbers = np.sort(np.concatenate(parts))
    is_first = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
    return numbers[is_first]


def repeats(values: Numbers | Hashes) -> Iterator[Numbers]:
    """Yield the places, ascending, of each value that stands in several."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    ends = np.append(starts[1:], len(order))
    are_several = ends - starts > 1
    for start, end in zip(starts[are_several], ends[are_several], strict=True):
        yield order[start:end]


def without(numbers: Numbers, gone: Numbers) -> Numbers:
    """Return the numbers that are not among others."""
    return numbers[~np.isin(numbers, gone)] if len(gone) else numbers
