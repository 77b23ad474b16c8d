"""Measures of rankings, as ir_measures defines them; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.types import Qrels, Run

MEASURES = ("nDCG@10", "R@5", "R@10", "Success@1", "Success@5", "RR@10", "Judged@10")
"""Names as in ir_measures, with whose values ours are tested. Judged@10 is of the judgments."""
_DEPTH = 10
"""No measure looks further."""


def answerable_qrels(qrels: Qrels) -> dict[str, Mapping[str, int]]:
    """Return the judgments of the queries that have a relevant document, in order."""
    return {query: grades for query, grades in qrels.items() if any(g > 0 for g in grades.values())}


def measure(qrels: Qrels, answers: Run) -> dict[str, dict[str, float]]:
    """Return measure → query id → value from 0 to 1, for queries that have a relevant document.

    A ranking counts in the order given, whatever its scores; a query without an answer is 0.
    """
    values: dict[str, dict[str, float]] = {name: {} for name in MEASURES}
    for query, grades in answerable_qrels(qrels).items():
        ranked = list(dict.fromkeys(doc_id for doc_id, _ in answers.get(query, ())))
        for name, value in zip(MEASURES, _measures(grades, ranked[:_DEPTH]), strict=True):
            values[name][query] = value
    return values


def _measures(grades: Mapping[str, int], ranked: Sequence[str]) -> tuple[float, ...]:
    """Return the `MEASURES` of the first documents of a ranking; a grade below 0 counts as 0."""
    gains = [max(grades.get(doc_id, 0), 0) for doc_id in ranked]
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    right = [gain > 0 for gain in gains]
    return (
        _discounted(gains) / _discounted(ideal[:_DEPTH]),
        sum(right[:5]) / len(ideal),
        sum(right) / len(ideal),
        float(any(right[:1])),
        float(any(right[:5])),
        1 / (1 + right.index(True)) if any(right) else 0.0,
        sum(doc_id in grades for doc_id in ranked) / max(len(ranked), 1),
    )


def _discounted(gains: Sequence[int]) -> float:
    """Return the discounted cumulative gain (Järvelin and Kekäläinen, TOIS 2002, as trec_eval)."""
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def parse_minimum(text: str) -> tuple[str, float]:
    """Read the lowest mean that a system must reach, such as ``nDCG@10=0.8``.

    An EvaluationError if the measure is unknown, or the value is not from 0 to 1.
    """
    name, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if name not in MEASURES or not 0 <= value <= 1:
        raise EvaluationError(
            f"{text[:80]!r} is not a minimum; write MEASURE=VALUE such as nDCG@10=0.8, with a "
            f"value from 0 to 1 and one of: {', '.join(MEASURES)}"
        )
    return name, value
