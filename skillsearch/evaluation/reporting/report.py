"""The report of an evaluation: its JSON form, and words and cells for page and terminal; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean

from skillsearch.evaluation.comparison import NOT_COMPARED
from skillsearch.evaluation.confusables import Confusion
from skillsearch.evaluation.types import (
    ANSWERABLE,
    Abstention,
    Comparison,
    OperatingPoint,
    Report,
    States,
    SystemAnswers,
    SystemReport,
)
from skillsearch.types.json_values import Json, JsonObject, object_of
from skillsearch.types.skills import Diagnostic

MAIN_MEASURE = "nDCG@10"  # the measure by which a query, or a system, is good or bad
SIGNIFICANT = 0.05  # a difference counts below this corrected p-value
MISSING = "-"  # placeholder for a value that was not measured
RECALL, FALSE_ANSWERS = "recall", "false answers, {}"
"""Measures of what answers say, the second for each source of unanswerable requests."""
VERDICTS = {
    "better": "better, beyond chance",
    "worse": "worse, beyond chance",
    "may be chance": "no difference can be told from chance",
    "undecided": "undecided by its interval and its corrected test",
    "equal": "the same on every query",
}
"""Verdicts in full."""
_DECIMALS = 6
_ROUNDING = 1e-9  # a mean that misses its minimum by less than this reaches it


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an evaluation of one collection, also by kind of query if there are several.

    `confusions`, under the first system, are None if not asked for; `diagnostics` are about the
    skills that the collection was made from, and their eval files.
    """

    report: Report
    answers: tuple[SystemAnswers, ...]
    kinds: Mapping[str, Report] = field(default_factory=dict)
    confusions: tuple[Confusion, ...] | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    def to_dict(self) -> JsonObject:
        """Return the JSON form: the one of the report, with further keys for the rest."""
        record = report_dict(self.report)
        if self.kinds:
            record["kinds"] = _parts_dict(self.kinds)
        if self.report.languages:
            record["languages"] = _parts_dict(self.report.languages, "comparisons")
        for name, part in _parts_dict(self.report.crossing, "comparisons").items():
            record[name.replace("-", "_").replace(" ", "_")] = part
        if self.confusions is not None:
            record["confusables"] = [asdict(pair) for pair in self.confusions]
        if self.diagnostics:
            record["diagnostics"] = [diagnostic.to_dict() for diagnostic in self.diagnostics]
        return record


def report_dict(report: Report) -> JsonObject:
    """Return the JSON form of a report, its numbers rounded, None for a missing one."""
    systems = {system.name: asdict(system) for system in report.systems}
    for system in systems.values():
        abstention = object_of(system["abstention"])
        del abstention["top_scores"]
        if abstention["default"] is not None:
            default = object_of(abstention["default"])
            for key in ("answerable", "shown", "length", "kinds", "unanswerable"):
                del default[key]  # these are `states`
        system["examples"] = {key: system[key] for key in ("worst", "best")}

    def each(key: str) -> JsonObject:
        return {name: system[key] for name, system in systems.items()}

    record: JsonObject = {
        "collection": report.collection,
        "documents": report.documents,
        "queries": report.queries,
        "unanswerable": report.unanswerable,
        "systems": each("means"),
        "intervals": each("intervals"),
        "settings": each("settings"),
        "milliseconds": each("milliseconds"),
        "comparisons": [asdict(comparison) for comparison in report.comparisons],
        "abstention": each("abstention"),
        "states": {
            system.name: _states_dict(system.abstention.default, system, report.style)
            for system in report.systems
            if system.abstention.default
        },
        "style": report.style,
        "examples": each("examples"),
        "per_query": each("per_query"),
        "notes": report.notes,
    }
    return {key: _plain(value) for key, value in record.items()}


