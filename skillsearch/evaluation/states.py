"""What answers say at the default threshold, by face: a skill fits, may, or none does; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from statistics import fmean
from typing import NamedTuple

from skillsearch.evaluation.runs import answerable_qrels
from skillsearch.evaluation.types import (
    FaceStates,
    Qrels,
    Ranking,
    States,
    StateShares,
    SystemAnswers,
)
from skillsearch.text.states import BOUNDS, count_shown
from skillsearch.types import Face

DEPTH = 5  # skills of an answer
RANKED = 10  # a ranking whose first so many hold a relevant document could have shown it


class _Answer(NamedTuple):
    """What an answer says, as a field of `StateShares`; its length; whether a right is named."""

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
    asked = answerable_qrels(qrels)
    bounds: Mapping[Face, float] = BOUNDS if system.has_states else {"list": high}
    faces = {face: _assess_face(system, asked, high, low) for face, low in bounds.items()}
    of_list = faces.pop("list")
    kept = {query: _read(system, query, asked, high, high).says == "kept" for query in asked}
    return States(
        **{one.name: getattr(of_list, one.name) for one in fields(of_list)},
        threshold=high,
        precision=precision,
        kinds=_kept_by_kind(kept, kinds),
        faces=faces,
    )


def _assess_face(system: SystemAnswers, asked: Qrels, high: float, low: float) -> FaceStates:
    """Measure the states of answers that show skills from `low` on."""
    read = {query: _read(system, query, asked, high, low) for query in asked}
    ranked = {query: [one for one, _ in system.answers.get(query, ())[:RANKED]] for query in asked}
    could = [query for query in asked if any(asked[query].get(one, 0) > 0 for one in ranked[query])]
    return FaceStates(
        lower_bound=low,
        answerable=_shares(read.values()),
        shown=fmean(read[query].is_right for query in could) if could else None,
        length=fmean(one.length for one in read.values()) if read else 0.0,
        unanswerable={
            source: _shares(_read_answer(one, {}, high, low) for one in answers.values())
            for source, answers in system.unanswerable.items()
            if answers
        },
    )


def _read(system: SystemAnswers, query: str, asked: Qrels, high: float, low: float) -> _Answer:
    return _read_answer(system.answers.get(query, ()), asked[query], high, low)


def _read_answer(ranking: Ranking, grades: Mapping[str, int], high: float, low: float) -> _Answer:
    ranking = ranking[:DEPTH]
    fitting, length = count_shown([score for _, score in ranking], high, low)
    right = [grades.get(document, 0) > 0 for document, _ in ranking[:length]]
    if fitting:
        return _Answer("kept" if any(right[:fitting]) else "false", length, any(right))
    return _Answer("perhaps" if length else "none", length, any(right))


def _kept_by_kind(kept: Mapping[str, bool], kinds: Mapping[str, str]) -> dict[str, float]:
    """Return the share of answers kept for each kind of query; nothing if all are alike."""
    by_kind: dict[str, list[bool]] = {}
    for query, is_kept in kept.items():
        by_kind.setdefault(kinds.get(query, ""), []).append(is_kept)
    return {kind: fmean(some) for kind, some in by_kind.items() if kind and len(by_kind) > 1}


def _shares(read: Iterable[_Answer]) -> StateShares:
    counts = Counter(one.says for one in read)
    total = max(counts.total(), 1)
    return StateShares(**{one: counts[one] / total for one in StateShares.__slots__})
