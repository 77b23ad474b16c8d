"""The workers of `embed_ray`, and the shards that are on their way to and from them."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skillsearch.errors import EmbedderError
from skillsearch.text.safe_text import one_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    """One text a row, of unit length."""

AHEAD = 2
"""Shards given to each worker: one at work and one waiting, so that none is ever idle."""
MAX_DEATHS = 5
"""Workers that a shard may lose, and that may die one after another before any is ready."""
POLL_S = 5.0


class Model(NamedTuple):
    """What the embedder of a model spec turned out to be."""

    fingerprint: str
    dimensions: int


@dataclass(slots=True)
class Shard:
    """Texts that one worker embeds at a time, and how often one died of it."""

    texts: dict[bytes, str] = field(default_factory=dict)
    deaths: int = 0


class Fleet:
    """The workers, and the shards that are on their way."""

    def __init__(self, ray: Any, create: Callable[[], Any], workers: int, model: str) -> None:
        """Start all workers.

        Args:
            ray: The library, connected.
            create: Starts a worker, and returns Ray's handle of it.
            workers: How many.
            model: What each loads before it is ready.
        """
        self._ray, self._create, self._model = ray, create, model
        self._actors: dict[int, Any] = {}
        self._ready: set[int] = set()
        self._running: dict[Any, tuple[int, Any, Shard | None]] = {}
        self._lost_shards: deque[Shard] = deque()
        self._failed_starts = 0
        self._fingerprint = ""
        self.deaths = 0
        for number in range(workers):
            self._start(number)

    def describe(self) -> Model:
        """Return what the first worker that is ready knows of the model."""
        while True:
            while not self._ready:
                self._collect()
            number = min(self._ready)
            try:
                model = self._value(self._actors[number].describe.remote(self._model))
            except self._ray.exceptions.RayError as exc:
                self._lost(number, self._actors[number], None, exc)
                continue
            self._fingerprint = model["fingerprint"]
            return Model(model["fingerprint"], model["dimensions"])

    def embed(self, shards: Iterator[Shard]) -> Iterator[tuple[Shard, Vectors]]:
        """Embed shards, each taken when a worker has room for it; yield it with its vectors."""
        while True:
            is_last = self._hand_out(shards)
            if is_last and not self._count_shards():
                return
            yield from self._collect()

    def _start(self, number: int) -> None:
        """Start a worker; it is ready once it has loaded the model."""
        actor = self._create()
        self._actors[number] = actor
        self._running[actor.describe.remote(self._model)] = (number, actor, None)

    def _count_shards(self, number: int | None = None) -> int:
        """Count the shards that a worker has, or all of them have."""
        return sum(
            shard is not None and number in (None, owner)
            for owner, _, shard in self._running.values()
        )

    def _hand_out(self, shards: Iterator[Shard]) -> bool:
        """Give each worker enough to do, lost shards first; return True if none is left to give."""
        while loads := {number: self._count_shards(number) for number in self._ready}:
            number = min(loads, key=lambda worker: (loads[worker], worker))
            if loads[number] >= AHEAD:
                return False
            shard = self._lost_shards.popleft() if self._lost_shards else next(shards, None)
            if shard is None:
                return True
            actor, texts = self._actors[number], list(shard.texts.values())
            reference = actor.embed.remote(self._model, self._fingerprint, texts)
            self._running[reference] = (number, actor, shard)
        return False

    def _collect(self) -> list[tuple[Shard, Vectors]]:
        """Wait a while for something to be done, and return the shards that are."""
        done, _ = self._ray.wait(list(self._running), timeout=POLL_S)
        if not done and not self._ready:
            tell("waiting for Ray to start a worker")
        finished = []
        for reference in done:
            number, actor, shard = self._running.pop(reference)
            try:
                value = self._value(reference)
            except self._ray.exceptions.RayError as exc:
                self._lost(number, actor, shard, exc)
                continue
            if shard is not None:
                # A copy: the array lies in Ray's memory, which is freed for the next ones.
                finished.append((shard, np.array(value, np.float32)))
            else:
                tell(f"worker {number}: {value['where']}")
                self._ready.add(number)
                self._failed_starts = 0
        return finished

    def _value(self, reference: Any) -> Any:
        """Return what a worker returned; raise the error that it told of."""
        value = self._ray.get(reference)
        if isinstance(value, str):
            raise EmbedderError(value)
        return value

    def _lost(self, number: int, actor: Any, shard: Shard | None, reason: Exception) -> None:
        """Replace a worker that died or failed, and keep its shard for another one."""
        cause = getattr(reason, "cause", None)
        if shard is None:
            self._failed_starts += 1
        else:
            shard.deaths += 1
            self._lost_shards.append(shard)
        if self._failed_starts > MAX_DEATHS or (shard and shard.deaths > MAX_DEATHS):
            raise EmbedderError(
                f"{MAX_DEATHS} workers died one after another; give each more memory, or smaller "
                f"shards (--shard): {cause or reason}"
            )
        if self._actors[number] is actor:
            self.deaths += 1
            tell(f"worker {number} died{f' of {cause!r}' if cause else ''}; starting another one")
            self._ready.discard(number)
            self._ray.kill(actor)
            self._start(number)


def tell(message: str) -> None:
    """Show a line on stderr."""
    print(one_line(message), file=sys.stderr, flush=True)
