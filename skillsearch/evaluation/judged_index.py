"""A judged collection → indexes of it that use the collection's own ids.

Its documents are written once as skills, in a folder named by their content, and indexed like any
others: what is measured is what a user gets. Each query is embedded once for all systems, and
every system is charged for it.
"""

from __future__ import annotations

import copy
import hashlib
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Self

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import EmbeddedText, Embedder
from skillsearch.errors import StorageError, explained
from skillsearch.evaluation.collection import digest
from skillsearch.evaluation.lines import file_name, shown
from skillsearch.evaluation.types import Collection, JudgedDocument, Ranking, SystemSpec
from skillsearch.files.private import make_private
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.readers.loading import Readers
from skillsearch.skills.example_requests import ExampleBook, digest_of_skill, usable
from skillsearch.skills.frontmatter import as_yaml
from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS
from skillsearch.skills.resources import MAX_SKILL_MD_BYTES
from skillsearch.text.prose import first_paragraph
from skillsearch.types.indexing import Progress
from skillsearch.types.skills import SKILL_MD

_SKILLS = "documents"  # folder of the written skills; rename it if their form changes
_MAX_FIELD_BYTES = 30 << 10
"""Of a name and of a description, so that both fit into the 64 KiB of a frontmatter."""


@dataclass(frozen=True, slots=True)
class SkillFolders:
    """Folders with a collection as skills; `ids` are the collection's by the index's.

    The `examples` of its documents are as an `ExampleBook` takes them.
    """

    work: Path
    roots: tuple[Path, ...]
    ids: Mapping[str, str]
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def write_skills(collection: Collection, work: Path) -> SkillFolders:
    """Write the documents of a collection as skills below `work`, unless they are there already.

    Raises StorageError if they cannot be written.
    """
    documents = collection.documents
    name = file_name(collection.pool or collection.name)
    folder = work.absolute() / f"{name}-{digest(documents)}"
    skills = folder / _SKILLS
    files = [Path(f"{number:05}", SKILL_MD) for number in range(len(documents))]

    def is_complete() -> bool:
        return all((skills / file).is_file() for file in files)

    problem = f"The skills of {collection.name} cannot be written to {folder}: %s."
    next_step = "Free some space or choose another folder (--work)."
    with explained(StorageError, f"{problem} {next_step}"):
        if not is_complete():
            make_private(folder)
            with (
                IndexFolder(folder).lock(),
                tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as temporary,
            ):
                if not is_complete():  # or another process was faster
                    new = Path(temporary) / "new"
                    for file, document in zip(files, documents, strict=True):
                        (new / file).parent.mkdir(parents=True)
                        (new / file).write_bytes(_skill_md(document))
                    if skills.exists():
                        skills.rename(Path(temporary) / "old")
                    new.rename(skills)
    ids = {f"{_SKILLS}:{number:05}": document.doc_id for number, document in enumerate(documents)}
    described = (replace(document, description=_description(document)) for document in documents)
    return SkillFolders(folder, (skills,), ids, examples_of(described))


def examples_of(documents: Iterable[JudgedDocument]) -> dict[str, tuple[str, ...]]:
    """Return the examples of some documents by `digest_of_skill`."""
    return {
        digest_of_skill(document.name, document.description): usable(document.examples)
        for document in documents
        if document.examples
    }


