"""All parts of an index together: what a generation holds and a search reads.

A corpus is one segment, or a base segment and a delta segment: rewriting a hundred thousand skills
takes minutes, writing down that one changed a moment. The delta (its files begin with ``delta-``)
holds the skills that came or changed; tombstones name the base's skills that are gone and adjust
the statistics of BM25, also for shadowed skills and near-copies: no copy changes a score.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import CacheError, OtherVersionError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.arrays import map_array, save_array
from skillsearch.files.atomic_files import reading
from skillsearch.index.chunk_index import ChunkIndex
from skillsearch.index.dense.query_embedder import ModelSettings
from skillsearch.index.dense.vectors import DenseFields, DenseIndex
from skillsearch.index.documents.document import ANALYSIS, Document
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.postings import (
    LexicalSegment,
    LexicalStatistics,
    TermTally,
    average_idf,
)
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.storage.cache import Generation, IndexFolder
from skillsearch.index.storage.document_store import DocumentSegment, DocumentStore
from skillsearch.index.storage.family_table import FamilyTable
from skillsearch.index.storage.generation_parts import DamageGuard
from skillsearch.index.storage.numbering import locate
from skillsearch.roots.sources import is_bundle, source_behind
from skillsearch.types.json_values import (
    Json,
    JsonObject,
    checked,
    choice_of,
    list_of,
    object_of,
    text_of,
    texts_of,
)
from skillsearch.types.skills import TRUSTS, Diagnostic, Root

# Prefix of the files of the delta segment.
DELTA = "delta-"
Segments = Sequence[LexicalSegment]
METADATA, FULL = "lexical-metadata", "lexical-full"
_NUMBERS = ("deleted", "places", "shadowed")
_FAMILIES: Mapping[str, type] = {"members": np.int64, "leaders": np.int64, "peers": np.bool_}
_DIAGNOSTICS = "diagnostics.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The settings that decide an index besides its skills; roots in order of precedence.

    `analysis`: see `ANALYSIS`; `pending`: the paths of roots whose chunks and examples have words
    and no vectors yet.
    """

    roots: tuple[Root, ...]
    model: ModelSettings
    with_body: bool
    analysis: tuple[int, int]
    pending: tuple[str, ...] = ()

    @property
    def root_paths(self) -> list[str]:
        """The paths of the roots."""
        return [str(root.path) for root in self.roots]

    def root_of(self, document: Document) -> Root:
        """Return the root of a document."""
        return next(root for root in self.roots if str(root.path) == document.root)

    @property
    def aliases(self) -> list[str]:
        """The aliases of the roots, with which the ids of their documents begin."""
        return [root.alias for root in self.roots]

    def request(self) -> IndexRequest:
        """Return a request for an index of these settings; a trust that is usual was not given."""
        roots = tuple(root.path for root in self.roots)
        usual = {True: "fetched", False: "vetted"}
        unusual = (root for root in self.roots if root.trust != usual[bool(root.origin)])
        trust = {str(root.path): root.trust for root in unusual}
        named = tuple(source_behind(root) or str(root) for root in roots)
        sources = named if any(map(is_bundle, named)) else ()
        projects = {str(root.path): root.projects for root in self.roots if root.projects}
        spec = self.model.spec
        return IndexRequest(roots, spec, self.with_body, sources, trust, projects=projects)

    def to_dict(self) -> JsonObject:
        """Return the JSON form, for a manifest."""
        roots = [[str(root.path), *astuple(root)[1:]] for root in self.roots]
        return asdict(self) | {"roots": roots}

    @classmethod
    def from_dict(cls, values: Mapping[str, Json]) -> IndexSettings:
        """Read the JSON form; raises CacheError if it is another."""
        try:
            model = ModelSettings.from_dict(object_of(values["model"]))
            first, second = (checked(version, int) for version in list_of(values["analysis"]))
            roots = tuple(_root(list_of(root)) for root in list_of(values["roots"]))
            pending = texts_of(values["pending"])
            return cls(roots, model, bool(values["with_body"]), (first, second), pending)
        except (KeyError, TypeError, ValueError) as exc:
            raise CacheError(f"the settings of the index have an unknown form: {exc}") from exc


