"""Reports of an evaluation as one HTML page that needs nothing else: no network, no script.

The page forbids itself to load or run anything, and all that others wrote enters through `text`,
so that a hostile collection can do no more than look odd. The parts of the page are macros in
``pieces.html``: tables take plain text, the others HTML.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from markupsafe import Markup

from skillsearch.evaluation.assess import FEW
from skillsearch.evaluation.lines import replace_file
from skillsearch.evaluation.reporting import plots, tables
from skillsearch.evaluation.reporting import report as words
from skillsearch.evaluation.reporting.report import MAIN_MEASURE, Outcome
from skillsearch.evaluation.types import QueryExample, Report, SystemReport
from skillsearch.rendering.blocks import Table
from skillsearch.rendering.html_page import STYLE, Templates, load_templates, text
from skillsearch.text.safe_text import counted, listed, one_line

Plot: TypeAlias = tuple[str | None, str]
"""An SVG element, if there is anything to show, and its caption as HTML."""

_MAX_RELEVANT = 5  # relevant documents named of a query
_NAMED = 3  # collections named in the title; more are counted
_MEAN = "mean of the collections"
_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_PLOTS = plots.plot_states, plots.plot_top_scores, plots.plot_thresholds, plots.plot_reliability


def save_page(outcomes: Sequence[Outcome], path: Path, *, made: str, version: str) -> None:
    """Write the reports as an HTML page in one step; kinds of queries follow their report."""
    reports = list(chain(*((outcome.report, *outcome.kinds.values()) for outcome in outcomes)))
    # Kinds of queries are parts of a collection, so a mean over them says nothing.
    mean = "" if any(outcome.kinds for outcome in outcomes) else _MEAN
    replace_file(path, [render_page(reports, made=made, version=version, mean=mean)])


def render_page(reports: Sequence[Report], *, made: str, version: str, mean: str = _MEAN) -> str:
    """Return reports, at least one, as an HTML page, the same for the same arguments.

    `made` is the time in words, `mean` the head of a row with the mean over the reports, if any.
    """
    names = [report.collection for report in reports]
    title = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} collections"
    if any(report.unit == "run" for report in reports):
        title += " over time"
    page = page_templates().get_template("page.html")
    return page.render(
        title=one_line(title, 200),  # a tag in the title of a page would be shown
        style=STYLE.read_text(encoding="utf-8"),
        made=made,
        version=version,
        reports=reports,
        summary=tables.summary(reports, mean=mean),
    )


def page_templates() -> Templates:
    """Return the templates of the page, and of its pieces."""
    templates = load_templates(Path(__file__).parent)
    used = (findings, language_tables, report_plots, system_plots, missing)
    templates.globals |= {function.__name__: function for function in used}
    more = {"counted": counted, "words": words, "tables": tables, "said": _TEXTS}
    templates.globals |= {**more, "FEW": FEW, "QUERY_CHARS": tables.QUERY_CHARS}
    return templates


def findings(report: Report) -> list[str]:
    """Return the main findings, a sentence each."""
    sentences = [words.headline(report), *map(words.answers_said, report.systems)]
    return [sentence for sentence in sentences if sentence]


def language_tables(report: Report) -> tuple[Table, Table]:
    """Return the measures by language, of many queries and of few."""
    names = words.measure_names(report)
    parts = {**report.languages, **report.crossing}
    few = {name: part for name, part in parts.items() if part.queries < FEW}
    many = {name: part for name, part in parts.items() if name not in few}
    return (
        tables.parts_table(_TEXTS["means"], "language", many, names),
        tables.parts_table(_TEXTS["few"], "language", few, names),
    )


def report_plots(report: Report, number: int) -> Iterator[Plot]:
    """Plot the systems side by side, or run by run."""
    return (_history if report.unit == "run" else _overview)(report, number)


def system_plots(system: SystemReport, report_number: int, number: int) -> Iterator[Plot]:
    """Plot what a system says."""
    for plot in _PLOTS:
        name = plot.__name__
        yield plot(system, prefix=f"c{report_number}-{name}{number}"), _TEXTS[name]


def _overview(report: Report, number: int) -> Iterator[Plot]:
    systems = {system.name: system for system in report.systems}
    yield plots.plot_measures(report.systems, prefix=f"c{number}-measures"), _TEXTS["measures"]
    for row, comparison in enumerate(report.comparisons):
        if comparison.measure == MAIN_MEASURE:
            prefix = f"c{number}-queries{row}"
            svg = plots.plot_queries(
                report.systems[0], systems[comparison.system], comparison, prefix=prefix
            )
            names = {"system": text(comparison.system), "baseline": text(comparison.baseline)}
            yield svg, Markup(_TEXTS["queries"]).format(**names)


def _history(report: Report, number: int) -> Iterator[Plot]:
    false = tuple(map(words.FALSE_ANSWERS.format, report.unanswerable))
    for row, measures in enumerate(((MAIN_MEASURE,), (words.RECALL,), false)):
        svg = plots.plot_history(report.systems, measures, prefix=f"c{number}-history{row}")
        yield svg, _TEXTS["history"]


def missing(example: QueryExample) -> Markup:
    """Name the relevant documents that are not at the top of an answer."""
    shown = {hit.doc_id for hit in example.top}
    names = [text(doc_id) for doc_id in example.relevant if doc_id not in shown]
    return Markup(listed(names, _MAX_RELEVANT))
