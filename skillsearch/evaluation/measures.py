"""How good rankings are, query by query, as ir_measures defines it; the only importer of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from skillsearch.errors import EvaluationError, MissingDependencyError
from skillsearch.evaluation.runs import as_run
from skillsearch.evaluation.types import Answers, Qrels

MEASURES = ("nDCG@10", "R@5", "R@10", "Success@1", "Success@5", "RR@10", "Judged@10")
"""Names as in ir_measures. Judged@10 tells of the judgments, not of the system."""

MAX_GRADE = 9_999
"""Highest grade that is measured: trec_eval allocates memory by it, and crashes on a huge one."""


def answerable_qrels(qrels: Qrels) -> dict[str, Mapping[str, int]]:
    """Return the judgments of the queries that have a relevant document, in their order."""
    return {query: grades for query, grades in qrels.items() if any(g > 0 for g in grades.values())}


def measure(
    qrels: Qrels, answers: Answers, measures: Sequence[str] = MEASURES
) -> dict[str, dict[str, float]]:
    """Measure the answers to the queries that have a relevant document.

    A ranking counts in the order given, whatever its scores; a query without an answer is 0.

    Args:
        qrels: The judgments; answers to other queries are ignored.
        answers: What a system answered.
        measures: Names out of `MEASURES`.

    Returns:
        Measure → query id → value from 0 to 1, both in the order given.

    Raises:
        EvaluationError: When a measure is unknown or a grade too high.
        MissingDependencyError: When ir_measures is not installed.
    """
    _check_names(measures)
    judged = answerable_qrels(qrels)
    _check_grades(judged)
    ranked = as_run({query: answers[query] for query in judged if answers.get(query)})
    values = {name: dict.fromkeys(judged, 0.0) for name in measures}
    library = _ir_measures()
    # Ids as they are do not survive C: one is cut at a NUL, and a lone surrogate is a crash.
    number = defaultdict[str, str](map(str, count()).__next__)
    queries = {number[query]: query for query in judged}
    found = library.iter_calc(
        [library.parse_measure(name) for name in measures],
        {number[q]: {number[d]: grade for d, grade in judged[q].items()} for q in judged},
        {number[q]: {number[d]: score for d, score in ranked[q].items()} for q in ranked},
    )
    for metric in found if ranked else ():
        values[str(metric.measure)][queries[metric.query_id]] = float(metric.value)
    return values


def parse_minimum(text: str) -> tuple[str, float]:
    """Read the least mean that a system must reach, such as ``nDCG@10=0.8``.

    Args:
        text: A measure out of `MEASURES`, an equals sign, and a number from 0 to 1.

    Returns:
        The measure and the number.

    Raises:
        EvaluationError: When it is anything else.
    """
    name, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if name not in MEASURES or not 0 <= value <= 1:
        raise EvaluationError(
            f"{text[:80]!r} is no minimum; write MEASURE=VALUE such as nDCG@10=0.8, with a value "
            f"from 0 to 1 and one of: {', '.join(MEASURES)}"
        )
    return name, value


def _check_names(measures: Sequence[str]) -> None:
    """Refuse a measure that is not ours."""
    for name in measures:
        if name not in MEASURES:
            raise EvaluationError(
                f"There is no measure {name[:80]!r}; use one of: {', '.join(MEASURES)}"
            )


def _check_grades(qrels: Qrels) -> None:
    """Refuse a grade that trec_eval cannot bear."""
    for query, grades in qrels.items():
        for document, grade in grades.items():
            if abs(grade) > MAX_GRADE:
                raise EvaluationError(
                    f"Query {query!r} grades document {document!r} beyond {MAX_GRADE:,}; "
                    "grade from 0 for irrelevant upward in small steps, such as 0 to 3."
                )


def _ir_measures() -> Any:
    """Import the library."""
    try:
        import ir_measures
    except ImportError as exc:
        raise MissingDependencyError("ir_measures", "eval", "Measuring") from exc
    return ir_measures
