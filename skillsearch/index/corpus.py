"""All parts of an index together: what a generation holds and a search reads."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import CacheError
from skillsearch.index.cache import Generation, IndexFolder
from skillsearch.index.channels import ChannelSettings
from skillsearch.index.chunk_index import ChunkIndex
from skillsearch.index.dense_fields import DenseFields
from skillsearch.index.documents import DocumentStore
from skillsearch.index.lexical import LexicalIndex
from skillsearch.types import LANGUAGES, Diagnostic, JsonValue, Languages, Root

logger = logging.getLogger(__name__)

_DIAGNOSTICS = "diagnostics.json"


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """What decides an index beside the skills in it.

    Attributes:
        roots: The roots, in the order of the user.
        channels: Its dense channels, that of its model first.
        languages: Which languages it was asked for.
        could_add: Whether it could have had another channel, and was found to need none.
        with_body: False for an index of metadata alone.
        analysis: Versions of the tokenizer and of the field rules.
    """

    roots: tuple[Root, ...]
    channels: tuple[ChannelSettings, ...]
    languages: Languages
    could_add: bool
    with_body: bool
    analysis: tuple[int, int]

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
        """Read the JSON form.

        Args:
            values: What `to_dict` gave.

        Returns:
            The settings.

        Raises:
            CacheError: When it has another form.
        """
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
    """The parts of an opened index.

    Attributes:
        documents: All documents, by id.
        lexical_metadata: BM25 over the metadata.
        lexical_full: BM25 over metadata and body; None in an index of metadata alone.
        dense: Vectors of each dense channel, that of the index's model first.
        chunks: The chunks of the bodies; None where no skill has any.
    """

    documents: DocumentStore
    lexical_metadata: LexicalIndex
    lexical_full: LexicalIndex | None
    dense: tuple[DenseFields, ...]
    chunks: ChunkIndex | None

    def save(self, folder: Path) -> None:
        """Write all parts into a folder.

        Args:
            folder: An empty folder.

        Raises:
            OSError: When one cannot be written whole.
        """
        self.documents.save(folder)
        self.lexical_metadata.save(folder, "lexical-metadata")
        if self.lexical_full is not None:
            self.lexical_full.save(folder, "lexical-full")
        for number, fields in enumerate(self.dense):
            fields.save(folder, f"dense-{number}")
        if self.chunks is not None:
            self.chunks.save(folder)

    @classmethod
    def load(cls, folder: Path, *, channels: int, with_body: bool) -> Corpus:
        """Map what `save` wrote.

        Args:
            folder: Where the parts lie.
            channels: How many dense channels there are.
            with_body: False for an index of metadata alone.

        Returns:
            The corpus.

        Raises:
            CacheError: When a part is missing, damaged, or of another size than the others.
        """
        corpus = cls(
            DocumentStore.load(folder),
            LexicalIndex.load(folder, "lexical-metadata"),
            LexicalIndex.load(folder, "lexical-full") if with_body else None,
            tuple(
                DenseFields.load(folder, f"dense-{number}", with_body=with_body)
                for number in range(channels)
            ),
            ChunkIndex.load(folder) if with_body else None,
        )
        sizes = {len(corpus.documents), corpus.lexical_metadata.size}
        sizes.update(size for fields in corpus.dense for size in fields.sizes)
        if corpus.lexical_full is not None:
            sizes.add(corpus.lexical_full.size)
        if corpus.chunks is not None:
            sizes.add(corpus.chunks.size)
        if len(sizes) != 1:
            raise CacheError(f"the parts of the index differ in size: {sorted(sizes)}")
        return corpus


@dataclass(frozen=True, slots=True)
class OpenedIndex:
    """A generation with its settings and parts.

    Attributes:
        name: Name of the generation.
        folder: Where its parts lie.
        settings: What it was made with.
        corpus: Its parts.
    """

    name: str
    folder: Path
    settings: IndexSettings
    corpus: Corpus

    @classmethod
    def load(cls, generation: Generation) -> OpenedIndex:
        """Open the parts of a checked generation.

        Args:
            generation: The generation.

        Returns:
            The opened index.

        Raises:
            CacheError: When they are not what this version of the package writes.
        """
        settings = IndexSettings.from_dict(generation.settings)
        corpus = Corpus.load(
            generation.folder, channels=len(settings.channels), with_body=settings.with_body
        )
        return cls(generation.name, generation.folder, settings, corpus)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Read what was reported when this generation was made.

        Returns:
            The diagnostics, by path.

        Raises:
            CacheError: When the part is missing or has another form.
        """
        try:
            records = json.loads((self.folder / _DIAGNOSTICS).read_bytes())
            return tuple(Diagnostic(**record) for record in records)
        except (OSError, ValueError, TypeError) as exc:
            raise CacheError(f"the diagnostics of the index cannot be read: {exc}") from exc


def open_current(folder: IndexFolder) -> OpenedIndex | None:
    """Open the generation in use, or None where there is none that can be used."""
    try:
        return OpenedIndex.load(folder.open())
    except CacheError as exc:
        logger.info("no usable index in %s: %s", folder.path, exc)
        return None


def save_diagnostics(folder: Path, diagnostics: tuple[Diagnostic, ...]) -> None:
    """Write the diagnostics of a generation.

    Args:
        folder: Where its parts lie.
        diagnostics: What was reported, by path.

    Raises:
        OSError: When they cannot be written.
    """
    records = [diagnostic.to_dict() for diagnostic in diagnostics]
    data = json.dumps(records, separators=(",", ":"))
    (folder / _DIAGNOSTICS).write_text(data, encoding="utf-8")
