"""Roots → a new generation of the index, doing again only what changed.

The result depends on the skills alone. A skill whose file is unchanged keeps its postings, every
vector comes from the cache by the text that it embeds, and all is put in one order; so an index
brought up to date is equal, byte for byte, to one built from scratch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

from skillsearch.errors import RootError, StorageError
from skillsearch.index import fields as field_rules
from skillsearch.index import tokenizer
from skillsearch.index.cache import IndexFolder
from skillsearch.index.chunk_index import ChunkIndex
from skillsearch.index.corpus import (
    Corpus,
    IndexSettings,
    OpenedIndex,
    open_current,
    save_diagnostics,
)
from skillsearch.index.dense import DenseIndex
from skillsearch.index.documents import DocumentStore
from skillsearch.index.embedder import load_embedder, model_identity
from skillsearch.index.embedding import Embedder
from skillsearch.index.embedding_cache import EmbeddingCache
from skillsearch.index.freshness import is_up_to_date
from skillsearch.index.lexical import LexicalIndex, TermCounter, TermCounts, build_lexical
from skillsearch.index.reading import Reading, chunk_keys, document_keys
from skillsearch.index.request import IndexRequest
from skillsearch.index.snapshot import Snapshot
from skillsearch.skills.discovery import Discovery, discover, make_roots
from skillsearch.types import Diagnostic, IndexReport, Progress, Root

logger = logging.getLogger(__name__)

_ANALYSIS = (tokenizer.VERSION, field_rules.VERSION)


def resolve_roots(paths: Sequence[Path]) -> tuple[tuple[Root, ...], tuple[Diagnostic, ...]]:
    """Check the folders that are to be indexed.

    Args:
        paths: Folders, in the order of the user.

    Returns:
        The roots, and what is odd about them.

    Raises:
        RootError: When one is missing, no folder, or unreadable: an index that silently lacks all
            skills of a folder would be worse than none.
    """
    roots, diagnostics = make_roots(paths)
    for diagnostic in diagnostics:
        if diagnostic.severity == "error":
            raise RootError(f"{diagnostic.path}: {diagnostic.message} Nothing was changed.")
    return tuple(roots), tuple(diagnostics)


class Builder:
    """One run of indexing.

    Attributes:
        embedder: The embedder, once the run had to load it.
        unchanged: The opened and checked index, where the run left it as it was.
    """

    def __init__(
        self,
        folder: IndexFolder,
        request: IndexRequest,
        *,
        verify: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Prepare to index.

        Args:
            folder: Where the index lies.
            request: What to index, and how.
            verify: Hash every file, whatever its stat says.
            progress: Told how far the run is.

        Raises:
            RootError: When a root cannot be indexed.
        """
        self._started = time.monotonic()
        self._folder = folder
        self._request = request
        self._roots, self._root_diagnostics = resolve_roots(request.roots)
        self._identity = model_identity(request.model)
        self._with_body = request.with_body
        self.embedder: Embedder | None = None
        self.unchanged: OpenedIndex | None = None
        self._verify = verify
        self._progress: Progress = progress or _silent

    def run(self) -> IndexReport:
        """Bring the index up to date.

        Returns:
            What was done; with nothing changed, the index and its generation stay as they are.

        Raises:
            EmbedderError: When the embedder cannot be loaded or gives unusable vectors.
            StorageError: When the index cannot be written; the one before is unchanged.
            LockTimeoutError: When another process does not finish writing it.
        """
        previous = self._reusable()
        if previous and not self._verify and is_up_to_date(previous, self._folder):
            return self._unchanged(previous)
        with self._folder.lock():
            previous = self._reusable()
            if previous and not self._verify and is_up_to_date(previous, self._folder):
                return self._unchanged(previous)
            return self._rebuild(previous)

    def _reusable(self) -> OpenedIndex | None:
        """Open the index in use if parts of it can be used again."""
        index = open_current(self._folder)
        if index is None:
            return None
        settings = index.settings
        wanted = (self._roots, self._identity, self._with_body, _ANALYSIS)
        found = (settings.roots, settings.model_identity, settings.with_body, settings.analysis)
        return index if found == wanted else None

    def _unchanged(self, index: OpenedIndex) -> IndexReport:
        """Report a run that found nothing to do."""
        self.unchanged = index
        diagnostics = index.diagnostics()
        count = len(index.corpus.documents)
        return IndexReport(
            indexed=count,
            embedded=0,
            reused=count,
            removed=0,
            skipped=count_skipped(diagnostics),
            truncated=0,
            diagnostics=diagnostics,
            generation=index.name,
            seconds=time.monotonic() - self._started,
        )

    def _rebuild(self, previous: OpenedIndex | None) -> IndexReport:
        """Read what changed and write a new generation, unless it would equal the one before."""
        seen_at_ns = time.time_ns()
        discovery = discover(self._roots, leave_out=self._folder.path)
        embedder = self.embedder = load_embedder(self._request.model)
        if previous is not None and previous.settings.fingerprint != embedder.fingerprint:
            previous = None
        reading = Reading(
            previous, self._folder, scripts=embedder.scripts, with_body=self._with_body
        )
        try:
            with EmbeddingCache(
                self._folder.path, embedder.fingerprint, embedder.dimensions
            ) as cache:
                reading.read(discovery, cache, verify=self._verify, progress=self._progress)
                diagnostics = self._diagnostics(discovery, reading)
                if previous and reading.is_unchanged and diagnostics == previous.diagnostics():
                    self._save_snapshot(previous.name, discovery, reading, seen_at_ns)
                    return self._unchanged(previous)
                embedded, truncated = _embed_missing(reading, embedder, cache, self._progress)
                corpus = _assemble(reading, cache, self._with_body)
                cache.compact(document_keys(reading.documents))
            self._request.save(self._folder.path)
        except OSError as exc:
            raise StorageError(
                f"The index cannot be written to {self._folder.path}: {exc.strerror or exc}. "
                "The index before is unchanged; free some space or choose another --index-dir."
            ) from exc
        generation = self._write(corpus, diagnostics, embedder)
        self._save_snapshot(generation, discovery, reading, seen_at_ns)
        gone = _ids(previous) - {document.doc_id for document in reading.documents}
        return IndexReport(
            indexed=len(reading.documents),
            embedded=embedded,
            reused=reading.reused,
            removed=len(gone),
            skipped=count_skipped(diagnostics),
            truncated=truncated,
            diagnostics=diagnostics,
            generation=generation,
            seconds=time.monotonic() - self._started,
        )

    def _diagnostics(self, discovery: Discovery, reading: Reading) -> tuple[Diagnostic, ...]:
        """Gather everything worth reporting, by path."""
        found = [*self._root_diagnostics, *discovery.diagnostics, *reading.diagnostics]
        if not discovery.files:
            message = "No SKILL.md lies below this root; check the path."
            found += [
                Diagnostic("root-empty", "warning", message, str(root.path)) for root in self._roots
            ]
        # What discovery said of a file is also among what is taken over with it: once is enough.
        return tuple(
            sorted(
                set(found), key=lambda item: (item.path, item.line or 0, item.code, item.message)
            )
        )

    def _write(
        self, corpus: Corpus, diagnostics: tuple[Diagnostic, ...], embedder: Embedder
    ) -> str:
        """Save a generation and return its name."""
        settings = IndexSettings(
            roots=self._roots,
            model=self._request.model,
            model_identity=self._identity,
            fingerprint=embedder.fingerprint,
            dimensions=embedder.dimensions,
            scripts=embedder.scripts,
            with_body=self._with_body,
            analysis=_ANALYSIS,
        )

        def save(folder: Path) -> None:
            corpus.save(folder)
            save_diagnostics(folder, diagnostics)

        return self._folder.write(save, settings.to_dict())

    def _save_snapshot(
        self, generation: str, discovery: Discovery, reading: Reading, seen_at_ns: int
    ) -> None:
        """Record what the disk looked like; without it the next run only takes longer."""
        unreadable = {d.path for d in discovery.diagnostics if d.code == "folder-unreadable"}
        folders = {path: -1 if path in unreadable else at for path, at in discovery.folders}
        snapshot = Snapshot(generation, folders, reading.seen)
        try:
            snapshot.without_racy(seen_at_ns).save(self._folder.path)
        except OSError as exc:
            logger.warning("the snapshot of %s was not saved: %s", self._folder.path, exc)


