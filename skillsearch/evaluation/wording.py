"""How what was measured is put into words and digits, the same on a page and on a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from skillsearch.evaluation.assess import EXAMPLE_MEASURE
from skillsearch.evaluation.comparison import NOT_COMPARED
from skillsearch.evaluation.types import Comparison, Report

SIGNIFICANT = 0.05
"""Corrected p-value below which a difference counts."""
MISSING = "-"
"""Stands where nothing was measured."""
VERDICTS = {
    "better": "better, beyond chance",
    "worse": "worse, beyond chance",
    "may be chance": "no difference can be told from chance",
    "equal": "the same on every query",
}
"""What a verdict says in full."""
EXPLAINED = {
    "nDCG@k": "How good the first k hits are; relevant ones count more the higher they stand.",
    "R@k": "Share of the relevant skills that are among the first k hits.",
    "Success@k": "Share of the queries with a relevant skill among the first k hits.",
    "RR@k": "One divided by the rank of the first relevant hit; 0 where the first k have none.",
    "Judged@k": "Share of the first k hits that somebody judged. It tells of the judgments, not of "
    "the system: where it is low, good hits may count as bad ones.",
    "interval": "Where the mean would lie in 95 of 100 cases, had other such queries been asked.",
    "p, Holm p": "How often chance alone makes a difference as large (paired randomisation test), "
    "and the same corrected for the number of comparisons. A difference counts below 0.05.",
    "foreign, dropped gold, negatives": "Queries that nothing answers: asked of another domain; of "
    "this one with the right skills hidden; written for the purpose.",
    "AUROC": "Chance that the first hit of an answerable query scores above that of one that "
    "nothing answers: 0.5 is tossing a coin, 1 tells all of them apart.",
    "kept": "Answerable queries whose answer holds a relevant skill at that threshold.",
    "false answers": "Queries that nothing answers and that are answered all the same.",
    "precision": "Of all answered queries, those whose first hit is relevant.",
    "calibration error": "How far scores are, on average, from the share of first hits that are "
    "relevant: near 0, a score of 0.7 is right in 70 of 100 cases.",
}
"""What the words of a report mean."""


def percent(share: float | None) -> str:
    """Return a share as percent with one decimal, such as ``84.3``."""
    return MISSING if share is None else f"{100 * share:.1f}"


def spread(interval: tuple[float, float] | None) -> str:
    """Return the interval of a share in percent, such as ``81.0-87.4``."""
    return MISSING if interval is None else "-".join(map(percent, interval))


def points(difference: float) -> str:
    """Return a difference of shares in percentage points with its sign, such as ``+3.2``."""
    return f"{100 * difference:+z.1f}"


def probability(value: float) -> str:
    """Return a p-value with three decimals; a smaller one only as such."""
    return f"{value:.3f}" if value >= 0.001 else "<0.001"


def score_digits(score: float) -> str:
    """Return a score with two decimals, or with three digits where those would tell too little."""
    return f"{score:.2f}" if score == 0 or 0.1 <= abs(score) < 1000 else f"{score:.3g}"


def verdict(comparison: Comparison) -> str:
    """Say what a difference means: ``better``, ``worse``, ``may be chance`` or ``equal``.

    It is better or worse only where the corrected p-value is below `SIGNIFICANT`.
    """
    if not comparison.wins and not comparison.losses:
        return "equal"
    if comparison.p_holm >= SIGNIFICANT:
        return "may be chance"
    return "better" if comparison.difference > 0 else "worse"


def against_baseline(report: Report, system: str) -> str:
    """Say in a few words how a system differs from the first one by the main measure.

    Args:
        report: What was measured, be it of few queries.
        system: Name of the system.

    Returns:
        Such as ``+3.2, better``; empty for the first system.
    """
    if system == report.systems[0].name:
        return ""
    for one in report.comparisons:
        if (one.system, one.measure) == (system, EXAMPLE_MEASURE):
            return f"{points(one.difference)}, {verdict(one)}"
    return "too few queries"


def best_systems(measure: str, means: Mapping[str, Mapping[str, float]]) -> frozenset[str]:
    """Return which systems have the highest mean, as far as the digits shown can tell.

    Args:
        measure: Name of the measure; of some, more is not better.
        means: System → measure → mean.

    Returns:
        Names; none where all are equal.
    """
    shown = {name: round(of[measure], 3) for name, of in means.items() if measure in of}
    if measure in NOT_COMPARED or len(set(shown.values())) < 2:
        return frozenset()
    return frozenset(name for name, value in shown.items() if value == max(shown.values()))


def headline(report: Report) -> str:
    """Say in a sentence which system ranks best, and whether that is more than chance."""
    known = [system for system in report.systems if EXAMPLE_MEASURE in system.means]
    if not known:
        return ""
    top = max(known, key=lambda system: system.means[EXAMPLE_MEASURE])
    said = f"{top.name} has the highest {EXAMPLE_MEASURE}, {percent(top.means[EXAMPLE_MEASURE])}"
    for one in report.comparisons:
        if one.system == top.name and one.measure == EXAMPLE_MEASURE:
            said += (
                f", {points(one.difference)} points from {one.baseline}: {VERDICTS[verdict(one)]}"
            )
    return f"{said}."
