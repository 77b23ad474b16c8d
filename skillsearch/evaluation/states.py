"""States of answers at the default threshold, by face: fits, perhaps or none; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from statistics import fmean
from typing import NamedTuple

from skillsearch.evaluation.measures import answerable_qrels
from skillsearch.evaluation.types import (
    FaceStates,
    Qrels,
    Ranking,
    States,
    StateShares,
    SystemAnswers,
)
from skillsearch.text.states import BOUNDS, count_shown
from skillsearch.types.answers import Face

DEPTH = 5  # skills of an answer
RANKED = 10  # a relevant document among the first ten could have been shown


class _Answer(NamedTuple):
    """The state of an answer (a field of `StateShares`), its length, and if it is right."""

    says: str
    length: int
    is_right: bool


def assess_states(
    system: SystemAnswers, qrels: Qrels, kinds: Mapping[str, str], *, precision: float | None
) -> States | None:
    """Measure the states of answers from scores alone; None without a threshold.

    `kinds` has the kind of each query that is of one; the precision is that at the threshold.
    """
    if system.threshold is None:
        return None
    high = float(system.threshold)
    judged = answerable_qrels(qrels)
    low = high if system.lower_bound is None else system.lower_bound
    bounds: Mapping[Face, float] = BOUNDS if system.has_states else {"list": low}
    faces = {face: _assess_face(system, judged, high, low) for face, low in bounds.items()}
    of_list = faces.pop("list")
    says = {query: _read(system, query, judged, high, low=high).says for query in judged}
    return States(
        **{field.name: getattr(of_list, field.name) for field in fields(of_list)},
        threshold=high,
        precision=precision,
        kinds=_recall_by_kind(says, kinds),
        faces=faces,
    )


def _assess_face(system: SystemAnswers, judged: Qrels, high: float, low: float) -> FaceStates:
    """Measure the states of answers that show skills from `low` on."""
    read = {query: _read(system, query, judged, high, low) for query in judged}
    could = []
    for query, grades in judged.items():
        ranked = system.answers.get(query, ())[:RANKED]
        if any(grades.get(doc_id, 0) > 0 for doc_id, _ in ranked):
            could.append(query)
    return FaceStates(
        lower_bound=low,
        answerable=_shares(read.values()),
        shown=fmean(read[query].is_right for query in could) if could else None,
        length=fmean(answer.length for answer in read.values()) if read else 0.0,
        unanswerable={
            source: _shares(_read_answer(ranking, {}, high, low) for ranking in answers.values())
            for source, answers in system.unanswerable.items()
            if answers
        },
    )


def _read(system: SystemAnswers, query: str, judged: Qrels, high: float, low: float) -> _Answer:
    return _read_answer(system.answers.get(query, ()), judged[query], high, low)


def _read_answer(ranking: Ranking, grades: Mapping[str, int], high: float, low: float) -> _Answer:
    ranking = ranking[:DEPTH]
    fitting, length = count_shown([score for _, score in ranking], high, low)
    right = [grades.get(document, 0) > 0 for document, _ in ranking[:length]]
    if fitting:
        return _Answer("recall" if any(right[:fitting]) else "false", length, any(right))
    return _Answer("perhaps" if length else "none", length, any(right))


def _recall_by_kind(says: Mapping[str, str], kinds: Mapping[str, str]) -> dict[str, float]:
    """Return the recall of each kind of query; nothing if all are alike."""
    by_kind: dict[str, list[bool]] = {}
    for query, state in says.items():
        by_kind.setdefault(kinds.get(query, ""), []).append(state == "recall")
    return {kind: fmean(some) for kind, some in by_kind.items() if kind and len(by_kind) > 1}


def _shares(read: Iterable[_Answer]) -> StateShares:
    counts = Counter(answer.says for answer in read)
    total = max(counts.total(), 1)
    return StateShares(**{state: counts[state] / total for state in StateShares.__slots__})
