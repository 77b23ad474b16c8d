"""All that there is to say about the budget of some skills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillsearch.budget.hosts import HOSTS, Listing, list_in
from skillsearch.budget.levels import (
    Claim,
    Level,
    SearchCost,
    check_claims,
    measure_levels,
    measure_search,
)
from skillsearch.budget.sizes import MeasuredSkill
from skillsearch.types import JsonValue


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """What skills cost in a prompt.

    Attributes:
        skills: How many were measured.
        hidden: How many of them ask not to be offered to models.
        window: The context window in tokens; None where it is unknown.
        levels: Overview, bodies and all.
        search: What searching costs instead.
        claims: The promised savings, measured.
        listings: What each host would show.
    """

    skills: int
    hidden: int
    window: int | None
    levels: tuple[Level, ...]
    search: SearchCost
    claims: tuple[Claim, ...]
    listings: tuple[Listing, ...]

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "skills": self.skills,
            "hidden": self.hidden,
            "context": self.window,
            "levels": {level.name: level.to_dict() for level in self.levels},
            "search": self.search.to_dict(),
            "claims": [claim.to_dict() for claim in self.claims],
            "hosts": [listing.to_dict() for listing in self.listings],
        }


def report_budget(
    skills: Sequence[MeasuredSkill],
    *,
    n: int,
    window: int | None,
    hosts: Sequence[str] = tuple(HOSTS),
) -> BudgetReport:
    """Work out the budget of skills.

    Args:
        skills: The skills, in order of precedence, then by name.
        n: Hits of a search.
        window: The context window in tokens; None where it is unknown.
        hosts: Names of hosts, of `HOSTS`.

    Returns:
        The report.
    """
    listed = [skill.skill for skill in skills]
    return BudgetReport(
        skills=len(skills),
        hidden=sum(skill.hidden for skill in listed),
        window=window,
        levels=measure_levels(skills),
        search=measure_search(skills, n),
        claims=check_claims(skills, n),
        listings=tuple(list_in(host, listed, window) for host in dict.fromkeys(hosts)),
    )
