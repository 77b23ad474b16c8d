"""How far usage supports a skill: the share of similar requests that led to it; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.usage.events import Event, Vector, unpacked

ALIKE, ALIKE_ELSEWHERE = 0.5, 0.9
"""Below this cosine, requests are not alike: of a packaged model, and of any other."""
HALF_LIFE_DAYS = 60.0
PRIOR = 2.0
"""Weight of doubt: as if this many similar requests had led to no skill."""
PIN_WEIGHT = 4.0
"""How many loads of today a pin weighs as much as."""
SAME = 0.98
"""From this cosine on, a request is the one that was pinned, in the same words or nearly."""
MOST_EVENTS = 4096
DAY = 86_400


class LogRead(NamedTuple):
    """How far a log was read for an index.

    Attributes:
        of: Which file, index and embedder: its path, the keyed hash, the fingerprint.
        stat: The inode, the time of change and the size of the file, as far as it was read.
        end: The last bytes that were read.
        events: The loads and pins of that index.
    """

    of: tuple[str, str, str] = ("", "", "")
    stat: tuple[int, int, int] = (0, 0, 0)
    end: bytes = b""
    events: tuple[Event, ...] = ()


_NOT_READ = LogRead()


@dataclass(frozen=True, slots=True, eq=False)
class Usage:
    """Requests that led to a skill: a unit vector, the id of the skill and a weight of each.

    They say something of requests of a cosine from `alike` on. The weights are those of `today`, a
    day since 1970; `read` is how far the log was read for them.
    """

    vectors: Vector = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    skills: Sequence[str] = ()
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    are_pins: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    alike: float = ALIKE
    today: int = 0
    read: LogRead = _NOT_READ

    @classmethod
    def of(
        cls,
        events: Sequence[Event],
        dimensions: int,
        today: int,
        alike: float = ALIKE,
        read: LogRead = _NOT_READ,
    ) -> Usage:
        """Weigh loads and pins, the newest if they are many, on a day since 1970."""
        usable = [event for event in events if len(event.vector) == dimensions and event.skill]
        if not (usable := usable[-MOST_EVENTS:]):
            return cls(today=today, read=read)
        ages = np.array([max(today - event.at // DAY, 0) for event in usable])
        are_pins = np.array([event.kind == "pin" for event in usable])
        weights = np.where(are_pins, PIN_WEIGHT, 0.5 ** (ages / HALF_LIFE_DAYS))
        vectors = unpacked([event.vector for event in usable])
        skills = [event.skill for event in usable]
        return cls(vectors, skills, weights, are_pins, alike, today, read)

    def __len__(self) -> int:
        return len(self.skills)

    def _cosines(self, vector: Vector) -> Vector:
        """Return the cosine of each request; zeros for a vector of another model."""
        if len(vector) != self.vectors.shape[1]:
            return np.zeros(len(self), np.float32)
        return self.vectors @ vector

    def pinned(self, vector: Vector) -> tuple[str, ...]:
        """Return the skills that the request of a unit vector is pinned to, each once."""
        if not self.are_pins.any():
            return ()
        rows = np.flatnonzero(self.are_pins & (self._cosines(vector) >= SAME))
        return tuple(dict.fromkeys(self.skills[row] for row in rows.tolist()))

    def support(self, vector: Vector) -> Mapping[str, float]:
        """Return how far requests like the one of a unit vector led to each skill, from 0 to 1.

        That is the weight of those that led to it as a share of the weight of all, and `PRIOR`.
        """
        likeness = (self._cosines(vector) - self.alike) / (1.0 - self.alike)
        weights = np.clip(likeness, 0.0, 1.0) * self.weights
        total = float(weights.sum()) + PRIOR
        sums = defaultdict[str, float](float)
        for row in np.flatnonzero(weights).tolist():
            sums[self.skills[row]] += float(weights[row])
        return {skill: weight / total for skill, weight in sums.items()}


NO_USAGE = Usage()
