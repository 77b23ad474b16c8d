"""Sizes of skills → what each level costs, and whether the promised savings hold.

The promises are those of the skills architecture that this package follows ("Token 优化总结").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Literal

from skillsearch.budget.sizes import MeasuredSkill, Size
from skillsearch.types import JsonValue


@dataclass(frozen=True, slots=True)
class Level:
    """What one level of all skills costs.

    Attributes:
        name: ``overview``, ``bodies`` or ``all``.
        total: All skills together.
        share: Tokens of `total` as share of those of the level ``all``; None where that is empty.
        median: The median over the skills that have it, of characters and of tokens.
        largest: The size of the skill with most tokens.
        largest_skill: Its name; empty where there is no skill.
    """

    name: str
    total: Size
    share: float | None
    median: Size
    largest: Size
    largest_skill: str

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SearchCost:
    """What an agent pays that searches, instead of holding the overview of all skills.

    Attributes:
        n: How many hits it asks for.
        listing: The overview of that many skills, each of average size.
        body: One loaded body, the median.
    """

    n: int
    listing: Size
    body: Size

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {**asdict(self), "total": (self.listing + self.body).to_dict()}


@dataclass(frozen=True, slots=True)
class Claim:
    """A promised saving of tokens, and what was measured.

    Attributes:
        name: What saves: ``metadata``, ``start``, ``on demand``, ``relevant`` or ``format``.
        compares: What is used, and instead of what.
        figure: ``saving`` or ``share``; what the two numbers are.
        claimed: The lowest saving that was promised, or the highest share.
        measured: The same, measured in tokens; None where there is nothing to compare.
    """

    name: str
    compares: str
    figure: Literal["saving", "share"]
    claimed: float
    measured: float | None

    @property
    def holds(self) -> bool | None:
        """Whether the promise is kept, in whole percent; None where nothing was measured."""
        if self.measured is None:
            return None
        measured = round(self.measured, 2)
        return measured >= self.claimed if self.figure == "saving" else measured <= self.claimed

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {**asdict(self), "holds": self.holds}


def measure_levels(skills: Sequence[MeasuredSkill]) -> tuple[Level, Level, Level]:
    """Add up the levels of all skills.

    Args:
        skills: The skills.

    Returns:
        ``overview``: name and description of each skill that is not hidden, a line each.
        ``bodies``: all of all SKILL.md files but the frontmatter. ``all``: bodies and text
        documents; scripts and assets are not read into a prompt.
    """
    everything = sum((skill.everything for skill in skills), Size())
    offered = [skill for skill in skills if not skill.skill.hidden]
    return (
        _level("overview", offered, lambda skill: skill.overview, everything),
        _level("bodies", skills, lambda skill: skill.body, everything),
        _level("all", skills, lambda skill: skill.everything, everything),
    )


def _level(
    name: str,
    skills: Sequence[MeasuredSkill],
    size_of: Callable[[MeasuredSkill], Size],
    everything: Size,
) -> Level:
    """Add up one level."""
    sizes = [size_of(skill) for skill in skills]
    total = sum(sizes, Size())
    share = _ratio(total.tokens, everything.tokens)
    if not sizes:
        return Level(name, total, share, Size(), Size(), "")
    middle = Size(
        round(median(size.characters for size in sizes)),
        round(median(size.tokens for size in sizes)),
    )
    place = max(range(len(sizes)), key=lambda place: sizes[place].tokens)
    return Level(name, total, share, middle, sizes[place], skills[place].skill.name)


def measure_search(skills: Sequence[MeasuredSkill], n: int) -> SearchCost:
    """Work out what a search and one loaded body cost.

    Args:
        skills: The skills.
        n: Hits of a search.

    Returns:
        The cost; with fewer than n skills on offer, their whole overview.
    """
    overview, bodies, _ = measure_levels(skills)
    offered = sum(not skill.skill.hidden for skill in skills)
    part = min(n, offered) / offered if offered else 0.0
    listing = Size(round(overview.total.characters * part), round(overview.total.tokens * part))
    return SearchCost(n, listing, bodies.median)


def check_claims(skills: Sequence[MeasuredSkill], n: int) -> tuple[Claim, ...]:
    """Hold the promised savings against the user's own skills.

    Args:
        skills: The skills.
        n: Hits of a search.

    Returns:
        The claims, each with what it compares. Two needed a reading: "full skill content" is the
        bodies, since the promise knows no documents; and "a compact summary" is the overview as
        plain lines, compared with the same as XML, since the promise names no other form.
    """
    overview, bodies, everything = (level.total.tokens for level in measure_levels(skills))
    search = measure_search(skills, n)
    xml = sum(skill.xml.tokens for skill in skills)
    one = overview + search.body.tokens
    return (
        _saving("metadata", "overview, not all bodies and documents", 0.9, overview, everything),
        Claim("start", "overview, as share of all bodies", "share", 0.2, _ratio(overview, bodies)),
        _saving("on demand", "overview and one body (median), not all bodies", 0.8, one, bodies),
        _saving(
            "relevant", f"overview of {n} hits, not of all", 0.7, search.listing.tokens, overview
        ),
        _saving("format", "overview in plain lines, not as XML with locations", 0.5, overview, xml),
    )


def _saving(name: str, compares: str, claimed: float, used: int, instead_of: int) -> Claim:
    """Return a claim about a saving."""
    ratio = _ratio(used, instead_of)
    return Claim(name, compares, "saving", claimed, None if ratio is None else 1 - ratio)


def _ratio(part: int, whole: int) -> float | None:
    """Return a share, None of nothing."""
    return part / whole if whole else None
