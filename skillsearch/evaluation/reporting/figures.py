"""The figures of an evaluation, each by its name, and rows of them for programs; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from skillsearch.evaluation.reporting import report as words
from skillsearch.evaluation.reporting.report import percent, score_digits
from skillsearch.evaluation.types import ANSWERABLE, Abstention, OperatingPoint, Report, States

if TYPE_CHECKING:
    from skillsearch.evaluation.confusables import Confusion
    from skillsearch.evaluation.reporting.report import Outcome

FIGURES = ("collection", "system", "measure", "value", "low", "high")
"""Columns of `figure_rows`."""
SHARES = ("recall", "false", "perhaps", "none")


class Figure(NamedTuple):
    """A figure of a system: its row in the table, if any, its label in lines, and how it is shown.

    Without a label it stands in the table alone.
    """

    group: str
    head: str
    label: str
    value: float | None
    show: Callable[[float | None], str] = percent


def abstention_figures(
    report: Report, abstention: Abstention, names: Iterable[str]
) -> Iterator[Figure]:
    """Yield the figures of a system, None if not measured; `names` are of `operating_points`."""
    sources, decimals = report.unanswerable, words.decimals
    for source in sources:
        auroc = abstention.auroc.get(source)
        yield Figure("AUROC against", source, f"AUROC {source}", auroc, decimals)
    for source, auroc in report.style.items():
        yield Figure("AUROC of style alone", source, "", auroc, decimals)
    own = "at its own threshold"
    threshold = bound = precision = None
    if default := abstention.default:
        threshold, bound, precision = default.threshold, default.lower_bound, default.precision
    yield Figure(own, "threshold", "threshold (default)", threshold, score_digits)
    yield Figure(own, "lower bound", "lower bound (default)", bound, score_digits)
    yield Figure(own, "precision", "precision (default)", precision)
    if default:
        yield from (Figure("", "", *figure) for figure in _state_figures(default))
    points = words.operating_points(abstention)
    for name in names:
        yield from _point_figures(name, points.get(name), sources)
    for source in sources:
        label, share = f"recall at 5 % false {source}", abstention.recall_at_few_false.get(source)
        yield Figure("recall at 5 % false answers to", source, label, share)
    for kind in (ANSWERABLE, "all"):
        label, error = f"calibration error ({kind})", abstention.calibration_error.get(kind)
        yield Figure("calibration error", f"{kind} queries", label, error, decimals)


def _point_figures(
    name: str, point: OperatingPoint | None, sources: Iterable[str]
) -> Iterator[Figure]:
    group, label = f"to {name} of its right answers", "{} (" + name + ")" if sources else ""
    threshold, recall = (point.threshold, point.recall) if point else (None, None)
    yield Figure(group, "threshold", label.format("threshold"), threshold, score_digits)
    yield Figure(group, "recall", label.format("recall"), recall)
    for source in sources:
        share = point.false_answers.get(source) if point else None
        head, measure = words.FALSE_ANSWERS.format(source), f"false answers {source}"
        yield Figure(group, head, label.format(measure), share)


def figure_rows(outcomes: Sequence[Outcome]) -> Iterator[Sequence[object]]:
    """Yield a row of `FIGURES` for each figure of some outcomes, and for means over several.

    A row for two confusable skills has other columns: collection, the word ``confusable``, id and
    name of the right skill and of the one that comes first, stolen queries, their share, mean lead,
    words, missing words, an example.
    """
    for outcome in outcomes:
        whole = outcome.report
        for report in (
            whole,
            *outcome.kinds.values(),
            *whole.languages.values(),
            *whole.crossing.values(),
        ):
            yield from (_figure_row(report.collection, *figure) for figure in _figures(report))
        yield from (_confusion_row(whole.collection, pair) for pair in outcome.confusions or ())
    if len(outcomes) > 1:
        systems = words.mean_systems([outcome.report for outcome in outcomes])
        for system, by_measure in systems.items():
            yield from (_figure_row("mean", system, *figure) for figure in by_measure.items())


def _figure_row(collection: str, system: str, measure: str, *values: float) -> tuple[str, ...]:
    cells = [f"{value:.6f}" for value in values]
    return (collection, system, measure, *cells, *[""] * (3 - len(cells)))


def _figures(report: Report) -> Iterator[tuple[str, str, *tuple[float, ...]]]:
    """Yield system, measure, value, and the ends of its interval if they are known."""
    for system in report.systems:
        for measure, mean in system.means.items():
            yield system.name, measure, mean, *system.intervals.get(measure, ())
    for comparison in report.comparisons:
        difference = f"{comparison.measure} from {comparison.baseline}"
        yield comparison.system, difference, comparison.difference, *comparison.interval
        yield comparison.system, f"p (Holm) of {difference}", comparison.p_holm
    for source, auroc in report.style.items():
        yield "style", f"AUROC {source}", auroc
    for system in report.systems:
        names = words.operating_points(system.abstention)
        for figure in abstention_figures(report, system.abstention, names):
            if figure.label and figure.value is not None:
                yield system.name, figure.label, figure.value


def _state_figures(states: States) -> Iterator[tuple[str, float]]:
    for source, shares in {ANSWERABLE: states.answerable, **states.unanswerable}.items():
        for name in SHARES[source != ANSWERABLE :]:
            yield f"{name} {source}", getattr(shares, name)
    if states.shown is not None:
        yield f"shown {ANSWERABLE}", states.shown
    for face, of_face in states.faces.items():
        if of_face.shown is not None:
            yield f"shown {ANSWERABLE} ({face})", of_face.shown
        for source, shares in of_face.unanswerable.items():
            yield f"none {source} ({face})", shares.none
    yield from ((f"recall {kind}", share) for kind, share in states.kinds.items())


def _confusion_row(collection: str, pair: Confusion) -> tuple[object, ...]:
    skills = pair.loser, pair.loser_name, pair.winner, pair.winner_name
    lead = "" if pair.lead is None else f"{pair.lead:.6f}"
    groups = (" ".join(word.text for word in group) for group in (pair.words, pair.missing))
    figures = pair.queries, f"{pair.share:.6f}", lead
    example = pair.examples[0] if pair.examples else ""
    return (collection, "confusable", *skills, *figures, *groups, example)
