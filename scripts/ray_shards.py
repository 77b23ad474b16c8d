"""The skills of `embed_ray` → shards of what the embedding cache lacks → the cache."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ray_fleet import POLL_S, Channel, Fleet, Shard, tell

from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.index.corpus import open_current
from skillsearch.index.dense.channels import count_needed_by, expects_others, possible_models
from skillsearch.index.documents import KNOWN, field_texts
from skillsearch.index.indexing.reading import read_file
from skillsearch.index.request import resolve_roots
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.skills.discovery import discover
from skillsearch.skills.example_requests import ExampleBook

if TYPE_CHECKING:
    from skillsearch.index.request import IndexRequest


@dataclass(slots=True)
class Tally:
    """What was done so far.

    Attributes:
        files: Skills that there are.
        read: Those looked at, which is a few shards ahead of what is embedded.
        skipped: Of these, those that cannot be indexed.
        other: Those in languages that the first channel does not know.
        lacking: Those of which the caches lacked a vector.
        embedded: Texts whose vectors are in the caches now.
        began: When the first worker was ready.
    """

    files: int
    read: int = 0
    skipped: int = 0
    other: int = 0
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
        """Prepare; `shard` is the most texts of one, `stack` closes the caches."""
        self._request, self._folder, self._fleet = request, folder, fleet
        self._shard, self._stack = shard, stack
        self._caches: dict[Channel, EmbeddingCache] = {}
        self._pending: dict[Channel, set[bytes]] = {}
        roots, _ = resolve_roots(request.roots)
        self._files = discover(roots, leave_out=folder.path).files
        self.tally = Tally(len(self._files))

    def run(self) -> None:
        """Embed what the caches lack, for all channels that the index will have."""
        first = self._open(self._request.model)
        self.tally.began = time.monotonic()
        models = possible_models(first.model, first.scripts, self._request.languages)
        previous = open_current(self._folder)
        before = len(previous.settings.channels) if previous else 1
        count = max(min(before, len(models)), self._count_needed(models))
        self._embed([self._open(model) for model in models[:count]])
        # Only now is it known how many skills are in other languages.
        needed = self._count_needed(models)
        if needed > count:
            self.tally.read = self.tally.skipped = self.tally.other = self.tally.lacking = 0
            self._embed([self._open(model) for model in models[:needed]])

    def _count_needed(self, models: Sequence[str]) -> int:
        """Count the channels that the skills read so far need."""
        return count_needed_by(
            models,
            self._request.languages,
            self.tally.other,
            self.tally.read - self.tally.skipped,
            expected=expects_others(self._folder.path),
        )

    def _open(self, model: str) -> Channel:
        """Describe a channel and open the cache of its vectors."""
        channel = self._fleet.describe(model)
        if channel not in self._caches:
            cache = EmbeddingCache(channel.fingerprint, channel.dimensions)
            self._caches[channel] = self._stack.enter_context(cache)
            self._pending[channel] = set()
        return channel

    def _embed(self, channels: Sequence[Channel]) -> None:
        """Go through all files; write each shard as it arrives."""
        told = time.monotonic()
        for shard, vectors in self._fleet.embed(self._shards(channels)):
            cache = self._caches[shard.channel]
            cache.put(dict(zip(shard.texts, vectors, strict=True)))
            self._pending[shard.channel].difference_update(shard.texts)
            self.tally.embedded += len(shard.texts)
            if time.monotonic() - told >= POLL_S:
                told = time.monotonic()
                tell(in_words(self.tally))

    def _shards(self, channels: Sequence[Channel]) -> Iterator[Shard]:
        """Read skills and yield what the caches lack of them, in shards of a bounded size."""
        begun, book = {channel: Shard(channel) for channel in channels}, ExampleBook()
        for file in self._files:
            scripts = [channel.scripts for channel in channels]
            skill = read_file(file, book).skill
            self.tally.read += 1
            if skill is None:  # The indexing will report it.
                self.tally.skipped += 1
                continue
            texts = field_texts(skill, scripts, with_body=self._request.with_body)
            self.tally.other += texts.document.fluency < KNOWN
            lacking = [
                self._lacking(channel, texts.by_key(number))
                for number, channel in enumerate(channels)
            ]
            self.tally.lacking += any(lacking)
            for channel, found in zip(channels, lacking, strict=True):
                begun[channel].texts |= found
                if len(begun[channel].texts) >= self._shard:
                    yield begun[channel]
                    begun[channel] = Shard(channel)
        yield from (shard for shard in begun.values() if shard.texts)

    def _lacking(self, channel: Channel, texts: Mapping[bytes, str]) -> dict[bytes, str]:
        """Return the texts that the cache of a channel lacks and that are not on their way."""
        pending = self._pending[channel]
        cached = self._caches[channel].get(texts)
        found = {
            key: text for key, text in texts.items() if key not in cached and key not in pending
        }
        pending.update(found)
        return found


def in_words(tally: Tally) -> str:
    """Return the progress of a run in words."""
    return (
        f"{tally.read:,} of {tally.files:,} skills read, {tally.embedded:,} texts embedded, "
        f"{tally.speed:,.1f} skills/s"
    )
