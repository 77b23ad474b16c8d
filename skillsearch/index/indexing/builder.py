"""Indexing: finds out what changed below the roots, and writes a new generation of the index.

An unchanged skill keeps its postings and vectors, and all is put in one order; so an updated index
equals, byte for byte, one built from scratch.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from skillsearch.embedders.embedder import load_embedder, require_device
from skillsearch.embedders.embedding import Embedder
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.errors import CacheError, writing_index
from skillsearch.index.corpus import (
    IndexSettings,
    OpenedIndex,
    open_current,
    other_version,
    save_diagnostics,
)
from skillsearch.index.dense.query_embedder import ModelSettings
from skillsearch.index.documents.document import ANALYSIS
from skillsearch.index.indexing.changes import ChangeDetector, FileChanges
from skillsearch.index.indexing.embedding import CachedEmbedder
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.indexing.reading import count_skipped, empty_roots, sorted_diagnostics
from skillsearch.index.indexing.writers import DeltaWriter, Update, Written, write_full
from skillsearch.index.roots.held import last_request
from skillsearch.index.roots.request import (
    REQUEST_FILE,
    IndexRequest,
    OnMissing,
    key_of,
    resolve_roots,
)
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.index.storage.generation_parts import different_parts
from skillsearch.skills.discovery import make_roots
from skillsearch.skills.example_requests import ExampleBook
from skillsearch.types.indexing import IndexReport
from skillsearch.types.skills import Diagnostic, Root

logger = logging.getLogger(__name__)


class Builder:
    """One run of indexing, as `SkillIndex.refresh` explains.

    Making one raises RootError if a root cannot be indexed, and ConfigError if the model only runs
    on the CPU and another device is asked for.

    Attributes:
        change: What to hold, or what to change about it. What that means is decided twice: at
            once, to unpack roots and refuse wrong ones without waiting, and once it is certain
            that no other process changes the index.
        embedder: That of the model once it is loaded; with `verify` it is loaded again.
        request: What `change` means.
        opened: The index as the run left it; None if it was damaged right after it was written.
    """

    def __init__(
        self,
        folder: IndexFolder,
        change: IndexRequest | RootChange,
        options: IndexOptions | None = None,
    ) -> None:
        """Take the folder of an index, and how it is to be made."""
        self._started = time.monotonic()
        self.folder, self.change, self.options = folder, change, options or IndexOptions()
        self._decide(last_request(self.folder))
        loaded = {} if self.options.verify else self.options.embedders
        self.embedder: Embedder | None = loaded.get(self.request.model)
        self.opened: OpenedIndex | None = None
        self._book = self.options.examples or ExampleBook()
        self._progress = self.options.progress or (lambda stage, done, total: None)
        self._damaged: tuple[str, ...] = ()

    def _decide(self, held: IndexRequest | None, *, unpack: bool = True) -> None:
        """Find out what is to be held; roots that are gone keep their skills, if that is meant.

        Raises RootError if a root cannot be indexed and is not to be left out.
        """
        self._held = held
        if (missing := self.options.missing) == "keep" and not self.folder.exists():
            missing = "refuse"
        self.request = self.change.applied_to(held, unpack=unpack, missing=missing)
        require_device(self.request.model, self.options.device)
        usable, problems = make_roots(self.request.roots, self.request.aliases)
        self._root_diagnostics = [problem for problem in problems if problem.severity != "error"]
        is_missing = len(self._root_diagnostics) < len(problems)
        earlier = self._earlier_roots(usable, missing) if is_missing else ()
        roots = {str(root.path): root for root in (*earlier, *usable)}
        wanted = dict.fromkeys(filter(roots.__contains__, map(key_of, self.request.roots)))
        aliases = {**self.request.aliases, **{path: roots[path].alias for path in wanted}}
        self.request = replace(self.request, aliases=aliases)
        self._roots = self.request.with_trust(map(roots.__getitem__, wanted))
        there = {root.path for root in usable}
        self._gone = tuple(root for root in self._roots if root.path not in there)

    def _earlier_roots(self, usable: Sequence[Root], missing: OnMissing) -> tuple[Root, ...]:
        """Return the roots of the index before if those that are gone keep their skills.

        Raises RootError if roots that are gone are neither to be kept nor left out.
        """
        if missing == "keep" and (before := open_current(self.folder)):
            return before.settings.roots
        if not (missing == "leave" and usable):
            resolve_roots(self.request.roots)
        return ()

    def run(self) -> IndexReport:
        """Bring the index up to date; with nothing changed, its generation stays as it is.

        Raises EmbedderError when the embedder cannot be loaded or gives unusable vectors;
        StorageError when the index cannot be written; the one before is unchanged; LockTimeoutError
        when another process does not finish writing it.
        """
        detector = None
        with writing_index(self.folder.path):
            if not self.options.only:
                self._damaged = self.folder.damage(everything=self.options.verify)
                detector = self._detector(self._reusable())
                if detector.index and self._is_held(detector.index) and detector.is_unchanged():
                    return self._report_unchanged(detector.index)
            with self.folder.lock():
                if (held := last_request(self.folder)) != self._held:
                    self._decide(held, unpack=False)
                    detector = None
                previous = self._reusable()
                self._warn_of_loss()
                seen = detector.index if detector else None
                if not (detector and seen and previous and seen.name == previous.name):
                    detector = self._detector(previous)
                report = self._update(detector)
                if not self._is_request_held():
                    self.request.save(self.folder.path, report.generation)
                self.opened = self.opened or open_current(self.folder)
                return replace(report, left=_count_left(self._before, self.opened))

    def _warn_of_loss(self) -> None:
        """Say why an index that is there has to be built anew."""
        if self._before is None and self.folder.exists():
            warning = "The index in %s cannot be used any more; building it anew."
            if reason := other_version(self.folder):
                warning += (
                    f" Another version of skillsearch wrote it ({reason}). If both are in use, "
                    "give each an index of its own: SKILLSEARCH_INDEX_DIR"
                )
            logger.warning(warning, self.folder.path)

    def _update(self, detector: ChangeDetector) -> IndexReport:
        """Bring the index up to date, or build it anew if it turns out to be damaged."""
        if detector.index is not None:
            try:
                with detector.index.guard:
                    if changes := self._detect(detector, detector.index):
                        return self._apply(changes)
                    return self._report_unchanged(detector.index)
            except CacheError as exc:
                logger.warning("building the index anew: %s", exc)
                self._damaged = self.folder.damage(everything=True)
        return self._apply(self._all_new())

    def _detect(self, detector: ChangeDetector, index: OpenedIndex) -> FileChanges | None:
        """Find out what changed, looking at no more than necessary; None for nothing."""
        changes, only, limits = None, self.options.only, self.options.limits
        if index.settings.roots != self._roots or detector.unfinished:
            return detector.walk()
        if only and limits.allow(index.corpus, len(only)):
            changes = detector.at(only)
        if not changes or not self._fits_delta(changes):
            if detector.is_unchanged():
                return None
            changes = detector.by_stat() if limits.allow(index.corpus, 1) else None
        return changes if changes and self._fits_delta(changes) else detector.walk()

    def _all_new(self) -> FileChanges:
        """Look at everything, to read it again; a RootError if a root is gone."""
        if self._gone:
            resolve_roots(self.request.roots)
        return self._detector(None).walk()

    def _fits_delta(self, changes: FileChanges) -> bool:
        count = len(changes.to_read) + len(changes.removed_ids)
        return changes.index is not None and self.options.limits.allow(changes.index.corpus, count)

    def _apply(self, changes: FileChanges) -> IndexReport:
        """Write a new generation, unless it would equal the one before."""
        with ExitStack() as stack:
            cached = self._open_embedder(stack)
            model = ModelSettings.of(self.request.model, cached.embedder)
            settings = IndexSettings(
                self._roots, model, self.request.with_body, ANALYSIS, self._pending(changes)
            )
            if changes.index and settings.model != changes.index.settings.model:
                is_whole = changes.scopes is None and not self._gone
                changes = (changes if is_whole else self._all_new()).all_new()
            update = Update(
                changes, settings, cached, self._progress, self.options.limits, self.folder.path
            )
            previous, delta = changes.index, None
            is_same = self._is_same(changes, settings)
            if previous and not is_same and self._fits_delta(changes):
                delta = DeltaWriter(update, previous)
                is_same = delta.is_empty and self._has_same_rest(changes)
            if previous and is_same:
                report = self._report_unchanged(previous)
            else:
                report = self._write(update, delta)
            changes.save_snapshot(self.folder.path, report.generation)
            return report

    def _pending(self, changes: FileChanges) -> tuple[str, ...]:
        """Return the roots of which this run embeds the metadata alone."""
        if not changes.index:
            return ()
        before = changes.index.settings
        if self.options.metadata_first:
            new = {str(file.root.path) for file in changes.to_read}.difference(before.root_paths)
            waiting = new.union(before.pending)
        else:
            waiting = {str(root.path) for root in self._gone}.intersection(before.pending)
        return tuple(str(root.path) for root in self._roots if str(root.path) in waiting)

    def _open_embedder(self, stack: ExitStack) -> CachedEmbedder:
        """Load the embedder if need be, and open the user's cache of its vectors."""
        model, device = self.request.model, self.options.device
        self.embedder = embedder = self.embedder or load_embedder(model, device=device)
        cache = EmbeddingCache(embedder.fingerprint, embedder.dimensions)
        return CachedEmbedder(embedder, stack.enter_context(cache))

    def _is_same(self, changes: FileChanges, settings: IndexSettings) -> bool:
        """Return whether a new generation, with no file to read, would equal the one before."""
        if changes.to_read or changes.removed_ids or not self._has_same_rest(changes):
            return False
        return changes.index is not None and changes.index.settings.pending == settings.pending

    def _has_same_rest(self, changes: FileChanges) -> bool:
        """Return whether the index before has the roots and diagnostics of a new generation."""
        if (index := changes.index) is None or index.settings.roots != self._roots:
            return False
        return self._diagnostics(changes) == index.diagnostics()

    def _write(self, update: Update, delta: DeltaWriter | None) -> IndexReport:
        """Save a generation, which with a delta keeps most parts of the one before."""
        reused = delta.reused if delta else ()
        before = update.changes.index.generation if update.changes.index else None
        if before:
            others = {name: part for name, part in before.parts.items() if name not in reused}
            if different_parts(before.folder, others):
                raise CacheError("a part of the index before is damaged")
        written = Written(0, 0)
        diagnostics: tuple[Diagnostic, ...] = ()

        def save(folder: Path) -> None:
            nonlocal written, diagnostics
            written = delta.write(folder) if delta else write_full(folder, update)
            diagnostics = self._diagnostics(update.changes)
            save_diagnostics(folder, diagnostics)

        announce = partial(self.request.save, self.folder.path, before=self._held)
        shared = before if reused else None
        settings = update.settings.to_dict()
        name = self.folder.write(save, settings, before=shared, reused=reused, announce=announce)
        return self._report(name, diagnostics, written)

    def _report_unchanged(self, index: OpenedIndex) -> IndexReport:
        self.opened = index
        count = len(index.corpus.documents)
        return self._report(index.name, index.diagnostics(), Written(count, count))

    def _is_held(self, index: OpenedIndex) -> bool:
        return index.settings.roots == self._roots and self._is_request_held()

    def _is_request_held(self) -> bool:
        is_intact = REQUEST_FILE not in self._damaged
        return is_intact and IndexRequest.load(self.folder.path) == self.request

    def _report(
        self, generation: str, diagnostics: tuple[Diagnostic, ...], written: Written
    ) -> IndexReport:
        return IndexReport(
            **asdict(written),
            skipped=count_skipped(diagnostics),
            diagnostics=diagnostics,
            generation=generation,
            healed=self._damaged,
            seconds=time.monotonic() - self._started,
        )

    def _diagnostics(self, changes: FileChanges) -> tuple[Diagnostic, ...]:
        diagnostics = [*changes.diagnostics(changes.index.diagnostics() if changes.index else ())]
        if changes.scopes is None:
            diagnostics += self._root_diagnostics
            diagnostics += () if changes.files else empty_roots(self._roots)
        return sorted_diagnostics(diagnostics)

    def _detector(self, index: OpenedIndex | None) -> ChangeDetector:
        pending = index.settings.pending if index and not self.options.metadata_first else ()
        unfinished = frozenset(pending).difference(str(root.path) for root in self._gone)
        return ChangeDetector(
            index,
            self.folder.path,
            self._roots,
            self.options.verify,
            self._progress,
            gone=self._gone,
            book=self._book,
            unfinished=unfinished,
        )

    def _reusable(self) -> OpenedIndex | None:
        """Open the index in use; None if there is none, or it was made in another way."""
        self._before = index = open_current(self.folder)
        if index is None:
            return None
        settings, request = index.settings, self.request
        wanted = (request.model, request.with_body)
        made_with = (settings.model.spec, settings.with_body)
        is_other = made_with != wanted or not _keep_ids(settings.roots, self._roots)
        return None if is_other or settings.model.has_changed() else index


def _keep_ids(before: Sequence[Root], now: Sequence[Root]) -> bool:
    """Return whether each skill keeps its id under other roots, if it stays."""
    aliases = {root.path: root.alias for root in before}
    for root in now:
        around = set(root.path.parents) & aliases.keys()
        is_around = any(root.path in path.parents for path in aliases)
        if around or is_around or aliases.get(root.path, root.alias) != root.alias:
            return False
    return True


def _count_left(before: OpenedIndex | None, now: OpenedIndex | None) -> dict[str, int]:
    """Count the skills that left an index together with their root, by root."""
    roots = set(now.settings.root_paths) if now else set()
    if before is None or now is None or roots.issuperset(before.settings.root_paths):
        return {}
    try:
        with before.guard, now.guard:
            paths = {document.path for document in now.corpus.documents}
            gone = (document for document in before.corpus.documents if document.path not in paths)
            return dict(Counter(document.root for document in gone if document.root not in roots))
    except CacheError as exc:
        logger.info("what left the index cannot be counted: %s", exc)
        return {}
