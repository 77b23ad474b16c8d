"""The documents of a corpus.

Documents have numbers, through all segments; those that are gone keep theirs. Within a segment
numbers follow the order of ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.index.documents import KNOWN, Document
from skillsearch.index.storage.document_segment import DocumentSegment
from skillsearch.index.storage.numbering import locate, numbered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skillsearch.index.storage.sealed_parts import DamageGuard


class DocumentStore(Iterable[Document]):
    """The documents of a corpus of one segment, or of two: a large one and what changed since.

    Its length and iteration are of the living documents alone; every number and array is of all.

    Attributes:
        segments: The segments.
        gone: Numbers of documents that are there no more, int64, ascending.
        places: For each document of the second segment, how many ids of the first, those that are
            gone included, come before its own, int64.
        shadowed: Numbers of living documents that their name does not mean, int64, ascending; no
            search finds them.
    """

    def __init__(
        self,
        segments: Sequence[DocumentSegment],
        gone: NDArray[np.int64] | None = None,
        places: NDArray[np.int64] | None = None,
        shadowed: NDArray[np.int64] | None = None,
        guard: DamageGuard | None = None,
    ) -> None:
        """Take the segments.

        Args:
            segments: One, or two.
            gone: Numbers of documents that are there no more, ascending.
            places: As the attribute; none for one segment.
            shadowed: Numbers of documents that their name does not mean, ascending.
            guard: What the segments are read in; None if they lie in memory.
        """
        self.segments = tuple(segments)
        self.gone = np.zeros(0, np.int64) if gone is None else gone
        self.places = np.zeros(0, np.int64) if places is None else places
        self.shadowed = np.zeros(0, np.int64) if shadowed is None else shadowed
        self._guard = guard or nullcontext()

    @classmethod
    def build(cls, documents: Sequence[Document]) -> DocumentStore:
        """Store documents that are sorted by id."""
        return cls([DocumentSegment.build(documents)])

    @property
    def size(self) -> int:
        """How many numbers there are; one more than the highest."""
        return sum(segment.size for segment in self.segments)

    def __len__(self) -> int:
        return self.size - len(self.gone)

    @cached_property
    def trust(self) -> NDArray[np.float32]:
        """`Document.trust` of all documents, float32."""
        return self._joined("trust")

    @cached_property
    def fluency(self) -> NDArray[np.float32]:
        """`Document.fluency` of all documents, float32."""
        return self._joined("fluency")

    @cached_property
    def hidden(self) -> NDArray[np.bool_]:
        """`Document.hidden` of all documents, bool."""
        return self._joined("hidden")

    @cached_property
    def names(self) -> NDArray[np.uint64]:
        """`name_hash` of all documents, uint64."""
        return self._joined("names")

    @cached_property
    def living(self) -> NDArray[np.int64]:
        """Numbers of the documents that are there, in order of their ids, int64."""
        numbers = np.arange(self.segments[0].size)
        if len(self.segments) > 1:
            added = len(numbers) + np.arange(self.segments[1].size)
            with self._guard:
                numbers = np.insert(numbers, self.places, added)
        return numbers[~np.isin(numbers, self.gone)] if len(self.gone) else numbers

    @cached_property
    def left_out(self) -> NDArray[np.int64]:
        """Numbers of the documents that no search finds, those gone included, int64, ascending."""
        return np.sort(np.concatenate([self.gone, self.shadowed]))

    @cached_property
    def searched(self) -> NDArray[np.int64]:
        """Numbers of the documents that searches can find, in order of their ids, int64."""
        living = self.living
        return living[~np.isin(living, self.shadowed)] if len(self.shadowed) else living

    @property
    def searched_size(self) -> int:
        """How many documents searches can find."""
        return len(self) - len(self.shadowed)

    @cached_property
    def by_body(self) -> Mapping[str, Sequence[int]]:
        """Numbers by `Document.body_hash`, where there is one; reads every document."""
        found: dict[str, list[int]] = {}
        for number in self.living.tolist():
            if body_hash := self[number].body_hash:
                found.setdefault(body_hash, []).append(number)
        return found

    @cached_property
    def other_share(self) -> float:
        """Share of what is searched in languages that a model for English does not know."""
        searched = self.searched
        return float(np.mean(self.fluency[searched] < KNOWN)) if len(searched) else 0.0

    @cached_property
    def mean_trust(self) -> float:
        """Mean of the trust of what is searched; 1 without any."""
        searched = self.searched
        return float(np.mean(self.trust[searched], dtype=np.float64)) if len(searched) else 1.0

    def __getitem__(self, number: int) -> Document:
        """Read one document.

        Args:
            number: Its number; it may be one that is gone.

        Returns:
            The document.

        Raises:
            IndexError: When there is no such number.
            CacheError: When its record is damaged.
        """
        at, place = locate(self.segments, number)
        with self._guard:
            return self.segments[at].read(place)

    def __iter__(self) -> Iterator[Document]:
        return (self[number] for number in self.living.tolist())

    def in_order(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return keys that sort documents by their ids, int64, one for each number."""
        if len(self.segments) == 1:
            return numbers
        first, second = (segment.size for segment in self.segments)
        is_added = numbers >= first
        added = np.where(is_added, numbers - first, second)
        places = self.places[np.where(is_added, added, 0)] if second else numbers
        return np.where(is_added, places, numbers) * (second + 1) + added

    def named(self, name: str) -> list[int]:
        """Return the documents that have a name, in any spelling of case, hyphens and spaces."""
        with self._guard:
            found = np.concatenate(
                [segment.named(name) + first for first, segment in numbered(self.segments)]
            )
        if len(self.gone):
            found = found[~np.isin(found, self.gone)]
        if len(self.segments) > 1:
            found = found[np.argsort(self.in_order(found), kind="stable")]
        numbers: list[int] = found.tolist()
        return numbers

    def number_of(self, doc_id: str) -> int | None:
        """Return the number of the document with an id, or None where there is none."""
        with self._guard:
            for first, segment in numbered(self.segments):
                place = segment.number_of(doc_id)
                if place is not None and not self.is_gone(first + place):
                    return first + place
        return None

    def ids_with(self, prefix: str) -> Iterator[str]:
        """Yield the ids of the documents that begin with a prefix, segment by segment."""
        for first, segment in numbered(self.segments):
            with self._guard:
                begin = segment.place_of(prefix)
            for number in range(first + begin, first + segment.size):
                doc_id = self[number].doc_id
                if not doc_id.startswith(prefix):
                    break
                if not self.is_gone(number):
                    yield doc_id

    def is_gone(self, number: int) -> bool:
        """Tell whether the document of a number is there no more."""
        place = int(np.searchsorted(self.gone, number))
        return place < len(self.gone) and int(self.gone[place]) == number

    def _joined(self, name: str) -> NDArray[Any]:
        """Return an array of all segments, without a copy where there is one."""
        arrays = [getattr(segment, name) for segment in self.segments]
        joined: NDArray[Any] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return joined
