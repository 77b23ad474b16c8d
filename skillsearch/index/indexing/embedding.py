"""The embedder of a run of indexing, and the vectors of the texts that are new to an index.

While one batch of texts is embedded the next is gathered, and no more, so memory stays flat. The
first batches are small, so that a few skills are embedded while they are read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import Embedder
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.index.documents.document import FieldTexts
from skillsearch.types.indexing import Progress

BATCH = 2_048
"""Texts embedded at once: an embedder sorts them by length, to pad little."""
_FIRST_BATCH = 8
"""Texts embedded at once in the first batch; each later one has up to twice as many, if the queue
would be idle otherwise."""
FLUSHED = 32
"""Vectors that are put into the cache at once, so that a kill loses no more."""
_IN_MEMORY = 1 << 20
"""Bytes of new vectors beyond which they are kept in a file."""


class CachedEmbedder(NamedTuple):
    """An embedder, and the user's cache of its vectors."""

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
    """Embeds the texts of documents, while the caller goes on reading files.

    Leaving it as a context manager stops the batch under way, `finish` waits for it. It counts the
    texts that were embedded, and how many of them were cut at the token limit; the `vectors` are
    there after `finish`.
    """

    def __init__(
        self, cached: CachedEmbedder, progress: Progress, folder: Path, *, batch: int = BATCH
    ) -> None:
        """Begin; `progress` is called from another thread, with an extrapolated total."""
        self.embedded = self.truncated = 0
        self._embedder, self._cache = cached
        self.vectors = NewVectors(folder, self._embedder.dimensions)
        self._progress, self._batch = progress, batch
        self._missing, self._least = 0, _FIRST_BATCH
        self._texts: dict[bytes, str] = {}
        self._stopped = False
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="skillsearch-index")
        self._jobs: list[Future[None]] = []

    def __exit__(self, *error: object) -> None:
        self._stopped = True
        self._executor.shutdown(cancel_futures=True)
        self.vectors.close()

    def add(self, texts: FieldTexts, share: float) -> None:
        """Take the texts of a document, after which a `share` of all has been read."""
        self._texts |= texts.by_key()
        count, is_idle = len(self._texts), all(job.done() for job in self._jobs)
        if count >= self._batch or (is_idle and count >= self._least):
            self._least *= 2
            self._wait()
            self._start(share)

    def flush(self) -> None:
        """Begin to embed the texts that are left, if any."""
        if self._texts:
            self._start(1.0)

    def finish(self) -> None:
        """Wait until all texts are embedded."""
        self.flush()
        self._wait()

    def _start(self, share: float) -> None:
        gathered, self._texts = self._texts, {}
        self._jobs.append(self._executor.submit(self._embed, gathered, share))

    def _wait(self) -> None:
        for job in self._jobs:
            job.result()
        self._jobs.clear()

    def _embed(self, gathered: Mapping[bytes, str], share: float) -> None:
        """Embed the texts that the cache lacks, gathered by when a `share` of all was read."""
        wanted = [key for key in gathered if key not in self.vectors]
        cached = self._cache.get(wanted)
        for key, vector in cached.items():
            self.vectors.add(key, vector)
        missing = {key: gathered[key] for key in wanted if key not in cached}
        self._missing += len(missing)
        if missing:
            self._embed_all(missing, max(self._missing, round(self._missing / share)))

    def _embed_all(self, texts: Mapping[bytes, str], expected: int) -> None:
        keys = list(texts)
        new = dict[bytes, NDArray[np.float32]]()
        try:
            for result in self._embedder.embed_stream(list(texts.values())):
                if self._stopped:
                    return
                key = keys[result.position]
                self.vectors.add(key, result.vector)
                new[key] = result.vector
                self.embedded += 1
                self.truncated += result.truncated
                if len(new) == FLUSHED:
                    self._cache.put(new)
                    new.clear()
                self._progress("embed", self.embedded, expected)
        finally:
            self._cache.put(new)
