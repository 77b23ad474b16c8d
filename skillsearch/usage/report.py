"""What a log of usage says about the skills of an index, and about unanswered requests; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, filterfalse
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.types.json_values import Record
from skillsearch.usage.events import Event, Vector, unpacked

if TYPE_CHECKING:
    from skillsearch.usage.log import Origin

Nearest: TypeAlias = Callable[[Vector], Sequence[str]]
"""Returns the name of the skill that is nearest to each vector."""
FEW = 3
"""A skill offered less often does not count as passed over, nor a pair as a collision."""
MOST_REQUESTS = 2000
"""How many unanswered requests, the newest, are compared with each other."""
SHOWN_TEXTS = 3


@dataclass(frozen=True, slots=True)
class PassedOver(Record):
    """A skill that was never loaded, and how often it was offered."""

    skill: str
    offered: int


@dataclass(frozen=True, slots=True)
class Collision(Record):
    """Two skills, how often they were offered together, and how often each was loaded then."""

    skills: tuple[str, str]
    together: int
    loaded: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Gap(Record):
    """Requests like each other that nothing answered: how often, how many, the nearest skill.

    The `texts` are words of some, if they were kept.
    """

    times: int
    requests: int
    nearest: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shadow(Record):
    """What the hook would have offered, how often, and what was loaded instead, if anything."""

    offered: tuple[str, ...]
    loaded: str
    times: int


@dataclass(frozen=True, slots=True)
class UsageReport(Record):
    """A summary of the events of a log, the most frequent first."""

    requests: int
    loads: int
    pins: int
    with_text: int
    never_offered: tuple[str, ...]
    never_loaded: tuple[str, ...]
    passed_over: tuple[PassedOver, ...]
    collisions: tuple[Collision, ...]
    gaps: tuple[Gap, ...]
    shadow: tuple[Shadow, ...]

    @classmethod
    def of(
        cls,
        events: Sequence[Event],
        skills: Mapping[str, str],
        nearest: Nearest,
        origin: Origin,
        dimensions: int,
    ) -> UsageReport:
        """Read events of one index, given the names of its skills by their ids.

        The names of the skills nearest to the vectors of gaps are asked for together. Gaps are made
        of vectors of the model and the dimensions of that index; those of another say nothing here.
        """
        requests = [event for event in events if event.kind == "asked"]
        loads = [event for event in events if event.kind == "loaded"]
        shown = [event for event in requests if not event.is_shadow]
        offered = Counter(offer.skill for event in shown for offer in event.offered)
        loaded = Counter(event.skill for event in loads)
        names = _Names(skills)
        passed = ((skill, count) for skill, count in offered.most_common() if count >= FEW)
        return cls(
            requests=len(requests),
            loads=len(loads),
            pins=sum(event.kind == "pin" for event in events),
            with_text=sum(bool(event.text) for event in events),
            never_offered=names.of(filterfalse(offered.__contains__, skills)),
            never_loaded=names.of(filterfalse(loaded.__contains__, skills)),
            passed_over=tuple(
                PassedOver(names[skill], count) for skill, count in passed if not loaded[skill]
            ),
            collisions=tuple(_collisions(shown, loads, names)),
            gaps=tuple(_gaps(events, nearest, origin, dimensions)),
            shadow=tuple(_shadow(requests, loads, names)),
        )


class _Names(dict[str, str]):
    """Names by ids; a skill that is gone goes by its id."""

    def __missing__(self, skill: str) -> str:
        return skill

    def of(self, skills: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(self[skill] for skill in skills))


class _Loaded(NamedTuple):
    """What a load is due to."""

    request_id: str
    project_id: str


def _loaded_after(loads: Sequence[Event]) -> dict[_Loaded, list[str]]:
    """Return the skills that were loaded after each request of a project."""
    after: dict[_Loaded, list[str]] = {}
    for event in loads:
        if event.request_id:
            after.setdefault(_Loaded(event.request_id, event.project_id), []).append(event.skill)
    return after


def _collisions(
    requests: Sequence[Event], loads: Sequence[Event], names: _Names
) -> list[Collision]:
    """Return pairs of skills that are offered together and loaded in turns."""
    together: Counter[tuple[str, str]] = Counter()
    chosen: Counter[tuple[tuple[str, str], str]] = Counter()
    seen: set[tuple[tuple[str, str], _Loaded]] = set()
    after = _loaded_after(loads)
    for event in requests:
        request = _Loaded(event.request_id, event.project_id)
        for pair in combinations(sorted({offer.skill for offer in event.offered}), 2):
            together[pair] += 1
            if (pair, request) not in seen:  # the loads of a request that is repeated count once
                seen.add((pair, request))
                chosen.update((pair, skill) for skill in after.get(request, ()) if skill in pair)
    return [
        Collision((names[pair[0]], names[pair[1]]), count, (first, second))
        for pair, count in together.most_common()
        if count >= FEW and (first := chosen[pair, pair[0]]) and (second := chosen[pair, pair[1]])
    ]


def _grouped(rows: Vector, alike: float) -> list[list[int]]:
    """Group vectors, each group around the first that is in none before it."""
    is_left = np.ones(len(rows), bool)
    groups: list[list[int]] = []
    for row in range(len(rows)):
        if is_left[row]:
            is_near = rows @ rows[row] >= alike
            is_near[row] = True  # a damaged vector may be far from itself
            members = np.flatnonzero(is_left & is_near)
            is_left[members] = False
            groups.append(members.tolist())
    return groups


def _gaps(events: Sequence[Event], nearest: Nearest, origin: Origin, dimensions: int) -> list[Gap]:
    """Group similar unanswered requests, each group around its most frequent one.

    One that was pinned since, or found something when it was asked again, is no gap any more.
    """
    form = origin.model, dimensions
    usable = [event for event in _unanswered(events) if (event.model, len(event.vector)) == form]
    usable = usable[-MOST_REQUESTS:]
    times = Counter(event.request_id for event in usable)
    by_id = {event.request_id: event for event in usable}
    remaining = sorted(by_id.values(), key=lambda event: (-times[event.request_id], -event.at))
    if not remaining:
        return []
    rows = unpacked([event.vector for event in remaining])
    groups = _grouped(rows, origin.alike)
    near = nearest(np.stack([rows[group].mean(axis=0) for group in groups]))
    pairs = zip(groups, near, strict=True)
    gaps = (_gap([remaining[row] for row in group], times, name) for group, name in pairs)
    return sorted(gaps, key=lambda gap: -gap.times)


def _unanswered(events: Sequence[Event]) -> Iterator[Event]:
    """Yield what was told "none", unless the same request has had another answer since."""
    last = {(each.request_id, each.project_id): each for each in events if each.kind != "loaded"}
    for event in events:
        if event.state == last[event.request_id, event.project_id].state == "none":
            yield event


def _gap(events: Sequence[Event], times: Mapping[str, int], name: str) -> Gap:
    texts = tuple(event.text for event in events if event.text)[:SHOWN_TEXTS]
    return Gap(sum(times[event.request_id] for event in events), len(events), name, texts)


def _shadow(requests: Sequence[Event], loads: Sequence[Event], names: _Names) -> list[Shadow]:
    """Return what would have been offered in the shadow, and what was loaded after it."""
    after, counts = _loaded_after(loads), Counter[tuple[tuple[str, ...], str]]()
    for event in requests:
        if event.is_shadow:
            offered = tuple(names[offer.skill] for offer in event.offered)
            for skill in after.get(_Loaded(event.request_id, event.project_id), [""]):
                counts[offered, names[skill] if skill else ""] += 1
    return [Shadow(offered, loaded, times) for (offered, loaded), times in counts.most_common()]
