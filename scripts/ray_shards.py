"""The skills of `embed_ray` → shards of what the embedding cache lacks → the cache."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ray_fleet import POLL_S, Fleet, Shard, tell

from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.index.documents.document import field_texts
from skillsearch.index.indexing.reading import read_for_index
from skillsearch.index.roots.request import resolve_roots
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.skills.discovery import discover
from skillsearch.skills.example_requests import ExampleBook

if TYPE_CHECKING:
    from skillsearch.index.roots.request import IndexRequest


@dataclass(slots=True)
class Tally:
    """What was done so far.

    Attributes:
        files: Skills that there are.
        read: Those looked at, which is a few shards ahead of what is embedded.
        skipped: Of these, those that cannot be indexed.
        lacking: Those of which the cache lacked a vector.
        embedded: Texts whose vectors are in the cache now.
        began: When the first worker was ready.
    """

    files: int
    read: int = 0
    skipped: int = 0
    lacking: int = 0
    embedded: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.monotonic() - self.began

    @property
    def speed(self) -> float:
        """Skills a second, of those that lacked something."""
        return self.lacking / max(self.seconds, 1e-9)


class Embedding:
    """One run: skills in, vectors in the cache."""

    def __init__(
        self, request: IndexRequest, folder: IndexFolder, fleet: Fleet, shard: int, stack: ExitStack
    ) -> None:
        """Prepare; `shard` is the most texts of one, `stack` closes the cache."""
        self._request, self._folder, self._fleet = request, folder, fleet
        self._shard, self._stack = shard, stack
        self._pending: set[bytes] = set()
        roots, _ = resolve_roots(request.roots)
        self._files = discover(roots, leave_out=folder.path).files
        self.tally = Tally(len(self._files))

    def run(self) -> None:
        """Embed what the cache lacks; write each shard as it arrives."""
        cache = self._stack.enter_context(EmbeddingCache(*self._fleet.describe()))
        self.tally.began = last = time.monotonic()
        for shard, vectors in self._fleet.embed(self._shards(cache)):
            cache.put(dict(zip(shard.texts, vectors, strict=True)))
            self._pending.difference_update(shard.texts)
            self.tally.embedded += len(shard.texts)
            if time.monotonic() - last >= POLL_S:
                last = time.monotonic()
                tell(in_words(self.tally))

    def _shards(self, cache: EmbeddingCache) -> Iterator[Shard]:
        """Read skills and yield what the cache lacks of them, in shards of a bounded size."""
        shard, book = Shard(), ExampleBook()
        for file in self._files:
            skill = read_for_index(file, book).skill
            self.tally.read += 1
            if skill is None:  # The indexing will report it.
                self.tally.skipped += 1
                continue
            texts = field_texts(skill, with_body=self._request.with_body).by_key()
            lacking = texts.keys() - cache.get(texts).keys() - self._pending
            self._pending |= lacking
            self.tally.lacking += bool(lacking)
            shard.texts |= {key: text for key, text in texts.items() if key in lacking}
            if len(shard.texts) >= self._shard:
                yield shard
                shard = Shard()
        if shard.texts:
            yield shard


def in_words(tally: Tally) -> str:
    """Return the progress of a run in words."""
    return (
        f"{tally.read:,} of {tally.files:,} skills read, {tally.embedded:,} texts embedded, "
        f"{tally.speed:,.1f} skills/s"
    )
