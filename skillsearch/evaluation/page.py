"""Reports of an evaluation as one HTML page that needs nothing else: no network, no script.

The page forbids itself to load or run anything, and all that others wrote enters through `text`,
so that a hostile collection can do no more than look odd. The pieces of the page are macros in
``pieces.html``: tables take plain text, the others HTML.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from markupsafe import Markup

from skillsearch.evaluation import plots
from skillsearch.evaluation import report as words
from skillsearch.evaluation.assess import FEW
from skillsearch.evaluation.lines import replace_file
from skillsearch.evaluation.report import MAIN_MEASURE, Cell, Outcome, percent
from skillsearch.evaluation.types import OperatingPoint, QueryExample, Report, States, SystemReport
from skillsearch.files.templates import Templates, load_templates
from skillsearch.text.safe_text import counted, listed, one_line

Plot: TypeAlias = tuple[str | None, str]
"""An SVG element, if there is anything to show, and its caption as HTML."""
Group: TypeAlias = "tuple[str, Sequence[tuple[str, Sequence[Cell | str]]]]"
"""A title, and rows below it: a head and cells."""

MAX_CHARS = 5_000  # no text on a page is longer

_QUERY_CHARS = 160  # a longer query is cut, and opens on a click
_MAX_RELEVANT = 5  # relevant documents named of a query
_NAMED = 3  # collections named in the title; more are counted
_MEAN = "mean of the collections"
_SAID = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_PLOTS = plots.plot_states, plots.plot_top_scores, plots.plot_thresholds, plots.plot_reliability


def save_page(outcomes: Sequence[Outcome], path: Path, *, made: str, version: str) -> None:
    """Write the reports as an HTML page in one step; kinds of queries follow their report."""
    reports = [one for outcome in outcomes for one in (outcome.report, *outcome.kinds.values())]
    # Kinds of queries are parts of a collection, so a mean over them says nothing.
    mean = "" if any(outcome.kinds for outcome in outcomes) else _MEAN
    replace_file(path, [render_page(reports, made=made, version=version, mean=mean)])


def render_page(reports: Sequence[Report], *, made: str, version: str, mean: str = _MEAN) -> str:
    """Return reports, at least one, as an HTML page, the same for the same arguments.

    `made` is the time in words, `mean` the head of a row with the mean over the reports, if any.
    """
    names = [report.collection for report in reports]
    title = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} collections"
    title += " over time" * any(report.unit == "run" for report in reports)
    page = page_templates().get_template("page.html")
    return page.render(
        title=one_line(title, 200),  # a tag in the title of a page would be shown
        style=Path(__file__).with_suffix(".css").read_text(encoding="utf-8"),
        made=made,
        version=version,
        reports=reports,
        summary=words.summary_rows(reports, mean=mean),
    )


def page_templates() -> Templates:
    """Return the templates of the page, and of its pieces."""
    templates = load_templates(Path(__file__).parent, text=text, dashed=_dashed)
    used = (findings, measures, settings, differences, language_groups, report_plots, system_plots)
    templates.globals |= {one.__name__: one for one in (*used, states, abstention, missing)}
    templates.globals |= {
        "counted": counted,
        "words": words,
        "said": _SAID,
        "FEW": FEW,
        "QUERY_CHARS": _QUERY_CHARS,
    }
    return templates


def findings(report: Report) -> list[str]:
    """Return the main findings, a sentence each."""
    said = [words.headline(report), *map(words.answers_said, report.systems)]
    return [sentence for sentence in said if sentence]


def measures(report: Report) -> tuple[list[str], list[words.Row]]:
    """Return heads and rows of the table of means."""
    names = words.measure_names(report)
    rows = words.mean_rows(report, names)
    if any(system.milliseconds is not None for system in report.systems):
        names.append("ms a query")
        for (_, cells), system in zip(rows, report.systems, strict=True):
            cells.append(Cell(words.milliseconds(system.milliseconds)))
    return [report.unit, *names], rows


def settings(report: Report) -> list[tuple[Markup, Markup]]:
    """Return each system with its settings."""
    return [(text(one.name), text(one.settings)) for one in report.systems]


def differences(report: Report) -> dict[str, list[tuple[str, list[str]]]]:
    """Return the differences from the first system by the name of each other one."""
    groups: dict[str, list[tuple[str, list[str]]]] = {}
    for one in report.comparisons:
        ends = " to ".join(map(words.points, one.interval))
        chances = map(words.probability, (one.p_value, one.p_holm))
        queries = f"{one.wins} / {one.ties} / {one.losses}"
        verdict = words.VERDICTS[words.verdict(one)]
        figures = [words.points(one.difference), ends, *chances, queries, verdict]
        groups.setdefault(one.system, []).append((one.measure, figures))
    return groups


def language_groups(report: Report) -> tuple[list[str], list[Group], list[Group]]:
    """Return the heads of a table of measures by language, and its groups of many and of few."""
    names = words.measure_names(report)
    is_compared = len(report.systems) > 1
    groups: dict[bool, list[Group]] = {False: [], True: []}
    for name, part in {**report.languages, **report.crossing}.items():
        rows = words.mean_rows(part, names)
        for system, cells in rows if is_compared else ():
            cells.append(Cell(words.against_baseline(part, system)))
        title = f"{name}, {counted(part.queries, 'query')}"
        groups[part.queries < FEW].append((title, rows))
    heads = ["system", *names, *([f"from {report.systems[0].name}"] if is_compared else [])]
    return heads, groups[False], groups[True]


def report_plots(report: Report, place: int) -> Iterator[Plot]:
    """Plot the systems side by side, or run by run."""
    return (_history if report.unit == "run" else _overview)(report, place)


def system_plots(system: SystemReport, place: int, number: int) -> Iterator[Plot]:
    """Plot what a system says."""
    for plot in _PLOTS:
        name = plot.__name__
        yield plot(system, prefix=f"c{place}-{name}{number}"), _SAID[name]


def _overview(report: Report, place: int) -> Iterator[Plot]:
    systems = {system.name: system for system in report.systems}
    yield plots.plot_measures(report.systems, prefix=f"c{place}-measures"), _SAID["measures"]
    for number, one in enumerate(report.comparisons):
        if one.measure == MAIN_MEASURE:
            prefix = f"c{place}-queries{number}"
            svg = plots.plot_queries(report.systems[0], systems[one.system], one, prefix=prefix)
            names = {"system": text(one.system), "baseline": text(one.baseline)}
            yield svg, Markup(_SAID["queries"]).format(**names)


def _history(report: Report, place: int) -> Iterator[Plot]:
    false = tuple(map(words.FALSE_ANSWERS.format, report.unanswerable))
    for number, measures in enumerate(((MAIN_MEASURE,), (words.KEPT,), false)):
        svg = plots.plot_history(report.systems, measures, prefix=f"c{place}-history{number}")
        yield svg, _SAID["history"]


def states(systems: Sequence[SystemReport]) -> list[Group]:
    """Return a group of rows for each system with a threshold."""
    known = ((system.name, system.abstention.default) for system in systems)
    return [(name, words.state_rows(at)) for name, at in known if at]


def abstention(report: Report, systems: Sequence[SystemReport]) -> Iterator[Group]:
    """Yield groups of rows on what is said if nothing fits, with a column for each system."""
    known = [system.abstention for system in systems]
    if sources := list(report.unanswerable):
        yield "AUROC against", _decimal_rows(sources, [of.auroc for of in known])
    if report.style:
        yield "AUROC of style alone", _decimal_rows(sources, [report.style] * len(known))
    defaults = [of.default for of in known]
    if any(defaults):
        yield "at its own threshold", _default_rows(defaults)
    points = list(map(words.operating_points, known))
    for name in sorted(set().union(*points)):
        yield _point_group(name, [of.get(name) for of in points], sources)
    errors = [{f"{kind} queries": e for kind, e in of.calibration_error.items()} for of in known]
    if heads := dict.fromkeys(chain(*errors)):
        yield "calibration error", _decimal_rows(heads, errors)


def _decimal_rows(
    heads: Iterable[str], columns: Sequence[Mapping[str, float | None]]
) -> list[tuple[str, list[str]]]:
    return [(head, [words.decimals(one.get(head)) for one in columns]) for head in heads]


def _default_rows(points: Sequence[States | None]) -> list[tuple[str, list[str]]]:
    score = words.score_digits
    return [
        ("threshold", [score(at.threshold if at else None) for at in points]),
        ("lower bound", [score(at.lower_bound if at else None) for at in points]),
        ("precision", [percent(at.precision if at else None) for at in points]),
    ]


def _point_group(
    name: str, points: Sequence[OperatingPoint | None], sources: Sequence[str]
) -> Group:
    rows = [("threshold", [words.score_digits(at.threshold if at else None) for at in points])]
    for source in sources:
        cells = [percent(at.false_answers.get(source) if at else None) for at in points]
        rows.append((words.FALSE_ANSWERS.format(source), cells))
    return f"to {name} of its right answers", rows


def missing(example: QueryExample) -> Markup:
    """Name the relevant documents that are not at the top of an answer."""
    shown = {hit.doc_id for hit in example.top}
    names = [text(doc_id) for doc_id in example.relevant if doc_id not in shown]
    return Markup(listed(names, _MAX_RELEVANT))


def text(value: str, limit: int = MAX_CHARS) -> Markup:
    """Return a text as HTML that shows it and does nothing else; a longer one ends in an ellipsis.

    It is isolated, so that text from right to left reorders nothing else.
    """
    return Markup(f"<bdi>{escape(one_line(value, limit))}</bdi>")


def _dashed(value: str) -> Markup:
    """Return the text of a cell, with dashes for hyphens."""
    return Markup(escape(value).replace("-", "&ndash;"))
