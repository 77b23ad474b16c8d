"""The dense channels of a run of indexing, and the vectors of the texts that are new to an index.

While one batch of texts is embedded the next is gathered, and no more, so memory stays flat. The
first batches are small, so that a few skills are embedded while they are read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import Embedder
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.index.documents import FieldTexts
from skillsearch.types import Progress

BATCH = 2_048
"""Texts of a channel embedded at once: an embedder sorts them by length, to pad little."""
_FIRST_BATCH = 8
"""Texts embedded at once in the first batch; each later one has up to twice as many, if the queue
would be idle otherwise."""
FLUSHED = 32
"""Vectors that are put into the cache at once, so that a kill loses no more."""
_IN_MEMORY = 1 << 20
"""Bytes of new vectors beyond which they are kept in a file."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A dense channel: the model spec, its embedder, and the user's cache of its vectors."""

    model: str
    embedder: Embedder
    cache: EmbeddingCache


class NewVectors:
    """The vectors of new texts by their keys, kept in a file without a name if they are many."""

    def __init__(self, folder: Path, dimensions: int) -> None:
        """Begin, with the file in a folder if need be."""
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(folder))  # noqa: SIM115 (closed below)
        self._bytes, self._rows = 4 * dimensions, dict[bytes, int]()

    def __contains__(self, key: bytes) -> bool:
        return key in self._rows

    def add(self, key: bytes, vector: NDArray[np.float32]) -> None:
        """Keep a vector; none is added after the first is read."""
        self._rows[key] = len(self._rows)
        self._file.write(np.asarray(vector, "<f4").tobytes())

    def matrix(self, keys: Iterable[bytes]) -> NDArray[np.float32]:
        """Return the vectors of texts, one row each."""
        rows = []
        for key in keys:
            self._file.seek(self._rows[key] * self._bytes)
            rows.append(self._file.read(self._bytes))
        return np.frombuffer(b"".join(rows), "<f4").reshape(-1, self._bytes // 4)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


class EmbeddingQueue(AbstractContextManager["EmbeddingQueue"]):
    """Embeds the texts of documents for all channels, while the caller goes on reading files.

    Leaving it as a context manager stops the batch under way, `finish` waits for it. It counts the
    texts that were embedded, and how many of them were cut at the token limit; the `vectors` of
    each channel are there after `finish`.
    """

    def __init__(
        self, channels: Sequence[Channel], progress: Progress, folder: Path, *, batch: int = BATCH
    ) -> None:
        """Begin; `progress` is called from another thread, with an extrapolated total."""
        self.embedded = self.truncated = 0
        self.vectors = [NewVectors(folder, channel.embedder.dimensions) for channel in channels]
        self._channels, self._progress, self._batch = channels, progress, batch
        self._missing, self._least = 0, _FIRST_BATCH
        self._texts: list[dict[bytes, str]] = [{} for _ in channels]
        self._stopped = False
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="skillsearch-index")
        self._jobs: list[Future[None]] = []

    def __exit__(self, *error: object) -> None:
        self._stopped = True
        self._executor.shutdown(cancel_futures=True)
        for vectors in self.vectors:
            vectors.close()

    def add(self, texts: FieldTexts, share: float) -> None:
        """Take the texts of a document, after which a `share` of all has been read."""
        for channel, gathered in enumerate(self._texts):
            gathered.update(texts.by_key(channel))
        count, is_idle = max(map(len, self._texts)), all(job.done() for job in self._jobs)
        if count >= self._batch or (is_idle and count >= self._least):
            self._least *= 2
            self._wait()
            self._start(share)

    def flush(self) -> None:
        """Begin to embed what is left, if anything is."""
        if any(self._texts):
            self._start(1.0)

    def finish(self) -> None:
        """Wait until all texts are embedded."""
        self.flush()
        self._wait()

    def _start(self, share: float) -> None:
        gathered, self._texts = self._texts, [{} for _ in self._channels]
        self._jobs.append(self._executor.submit(self._embed, gathered, share))

    def _wait(self) -> None:
        for job in self._jobs:
            job.result()
        self._jobs.clear()

    def _embed(self, gathered: Sequence[Mapping[bytes, str]], share: float) -> None:
        """Embed the texts that the caches lack, gathered by when a `share` of all was read."""
        missing = []
        for channel, vectors, texts in zip(self._channels, self.vectors, gathered, strict=True):
            wanted = [key for key in texts if key not in vectors]
            cached = channel.cache.get(wanted)
            for key, vector in cached.items():
                vectors.add(key, vector)
            missing.append([key for key in wanted if key not in cached])
        self._missing += sum(map(len, missing))
        expected = max(self._missing, round(self._missing / share))
        for number, (texts, keys) in enumerate(zip(gathered, missing, strict=True)):
            self._embed_all(number, {key: texts[key] for key in keys}, expected)

    def _embed_all(self, number: int, texts: Mapping[bytes, str], expected: int) -> None:
        channel, keys, new = self._channels[number], list(texts), dict[bytes, NDArray[np.float32]]()
        try:
            for result in channel.embedder.embed_stream(list(texts.values())) if texts else ():
                if self._stopped:
                    return
                key = keys[result.position]
                self.vectors[number].add(key, result.vector)
                new[key] = result.vector
                self.embedded += 1
                self.truncated += result.truncated
                if len(new) == FLUSHED:
                    channel.cache.put(new)
                    new.clear()
                self._progress("embed", self.embedded, expected)
        finally:
            channel.cache.put(new)
