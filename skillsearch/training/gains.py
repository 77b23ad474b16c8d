"""What a tuning gains: the same requests, answered before and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillsearch.evaluation.answering import answer_all
from skillsearch.evaluation.assess import assess
from skillsearch.evaluation.reporting.report import SIGNIFICANT, system_means
from skillsearch.evaluation.types import Collection, Comparison, Job, SystemAnswers, SystemSpec
from skillsearch.types.answers import System
from skillsearch.types.indexing import Progress
from skillsearch.types.json_values import JsonObject

MEASURES = ("nDCG@10", "R@5", "Success@1")
DECISIVE = "nDCG@10"
SYSTEMS: tuple[System, ...] = ("dense", "hybrid")
HYBRID_MAY_LOSE = 0.01  # held-out requests share words with their skill, which favours BM25
DECISIVE_JUDGED = 30  # from this number on judged queries decide, instead of the held-out ones


@dataclass(frozen=True, slots=True)
class QualityChange:
    """Means of `MEASURES` by the old and the new model, and a test of `DECISIVE`."""

    before: Mapping[str, float]
    after: Mapping[str, float]
    test: Comparison

    @property
    def is_certain(self) -> bool:
        """Whether the difference is more than chance."""
        return self.test.p_value < SIGNIFICANT

    def to_dict(self) -> JsonObject:
        """Return the JSON form."""
        return {
            "before": {name: round(value, 6) for name, value in self.before.items()},
            "after": {name: round(value, 6) for name, value in self.after.items()},
            "difference": round(self.test.difference, 6),
            "interval": [round(end, 6) for end in self.test.interval],
            "p_value": round(self.test.p_value, 6),
        }


@dataclass(frozen=True, slots=True)
class MeasuredChanges:
    """Changes of each of `SYSTEMS` on so many queries among so many skills."""

    queries: int
    documents: int
    changes: Mapping[str, QualityChange]

    @property
    def is_better(self) -> bool:
        """Whether something is better beyond chance, and the hybrid hardly lower."""
        gains = [change for change in self.changes.values() if change.test.difference > 0]
        is_kept = self.changes["hybrid"].test.difference >= -HYBRID_MAY_LOSE
        return is_kept and any(change.is_certain for change in gains)

    @property
    def is_worse(self) -> bool:
        """Whether the hybrid is worse beyond chance."""
        hybrid = self.changes["hybrid"]
        return hybrid.test.difference < 0 and hybrid.is_certain

    def to_dict(self) -> JsonObject:
        """Return the JSON form."""
        changes = {name: change.to_dict() for name, change in self.changes.items()}
        return {"queries": self.queries, "documents": self.documents, **changes}


def measure_both(
    collection: Collection, models: tuple[str, str], *, work: Path, progress: Progress | None = None
) -> MeasuredChanges:
    """Let the old and the new model, given by their specs, answer the queries of a collection."""
    specs = [
        SystemSpec(f"{system} {time}", system, model)
        for system in SYSTEMS
        for time, model in zip(("before", "after"), models, strict=True)
    ]
    answers = answer_all(Job(collection), specs, work=work, progress=progress).systems
    changes: dict[str, QualityChange] = {}
    for number, system in enumerate(SYSTEMS):
        changes[system] = change_of(collection, answers[2 * number : 2 * number + 2])
    return MeasuredChanges(len(collection.queries), len(collection.documents), changes)


def change_of(collection: Collection, answers: Sequence[SystemAnswers]) -> QualityChange:
    """Compare two systems, before and after, by their answers to the queries of a collection."""
    report = assess(collection, answers, examples=0)
    means = map(dict, system_means(report).values())
    old, new = ({name: row[name] for name in MEASURES} for row in means)
    test = next(test for test in report.comparisons if test.measure == DECISIVE)
    return QualityChange(old, new, test)


def decide(measured: Mapping[str, MeasuredChanges]) -> bool:
    """Return whether a model is better on enough ``judged`` queries, or else on ``held_out``."""
    judged = measured.get("judged")
    is_enough = judged is not None and judged.queries >= DECISIVE_JUDGED
    decisive = judged if is_enough else measured.get("held_out")
    is_worse = any(gain.is_worse for gain in measured.values())
    return decisive is not None and decisive.is_better and not is_worse
