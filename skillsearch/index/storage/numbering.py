"""Numbering documents through the segments of a corpus; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Sized(Protocol):
    """A part of a segment."""

    @property
    def size(self) -> int:
        """Number of documents."""


Part = TypeVar("Part", bound=Sized)


def numbered(parts: Iterable[Part]) -> Iterator[tuple[int, Part]]:
    """Yield parts, each with the number of its first document."""
    first = 0
    for part in parts:
        yield first, part
        first += part.size


def locate(parts: Sequence[Sized], number: int) -> tuple[int, int]:
    """Return the place of the part that holds a document, and its number in that part.

    Raises IndexError when there is no such number.
    """
    for place, (first, part) in enumerate(numbered(parts)):
        if first <= number < first + part.size:
            return place, number - first
    raise IndexError(number)


def within(documents: NDArray[np.int64], first: int, part: Sized) -> slice:
    """Return the slice of ascending document numbers that lie in a part."""
    begin, end = documents.searchsorted((first, first + part.size)).tolist()
    return slice(begin, end)
