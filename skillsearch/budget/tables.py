"""The tables of a budget, for terminal, lines and page; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillsearch.budget.costs import BudgetReport
from skillsearch.budget.hosts import FATES
from skillsearch.rendering.blocks import Row, RowGroup, Table
from skillsearch.text.safe_text import counted

_HOLDS = {True: "yes", False: "no", None: "nothing to compare"}


def levels(report: BudgetReport) -> Table:
    """Return what each level costs, and what a search costs instead."""
    rows: list[Row] = []
    for level in report.levels:
        sizes = level.total.characters, level.total.tokens, level.share
        largest = level.largest.tokens, level.largest_skill
        rows.append((level.name, *sizes, level.median.tokens, *largest))
    search, whole = report.search, report.levels[-1].total.tokens
    for part, size in ((counted(search.n, "hit"), search.listing), ("one body", search.body)):
        share = size.tokens / whole if whole else None
        rows.append((f"search: {part}", size.characters, size.tokens, share, "", "", ""))
    heads = ("level", "characters", "tokens", "of all", "median tokens", "most tokens", "in")
    return Table("Costs by level", heads, [RowGroup(rows)], texts=["in"])


def claims(report: BudgetReport) -> Table:
    """Return the promised savings next to the measured ones."""
    rows: list[Row] = []
    for claim in report.claims:
        shares = claim.figure, claim.claimed, claim.measured
        rows.append((claim.name, *shares, _HOLDS[claim.holds], claim.compares))
    heads = ("claim", "figure", "said", "measured", "holds", "compares")
    return Table("Promised savings", heads, [RowGroup(rows)], texts=["figure", "holds", "compares"])


def listings(report: BudgetReport) -> Table:
    """Return how many skills meet which fate in the listing of each host."""
    rows: list[Row] = []
    for listing in report.listings:
        counts = (len(listing.fates[fate]) for fate in FATES)
        rows.append((listing.host, listing.limit, listing.unit, listing.needed, *counts))
    title = "Skills by what is left of them in the host's listing"
    return Table(title, ("host", "limit", "of", "uncut", *FATES), [RowGroup(rows)], texts=["of"])


def cut_skills(report: BudgetReport) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield host, fate and names of the skills that are not whole in the listing of a host."""
    for listing in report.listings:
        for fate, names in listing.fates.items():
            if names and fate != "whole":
                yield listing.host, fate, names
