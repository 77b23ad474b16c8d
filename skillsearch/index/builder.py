"""Roots → a new generation of the index, doing again only what changed.

A skill whose file is unchanged keeps its postings, every vector comes from the cache by the text
that it embeds, and all is put in one order; so an index brought up to date is equal, byte for byte,
to one built from scratch with the same dense channels. A channel that is there is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import (
    EmbedderError,
    MissingDependencyError,
    RootError,
    StorageError,
)
from skillsearch.index import fields as field_rules
from skillsearch.index import tokenizer
from skillsearch.index.cache import IndexFolder
from skillsearch.index.channels import (
    ChannelSettings,
    channels_fit,
    count_needed,
    expects_others,
    possible_models,
)
from skillsearch.index.chunk_index import ChunkIndex
from skillsearch.index.corpus import (
    Corpus,
    IndexSettings,
    OpenedIndex,
    open_current,
    save_diagnostics,
)
from skillsearch.index.dense import DenseIndex
from skillsearch.index.dense_fields import DenseFields
from skillsearch.index.documents import DocumentStore
from skillsearch.index.embedder import load_embedder, model_identity
from skillsearch.index.embedding import Embedder
from skillsearch.index.embedding_cache import EmbeddingCache
from skillsearch.index.freshness import is_up_to_date
from skillsearch.index.lexical import LexicalIndex, TermCounter, TermCounts, build_lexical
from skillsearch.index.reading import Reading, chunk_keys, document_keys, field_keys
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
        embedders: The embedders that the run had to load, by what they are loaded by.
        unchanged: The opened and checked index, where the run left it as it was.
    """

    def __init__(
        self,
        folder: IndexFolder,
        request: IndexRequest,
        *,
        verify: bool = False,
        keep_channels: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Prepare to index.

        Args:
            folder: Where the index lies.
            request: What to index, and how.
            verify: Hash every file, whatever its stat says.
            keep_channels: Add no dense channel, for which all skills would have to be embedded.
            progress: Told how far the run is.

        Raises:
            RootError: When a root cannot be indexed.
        """
        self._started = time.monotonic()
        self._folder = folder
        self._request = request
        self._roots, self._root_diagnostics = resolve_roots(request.roots)
        self._with_body = request.with_body
        self.embedders: dict[str, Embedder] = {}
        self.unchanged: OpenedIndex | None = None
        self._verify = verify
        self._keep_channels = keep_channels
        self._could_add = False
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
        wanted = (self._roots, self._with_body, self._request.languages, _ANALYSIS)
        found = (settings.roots, settings.with_body, settings.languages, settings.analysis)
        if found != wanted or settings.channels[0].model != self._request.model:
            return None
        same = all(model_identity(one.model) == one.model_identity for one in settings.channels)
        fit = channels_fit(
            settings.channels,
            self._request.languages,
            settings.could_add,
            expected=expects_others(self._folder.path),
        )
        return index if same and (fit or self._keep_channels) else None

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
        try:
            with ExitStack() as stack:
                channels, reading = self._read(discovery, previous, stack)
                previous = reading.previous
                diagnostics = self._diagnostics(discovery, reading)
                if previous and reading.is_unchanged and diagnostics == previous.diagnostics():
                    self._save_snapshot(previous.name, discovery, reading, seen_at_ns)
                    return self._unchanged(previous)
                embedded, truncated = _embed_missing(reading, channels, self._progress)
                corpus = _assemble(reading, [one.cache for one in channels], self._with_body)
                for number, channel in enumerate(channels):
                    channel.cache.compact(document_keys(reading.documents, number))
            self._request.save(self._folder.path)
        except OSError as exc:
            raise StorageError(
                f"The index cannot be written to {self._folder.path}: {exc.strerror or exc}. "
                "The index before is unchanged; free some space or choose another --index-dir."
            ) from exc
        generation = self._write(corpus, diagnostics, channels)
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

    def _read(
        self, discovery: Discovery, previous: OpenedIndex | None, stack: ExitStack
    ) -> tuple[list[_Channel], Reading]:
        """Read all files for the channels that their languages need."""
        model, languages = self._request.model, self._request.languages
        first = self._open_channel(model, stack)
        models = possible_models(model, first.embedder.scripts, languages)
        expected = expects_others(self._folder.path)
        allowed = len(models)
        if previous and self._keep_channels:
            allowed = min(allowed, len(previous.settings.channels))
        channels = [first]
        # What was taken over unread lacks the texts of a channel that was not there before.
        count = len(previous.settings.channels) if previous else allowed
        while True:
            try:
                channels += [
                    self._open_channel(one, stack) for one in models[len(channels) : count]
                ]
            except (EmbedderError, MissingDependencyError) as exc:
                if languages == "all":
                    raise
                logger.warning("indexed without the multilingual channel: %s", exc)
                models, count, allowed = models[:1], 1, 1
            known = [channel.embedder.fingerprint for channel in channels]
            if previous and known != [one.fingerprint for one in previous.settings.channels]:
                previous = None
            scripts = [channel.embedder.scripts for channel in channels]
            reading = Reading(previous, self._folder, scripts=scripts, with_body=self._with_body)
            caches = [channel.cache for channel in channels]
            reading.read(discovery, caches, verify=self._verify, progress=self._progress)
            needed = count_needed(models, languages, reading.documents, expected=expected)
            wanted = min(needed, allowed)
            if wanted <= count:
                break
            previous, count = None, wanted
        kept = count if previous else wanted
        # Where one was not added but needed, the next run that may add it looks again.
        self._could_add = len(models) > 1 and needed <= kept
        reading.keep_channels(kept)
        return channels[:kept], reading

    def _open_channel(self, model: str, stack: ExitStack) -> _Channel:
        """Load an embedder and open the cache of its vectors."""
        embedder = self.embedders[model] = load_embedder(model)
        cache = EmbeddingCache(self._folder.path, embedder.fingerprint, embedder.dimensions)
        return _Channel(model, embedder, stack.enter_context(cache))

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
        self,
        corpus: Corpus,
        diagnostics: tuple[Diagnostic, ...],
        channels: Sequence[_Channel],
    ) -> str:
        """Save a generation and return its name."""
        settings = IndexSettings(
            roots=self._roots,
            channels=tuple(ChannelSettings.of(one.model, one.embedder) for one in channels),
            languages=self._request.languages,
            could_add=self._could_add,
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


@dataclass(frozen=True, slots=True)
class _Channel:
    """A dense channel at work: what its embedder is loaded by, the embedder, its vectors."""

    model: str
    embedder: Embedder
    cache: EmbeddingCache


def _embed_missing(
    reading: Reading, channels: Sequence[_Channel], progress: Progress
) -> tuple[int, int]:
    """Embed the texts that the caches lack; return how many, and how many of them were cut."""
    total = sum(map(len, reading.texts))
    done = truncated = 0
    for channel, texts in zip(channels, reading.texts, strict=True):
        missing = list(texts)
        for result in channel.embedder.embed_stream(list(texts.values())):
            channel.cache.add(missing[result.position], result.vector)
            truncated += result.truncated
            done += 1
            progress("embed", done, total)
    return total, truncated


def _assemble(reading: Reading, caches: Sequence[EmbeddingCache], with_body: bool) -> Corpus:
    """Put postings and vectors of all documents together."""
    documents = reading.documents
    previous = reading.previous.corpus if reading.previous else None

    def lexical(counter: TermCounter, old: LexicalIndex | None) -> LexicalIndex:
        new = counter.counts()
        both = TermCounts.concatenate([old.counts(reading.renumber), new]) if old else new
        return build_lexical(both, len(documents))

    def dense(number: int, cache: EmbeddingCache) -> DenseFields:
        metadata = DenseIndex.build(cache.matrix(field_keys(documents, number, 0)))
        if not with_body:
            return DenseFields(metadata, None)
        return DenseFields(
            metadata, DenseIndex.build(cache.matrix(field_keys(documents, number, 1)))
        )

    full = lexical(reading.full_counter, previous.lexical_full if previous else None)
    return Corpus(
        DocumentStore.build(documents),
        lexical(reading.metadata_counter, previous.lexical_metadata if previous else None),
        full if with_body else None,
        tuple(dense(number, cache) for number, cache in enumerate(caches)),
        ChunkIndex.build(
            reading.chunk_terms(), len(documents), caches[0].matrix(chunk_keys(documents))
        ),
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
