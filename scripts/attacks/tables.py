"""Results of ``attack.py`` → tables in Markdown; a part of other scripts, and pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NotRequired, TypeAlias, TypedDict

import markdown_tables
from benchmark.rows import Machine

from skillsearch.evaluation.reporting.report import percent, points

Part: TypeAlias = Literal["attacks", "probes", "victims"]


class AttackRow(TypedDict):
    """What an attack won, as shares of requests."""

    kind: str
    trust: str
    first_five: float
    first: float
    ndcg: float
    gain: NotRequired[float]
    gain_interval: NotRequired[tuple[float, float]]


class ProbeRow(TypedDict):
    """What became of honest skills, as means over requests."""

    measure: str
    trust: str
    requests: int
    before: float
    after: float
    change: float
    change_interval: tuple[float, float]


class VictimRow(TypedDict):
    """What became of victims, as shares of their requests, and the ids of those lost."""

    kind: str
    root: str
    victims: int
    requests: int
    five_before: float
    five_after: float
    first_before: float
    first_after: float
    lost: list[str]


class Settings(TypedDict):
    """On how many skills and requests, and how, it was measured."""

    honest: int
    attackers: int
    known: int
    measured: int
    reader: str
    seed: int


class Report(TypedDict):
    """The result file; `save_report` adds the machine."""

    machine: NotRequired[Machine]
    settings: Settings
    attacks: list[AttackRow]
    probes: list[ProbeRow]
    victims: list[VictimRow]


def attacks(report: Report) -> list[str]:
    """Return a row for each attack and trust, with what it gains beyond ordinary skills."""
    heads = ["kind", "trust", "in the first five", "gain (points)", "first"]
    heads.append("nDCG@10 of honest skills")
    return markdown_tables.table(heads, map(_attack, report["attacks"]))


def _attack(row: AttackRow) -> list[str]:
    gain = _change(row["gain"], row["gain_interval"]) if "gain" in row else ""
    five, first = percent(row["first_five"]), percent(row["first"])
    return [row["kind"], row["trust"], five, gain, first, percent(row["ndcg"])]


def probes(report: Report) -> list[str]:
    """Return a row for each measure of honest skills, before and after."""
    heads = ["honest skills", "trust", "requests", "before", "after", "change (points)"]
    return markdown_tables.table(heads, map(_probe, report["probes"]))


def _probe(row: ProbeRow) -> list[str]:
    ends = percent(row["before"]), percent(row["after"])
    change = _change(row["change"], row["change_interval"])
    return [row["measure"], row["trust"], str(row["requests"]), *ends, change]


def victims(report: Report) -> list[str]:
    """Return a row for each kind of attack on victims, and where the attackers stand."""
    heads = ["victims of", "attackers in", "requests", "in the first five", "first", "lost"]
    return markdown_tables.table(heads, map(_victim, report["victims"]))


def _victim(row: VictimRow) -> list[str]:
    pairs = (row["five_before"], row["five_after"]), (row["first_before"], row["first_after"])
    shares = (" → ".join(map(percent, pair)) for pair in pairs)
    lost = f"{len(row['lost'])} of {row['victims']}"
    return [row["kind"], row["root"], str(row["requests"]), *shares, lost]


def _change(mean: float, ends: Sequence[float]) -> str:
    return f"{points(mean)} ({points(ends[0])} to {points(ends[1])})"


TABLES: Mapping[Part, Callable[[Report], list[str]]] = {
    "attacks": attacks,
    "probes": probes,
    "victims": victims,
}
"""What makes the table of each part of a report."""
