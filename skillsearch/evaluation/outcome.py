"""All that an evaluation of one collection gives: its report, and what belongs beside it; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skillsearch.evaluation.assess import assess_part, mean_systems, report_dict
from skillsearch.evaluation.confusables import Confusion
from skillsearch.evaluation.types import Collection, Report, SystemAnswers
from skillsearch.types import Diagnostic, JsonValue

_ROUNDING = 1e-9
"""A mean that misses its bound by less than this reaches it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an evaluation of one collection gave.

    Attributes:
        report: The measures of all queries together.
        answers: What each system answered.
        kinds: The measures of the queries of each kind, where there are several.
        confusions: Skills that steal each other's queries under the first system; None where
            nobody asked.
        diagnostics: What is wrong with the skills that the collection was made from, and with
            their eval files.
    """

    report: Report
    answers: tuple[SystemAnswers, ...]
    kinds: Mapping[str, Report] = field(default_factory=dict)
    confusions: tuple[Confusion, ...] | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form: that of the report, and what else there is under its own keys."""
        record = report_dict(self.report)
        if self.kinds:
            record["kinds"] = {name: _part_dict(report) for name, report in self.kinds.items()}
        if self.report.languages:
            record["languages"] = {
                name: _part_dict(part, "comparisons")
                for name, part in self.report.languages.items()
            }
        for name, part in self.report.crossing.items():
            key = name.replace("-", "_").replace(" ", "_")
            record[key] = _part_dict(part, "comparisons")
        if self.confusions is not None:
            record["confusables"] = [one.to_dict() for one in self.confusions]
        if self.diagnostics:
            record["diagnostics"] = [one.to_dict() for one in self.diagnostics]
        return record


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A mean that is lower than it must be.

    Attributes:
        system: The system.
        measure: The measure.
        value: The mean.
        bound: The least that was asked for.
    """

    system: str
    measure: str
    value: float
    bound: float

    def __str__(self) -> str:
        """Say it in a sentence."""
        return (
            f"{self.system} has a mean {self.measure} of {self.value:.6g}, "
            f"less than the {self.bound:g} asked for"
        )


def assess_kinds(collection: Collection, systems: Sequence[SystemAnswers]) -> dict[str, Report]:
    """Measure the queries of each kind by themselves.

    Args:
        collection: The collection.
        systems: What each system answered.

    Returns:
        A report a kind, in the order in which the kinds come, named after collection and kind;
        none where all queries are of one kind.
    """
    kinds = dict.fromkeys(query.kind for query in collection.queries)
    if len(kinds) < 2:
        return {}
    asked = {kind: [query for query in collection.queries if query.kind == kind] for kind in kinds}
    return {kind: assess_part(collection, systems, kind, of) for kind, of in asked.items()}


def shortfalls(
    outcomes: Sequence[Outcome], minima: Sequence[tuple[str, float]]
) -> tuple[Shortfall, ...]:
    """Find where the first system is below what was asked of it.

    Args:
        outcomes: One a collection, at least one; the mean over the collections is what counts.
        minima: Measures and the least mean of each.

    Returns:
        One for each minimum that is not reached.
    """
    reports = [outcome.report for outcome in outcomes]
    first = reports[0].systems[0].name
    means = mean_systems(reports)[first]
    return tuple(
        Shortfall(first, measure, means[measure], bound)
        for measure, bound in minima
        if means[measure] < bound - _ROUNDING
    )


def _part_dict(report: Report, *keys: str) -> dict[str, JsonValue]:
    """Return the JSON form of the measures of some of the queries."""
    record = report_dict(report)
    return {name: record[name] for name in ("queries", "systems", "intervals", *keys)}