def _root(values: Sequence[Json]) -> Root:
    path, alias, trust, origin, projects, hidden_from = values
    seen_from, unseen_from = texts_of(projects), texts_of(hidden_from)
    folder, level = Path(text_of(path)), choice_of(trust, TRUSTS)
    return Root(folder, text_of(alias), level, text_of(origin), seen_from, unseen_from)


@dataclass(frozen=True, slots=True)
class Corpus:
    """The parts of an opened index, which number documents alike through one or two segments.

    `lexical` are the metadata field and, with bodies, the full one; `dense` has no
    segments while there are words alone; a segment may have no `chunks`.
    """

    documents: DocumentStore
    lexical: tuple[LexicalField, ...]
    dense: DenseIndex
    chunks: tuple[ChunkIndex | None, ...]

    @classmethod
    def load(cls, folder: Path, *, with_body: bool, guard: DamageGuard | None = None) -> Corpus:
        """Map the parts of a generation; a CacheError if one is missing or does not fit."""
        has_delta = (folder / f"{DELTA}documents-starts.npy").exists()
        prefixes = ("", DELTA) if has_delta else ("",)
        segments = [load_segment(folder, prefix, with_body=with_body) for prefix in prefixes]
        documents, lexical, dense, chunks = zip(*segments, strict=True)
        if has_delta or (folder / f"{DELTA}deleted.npy").exists():
            families = FamilyTable(*(_read(folder, *part) for part in _FAMILIES.items()))
            deleted, places, shadowed = (_read(folder, name) for name in _NUMBERS)
            store = DocumentStore(documents, deleted, places, shadowed, families, guard)
            names = lexical_names(with_body=with_body)
            fields = []
            for name, parts in zip(names, zip(*lexical, strict=True), strict=True):
                count, *means = _read(folder, f"{name}-all", np.float64, 3).tolist()
                hashes = _read(folder, f"{name}-adjusted", np.uint64)
                counts = _read(folder, f"{name}-adjustments", size=len(hashes))
                statistics = LexicalStatistics(int(count), *means)
                fields.append(LexicalField(parts, statistics, TermTally(hashes, counts)))
            if len(store.places) != store.size - documents[0].size:
                raise CacheError("the delta segment of the index does not fit its tombstones")
            are_inside = ((store.left_out >= 0) & (store.left_out < store.size)).all()
            if not are_inside or not families.is_consistent(store.size):
                raise CacheError("the tombstones of the index do not fit its documents")
        else:
            store = DocumentStore(documents, guard=guard)
            fields = list(map(LexicalField.of, lexical[0]))
        return cls(store, tuple(fields), DenseIndex(dense), chunks)

    def chunks_of(self, number: int) -> tuple[ChunkIndex | None, int]:
        """Return the chunks of the segment of a document, and its number there."""
        at, local = locate(self.documents.segments, number)
        return self.chunks[at], local


@dataclass(frozen=True, slots=True)
class OpenedIndex:
    """A generation with its settings and parts."""

    generation: Generation
    settings: IndexSettings
    corpus: Corpus

    @property
    def name(self) -> str:
        """Name of the generation."""
        return self.generation.name

    @property
    def folder(self) -> Path:
        """Where its parts lie."""
        return self.generation.folder

    @classmethod
    def load(cls, generation: Generation) -> OpenedIndex:
        """Open a checked generation; a CacheError if it is unusable or of another version."""
        settings = IndexSettings.from_dict(generation.settings)
        if settings.analysis != ANALYSIS:
            raise OtherVersionError(f"its analysis is {settings.analysis}, not {ANALYSIS}")
        with generation.guard:
            folder, with_body = generation.folder, settings.with_body
            corpus = Corpus.load(folder, with_body=with_body, guard=generation.guard)
        widths = {part.dimensions for part in corpus.dense.segments}
        if widths != {settings.model.dimensions}:
            raise CacheError(f"the vectors of {settings.model.spec!r} do not have its dimensions")
        return cls(generation, settings, corpus)

    @property
    def guard(self) -> DamageGuard:
        """A context in which to read the corpus, so that damage is reported as such."""
        return self.generation.guard

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Read the diagnostics of this generation's build; a CacheError if it is damaged."""
        try:
            path = self.folder / _DIAGNOSTICS
            with self.guard, reading(path):
                return tuple(Diagnostic(**record) for record in json.loads(path.read_bytes()))
        except TypeError as exc:
            raise CacheError(f"the diagnostics of the index cannot be read: {exc}") from exc


