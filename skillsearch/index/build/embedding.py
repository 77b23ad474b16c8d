"""The dense channels of a run of indexing: which there are, and the texts that their caches lack.

While one batch of texts is embedded the next is gathered, and no more, so memory stays flat. Not
waiting for the reading saves a tenth of the time on a CPU and more on a GPU.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from skillsearch.embedders.embedding import Embedder
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.errors import EmbedderError, MissingDependencyError
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.dense.channels import ChannelSettings, count_needed_by, possible_models
from skillsearch.index.documents import Document
from skillsearch.index.fields import FieldTexts
from skillsearch.index.request import IndexRequest
from skillsearch.types import Progress

BATCH = 2_048
"""Texts of a channel embedded at once: an embedder sorts them by length, to pad little."""
SIFTED = 512
"""Texts looked up in a cache at once."""
FLUSHED = 32
"""Vectors after which the cache is flushed, so that a kill loses no more."""
_BLOCK = 4_096
"""Documents whose vectors are looked up at once."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Channel:
    """A dense channel: the model spec, its embedder, and the cache of its vectors."""

    model: str
    embedder: Embedder
    cache: EmbeddingCache


def choose_channels(
    request: IndexRequest,
    before: Sequence[ChannelSettings],
    open_channel: Callable[[str], Channel],
    count: Callable[[Embedder, Callable[[int, int], bool]], tuple[int, int]],
    *,
    expected: bool,
    keep: bool,
) -> tuple[list[Channel], bool, bool]:
    """Open the channels of the index before, if any, and a second one if the skills need it.

    Given the first embedder, `count` counts the skills in languages that a model for English does
    not know, and all skills; it may stop once it is told that such counts are enough. `expected`
    are queries in other languages; with `keep` no channel is added. Returns also whether a second
    could be had and is not needed, and whether the embedders are the previous index's.
    """
    channels = [open_channel(request.model)]
    models = possible_models(request.model, channels[0].embedder.scripts, request.languages)
    allowed = len(before) if before and keep else len(models)

    def needed(others: int, size: int) -> int:
        return count_needed_by(models, request.languages, others, size, expected=expected)

    def open_up_to(number: int) -> None:
        nonlocal models, allowed
        try:
            for model in models[len(channels) : min(number, allowed)]:
                channels.append(open_channel(model))
        except (EmbedderError, MissingDependencyError) as exc:
            if request.languages == "all":
                raise
            logger.warning("indexed without the multilingual channel: %s", exc)
            models, allowed = models[:1], 1

    open_up_to(len(before) or needed(0, 0))
    found = [channel.embedder.fingerprint for channel in channels]
    fits = found == [channel.fingerprint for channel in before]
    if before and not fits:
        del channels[max(1, needed(0, 0)) :]
        open_up_to(needed(0, 0))
    others = size = 0
    if len(models) > len(channels) and needed(0, 0) < len(models):
        others, size = count(
            channels[0].embedder, lambda others, most: needed(others, most) == len(models)
        )
    wanted = needed(others, size)
    open_up_to(wanted)
    # If a channel is needed and was not added, the next run that may add it looks again.
    return channels, len(models) > 1 and wanted <= len(channels), fits


