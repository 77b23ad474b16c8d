"""All parts of an index together: what a generation holds and a search reads."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import CacheError
from skillsearch.index.cache import Generation, IndexFolder
from skillsearch.index.chunk_index import ChunkIndex
from skillsearch.index.dense import DenseIndex
from skillsearch.index.documents import DocumentStore
from skillsearch.index.lexical import LexicalIndex
from skillsearch.types import Diagnostic, JsonValue, Root

logger = logging.getLogger(__name__)

_DIAGNOSTICS = "diagnostics.json"


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """What decides an index beside the skills in it.

    Attributes:
        roots: The roots, in the order of the user.
        model: What the embedder was loaded by, such as ``onnx``.
        model_identity: Names the files behind `model` without loading them.
        fingerprint: The embedder's fingerprint.
        dimensions: Length of its vectors.
        scripts: Scripts that it reads, None for all.
        with_body: False for an index of metadata alone.
        analysis: Versions of the tokenizer and of the field rules.
    """

    roots: tuple[Root, ...]
    model: str
    model_identity: str
    fingerprint: str
    dimensions: int
    scripts: frozenset[str] | None
    with_body: bool
    analysis: tuple[int, int]

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form, for a manifest."""
        return {
            "roots": [[str(root.path), root.alias] for root in self.roots],
            "model": self.model,
            "model_identity": self.model_identity,
            "fingerprint": self.fingerprint,
            "dimensions": self.dimensions,
            "scripts": None if self.scripts is None else sorted(self.scripts),
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
            scripts = values["scripts"]
            first, second = values["analysis"]
            return cls(
                roots=tuple(Root(Path(path), str(alias)) for path, alias in values["roots"]),
                model=str(values["model"]),
                model_identity=str(values["model_identity"]),
                fingerprint=str(values["fingerprint"]),
                dimensions=int(values["dimensions"]),
                scripts=None if scripts is None else frozenset(map(str, scripts)),
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
        dense_metadata: Vectors of the metadata.
        dense_body: Vectors of the heads of the bodies; None in an index of metadata alone.
        chunks: The chunks of the bodies; None where no skill has any.
    """

    documents: DocumentStore
    lexical_metadata: LexicalIndex
    lexical_full: LexicalIndex | None
    dense_metadata: DenseIndex
    dense_body: DenseIndex | None
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
        self.dense_metadata.save(folder, "dense-metadata")
        if self.lexical_full is not None and self.dense_body is not None:
            self.lexical_full.save(folder, "lexical-full")
            self.dense_body.save(folder, "dense-body")
        if self.chunks is not None:
            self.chunks.save(folder)

    @classmethod
    def load(cls, folder: Path, *, with_body: bool) -> Corpus:
        """Map what `save` wrote.

        Args:
            folder: Where the parts lie.
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
            DenseIndex.load(folder, "dense-metadata"),
            DenseIndex.load(folder, "dense-body") if with_body else None,
            ChunkIndex.load(folder) if with_body else None,
        )
        sizes = {len(corpus.documents), corpus.lexical_metadata.size}
        sizes.add(len(corpus.dense_metadata.vectors))
        if corpus.lexical_full is not None and corpus.dense_body is not None:
            sizes |= {corpus.lexical_full.size, len(corpus.dense_body.vectors)}
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
        corpus = Corpus.load(generation.folder, with_body=settings.with_body)
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
