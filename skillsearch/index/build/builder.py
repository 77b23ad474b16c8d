"""Roots → a new generation of the index, doing again only what changed.

A skill whose file is unchanged keeps its postings, every vector comes from the cache by the text
that it embeds, and all is put in one order; so an index brought up to date is equal, byte for byte,
to one built from scratch with the same dense channels. A channel that is there is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from skillsearch.embedders.embedder import load_embedder, require_device
from skillsearch.embedders.embedding import Embedder
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.errors import CacheError, StorageError
from skillsearch.index.build import reuse
from skillsearch.index.build.amending import can_amend, ids_in
from skillsearch.index.build.amending_pass import AmendingPass
from skillsearch.index.build.channel_choice import ChannelChoice
from skillsearch.index.build.diagnostics import in_order
from skillsearch.index.build.freshness import known_files, snapshot_of
from skillsearch.index.build.indexing_pass import IndexingPass, diagnostics_by_path
from skillsearch.index.build.looking import look, store
from skillsearch.index.build.reading import Comparison, compare_files
from skillsearch.index.build.run_reports import report_of, report_unchanged
from skillsearch.index.build.snapshot import SeenFiles, Snapshot
from skillsearch.index.build.sweep import Sweep, scopes_of, sweep
from skillsearch.index.build.text_embedding import Channel
from skillsearch.index.corpus import IndexSettings, OpenedIndex, save_diagnostics
from skillsearch.index.dense.channels import ChannelSettings, expects_others
from skillsearch.index.indexed_roots import resolve_roots
from skillsearch.index.request import REQUEST_FILE, IndexRequest
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.skills.discovery import Discovery, Scope, discover, discover_in, inside, scopes_at
from skillsearch.types import Diagnostic, IndexReport, JsonValue, Progress

logger = logging.getLogger(__name__)

Written = TypeVar("Written")


class Builder:
    """One run of indexing.

    Attributes:
        embedders: The embedders that are loaded, by what they are loaded by.
        unchanged: The opened and checked index, where the run left it as it was.
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
            verify: Hash every file, those of the index too, whatever its stat says.
            keep_channels: Add no dense channel, for which all skills would have to be embedded.
            only: The SKILL.md files and folders that may have changed since the run before; none
                where that is to be found out. In a small index all are looked at.
            device: Where the model runs, as in `load_embedder`.
            embedders: Embedders that are loaded already, by what they are loaded by; with
                `verify` they are loaded anew.
            progress: Told how far the run is.

        Raises:
            RootError: When a root cannot be indexed.
            ConfigError: When the model runs on the CPU only and another device is asked for.
        """
        require_device(request.model, device)
        self._started = time.monotonic()
        self._folder = folder
        self._request = request
        self._roots, self._root_diagnostics = resolve_roots(request.roots)
        self._with_body = request.with_body
        self.embedders: dict[str, Embedder] = {} if verify else dict(embedders or {})
        self.unchanged: OpenedIndex | None = None
        self._verify = verify
        self._keep_channels = keep_channels
        self._only = tuple(only)
        self._embedded = self._truncated = 0
        self._damaged: tuple[str, ...] = ()
        self._device = device
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
        if not self._only:
            self._damaged = self._folder.damage(everything=self._verify)
        before = None if self._only else self._reusable()
        swept = self._sweep(before) if before else None
        if before and swept is not None and not swept:
            return self._unchanged(before)
        with self._folder.lock():
            previous = self._reusable()
            if previous is None:
                return self._guarded(lambda: self._rebuild(None))
            if before is None or before.name != previous.name:
                swept = None
            return self._guarded(lambda: self._renew_whole(previous, swept))

    def _renew_whole(self, previous: OpenedIndex, swept: Sweep | None) -> IndexReport:
        """Bring an index up to date as `_renew` does, or build it anew if it is damaged."""
        try:
            with previous.guard:
                return self._renew(previous, swept)
        except CacheError as exc:
            logger.warning("building the index anew: %s", exc)
            self._damaged = self._folder.damage(everything=True)
            return self._rebuild(None)

    def _renew(self, previous: OpenedIndex, swept: Sweep | None) -> IndexReport:
        """Bring an index up to date, looking at no more than has to be looked at.

        Args:
            previous: The index.
            swept: What changed since it was made, where that is known.

        Returns:
            What was done.
        """
        if self._only and can_amend(previous.corpus, len(self._only)):
            snapshot = snapshot_of(previous, self._folder)
            report = self._update(previous, scopes_at(self._roots, self._only), snapshot)
            if report is not None:
                return report
        swept = swept or self._sweep(previous)
        if swept is not None and not swept:
            return self._unchanged(previous)
        if swept is not None and can_amend(previous.corpus, 1):
            reported = previous.diagnostics()
            scopes = scopes_of(swept, self._roots, reported, self._folder.path)
            report = None if scopes is None else self._update(previous, scopes, swept.snapshot)
            if report is not None:
                return report
        return self._rebuild(previous)

    def _sweep(self, index: OpenedIndex) -> Sweep | None:
        """Find out by stat what changed since an index was made; None where that tells nothing."""
        snapshot = None if self._verify else snapshot_of(index, self._folder)
        return sweep(snapshot) if snapshot else None

    def _guarded(self, write: Callable[[], Written]) -> Written:
        """Call what writes the index, and say what to do where it cannot be written."""
        try:
            return write()
        except OSError as exc:
            raise StorageError.unwritten(self._folder.path, exc) from exc

    def _reusable(self) -> OpenedIndex | None:
        """Open the index in use if parts of it can be used again."""
        return reuse.open_reusable(
            self._folder,
            self._request,
            self._roots,
            keep_channels=self._keep_channels,
        )

    def _unchanged(self, index: OpenedIndex) -> IndexReport:
        """Report a run that found nothing to do."""
        self.unchanged = index
        if REQUEST_FILE in self._damaged:
            self._guarded(lambda: self._request.save(self._folder.path))
        return report_unchanged(index, self._damaged, self._started)

    def _rebuild(self, previous: OpenedIndex | None) -> IndexReport:
        """Find out what changed; write a new generation unless it would equal the one before."""
        seen_at_ns = time.time_ns()
        discovery = discover(self._roots, leave_out=self._folder.path)
        with ExitStack() as stack:
            choice = self._choose_channels(previous, stack)
            if previous and not choice.fits(previous.settings.channels):
                previous = None
                choice.start_over()
            # What was taken over unread would lack the texts of a further channel.
            if previous and choice.adds_one(*reuse.count_others(previous)):
                previous = None
            while True:
                comparison = self._compare(previous, discovery)
                if previous and self._is_same(previous, comparison, discovery, choice):
                    seen = comparison.all_seen()
                    self._remember(previous.name, discovery, seen, seen_at_ns)
                    return self._unchanged(previous)
                if previous and can_amend(previous.corpus, comparison.count):
                    reported = comparison.diagnostics(diagnostics_by_path(previous))
                    amending = AmendingPass(
                        previous,
                        choice.channels,
                        self._diagnostics(discovery, reported),
                        with_body=self._with_body,
                        progress=self._progress,
                    )
                    amending.read([discovery.files[place] for place in comparison.changed])
                    report = self._amend(amending, choice, comparison.gone_ids(self._roots))
                    if report is not None:
                        seen = comparison.all_seen(amending.seen)
                        self._remember(report.generation, discovery, seen, seen_at_ns)
                        return report
                    previous = None
                    continue
                if previous and previous.generation.has_damage():
                    raise CacheError("a part of the index before is damaged")
                run = IndexingPass(
                    comparison,
                    previous,
                    choice.channels,
                    self._roots,
                    with_body=self._with_body,
                    progress=self._progress,
                )
                report = self._write(run, choice, discovery)
                if report is not None:
                    self._remember(report.generation, discovery, run.seen, seen_at_ns)
                    return report
                previous = None

    def _remember(
        self, generation: str, discovery: Discovery, seen: SeenFiles, seen_at_ns: int
    ) -> None:
        """Record what the disk looked like; without it the next run only takes longer."""
        store(look(generation, discovery, seen, seen_at_ns), self._folder.path)

    def _choose_channels(self, previous: OpenedIndex | None, stack: ExitStack) -> ChannelChoice:
        """Open the channels that the run begins with."""

        def open_channel(model: str) -> Channel:
            """Load an embedder and open the cache of its vectors."""
            embedder = self.embedders.get(model) or load_embedder(model, device=self._device)
            self.embedders[model] = embedder
            cache = EmbeddingCache(self._folder.path, embedder.fingerprint, embedder.dimensions)
            return Channel(model, embedder, stack.enter_context(cache))

        return ChannelChoice(
            self._request,
            open_channel,
            expected=expects_others(self._folder.path),
            before=previous.settings.channels if previous else (),
            keep=self._keep_channels,
        )

    def _compare(self, previous: OpenedIndex | None, discovery: Discovery) -> Comparison:
        """Find out which files changed."""
        known = known_files(previous, self._folder) if previous else {}
        return compare_files(discovery.files, known, verify=self._verify, progress=self._progress)

    def _is_same(
        self,
        previous: OpenedIndex,
        comparison: Comparison,
        discovery: Discovery,
        choice: ChannelChoice,
    ) -> bool:
        """Tell whether a new generation would equal the one before."""
        if not comparison.is_same():
            return False
        reported = diagnostics_by_path(previous)
        if self._diagnostics(discovery, comparison.diagnostics(reported)) != previous.diagnostics():
            return False
        # Vectors that were lost are not needed before the next writing, but looked for on demand.
        return not self._verify or not reuse.count_lost(previous, self._folder.path)

    def _update(
        self, previous: OpenedIndex, scopes: Sequence[Scope], snapshot: Snapshot | None
    ) -> IndexReport | None:
        """Look at some folders alone; None where all must be looked at."""
        seen_at_ns = time.time_ns()
        discovery = discover_in(self._roots, scopes, leave_out=self._folder.path)
        is_inside = inside(scopes)
        asked = {str(scope.root.path / scope.relative) for scope in scopes}
        if not all(path in asked or is_inside(path) for path, _ in discovery.folders):
            return None  # A link led to where only a walk knows whether it comes anyway.
        found = {file.doc_id for file in discovery.files}
        gone = ids_in(previous.corpus.documents, scopes) - found
        if len(gone) == len(previous.corpus.documents):
            return None  # That a root is empty is reported by a walk.
        if not can_amend(previous.corpus, len(discovery.files) + len(gone)):
            return None
        outside = (one for one in previous.diagnostics() if not is_inside(one.path))
        with ExitStack() as stack:
            choice = self._choose_channels(previous, stack)
            if not choice.fits(previous.settings.channels):
                return None
            amending = AmendingPass(
                previous,
                choice.channels,
                in_order([*outside, *discovery.diagnostics]),
                with_body=self._with_body,
                progress=self._progress,
            )
            amending.read(discovery.files)
            report = self._amend(amending, choice, gone)
        if report is not None and snapshot is not None:
            looked = look(report.generation, discovery, amending.seen, seen_at_ns)
            store(snapshot.amended(scopes, looked), self._folder.path)
        return report

    def _amend(
        self, run: AmendingPass, choice: ChannelChoice, gone: Collection[str]
    ) -> IndexReport | None:
        """Write what changed beside an index; None where that needs a further channel."""
        others, size = reuse.count_others(run.previous)
        if choice.adds_one(others + run.others, size + run.read_count):
            return None
        changes = run.changes(gone)
        diagnostics = in_order([*run.reported, *run.diagnostics])
        if not len(changes) and diagnostics == run.previous.diagnostics():
            return self._unchanged(run.previous)

        settings = self._settings(choice).to_dict()
        generation = run.publish(self._folder, settings, changes, diagnostics)
        return report_of(run, generation, diagnostics, self._damaged, self._started)

    def _write(
        self, run: IndexingPass, choice: ChannelChoice, discovery: Discovery
    ) -> IndexReport | None:
        """Save a generation; None where a further channel came, for which all must be read."""
        settings: dict[str, JsonValue] = {}
        diagnostics: tuple[Diagnostic, ...] = ()

        def check(others: int, size: int) -> None:
            """End the pass where it needs a further channel."""
            if choice.adds_one(others, size):
                raise _AnotherChannelError

        def save(folder: Path) -> None:
            """Write all parts; only then is it known what the settings are."""
            nonlocal diagnostics
            run.write(folder, check)
            diagnostics = self._diagnostics(discovery, run.diagnostics)
            save_diagnostics(folder, diagnostics)
            settings.update(self._settings(choice).to_dict())
            self._request.save(self._folder.path)

        try:
            generation = self._folder.write(save, settings)
        except _AnotherChannelError:
            return None
        except KeyError as exc:
            raise StorageError(
                f"A vector in {self._folder.path} was damaged or removed meanwhile; "
                "run it again, and only that one is made anew."
            ) from exc
        finally:
            self._embedded += run.embedded
            self._truncated += run.truncated
        run.embedded, run.truncated = self._embedded, self._truncated
        return report_of(run, generation, diagnostics, self._damaged, self._started)

    def _settings(self, choice: ChannelChoice) -> IndexSettings:
        """Return what decides the index beside its skills."""
        return IndexSettings(
            roots=self._roots,
            channels=tuple(ChannelSettings.of(one.model, one.embedder) for one in choice.channels),
            languages=self._request.languages,
            could_add=choice.could_add,
            with_body=self._with_body,
            analysis=reuse.ANALYSIS,
        )

    def _diagnostics(
        self, discovery: Discovery, of_files: Iterable[Diagnostic]
    ) -> tuple[Diagnostic, ...]:
        """Gather everything worth reporting, by path."""
        found = [*self._root_diagnostics, *discovery.diagnostics, *of_files]
        if not discovery.files:
            message = "No SKILL.md lies below this root; check the path."
            found += [
                Diagnostic("root-empty", "warning", message, str(root.path)) for root in self._roots
            ]
        return in_order(found)


class _AnotherChannelError(Exception):
    """A pass cannot end, for its skills need a channel that it had not."""


def _silent(stage: str, done: int, total: int) -> None:
    """Take no notice of progress."""