def _embed_missing(
    reading: Reading, embedder: Embedder, cache: EmbeddingCache, progress: Progress
) -> tuple[int, int]:
    """Embed the texts that the cache lacks; return how many, and how many of them were cut."""
    missing = list(reading.texts)
    truncated = 0
    texts = list(reading.texts.values())
    for done, result in enumerate(embedder.embed_stream(texts), start=1):
        cache.add(missing[result.position], result.vector)
        truncated += result.truncated
        progress("embed", done, len(missing))
    return len(missing), truncated


def _assemble(reading: Reading, cache: EmbeddingCache, with_body: bool) -> Corpus:
    """Put postings and vectors of all documents together."""
    documents = reading.documents
    previous = reading.previous.corpus if reading.previous else None
    metadata = [bytes.fromhex(document.metadata_key) for document in documents]
    bodies = [bytes.fromhex(document.body_key) for document in documents] if with_body else []
    chunks = chunk_keys(documents)

    def lexical(counter: TermCounter, old: LexicalIndex | None) -> LexicalIndex:
        new = counter.counts()
        both = TermCounts.concatenate([old.counts(reading.renumber), new]) if old else new
        return build_lexical(both, len(documents))

    full = lexical(reading.full_counter, previous.lexical_full if previous else None)
    return Corpus(
        DocumentStore.build(documents),
        lexical(reading.metadata_counter, previous.lexical_metadata if previous else None),
        full if with_body else None,
        DenseIndex.build(cache.matrix(metadata)),
        DenseIndex.build(cache.matrix(bodies)) if with_body else None,
        ChunkIndex.build(reading.chunk_terms(), len(documents), cache.matrix(chunks)),
    )


def _ids(index: OpenedIndex | None) -> set[str]:
    """Return the ids of all documents of an index."""
    return {document.doc_id for document in index.corpus.documents} if index else set()


def count_skipped(diagnostics: Sequence[Diagnostic]) -> int:
    """Count the SKILL.md files that could not be indexed."""
    errors = {d.path for d in diagnostics if d.severity == "error"}
    return sum(Path(path).name.casefold() == "skill.md" for path in errors)


def _silent(stage: str, done: int, total: int) -> None:
    """Take no notice of progress."""
