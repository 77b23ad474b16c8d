"""Indexing: finds out what changed below the roots, and writes a new generation of the index.

An unchanged skill keeps its postings, every vector comes from the cache by the text it embeds, and
all is put in one order; so an updated index equals, byte for byte, one built from scratch with the
same dense channels. A channel that is there is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import numpy as np

from skillsearch.embedders.embedder import load_embedder, model_identity, require_device
from skillsearch.embedders.embedding import Embedder
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.errors import CacheError, StorageError
from skillsearch.index import fields
from skillsearch.index.build.changes import ChangeDetector, FileChanges
from skillsearch.index.build.channel_choice import ChannelChoice
from skillsearch.index.build.delta_writer import DeltaWriter, can_write_delta
from skillsearch.index.build.diagnostics import count_skipped, in_order
from skillsearch.index.build.embedding_queue import Channel, count_lost
from skillsearch.index.build.full_writer import FullWriter
from skillsearch.index.build.reading import FileReader
from skillsearch.index.build.snapshot import SeenFile, save_snapshot
from skillsearch.index.corpus import IndexSettings, OpenedIndex, open_current, save_diagnostics
from skillsearch.index.dense.channels import ChannelSettings, channels_fit, expects_others
from skillsearch.index.documents import KNOWN
from skillsearch.index.fields import ANALYSIS
from skillsearch.index.request import REQUEST_FILE, IndexRequest, resolve_roots
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.types import Diagnostic, IndexReport, Progress

logger = logging.getLogger(__name__)


Written = TypeVar("Written")


class Builder:
    """One run of indexing.

    Attributes:
        embedders: The loaded embedders, by model spec.
        unchanged: The opened and checked index, if the run left it as it was.
    """

    def __init__(
        self,
        folder: IndexFolder,
        request: IndexRequest,
        *,
        verify: bool = False,
        keep_channels: bool = False,
        only: Sequence[Path] = (),
        device: str | None = None,
        embedders: Mapping[str, Embedder] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Prepare to index.

        Args:
            folder: Where the index lies.
            request: What to index, and how.
            verify: Hash every file, those of the index too, whatever their stat.
            keep_channels: Add no dense channel, for which all skills would have to be embedded.
            only: The SKILL.md files and folders that may have changed since the last run; none to
                find out. In a small index all are looked at.
            device: Where the model runs, as in `load_embedder`.
            embedders: Embedders that are loaded already, by model spec; ignored with `verify`.
            progress: Told how far the run is.

        Raises:
            RootError: When a root cannot be indexed.
            ConfigError: When the model only runs on the CPU and another device is asked for.
        """
        require_device(request.model, device)
        self._started = time.monotonic()
        self._folder = folder
        self._request = request
        self._roots, self._root_diagnostics = resolve_roots(request.roots)
        self.embedders: dict[str, Embedder] = {} if verify else dict(embedders or {})
        self.unchanged: OpenedIndex | None = None
        self._verify = verify
        self._keep_channels = keep_channels
        self._only = tuple(only)
        self._damaged: tuple[str, ...] = ()
        self._device = device
        self._progress: Progress = progress or _silent

    def run(self) -> IndexReport:
        """Bring the index up to date; with nothing changed, its generation stays as it is.

        Raises EmbedderError when the embedder cannot be loaded or gives unusable vectors;
        StorageError when the index cannot be written; the one before is unchanged; LockTimeoutError
        when another process does not finish writing it.
        """
        detector = None
        if not self._only:
            self._damaged = self._folder.damage(everything=self._verify)
            index = self._reusable()
            detector = self._detector(index) if index else None
            if index and detector and detector.is_unchanged():
                return self._report_unchanged(index)
        with self._folder.lock():
            previous = self._reusable()
            if (
                detector is None
                or detector.index is None
                or previous is None
                or detector.index.name != previous.name
            ):
                detector = self._detector(previous)
            return self._guarded(lambda: self._update(detector))

    def _update(self, detector: ChangeDetector) -> IndexReport:
        """Bring the index up to date, or build it anew if it turns out to be damaged."""
        if detector.index is not None:
            try:
                with detector.index.guard:
                    changes = self._detect(detector, detector.index)
                    if changes is None:
                        return self._report_unchanged(detector.index)
                    return self._apply(changes, detector.index)
            except CacheError as exc:
                logger.warning("building the index anew: %s", exc)
                self._damaged = self._folder.damage(everything=True)
        return self._apply(self._detector(None).walk(), None)

    def _detect(self, detector: ChangeDetector, index: OpenedIndex) -> FileChanges | None:
        """Find out what changed, looking at no more than necessary; None for nothing."""
        changes = None
        if self._only and can_write_delta(index.corpus, len(self._only)):
            changes = detector.at(self._only)
        if changes is None or not self._fits_delta(changes, index):
            if detector.is_unchanged():
                return None
            changes = detector.by_stat() if can_write_delta(index.corpus, 1) else None
        if changes is None or not self._fits_delta(changes, index):
            changes = detector.walk()
        return changes

    def _fits_delta(self, changes: FileChanges, index: OpenedIndex) -> bool:
        """Return whether changes are few enough for a delta segment of an index."""
        count = len(changes.to_read) + len(changes.removed_ids(self._roots))
        return can_write_delta(index.corpus, count)

    def _apply(self, changes: FileChanges, previous: OpenedIndex | None) -> IndexReport:
        """Write a new generation, unless it would equal the one before."""
        reader = FileReader()
        with ExitStack() as stack:
            choice = self._choose_channels(changes, previous, reader, stack)
            channels = choice.channels
            if previous and (not choice.fits or len(channels) > len(previous.settings.channels)):
                # What is taken over unread would lack the texts of another channel.
                walked = changes if changes.scopes is None else self._detector(None).walk()
                changes, previous = walked.all_new(), None
            if previous and self._is_same(changes, previous):
                return self._remember(self._report_unchanged(previous), changes, {})
            writer: DeltaWriter | FullWriter
            if previous and self._fits_delta(changes, previous):
                writer = DeltaWriter(changes, previous, channels, reader, progress=self._progress)
                found = self._diagnostics(changes, previous, writer.diagnostics)
                if writer.is_empty and found == previous.diagnostics():
                    return self._remember(self._report_unchanged(previous), changes, writer.seen)
            else:
                writer = FullWriter(
                    changes,
                    previous,
                    channels,
                    reader,
                    roots=self._roots,
                    with_body=self._request.with_body,
                    progress=self._progress,
                )
            report = self._write(writer, changes, previous, choice)
            return self._remember(report, changes, writer.seen)

    def _choose_channels(
        self,
        changes: FileChanges,
        previous: OpenedIndex | None,
        reader: FileReader,
        stack: ExitStack,
    ) -> ChannelChoice:
        """Open the channels that the index needs with its changed skills."""

        def open_channel(model: str) -> Channel:
            """Load an embedder and open the cache of its vectors."""
            embedder = self.embedders.get(model) or load_embedder(model, device=self._device)
            self.embedders[model] = embedder
            cache = EmbeddingCache(self._folder.path, embedder.fingerprint, embedder.dimensions)
            return Channel(model, embedder, stack.enter_context(cache))

        choice = ChannelChoice(
            self._request,
            open_channel,
            previous.settings.channels if previous else (),
            expected=expects_others(self._folder.path),
            keep=self._keep_channels,
        )
        counted = (0, 0)
        if choice.depends_on_skills:
            counted = self._count_others(changes, previous, reader, choice)
        choice.decide(*counted)
        return choice

    def _count_others(
        self,
        changes: FileChanges,
        previous: OpenedIndex | None,
        reader: FileReader,
        choice: ChannelChoice,
    ) -> tuple[int, int]:
        """Count the skills that a model for English does not know, and all skills.

        It stops as soon as there are enough for a second channel.
        """
        others = size = 0
        to_read = changes.to_read
        if previous:
            documents = previous.corpus.documents
            replaced = {file.doc_id for file in to_read} | changes.removed_ids(self._roots)
            numbers = (documents.number_of(doc_id) for doc_id in replaced)
            left = np.setdiff1d(documents.living, [n for n in numbers if n is not None])
            others, size = int(np.sum(documents.fluency[left] < KNOWN)), len(left)
        scripts, with_body = choice.channels[0].embedder.scripts, self._request.with_body
        for done, file in enumerate(to_read, start=1):
            skill = reader.read(file).skill
            if skill is not None:
                size += 1
                others += fields.fluency(skill, scripts, with_body=with_body) < KNOWN
            self._progress("read", done, len(to_read))
            most = size + len(to_read) - done
            if choice.is_enough(others, most):
                return others, most
        return others, size

    def _is_same(self, changes: FileChanges, previous: OpenedIndex) -> bool:
        """Return whether a new generation would equal the one before."""
        if changes.to_read or changes.removed_ids(self._roots):
            return False
        if self._diagnostics(changes, previous, ()) != previous.diagnostics():
            return False
        # Lost vectors are only needed for the next writing, and looked for on demand.
        return not self._verify or not count_lost(previous, self._folder.path)

    def _write(
        self,
        writer: DeltaWriter | FullWriter,
        changes: FileChanges,
        previous: OpenedIndex | None,
        choice: ChannelChoice,
    ) -> IndexReport:
        """Save a generation and report it."""
        before = previous.generation if previous else None
        if before and before.has_damage(writer.kept):
            raise CacheError("a part of the index before is damaged")
        diagnostics: tuple[Diagnostic, ...] = ()

        def save(folder: Path) -> None:
            """Write all parts that are not kept."""
            nonlocal diagnostics
            writer.write(folder)
            diagnostics = self._diagnostics(changes, previous, writer.diagnostics)
            save_diagnostics(folder, diagnostics)
            self._request.save(self._folder.path)

        settings = IndexSettings(
            roots=self._roots,
            channels=tuple(ChannelSettings.of(one.model, one.embedder) for one in choice.channels),
            languages=self._request.languages,
            could_add=choice.could_add,
            with_body=self._request.with_body,
            analysis=ANALYSIS,
        ).to_dict()
        shared = before if writer.kept else None
        try:
            name = self._folder.write(save, settings, before=shared, kept=writer.kept)
        except KeyError as exc:
            raise StorageError(
                f"A vector in {self._folder.path} was damaged or removed meanwhile; "
                "run it again, and only that one is made anew."
            ) from exc
        return self._report(
            name,
            diagnostics,
            indexed=writer.size,
            embedded=writer.embedded,
            reused=writer.reused,
            removed=writer.removed,
            truncated=writer.truncated,
        )

    def _remember(
        self, report: IndexReport, changes: FileChanges, read: Mapping[str, SeenFile]
    ) -> IndexReport:
        """Save the state of the disk; without it the next run only takes longer."""
        snapshot = changes.snapshot(report.generation, read)
        if snapshot is not None:
            save_snapshot(snapshot, self._folder.path)
        return report

    def _report_unchanged(self, index: OpenedIndex) -> IndexReport:
        """Report a run that found nothing to do."""
        self.unchanged = index
        if REQUEST_FILE in self._damaged:
            self._guarded(lambda: self._request.save(self._folder.path))
        count = len(index.corpus.documents)
        return self._report(index.name, index.diagnostics(), indexed=count, reused=count)

    def _report(
        self,
        generation: str,
        diagnostics: tuple[Diagnostic, ...],
        *,
        indexed: int,
        reused: int,
        embedded: int = 0,
        removed: int = 0,
        truncated: int = 0,
    ) -> IndexReport:
        """Report what the run did."""
        return IndexReport(
            indexed=indexed,
            embedded=embedded,
            reused=reused,
            removed=removed,
            skipped=count_skipped(diagnostics),
            truncated=truncated,
            diagnostics=diagnostics,
            generation=generation,
            healed=self._damaged,
            seconds=time.monotonic() - self._started,
        )

    def _diagnostics(
        self,
        changes: FileChanges,
        previous: OpenedIndex | None,
        of_read: Sequence[Diagnostic],
    ) -> tuple[Diagnostic, ...]:
        """Gather everything worth reporting, by path."""
        reported = previous.diagnostics() if previous else ()
        found = [*changes.discovery.diagnostics, *changes.diagnostics(reported), *of_read]
        if changes.scopes is None:
            found += self._root_diagnostics
            if not changes.files:
                message = "No SKILL.md lies below this root; check the path."
                found += [
                    Diagnostic("root-empty", "warning", message, str(root.path))
                    for root in self._roots
                ]
        return in_order(found)

    def _detector(self, index: OpenedIndex | None) -> ChangeDetector:
        return ChangeDetector(
            index, self._folder.path, self._roots, verify=self._verify, progress=self._progress
        )

    def _guarded(self, write: Callable[[], Written]) -> Written:
        """Turn an error of the system into one that says what to do."""
        try:
            return write()
        except OSError as exc:
            raise StorageError.unwritten(self._folder.path, exc) from exc

    def _reusable(self) -> OpenedIndex | None:
        """Open the index in use; None if there is none, or it was made in another way."""
        index = open_current(self._folder)
        if index is None:
            return None
        settings, request = index.settings, self._request
        wanted = (self._roots, request.with_body, request.languages, ANALYSIS)
        found = (settings.roots, settings.with_body, settings.languages, settings.analysis)
        if found != wanted or settings.channels[0].model != request.model:
            return None
        if any(model_identity(one.model) != one.model_identity for one in settings.channels):
            return None
        fits = self._keep_channels or channels_fit(
            settings.channels,
            request.languages,
            settings.could_add,
            expected=expects_others(self._folder.path),
        )
        return index if fits else None


def _silent(stage: str, done: int, total: int) -> None:
    """Ignore progress."""