def _skill_md(document: JudgedDocument) -> bytes:
    """Return a document as a SKILL.md, cut to what that can hold."""
    head = b""
    for key, text in (("name", document.name), ("description", _description(document))):
        while len(data := as_yaml(text).encode("utf-8", "replace")) > _MAX_FIELD_BYTES:
            text = text[: len(text) * 9 // 10]
        head += b"%b: %b\n" % (key.encode(), data)
    data = b"---\n%b---\n\n%b\n" % (head, document.body.encode("utf-8", "replace"))
    return data[:MAX_SKILL_MD_BYTES].decode("utf-8", "ignore").encode()


def _description(document: JudgedDocument) -> str:
    """Return what a skill says of itself where its document may say nothing."""
    return (
        document.description.strip()
        or first_paragraph(document.body, MAX_DESCRIPTION_CHARS)
        or document.name
    )


def use_skills(collection: Collection, roots: Sequence[Path], work: Path) -> SkillFolders:
    """Take the folders that a collection was made from; an index gives its documents their ids."""
    places = tuple(root.absolute() for root in roots)
    folder = f"{file_name(collection.name)}-{_short_hash(map(str, places))}"
    ids = {document.doc_id: document.doc_id for document in collection.documents}
    return SkillFolders(work.absolute() / folder, places, ids, examples_of(collection.documents))


def _short_hash(texts: Iterable[str]) -> str:
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()[:16]


class RememberingEmbedder:
    """An embedder that remembers its vectors, how long each took, and the time that this saved."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.fingerprint, self.name = embedder.fingerprint, embedder.name
        self.dimensions = embedder.dimensions
        self._known: dict[str, tuple[EmbeddedText, float]] = {}
        self.saved_seconds = 0.0

    def embed_stream(self, texts: Sequence[str]) -> Iterator[EmbeddedText]:
        """Embed texts in order, none twice."""
        for position, text in enumerate(texts):
            if text in self._known:
                embedded, seconds = self._known[text]
                self.saved_seconds += seconds
            else:
                started = time.perf_counter()
                embedded = next(iter(self._embedder.embed_stream([text])))
                self._known[text] = embedded, time.perf_counter() - started
            yield embedded._replace(position=position)


class Embedders(dict[str, RememberingEmbedder]):
    """The embedders of an evaluation by model, each loaded once, and its readers."""

    @cached_property
    def readers(self) -> Readers:
        """The readers of all indexes of the evaluation."""
        return Readers()

    def __missing__(self, model: str) -> RememberingEmbedder:
        """Load the embedder of a model."""
        return self.setdefault(model, RememberingEmbedder(load_embedder(model)))

    def saved_seconds(self) -> float:
        """Return the seconds saved so far because vectors were remembered."""
        return sum(embedder.saved_seconds for embedder in self.values())


class JudgedIndex:
    """An index of a collection, with the ids of the collection, and notes on how it was made."""

    def __init__(self, index: SkillIndex, embedders: Embedders, ids: Mapping[str, str]) -> None:
        """Wrap an index, given the collection's id for each of its ids; use `open` instead."""
        self._index = index
        self._embedders = embedders
        documents = [document for document in index.documents() if document.doc_id in ids]
        self._by_path = {document.path: ids[document.doc_id] for document in documents}
        self._indexed = {ids[document.doc_id]: document.doc_id for document in documents}
        self._copies = cache(lambda doc_id: index.copies([doc_id]))
        self.notes: tuple[str, ...] = ()
        if missing := [doc_id for doc_id in ids.values() if doc_id not in self._indexed]:
            errors = (
                diagnostic.message
                for diagnostic in index.diagnostics()
                if diagnostic.severity == "error"
            )
            count = f"{len(missing):,}, such as {shown(missing[0])}"
            reason = next(errors, "it is gone from the disk")
            left_out = "Documents that could not be indexed and count as never found"
            self.notes = (f"{left_out}: {count}: {reason}",)

    @classmethod
    def open(
        cls,
        folders: SkillFolders,
        spec: SystemSpec,
        embedders: Embedders,
        *,
        progress: Progress | None = None,
    ) -> Self:
        """Make or update the index that systems of one model and fields share."""
        settings = [spec.model, spec.fields]
        settings += [] if spec.examples == "none" else [spec.examples]
        folder = folders.work / f"index-{_short_hash(settings)}"
        request = IndexRequest(folders.roots, spec.model, spec.fields == "full")
        is_given, is_packaged = (spec.examples in (which, "all") for which in ("given", "packaged"))
        examples = folders.examples if is_given else {}
        book = ExampleBook(None, packaged=is_packaged, own=False, extra=examples)
        built, _ = SkillIndex.build(request, folder, IndexOptions(progress=progress, examples=book))
        index = SkillIndex(
            IndexFolder(built.folder),
            built.opened,
            embedders[spec.model],
            readers=embedders.readers,
        )
        return cls(index, embedders, folders.ids)

    def __len__(self) -> int:
        return len(self._index)

    def with_calibration(self, calibration: Calibration) -> Self:
        """Return the same index under another calibration."""
        other = copy.copy(self)
        other._index = self._index.with_calibration(calibration)
        return other

    def hidden(self, doc_ids: Iterable[str], *, with_copies: bool = False) -> frozenset[str]:
        """Return the ids to exclude from a search to leave out documents, or their copies too."""
        indexed = [self._indexed[doc_id] for doc_id in doc_ids if doc_id in self._indexed]
        excluded = (self._copies(doc_id) if with_copies else {doc_id} for doc_id in indexed)
        return frozenset[str]().union(*excluded)

    def rank(self, text: str, options: SearchOptions) -> tuple[Ranking, float]:
        """Answer a query without a threshold: the hits, each followed by its copies.

        The seconds include the embedding.
        """
        saved = self._embedders.saved_seconds()
        (result,) = self._index.answer([text], replace(options, threshold=0.0))
        seconds = result.seconds + self._embedders.saved_seconds() - saved
        paths = ((path, hit.score) for hit in result for path in (hit.path, *hit.duplicates))
        ids = self._by_path
        return tuple((ids[path], score) for path, score in paths if path in ids), seconds