def _states_dict(states: States, system: SystemReport, style: Mapping[str, float]) -> JsonObject:
    answerable = {**asdict(states.answerable), "shown": states.shown, "kinds": dict(states.kinds)}
    record: JsonObject = {ANSWERABLE: answerable}
    for source, shares in states.unanswerable.items():
        by_state = {name: getattr(shares, name) for name in ("false", "perhaps", "none")}
        control = {"auroc": system.abstention.auroc.get(source), "style": style.get(source)}
        record[source] = {**by_state, **control}
    return record


def _parts_dict(parts: Mapping[str, Report], *more: str) -> JsonObject:
    keys = ("queries", "systems", "intervals", *more)
    records = {name: report_dict(report) for name, report in parts.items()}
    return {name: {key: record[key] for key in keys} for name, record in records.items()}


def _plain(value: Json) -> Json:
    """Return a value as JSON has it: tuples as lists, floats rounded, None if not finite."""
    if isinstance(value, Mapping):
        keys = (f"{key:.2f}" if isinstance(key, float) else key for key in value)
        return dict(zip(keys, map(_plain, value.values()), strict=True))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return round(value, _DECIMALS) + 0.0 if math.isfinite(value) else None
    return value


def system_means(report: Report) -> Mapping[str, Mapping[str, float]]:
    """Return the means of each system of a report, by its name."""
    return {system.name: system.means for system in report.systems}


def mean_systems(reports: Sequence[Report]) -> dict[str, dict[str, float]]:
    """Return the means of each system that all reports have, each collection counting once."""
    means = list(map(system_means, reports))
    shared_means: dict[str, dict[str, float]] = {}
    for name, first in means[0].items() if means else ():
        shared = [
            key for key in first if all(key in report_means.get(name, ()) for report_means in means)
        ]
        if shared:
            shared_means[name] = {
                key: fmean(report_means[name][key] for report_means in means) for key in shared
            }
    return shared_means


def shortfalls(outcomes: Sequence[Outcome], minima: Sequence[tuple[str, float]]) -> tuple[str, ...]:
    """Return a sentence for each lowest mean of a measure that the first system misses."""
    reports = [outcome.report for outcome in outcomes]
    system = reports[0].systems[0].name
    means = mean_systems(reports)[system]
    return tuple(
        f"{system} has a mean {measure} of {means[measure]:.6g}, less than the {bound:g} asked for"
        for measure, bound in minima
        if means[measure] < bound - _ROUNDING
    )


def measure_names(report: Report) -> list[str]:
    """Return the measures of a report in order."""
    return list(dict.fromkeys(name for system in report.systems for name in system.means))


def operating_points(abstention: Abstention) -> dict[str, OperatingPoint]:
    """Return the points at the thresholds to ``keep 90 %``, and more."""
    return {f"keep {100 * share:g} %": at for share, at in sorted(abstention.keeping.items())}


def percent(share: float | None) -> str:
    """Return a share in percent with one decimal, such as ``84.3``."""
    return MISSING if share is None else f"{100 * share:.1f}"


def spread(interval: tuple[float, float] | None) -> str:
    """Return the interval of a share in percent, such as ``81.0-87.4``."""
    return MISSING if interval is None else "-".join(map(percent, interval))


def points(difference: float) -> str:
    """Return a difference of shares in percentage points with its sign, such as ``+3.2``."""
    return f"{100 * difference:+z.1f}"


def probability(value: float) -> str:
    """Return a p-value with three decimals, or that it is smaller."""
    return f"{value:.3f}" if value >= 0.001 else "<0.001"


def decimals(value: float | None) -> str:
    """Return a number with three decimals."""
    return MISSING if value is None else f"{value:.3f}"


def milliseconds(value: float | None) -> str:
    """Return a time with one decimal."""
    return MISSING if value is None else f"{value:,.1f}"


def score_digits(score: float | None) -> str:
    """Return a score with two decimals, or with three digits if those would say too little."""
    if score is None:
        return MISSING
    return f"{score:.2f}" if score == 0 or 0.1 <= abs(score) < 1000 else f"{score:.3g}"


