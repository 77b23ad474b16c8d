"""Two models on the same queries: what the dense channel and the hybrid gain, by the evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillsearch.evaluation.assess import assess, system_means
from skillsearch.evaluation.searching import answer_all
from skillsearch.evaluation.systems import SystemSpec
from skillsearch.evaluation.types import Collection, Comparison, JudgedDocument, JudgedQuery
from skillsearch.evaluation.wording import SIGNIFICANT
from skillsearch.training.phrases import SkillText
from skillsearch.types import JsonValue, Languages, Progress, System

MEASURES = ("nDCG@10", "R@5", "Success@1")
DECISIVE = "nDCG@10"
SYSTEMS: tuple[System, ...] = ("dense", "hybrid")
HYBRID_MAY_LOSE = 0.01
"""Requests that skills state themselves share words with their skill, which favours BM25; a dense
channel that is better for certain may cost the hybrid a point of them."""
DECISIVE_JUDGED = 30
"""Judged queries from which on they decide, and not what was held out."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one way to search.

    Attributes:
        before: Means of `MEASURES` by the old model.
        after: The same by the new one.
        test: The two compared by `DECISIVE`.
    """

    before: Mapping[str, float]
    after: Mapping[str, float]
    test: Comparison

    @property
    def is_certain(self) -> bool:
        """Whether the difference is more than chance."""
        return self.test.p_value < SIGNIFICANT

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "before": {name: round(value, 6) for name, value in self.before.items()},
            "after": {name: round(value, 6) for name, value in self.after.items()},
            "difference": round(self.test.difference, 6),
            "interval": [round(end, 6) for end in self.test.interval],
            "p_value": round(self.test.p_value, 6),
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured on one set of queries.

    Attributes:
        queries: How many there are.
        documents: Among how many skills they look for theirs.
        changes: What became of each of `SYSTEMS`.
    """

    queries: int
    documents: int
    changes: Mapping[str, Change]

    @property
    def is_better(self) -> bool:
        """Whether something is better beyond chance, and the hybrid hardly lower."""
        gains = [one for one in self.changes.values() if one.test.difference > 0]
        is_kept = self.changes["hybrid"].test.difference >= -HYBRID_MAY_LOSE
        return is_kept and any(one.is_certain for one in gains)

    @property
    def is_worse(self) -> bool:
        """Whether the hybrid is worse beyond chance."""
        hybrid = self.changes["hybrid"]
        return hybrid.test.difference < 0 and hybrid.is_certain

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        changes = {name: one.to_dict() for name, one in self.changes.items()}
        return {"queries": self.queries, "documents": self.documents, **changes}


def as_collection(
    name: str, skills: Sequence[SkillText], queries: Sequence[tuple[str, Sequence[int]]]
) -> Collection:
    """Make a judged collection.

    Args:
        name: Its name.
        skills: Its documents.
        queries: Each with the places of the skills that are right for it, at least one.

    Returns:
        The collection.
    """
    return Collection(
        name=name,
        documents=tuple(
            JudgedDocument(str(place), skill.name, skill.about, skill.body)
            for place, skill in enumerate(skills)
        ),
        queries=tuple(JudgedQuery(str(number), query) for number, (query, _) in enumerate(queries)),
        qrels={
            str(number): {str(place): 1 for place in places}
            for number, (_, places) in enumerate(queries)
        },
    )


def measure_both(
    collection: Collection,
    before: str,
    after: str,
    *,
    work: Path,
    languages: Languages = "auto",
    progress: Progress | None = None,
) -> Measured:
    """Let two models answer the queries of a collection.

    Args:
        collection: The collection.
        before: What the old model is loaded by.
        after: What the new model is loaded by.
        work: Folder for skills and indexes, as in `answer_all`.
        languages: What the indexes are made for.
        progress: Told how far it is.

    Returns:
        What was gained.

    Raises:
        EmbedderError: When a model cannot be loaded.
        StorageError: When the work folder cannot be written.
        MissingDependencyError: When ir_measures is not installed.
    """
    specs = [
        SystemSpec(f"{system} {time}", system, model, languages=languages)
        for system in SYSTEMS
        for time, model in (("before", before), ("after", after))
    ]
    answers = answer_all(collection, specs, work=work, progress=progress).systems
    changes: dict[str, Change] = {}
    for number, system in enumerate(SYSTEMS):
        pair = answers[2 * number : 2 * number + 2]
        report = assess(collection, pair, examples=0)
        old, new = (dict(means) for means in system_means(report).values())
        test = next(one for one in report.comparisons if one.measure == DECISIVE)
        changes[system] = Change(
            {name: old[name] for name in MEASURES}, {name: new[name] for name in MEASURES}, test
        )
    return Measured(len(collection.queries), len(collection.documents), changes)


def decide(measured: Mapping[str, Measured]) -> bool:
    """Tell whether a model is worth using.

    Args:
        measured: What was measured by name of the queries: ``held_out``, ``judged``.

    Returns:
        Whether it is better by what users really asked, where enough of that was measured, else
        by what was held out, and not worse by the other.
    """
    judged = measured.get("judged")
    is_enough = judged is not None and judged.queries >= DECISIVE_JUDGED
    decisive = measured.get("judged" if is_enough else "held_out")
    return (
        decisive is not None
        and decisive.is_better
        and not any(one.is_worse for one in measured.values())
    )
