"""What answers say at the default threshold: a skill fits, one may fit, or none does; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import fmean

from skillsearch.evaluation.runs import answerable_qrels
from skillsearch.evaluation.types import Qrels, Ranking, States, StateShares, SystemAnswers

DEPTH = 5  # skills that fit, or perhaps fit, in an answer: a relevant one below is not in it
RANKED = 10  # a ranking whose first so many hold a relevant document could have shown it


def assess_states(
    system: SystemAnswers, qrels: Qrels, kinds: Mapping[str, str], *, precision: float | None
) -> States | None:
    """Measure the states of answers from scores alone; None without a threshold.

    `kinds` has the kind of each query that is of one; the precision is that at the threshold.
    """
    if system.threshold is None:
        return None
    high = float(system.threshold)
    low = high if system.lower_bound is None else min(float(system.lower_bound), high)
    said: dict[str, str] = {}
    shown: list[bool] = []
    for query, grades in answerable_qrels(qrels).items():
        ranking = system.answers.get(query, ())
        said[query], is_shown = _read_answer(ranking, grades, low, high)
        if any(grades.get(document, 0) > 0 for document, _ in ranking[:RANKED]):
            shown.append(is_shown)
    unanswerable = {
        source: _shares(_read_answer(one, {}, low, high)[0] for one in answers.values())
        for source, answers in system.unanswerable.items()
        if answers
    }
    return States(
        threshold=high,
        lower_bound=low,
        precision=precision,
        answerable=_shares(said.values()),
        shown=fmean(shown) if shown else None,
        kinds=_kept_by_kind(said, kinds),
        unanswerable=unanswerable,
    )


def _read_answer(
    ranking: Ranking, grades: Mapping[str, int], low: float, high: float
) -> tuple[str, bool]:
    """Return what an answer says, as a field of `StateShares`, and whether a right is named."""
    found = [(score, grades.get(document, 0) > 0) for document, score in ranking]
    fits = [is_right for score, is_right in found if score >= high][:DEPTH]
    perhaps = [is_right for score, is_right in found if low <= score < high][:DEPTH]
    if fits:
        return "kept" if any(fits) else "false", any(fits + perhaps)
    return "perhaps" if perhaps else "none", any(perhaps)


def _kept_by_kind(said: Mapping[str, str], kinds: Mapping[str, str]) -> dict[str, float]:
    """Return the share of answers kept for each kind of query; nothing if all are alike."""
    by_kind: dict[str, list[bool]] = {}
    for query, what in said.items():
        by_kind.setdefault(kinds.get(query, ""), []).append(what == "kept")
    return {kind: fmean(kept) for kind, kept in by_kind.items() if kind and len(by_kind) > 1}


def _shares(said: Iterable[str]) -> StateShares:
    counts = Counter(said)
    total = max(counts.total(), 1)
    return StateShares(**{one: counts[one] / total for one in StateShares.__slots__})
