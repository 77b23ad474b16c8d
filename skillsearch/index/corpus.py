"""All parts of an index together: what a generation holds and a search reads."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import CacheError
from skillsearch.index.chunk_index import ChunkIndex
from skillsearch.index.dense.channels import ChannelSettings
from skillsearch.index.dense.vectors import DenseChannel
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.request import IndexRequest
from skillsearch.index.segments import DELTA, FULL, METADATA, Segment, Tombstones, lexical_field
from skillsearch.index.storage.cache import Generation, IndexFolder
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.index.storage.generation_parts import DamageGuard
from skillsearch.index.storage.numbering import locate
from skillsearch.types import LANGUAGES, Diagnostic, JsonValue, Languages, Root

logger = logging.getLogger(__name__)

_DIAGNOSTICS = "diagnostics.json"


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """What decides an index besides the skills in it.

    Attributes:
        roots: The roots, in order of precedence.
        channels: Its dense channels, that of its model first.
        languages: The languages it was asked for.
        could_add: Whether it could have had another channel, and did not need it.
        with_body: False for an index of metadata alone.
        analysis: Versions of the tokenizer and of the fields.
    """

    roots: tuple[Root, ...]
    channels: tuple[ChannelSettings, ...]
    languages: Languages
    could_add: bool
    with_body: bool
    analysis: tuple[int, int]

    def request(self) -> IndexRequest:
        """Return a request for an index of these settings."""
        roots = tuple(root.path for root in self.roots)
        model = self.channels[0].model
        return IndexRequest(roots, model, self.with_body, languages=self.languages)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form, for a manifest."""
        return {
            "roots": [[str(root.path), root.alias] for root in self.roots],
            "channels": [channel.to_dict() for channel in self.channels],
            "languages": self.languages,
            "could_add": self.could_add,
            "with_body": self.with_body,
            "analysis": list(self.analysis),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, JsonValue]) -> IndexSettings:
        """Read the JSON form; raises CacheError if it is another."""
        try:
            channels = tuple(map(ChannelSettings.from_dict, values["channels"]))
            first, second = values["analysis"]
            if not channels or values["languages"] not in LANGUAGES:
                raise ValueError("it has no channel, or is for unknown languages")
            return cls(
                roots=tuple(Root(Path(path), str(alias)) for path, alias in values["roots"]),
                channels=channels,
                languages=values["languages"],
                could_add=bool(values["could_add"]),
                with_body=bool(values["with_body"]),
                analysis=(int(first), int(second)),
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise CacheError(f"the settings of the index have an unknown form: {exc}") from exc


@dataclass(frozen=True, slots=True)
class Corpus:
    """The parts of an opened index, which number documents alike through one or two segments.

    Attributes:
        documents: All documents.
        lexical_metadata: BM25 over the metadata.
        lexical_full: BM25 over metadata and body; None in an index of metadata alone.
        dense: Vectors of each dense channel, that of the index's model first.
        chunks: The chunks of the bodies of each segment; None if it has no chunks.
    """

    documents: DocumentStore
    lexical_metadata: LexicalField
    lexical_full: LexicalField | None
    dense: tuple[DenseChannel, ...]
    chunks: tuple[ChunkIndex | None, ...]

    @classmethod
    def load(
        cls, folder: Path, *, channels: int, with_body: bool, guard: DamageGuard | None = None
    ) -> Corpus:
        """Map the parts of a generation.

        Raises CacheError when a part is missing, damaged, or of another size than the others.
        """
        names = [""]
        if (folder / f"{DELTA}documents-starts.npy").exists():
            names.append(DELTA)
        segments = [
            Segment.load(folder, name, channels=channels, with_body=with_body) for name in names
        ]
        has_tombstones = len(segments) > 1 or Tombstones.is_in(folder)
        tombstones = Tombstones.load(folder, with_body=with_body) if has_tombstones else None
        return cls.of(segments, tombstones, guard)

    @classmethod
    def of(
        cls,
        segments: Sequence[Segment],
        tombstones: Tombstones | None = None,
        guard: DamageGuard | None = None,
    ) -> Corpus:
        """Combine segments; raises CacheError if the tombstones do not fit them."""
        documents = [segment.documents for segment in segments]
        store = DocumentStore(documents, guard=guard)
        if tombstones is not None:
            store = DocumentStore(
                documents, tombstones.deleted, tombstones.places, tombstones.shadowed, guard
            )
            if len(tombstones.places) != sum(segment.size for segment in documents[1:]):
                raise CacheError("the delta segment of the index does not fit its tombstones")
            if not ((store.left_out >= 0) & (store.left_out < store.size)).all():
                raise CacheError("the tombstones of the index does not fit its documents")
        full = FULL in segments[0].lexical
        return cls(
            store,
            lexical_field(METADATA, segments, tombstones),
            lexical_field(FULL, segments, tombstones) if full else None,
            tuple(
                DenseChannel(fields)
                for fields in zip(*(segment.dense for segment in segments), strict=True)
            ),
            tuple(segment.chunks for segment in segments),
        )

    def chunks_of(self, number: int) -> tuple[ChunkIndex | None, int]:
        """Return the chunks of the segment of a document, and its number there."""
        at, place = locate(self.documents.segments, number)
        return self.chunks[at], place


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
        """Open a checked generation; raises CacheError if another version wrote it."""
        settings = IndexSettings.from_dict(generation.settings)
        with generation.guard:
            corpus = Corpus.load(
                generation.folder,
                channels=len(settings.channels),
                with_body=settings.with_body,
                guard=generation.guard,
            )
        return cls(generation, settings, corpus)

    @property
    def guard(self) -> DamageGuard:
        """A context in which to read the corpus, so that damage is reported as such."""
        return self.generation.guard

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Read what was reported when this generation was made, by path.

        Raises CacheError when the part is missing or has another form.
        """
        try:
            with self.guard:
                records = json.loads((self.folder / _DIAGNOSTICS).read_bytes())
                return tuple(Diagnostic(**record) for record in records)
        except (OSError, ValueError, TypeError) as exc:
            raise CacheError(f"the diagnostics of the index cannot be read: {exc}") from exc


def open_current(folder: IndexFolder) -> OpenedIndex | None:
    """Open the generation in use; None if there is none that can be used."""
    while True:
        stamp = folder.stamp()
        try:
            return OpenedIndex.load(folder.open())
        except CacheError as exc:
            # Writers may have removed it after it was checked.
            if folder.stamp() == stamp:
                logger.info("no usable index in %s: %s", folder.path, exc)
                return None


def last_request(folder: IndexFolder) -> IndexRequest | None:
    """Return the last request for an index, reconstructed from its settings if need be."""
    request = IndexRequest.load(folder.path)
    if request is None and (opened := open_current(folder)):
        return opened.settings.request()
    return request


def save_diagnostics(folder: Path, diagnostics: tuple[Diagnostic, ...]) -> None:
    """Write the diagnostics of a generation beside its parts."""
    records = [diagnostic.to_dict() for diagnostic in diagnostics]
    data = json.dumps(records, separators=(",", ":"))
    (folder / _DIAGNOSTICS).write_text(data, encoding="utf-8")
