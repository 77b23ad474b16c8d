"""The segments of a corpus: one that holds all skills, or a base segment and a delta segment.

Rewriting a hundred thousand skills takes minutes, writing down that one changed a moment. So a
delta segment (its files begin with ``delta-``) holds the skills that came or changed, and
`Tombstones` name the ones of the base that are gone and adjust the statistics of BM25.

A corpus with shadowed skills has `Tombstones` too: shadowed skills count for nothing, so that
copies in a later root change no score.
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
from skillsearch.index.names import shadowed_numbers
from skillsearch.index.storage.document_store import DocumentSegment, DocumentStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

DELTA = "delta-"
"""Prefix of the files of the delta segment."""
METADATA, FULL = "lexical-metadata", "lexical-full"


@dataclass(frozen=True, slots=True)
class Segment:
    """The parts of one segment.

    Attributes:
        documents: Its documents.
        lexical: Postings by field: `METADATA` and, unless the index is of metadata alone, `FULL`.
        dense: Its vectors in each dense channel.
        chunks: The chunks of its bodies; None without any.
    """

    documents: DocumentSegment
    lexical: dict[str, LexicalSegment]
    dense: tuple[DenseFields, ...]
    chunks: ChunkIndex | None

    @classmethod
    def load(cls, folder: Path, prefix: str, *, channels: int, with_body: bool) -> Segment:
        """Map the parts of a segment, whose file names begin with a prefix.

        Raises CacheError when a part is missing, damaged, or of another size than the others.
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
class Tombstones:
    """The documents of a corpus that do not count, and the BM25 statistics of the others.

    Attributes:
        deleted: Numbers of the base documents that changed or were removed, int64, ascending.
        places: `DocumentStore.places`; empty for one segment.
        shadowed: Numbers of the living documents that their name does not mean, int64, ascending.
        statistics: BM25 statistics of all searched documents, by lexical field.
        adjustments: Document-frequency adjustments for the documents that are not searched, below
            0, by lexical field.
    """

    deleted: NDArray[np.int64]
    places: NDArray[np.int64]
    shadowed: NDArray[np.int64]
    statistics: Mapping[str, LexicalStatistics]
    adjustments: Mapping[str, TermTally]

    @classmethod
    def of(
        cls,
        documents: DocumentStore,
        fields: Mapping[str, Sequence[LexicalSegment]],
        adjustments: Mapping[str, TermTally],
    ) -> Tombstones:
        """Compute them for documents, their postings, and the adjustments of these."""
        statistics = {
            name: _statistics(segments, documents, adjustments[name])
            for name, segments in fields.items()
        }
        deleted, places, shadowed = documents.deleted, documents.places, documents.shadowed
        return cls(deleted, places, shadowed, statistics, adjustments)

    def save(self, folder: Path) -> None:
        """Write the arrays as ``delta-*.npy`` files."""
        save_array(folder / f"{DELTA}deleted.npy", self.deleted)
        save_array(folder / f"{DELTA}places.npy", self.places)
        save_array(folder / f"{DELTA}shadowed.npy", self.shadowed)
        for name, known in self.statistics.items():
            values = [known.documents, known.mean_length, known.average_idf]
            save_array(folder / f"{DELTA}{name}-all.npy", np.array(values, np.float64))
            tally = self.adjustments[name]
            save_array(folder / f"{DELTA}{name}-adjusted.npy", tally.hashes)
            save_array(folder / f"{DELTA}{name}-adjustments.npy", tally.counts)

    @classmethod
    def load(cls, folder: Path, *, with_body: bool) -> Tombstones:
        """Read what `save` wrote; raises CacheError if an array is missing or malformed."""
        statistics, adjustments = {}, {}
        for name in lexical_fields(with_body=with_body):
            count, mean_length, mean_idf = _read(folder, f"{name}-all", np.float64, 3)
            statistics[name] = LexicalStatistics(int(count), float(mean_length), float(mean_idf))
            hashes = _read(folder, f"{name}-adjusted", np.uint64)
            counts = _read(folder, f"{name}-adjustments", np.int64, len(hashes))
            adjustments[name] = TermTally(hashes, counts)
        deleted, places, shadowed = (
            _read(folder, part, np.int64) for part in ("deleted", "places", "shadowed")
        )
        return cls(deleted, places, shadowed, statistics, adjustments)

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Return whether a generation has tombstones."""
        return (folder / f"{DELTA}deleted.npy").exists()


def save_shadowed(folder: Path, roots: Sequence[str], *, with_body: bool) -> None:
    """Write the tombstones of a corpus of one segment, if it has shadowed skills.

    `roots` are the paths of the roots in order of precedence.
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
    adjustments = {name: segments[0].tally(signs) for name, segments in fields.items()}
    store = DocumentStore(documents, shadowed=shadowed)
    Tombstones.of(store, fields, adjustments).save(folder)


def lexical_field(
    name: str, segments: Sequence[Segment], tombstones: Tombstones | None
) -> LexicalField:
    """Return a lexical field of a corpus; all documents count if there are no tombstones."""
    postings = tuple(segment.lexical[name] for segment in segments)
    if tombstones is None:
        return LexicalField.of(postings[0])
    return LexicalField(postings, tombstones.statistics[name], tombstones.adjustments[name])


def lexical_fields(*, with_body: bool) -> tuple[str, ...]:
    """Return the names of the lexical fields of an index."""
    return (METADATA, FULL) if with_body else (METADATA,)


def _statistics(
    segments: Sequence[LexicalSegment], documents: DocumentStore, adjustments: TermTally
) -> LexicalStatistics:
    """Return the BM25 statistics of all searched documents."""
    lengths = np.concatenate([segment.lengths for segment in segments])
    length = int(lengths.sum(dtype=np.int64))
    length -= int(lengths[documents.left_out].sum(dtype=np.int64))
    hashes, frequencies = segments[0].hashes, np.diff(segments[0].starts)
    for segment in segments[1:]:
        rows, own = segments[0].rows(segment.hashes), np.diff(segment.starts)
        np.add.at(frequencies, rows[rows >= 0], own[rows >= 0])
        hashes = np.concatenate([hashes, segment.hashes[rows < 0]])
        frequencies = np.concatenate([frequencies, own[rows < 0]])
    frequencies = frequencies + adjustments.of(hashes)
    count = documents.searched_size
    mean = average_idf(frequencies[frequencies > 0], count)
    return LexicalStatistics(count, length / max(count, 1), mean)


def _read(folder: Path, name: str, dtype: type, length: int | None = None) -> NDArray[Any]:
    """Map an array of the tombstones and check its form."""
    array = map_array(folder / f"{DELTA}{name}.npy")
    if array.dtype != dtype or array.ndim != 1 or (length is not None and len(array) != length):
        raise CacheError(f"the part {name!r} of the index has an unknown form")
    return array
