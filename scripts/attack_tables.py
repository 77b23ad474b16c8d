"""Results of ``attack.py`` → tables in Markdown; a part of other scripts, and pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import markdown_tables

from skillsearch.evaluation.reporting.report import percent, points

Row = Mapping[str, Any]


def attacks(rows: Iterable[Row]) -> list[str]:
    """Return a row for each attack and trust, with what it gains beyond ordinary skills."""
    heads = ["kind", "trust", "in the first five", "gain (points)", "first"]
    heads.append("nDCG@10 of honest skills")
    return markdown_tables.table(heads, map(_attack, rows))


def _attack(row: Row) -> list[str]:
    gain = _change(row["gain"], row["gain_interval"]) if "gain" in row else ""
    five, first, ndcg = (percent(row[key]) for key in ("first_five", "first", "ndcg"))
    return [row["kind"], row["trust"], five, gain, first, ndcg]


def probes(rows: Iterable[Row]) -> list[str]:
    """Return a row for each measure of honest skills, before and after."""
    heads = ["honest skills", "trust", "requests", "before", "after", "change (points)"]
    return markdown_tables.table(heads, map(_probe, rows))


def _probe(row: Row) -> list[str]:
    ends = (percent(row[when]) for when in ("before", "after"))
    change = _change(row["change"], row["change_interval"])
    return [row["measure"], row["trust"], str(row["requests"]), *ends, change]


def victims(rows: Iterable[Row]) -> list[str]:
    """Return a row for each kind of attack on victims, and where the attackers stand."""
    heads = ["victims of", "attackers in", "requests", "in the first five", "first", "lost"]
    return markdown_tables.table(heads, map(_victim, rows))


def _victim(row: Row) -> list[str]:
    shares = (
        " → ".join(percent(row[f"{key}_{when}"]) for when in ("before", "after"))
        for key in ("five", "first")
    )
    lost = f"{len(row['lost'])} of {row['victims']}"
    return [row["kind"], row["place"], str(row["requests"]), *shares, lost]


def _change(mean: float, ends: Sequence[float]) -> str:
    return f"{points(mean)} ({points(ends[0])} to {points(ends[1])})"


TABLES: Mapping[str, Callable[[Iterable[Row]], list[str]]] = {
    "attacks": attacks,
    "probes": probes,
    "victims": victims,
}
"""What makes the table of each part of a report."""
