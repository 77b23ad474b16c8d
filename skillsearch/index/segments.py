"""The segments of a corpus: one that holds all of it, or a large one and what changed since.

To write a hundred thousand skills anew takes minutes, to write down that one of them changed a
moment. So a small segment (its files begin with ``delta-``) holds the skills that came or changed,
and a `Revision` says which of the large one are gone, and what the whole corpus has become to BM25.

A corpus with shadowed skills has a `Revision` too, be it of one segment or of two: they count for
nothing, so that copies in a later root change no score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.files.arrays import map_array, save_array
from skillsearch.index.chunk_index import ChunkIndex
from skillsearch.index.dense.vectors import DenseFields
from skillsearch.index.fields import embeds_body
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.okapi import average_idf
from skillsearch.index.lexical.postings import LexicalSegment, LexicalStatistics, TermTally
from skillsearch.index.precedence import shadowed_numbers
from skillsearch.index.storage.document_segment import DocumentSegment
from skillsearch.index.storage.document_store import DocumentStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

DELTA = "delta-"
"""What the names of the files of the small segment begin with."""
METADATA, FULL = "lexical-metadata", "lexical-full"


@dataclass(frozen=True, slots=True)
class Segment:
    """The parts of one segment.

    Attributes:
        documents: Its documents.
        lexical: Postings by field, `METADATA` and, unless the index is of metadata alone, `FULL`.
        dense: Its vectors in each dense channel.
        chunks: The chunks of its bodies; None where there are none.
    """

    documents: DocumentSegment
    lexical: dict[str, LexicalSegment]
    dense: tuple[DenseFields, ...]
    chunks: ChunkIndex | None

    @classmethod
    def load(cls, folder: Path, prefix: str, *, channels: int, with_body: bool) -> Segment:
        """Map the parts of a segment.

        Args:
            folder: Where they lie.
            prefix: What their names begin with.
            channels: How many dense channels there are.
            with_body: False for an index of metadata alone.

        Returns:
            The segment.

        Raises:
            CacheError: When a part is missing, damaged, or of another size than the others.
        """
        fields = lexical_fields(with_body=with_body)
        segment = cls(
            DocumentSegment.load(folder, prefix),
            {name: LexicalSegment.load(folder, f"{prefix}{name}") for name in fields},
            tuple(
                DenseFields.load(
                    folder,
                    f"{prefix}dense-{number}",
                    with_body=embeds_body(number, with_body=with_body),
                )
                for number in range(channels)
            ),
            ChunkIndex.load(folder, prefix) if with_body else None,
        )
        sizes = {segment.documents.size, *(one.size for one in segment.lexical.values())}
        sizes.update(fields.size for fields in segment.dense)
        if segment.chunks is not None:
            sizes.add(segment.chunks.size)
        if len(sizes) != 1:
            raise CacheError(f"the parts of the index differ in size: {sorted(sizes)}")
        return segment


@dataclass(frozen=True, slots=True)
class Revision:
    """Which documents of a corpus do not count, and what all others are to BM25.

    Attributes:
        gone: Numbers of the documents of the large segment that changed or were removed, int64,
            ascending.
        places: For each document of the small one, how many ids of the large one come before its
            own, int64; none in a corpus of one segment.
        shadowed: Numbers of the living documents that their name does not mean, int64, ascending.
        statistics: What all documents that are searched are to BM25, by lexical field.
        corrections: For each term of the documents that are not searched, less than 0, how many
            documents fewer have it, by lexical field.
    """

    gone: NDArray[np.int64]
    places: NDArray[np.int64]
    shadowed: NDArray[np.int64]
    statistics: Mapping[str, LexicalStatistics]
    corrections: Mapping[str, TermTally]

    @classmethod
    def of(
        cls,
        documents: DocumentStore,
        fields: Mapping[str, Sequence[LexicalSegment]],
        corrections: Mapping[str, TermTally],
    ) -> Revision:
        """Take the documents of a corpus, its postings, and the corrections of these."""
        statistics = {
            name: _statistics(segments, documents, corrections[name])
            for name, segments in fields.items()
        }
        gone, places, shadowed = documents.gone, documents.places, documents.shadowed
        return cls(gone, places, shadowed, statistics, corrections)

    def save(self, folder: Path) -> None:
        """Write the arrays as ``delta-*.npy`` files.

        Args:
            folder: Where to write.

        Raises:
            OSError: When one cannot be written whole.
        """
        save_array(folder / f"{DELTA}gone.npy", self.gone)
        save_array(folder / f"{DELTA}places.npy", self.places)
        save_array(folder / f"{DELTA}shadowed.npy", self.shadowed)
        for name, known in self.statistics.items():
            values = [known.documents, known.mean_length, known.average_idf]
            save_array(folder / f"{DELTA}{name}-all.npy", np.array(values, np.float64))
            tally = self.corrections[name]
            save_array(folder / f"{DELTA}{name}-corrected.npy", tally.hashes)
            save_array(folder / f"{DELTA}{name}-corrections.npy", tally.counts)

    @classmethod
    def load(cls, folder: Path, *, with_body: bool) -> Revision:
        """Read what `save` wrote.

        Args:
            folder: Where it was written.
            with_body: False for an index of metadata alone.

        Returns:
            The revision.

        Raises:
            CacheError: When an array is missing or has another form.
        """
        statistics, corrections = {}, {}
        for name in lexical_fields(with_body=with_body):
            count, mean_length, mean_idf = _read(folder, f"{name}-all", np.float64, 3)
            statistics[name] = LexicalStatistics(int(count), float(mean_length), float(mean_idf))
            hashes = _read(folder, f"{name}-corrected", np.uint64)
            counts = _read(folder, f"{name}-corrections", np.int64, len(hashes))
            corrections[name] = TermTally(hashes, counts)
        gone, places, shadowed = (
            _read(folder, part, np.int64) for part in ("gone", "places", "shadowed")
        )
        return cls(gone, places, shadowed, statistics, corrections)

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Return whether a generation has one."""
        return (folder / f"{DELTA}gone.npy").exists()