class EmbeddingQueue(AbstractContextManager["EmbeddingQueue"]):
    """Embeds the texts of documents for all channels, while the caller goes on reading files.

    Leaving it as a context manager stops the batch under way, `finish` waits for it. It counts the
    texts that were embedded, and how many of them were cut at the token limit.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        progress: Progress,
        *,
        batch: int = BATCH,
        sifted: int = SIFTED,
    ) -> None:
        """Begin; `progress` is called from another thread, with an extrapolated total.

        `batch` texts are embedded, `sifted` looked up in a cache at once.
        """
        self.embedded = self.truncated = 0
        self._channels, self._progress = channels, progress
        self._batch, self._sifted = batch, sifted
        self._share = 0.0
        self._found = 0
        self._fresh: list[dict[bytes, str]] = [{} for _ in channels]
        self._missing: list[dict[bytes, str]] = [{} for _ in channels]
        self._running: list[dict[bytes, str]] = [{} for _ in channels]
        self._caches = threading.Lock()
        self._stopped = False
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="skillsearch-index")
        self._job: Future[None] | None = None

    def __exit__(self, *error: object) -> None:
        self._stopped = True
        self._executor.shutdown()

    def add(self, texts: FieldTexts, share: float) -> None:
        """Take the texts of a document, after which a `share` of all has been read."""
        self._share = share
        for number, (fresh, keys, embedded) in enumerate(
            zip(self._fresh, texts.document.keys, texts.embedded, strict=True)
        ):
            fresh.update(
                (bytes.fromhex(key), text) for key, text in zip(keys, embedded, strict=True) if key
            )
            if number == 0:
                fresh.update((bytes.fromhex(one.record[2]), one.head) for one in texts.chunks)
            if len(fresh) >= self._sifted:
                self._sift(number)
        if max(map(len, self._missing)) >= self._batch:
            self._start()

    def lacking(self, documents: Sequence[Document]) -> list[bool]:
        """Return for each document whether one of its vectors is missing."""
        with self._caches:
            return lacking_vectors(documents, [channel.cache for channel in self._channels])

    def finish(self) -> None:
        """Wait until all texts are embedded."""
        for number in range(len(self._channels)):
            self._sift(number)
        self._share = 1.0
        self._start()
        self._wait()

    def _sift(self, number: int) -> None:
        """Keep the latest texts of a channel that its cache lacks."""
        fresh, self._fresh[number] = self._fresh[number], {}
        keys = list(fresh)
        with self._caches:
            is_there = self._channels[number].cache.has(keys)
        missing, running = self._missing[number], self._running[number]
        for key, is_known in zip(keys, is_there.tolist(), strict=True):
            if not is_known and key not in missing and key not in running:
                missing[key] = fresh[key]
                self._found += 1

    def _start(self) -> None:
        self._wait()
        self._running, self._missing = self._missing, [{} for _ in self._channels]
        if any(self._running):
            self._job = self._executor.submit(self._embed, self._running)

    def _wait(self) -> None:
        if self._job is not None:
            self._job.result()
            self._job = None

    def _embed(self, batches: Sequence[Mapping[bytes, str]]) -> None:
        for channel, batch in zip(self._channels, batches, strict=True):
            keys = list(batch)
            for result in channel.embedder.embed_stream(list(batch.values())):
                with self._caches:
                    channel.cache.add(keys[result.position], result.vector)
                    self.embedded += 1
                    self.truncated += result.truncated
                    if self.embedded % FLUSHED == 0:
                        channel.cache.flush()
                expected = max(self._found, round(self._found / self._share))
                self._progress("embed", self.embedded, expected)
                if self._stopped:
                    return


def lacking_vectors(documents: Sequence[Document], caches: Sequence[EmbeddingCache]) -> list[bool]:
    """Return for each document whether a channel's cache lacks one of its vectors intact."""
    found = np.zeros(len(documents), np.bool_)
    for number, cache in enumerate(caches):
        keys = [keys_of(document, number) for document in documents]
        is_there = cache.has([key for some in keys for key in some])
        owners = np.repeat(np.arange(len(documents)), list(map(len, keys)))
        found[owners[~is_there]] = True
    return found.tolist()


def count_lost(index: OpenedIndex, folder: Path) -> int:
    """Count the documents of an index with a vector that its caches lack, by reading all."""
    documents, lost = iter(index.corpus.documents), 0
    with ExitStack() as stack:
        caches = [
            stack.enter_context(EmbeddingCache(folder, one.fingerprint, one.dimensions))
            for one in index.settings.channels
        ]
        while block := list(islice(documents, _BLOCK)):
            lost += sum(lacking_vectors(block, caches))
    return lost


def keys_of(document: Document, channel: int) -> list[bytes]:
    """Return the keys of all texts of a document that a dense channel embeds."""
    keys = [bytes.fromhex(key) for key in document.keys[channel] if key]
    if channel == 0:
        keys += [bytes.fromhex(key) for _, _, key in document.chunks]
    return keys