def open_current(folder: IndexFolder) -> OpenedIndex | None:
    """Open the generation in use; None if there is none that can be used."""
    try:
        return open_settled(folder)
    except CacheError as exc:
        logger.info("no usable index in %s: %s", folder.path, exc)
        return None


def other_version(folder: IndexFolder) -> str:
    """Return in what an index that another version wrote differs; empty if none did."""
    try:
        open_settled(folder)
    except OtherVersionError as exc:
        return str(exc)
    except CacheError:
        pass
    return ""


def open_settled(folder: IndexFolder) -> OpenedIndex:
    """Open the generation in use; a CacheError if it is unusable or of another version."""
    # Writers may have removed it after it was checked.
    return folder.settled(lambda: OpenedIndex.load(folder.open()))


def save_diagnostics(folder: Path, diagnostics: tuple[Diagnostic, ...]) -> None:
    """Write the diagnostics of a generation next to its parts."""
    data = json.dumps([diagnostic.to_dict() for diagnostic in diagnostics], separators=(",", ":"))
    (folder / _DIAGNOSTICS).write_text(data, encoding="utf-8")


def save_tombstones(
    folder: Path, documents: DocumentStore, fields: Sequence[tuple[Segments, TermTally]]
) -> None:
    """Write which documents do not count, and the BM25 statistics of the others.

    `fields` are the segments of each field, and the corrections of its document frequencies.
    """
    arrays = {name: getattr(documents, name) for name in _NUMBERS}
    arrays |= {name: getattr(documents.families, name) for name in _FAMILIES}
    for name, (segments, corrections) in zip((METADATA, FULL), fields):  # noqa: B905 (maybe only metadata)
        counted = count_statistics(documents, segments, corrections)
        arrays[f"{name}-all"] = np.array(astuple(counted), np.float64)
        arrays[f"{name}-adjusted"] = corrections.hashes
        arrays[f"{name}-adjustments"] = corrections.counts
    for name, array in arrays.items():
        save_array(folder / f"{DELTA}{name}.npy", array)


def count_statistics(
    documents: DocumentStore, segments: Segments, corrections: TermTally
) -> LexicalStatistics:
    """Return the BM25 statistics of a field without the documents that do not count."""
    lengths = np.concatenate([segment.lengths for segment in segments])
    lengths[documents.uncounted] = 0
    base, *added = segments
    tallies = [TermTally(segment.hashes, np.diff(segment.starts)) for segment in added]
    changes = TermTally.total([corrections, *tallies])
    rows, frequencies = base.rows(changes.hashes), np.diff(base.starts)
    frequencies[rows[rows >= 0]] += changes.counts[rows >= 0]
    frequencies = np.concatenate([frequencies, changes.counts[rows < 0]])
    count = documents.counted_size
    mean_length = int(lengths.sum(dtype=np.int64)) / max(count, 1)
    return LexicalStatistics(count, mean_length, average_idf(frequencies[frequencies > 0], count))


def lexical_names(*, with_body: bool) -> tuple[str, ...]:
    """Return the names of the lexical fields of an index."""
    return (METADATA, FULL) if with_body else (METADATA,)


def load_segment(
    folder: Path, prefix: str, *, with_body: bool
) -> tuple[DocumentSegment, list[LexicalSegment], DenseFields, ChunkIndex | None]:
    """Map the parts of one segment; a CacheError if one is missing or does not fit."""
    documents = DocumentSegment.load(folder, prefix)
    names = lexical_names(with_body=with_body)
    lexical = [LexicalSegment.load(folder, f"{prefix}{name}") for name in names]
    dense = DenseFields.load(folder, f"{prefix}dense")
    chunks = ChunkIndex.find(folder, prefix) if with_body else None
    if len(sizes := {part.size for part in (documents, chunks, dense, *lexical) if part}) != 1:
        raise CacheError(f"the parts of the index differ in size: {sorted(sizes)}")
    return documents, lexical, dense, chunks


def _read(folder: Path, name: str, dtype: type = np.int64, size: int | None = None) -> NDArray[Any]:
    array = map_array(folder / f"{DELTA}{name}.npy")
    if array.dtype != dtype or array.ndim != 1 or (size is not None and len(array) != size):
        raise CacheError(f"the part {name!r} of the index has an unknown form")
    return array