def save_shadowed(folder: Path, roots: Sequence[str], *, with_body: bool) -> None:
    """Write what the shadowed skills of a corpus of one segment make of it; nothing without any.

    Args:
        folder: Where its documents and postings lie.
        roots: Paths of the roots, in order of precedence.
        with_body: False for an index of metadata alone.

    Raises:
        OSError: When a file cannot be written whole.
        CacheError: When what lies there is damaged.
    """
    documents = [DocumentSegment.load(folder)]
    shadowed = shadowed_numbers(DocumentStore(documents), roots)
    if not len(shadowed):
        return
    signs = np.zeros(documents[0].size, np.int8)
    signs[shadowed] = -1
    fields = {
        name: (LexicalSegment.load(folder, name),) for name in lexical_fields(with_body=with_body)
    }
    corrections = {name: segments[0].tally(signs) for name, segments in fields.items()}
    store = DocumentStore(documents, shadowed=shadowed)
    Revision.of(store, fields, corrections).save(folder)


def lexical_field(
    name: str, segments: Sequence[Segment], revision: Revision | None
) -> LexicalField:
    """Return a lexical field of a corpus.

    Args:
        name: Which.
        segments: The segments of the corpus.
        revision: What does not count of them; None if all does.

    Returns:
        The field.
    """
    postings = tuple(segment.lexical[name] for segment in segments)
    if revision is None:
        return LexicalField.of(postings[0])
    return LexicalField(postings, revision.statistics[name], revision.corrections[name])


def lexical_fields(*, with_body: bool) -> tuple[str, ...]:
    """Return the names of the lexical fields of an index."""
    return (METADATA, FULL) if with_body else (METADATA,)


def _statistics(
    segments: Sequence[LexicalSegment], documents: DocumentStore, corrections: TermTally
) -> LexicalStatistics:
    """Return what all documents that are searched are to BM25."""
    lengths = np.concatenate([segment.lengths for segment in segments])
    length = int(lengths.sum(dtype=np.int64))
    length -= int(lengths[documents.left_out].sum(dtype=np.int64))
    hashes, frequencies = segments[0].hashes, np.diff(segments[0].starts)
    for segment in segments[1:]:
        rows, own = segments[0].rows(segment.hashes), np.diff(segment.starts)
        np.add.at(frequencies, rows[rows >= 0], own[rows >= 0])
        hashes = np.concatenate([hashes, segment.hashes[rows < 0]])
        frequencies = np.concatenate([frequencies, own[rows < 0]])
    frequencies = frequencies + corrections.of(hashes)
    count = documents.searched_size
    mean = average_idf(frequencies[frequencies > 0], count)
    return LexicalStatistics(count, length / max(count, 1), mean)


def _read(folder: Path, name: str, dtype: type, length: int | None = None) -> NDArray[Any]:
    """Map an array of a revision and check its form."""
    array = map_array(folder / f"{DELTA}{name}.npy")
    if array.dtype != dtype or array.ndim != 1 or (length is not None and len(array) != length):
        raise CacheError(f"the part {name!r} of the index has an unknown form")
    return array