def verdict(comparison: Comparison) -> str:
    """Return one of `VERDICTS`: what the corrected p-value and the interval both say."""
    if not comparison.wins and not comparison.losses:
        return "equal"
    low, high = comparison.interval
    is_far = not low <= 0 <= high
    if is_far != (comparison.p_holm < SIGNIFICANT):
        return "undecided"
    if not is_far:
        return "may be chance"
    return "better" if comparison.difference > 0 else "worse"


def against_baseline(report: Report, system: str) -> str:
    """Return a main difference such as ``+3.2, better``; empty for the baseline."""
    if system == report.systems[0].name:
        return ""
    compared = _main_comparison(report, system)
    return f"{points(compared.difference)}, {verdict(compared)}" if compared else "too few queries"


def _main_comparison(report: Report, system: str) -> Comparison | None:
    """Return how a system differs from the first by the main measure."""
    main = (each for each in report.comparisons if each.measure == MAIN_MEASURE)
    return next((each for each in main if each.system == system), None)


def best_systems(measure: str, means: Mapping[str, Mapping[str, float]]) -> frozenset[str]:
    """Return the best systems, by the digits shown; none if all are equal or more is not better."""
    shown = {
        name: round(measured[measure], 3) for name, measured in means.items() if measure in measured
    }
    is_better = measure not in NOT_COMPARED and not measure.startswith(FALSE_ANSWERS.format(""))
    if not is_better or len(set(shown.values())) < 2:
        return frozenset()
    return frozenset(name for name, value in shown.items() if value == max(shown.values()))


def headline(report: Report) -> str:
    """Return a sentence about the best system, or the last run, and how far it is from others."""
    measured = {system.name: system for system in report.systems if MAIN_MEASURE in system.means}
    if not measured:
        return ""
    ranked = sorted(measured, key=lambda name: -measured[name].means[MAIN_MEASURE])
    is_run = report.unit == "run"
    top = list(measured)[-1] if is_run else ranked[0]
    is_alone = is_run or len(measured) < 2
    which = f"an {MAIN_MEASURE} of" if is_alone else f"the highest {MAIN_MEASURE},"
    sentence = f"{top} has {which} {percent(measured[top].means[MAIN_MEASURE])}"
    if interval := measured[top].intervals.get(MAIN_MEASURE):
        sentence += f" (95 % interval {spread(interval)})"
    is_first = top == report.systems[0].name
    compared = (_main_comparison(report, name) for name in (ranked if is_first else [top]))
    if comparison := next(filter(None, compared), None):
        sentence += f", {_compared(comparison, is_first=is_first)}"
    return f"{sentence}."


def _compared(comparison: Comparison, *, is_first: bool) -> str:
    """Return how far a system is from the first one, or the first one from it, and the verdict."""
    sign, rival = (-1, comparison.system) if is_first else (1, comparison.baseline)
    side = "below" if sign * comparison.difference < 0 else "above"
    ends = " to ".join(map(points, sorted(sign * end for end in comparison.interval)))
    sentence = (
        f"{100 * abs(comparison.difference):.1f} points {side} {rival} (95 % interval {ends})"
    )
    return f"{sentence}: {VERDICTS[verdict(comparison)].rpartition(', ')[2]}"


def answers_said(system: SystemReport) -> str:
    """Return a sentence about what a system with a threshold says; of any other nothing."""
    states = system.abstention.default
    if states is None:
        return ""
    sentence = (
        f"With {system.name} a right skill fits for {percent(states.answerable.recall)} % of the"
    )
    false = [f"{percent(shares.false)} % ({name})" for name, shares in states.unanswerable.items()]
    wrong = f"; of requests that nothing answers, {', '.join(false)} are answered" if false else ""
    return f"{sentence} requests that have one{wrong}."
