"""Reports of an evaluation as one HTML page that needs nothing else: no network, no script.

The page forbids itself to load or run anything, and all that others wrote enters through `text`,
so that a hostile collection can do no more than look odd. Tables take plain text; `details`,
`definitions` and `figures` take HTML.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from string import Template
from typing import TypeAlias

from skillsearch.evaluation import plots
from skillsearch.evaluation import report as words
from skillsearch.evaluation.assess import FEW
from skillsearch.evaluation.lines import replace_file
from skillsearch.evaluation.report import MAIN_MEASURE, Cell, Outcome, percent
from skillsearch.evaluation.types import OperatingPoint, QueryExample, Report, States, SystemReport
from skillsearch.text.safe_text import listed, one_line

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
    parts = []
    if len(reports) > 1:
        systems, rows = words.summary_rows(reports, mean=mean)
        heads = ["collection", *systems]
        summary = table(f"{MAIN_MEASURE} in percent", heads, [("", rows)], links=len(reports))
        parts.append(f"<section>\n<h2>All collections</h2>\n{summary}\n</section>")
    for place, report in enumerate(reports):
        parts += _collection(report, place)
    page = Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(one_line(title, 200)),  # a tag in the title of a page would be shown
        style=Path(__file__).with_suffix(".css").read_text(encoding="utf-8"),
        made=text(made),
        version=text(version),
        content="\n".join(filter(None, parts)),
    )


def _collection(report: Report, place: int) -> Iterator[str]:
    yield f'<section id="c{place}">\n<h2>{text(report.collection)}</h2>'
    others = [f"{count:,} {text(source)}" for source, count in report.unanswerable.items()]
    nothing = f" Queries that nothing answers: {', '.join(others)}." if others else ""
    said = [words.headline(report), *map(words.answers_said, report.systems)]
    yield "\n".join(f'<p class="verdict">{text(one)}</p>' for one in said if one)
    counts = f"{report.documents:,} skills, {report.queries:,} judged queries"
    yield f'<p class="quiet">{counts}.{nothing}</p>'
    if report.notes:
        yield f"<ul>{''.join(f'<li>{text(note)}</li>' for note in report.notes)}</ul>"
    yield from _plots(report, place)
    yield from _measures(report)
    yield from language_section(report)
    yield from _abstention(report)
    if any(system.worst or system.best for system in report.systems):
        yield "<h3>Worst and best queries</h3>"
        yield from (_examples(report, system) for system in report.systems)
    yield "</section>"


def _measures(report: Report) -> Iterator[str]:
    names = words.measure_names(report)
    rows = words.mean_rows(report, names)
    if any(system.milliseconds is not None for system in report.systems):
        names.append("ms a query")
        for (_, cells), system in zip(rows, report.systems, strict=True):
            cells.append(Cell(words.milliseconds(system.milliseconds)))
    yield "<h3>Measures</h3>"
    yield table(_SAID["means"], [report.unit, *names], [("", rows)])
    settings = definitions((text(one.name), text(one.settings)) for one in report.systems)
    yield details(f"Settings of the {report.unit}s", settings)
    if not report.comparisons:
        return
    groups: dict[str, list[tuple[str, list[str]]]] = {}
    for one in report.comparisons:
        ends = " to ".join(map(words.points, one.interval))
        chances = map(words.probability, (one.p_value, one.p_holm))
        queries = f"{one.wins} / {one.ties} / {one.losses}"
        verdict = words.VERDICTS[words.verdict(one)]
        figures = [words.points(one.difference), ends, *chances, queries, verdict]
        groups.setdefault(one.system, []).append((one.measure, figures))
    heads = ["measure", "points", "95 % interval", "p", "Holm p", "queries", "verdict"]
    yield f"<h3>Differences from {text(report.systems[0].name)}</h3>"
    yield table(_SAID["differences"], heads, groups.items())


def language_section(report: Report) -> Iterator[str]:
    """Show the measures by the language of the queries; nothing if there is only one."""
    parts = {**report.languages, **report.crossing}
    if not parts:
        return
    names = words.measure_names(report)
    is_compared = len(report.systems) > 1
    groups: dict[bool, list[Group]] = {False: [], True: []}
    for name, part in parts.items():
        rows = words.mean_rows(part, names)
        for system, cells in rows if is_compared else ():
            cells.append(Cell(words.against_baseline(part, system)))
        title = f"{name}, {words.counted(part.queries)}"
        groups[part.queries < FEW].append((title, rows))
    heads = ["system", *names, *([f"from {report.systems[0].name}"] if is_compared else [])]
    yield f"<h3>Languages</h3>\n<p>{_SAID['languages']}</p>"
    if groups[False]:
        yield table(_SAID["means"], heads, groups[False])
    if few := groups[True]:
        yield details(f"Fewer than {FEW} queries: {len(few)}", table(_SAID["few"], heads, few))


def _plots(report: Report, place: int) -> Iterator[str]:
    """Show the systems side by side, or run by run, and what each of them says."""
    if shown := figures((_history if report.unit == "run" else _overview)(report, place)):
        yield f"<h3>Plots</h3>\n{shown}"
    for number, system in enumerate(report.systems):
        shown = figures(
            (plot(system, prefix=f"c{place}-{plot.__name__}{number}"), _SAID[plot.__name__])
            for plot in _PLOTS
        )
        is_open = system.abstention.default is not None
        yield details(f"Plots of {text(system.name)}", shown, is_open=is_open) if shown else ""


def _overview(report: Report, place: int) -> Iterator[tuple[str | None, str]]:
    systems = {system.name: system for system in report.systems}
    yield plots.plot_measures(report.systems, prefix=f"c{place}-measures"), _SAID["measures"]
    for number, one in enumerate(report.comparisons):
        if one.measure == MAIN_MEASURE:
            prefix = f"c{place}-queries{number}"
            svg = plots.plot_queries(report.systems[0], systems[one.system], one, prefix=prefix)
            names = {"system": text(one.system), "baseline": text(one.baseline)}
            yield svg, _SAID["queries"].format(**names)


def _history(report: Report, place: int) -> Iterator[tuple[str | None, str]]:
    false = tuple(map(words.FALSE_ANSWERS.format, report.unanswerable))
    for number, measures in enumerate(((MAIN_MEASURE,), (words.KEPT,), false)):
        svg = plots.plot_history(report.systems, measures, prefix=f"c{place}-history{number}")
        yield svg, _SAID["history"]


def _abstention(report: Report) -> Iterator[str]:
    systems = [system for system in report.systems if system.abstention.top_scores]
    if not systems:
        return
    yield "<h3>When nothing fits</h3>"
    known = [(one.name, one.abstention.default) for one in systems]
    if groups := [(name, words.state_rows(at)) for name, at in known if at]:
        yield table(_SAID["states"], ["requests", *words.STATE_HEADS], groups)
    heads = ["figure", *(system.name for system in systems)]
    yield table("Shares in percent", heads, _abstention_groups(report, systems))


def _abstention_groups(report: Report, systems: Sequence[SystemReport]) -> Iterator[Group]:
    """Group the rows of the table, which has a column for each system."""
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


def _examples(report: Report, system: SystemReport) -> str:
    best = "Furthest above another system" if report.comparisons else "Best"
    shown = [
        f'<h4>{title}</h4>\n<div class="examples">\n{"".join(map(_example, examples))}</div>'
        for title, examples in ((f"Worst by {MAIN_MEASURE}", system.worst), (best, system.best))
        if examples
    ]
    return details(f"Queries of {text(system.name)}", "\n".join(shown)) if shown else ""


def _example(example: QueryExample) -> str:
    """Show a query, the top documents, and relevant ones that are missing."""
    query, whole = text(example.text, _QUERY_CHARS), text(example.text)
    asked = f"<p>{query}</p>" if query == whole else details(query, f"<p>{whole}</p>")
    hits = "".join(
        f"<li>{text(hit.name)} <small>{words.score_digits(hit.score)}</small>"
        f"{' <b>relevant</b>' if hit.is_relevant else ''}</li>"
        for hit in example.top
    )
    shown = {hit.doc_id for hit in example.top}
    missing = [text(doc_id) for doc_id in example.relevant if doc_id not in shown]
    value = f"{MAIN_MEASURE} {percent(example.value)}"
    below = f"<p>Relevant, but not above: {listed(missing, _MAX_RELEVANT)}</p>\n" if missing else ""
    return (
        f"<article>\n{asked}\n<p>{value}, query {text(example.query_id, _QUERY_CHARS)}</p>\n"
        f"{f'<ol>{hits}</ol>' if hits else '<p>It gave no answer.</p>'}\n{below}</article>\n"
    )


def text(value: str, limit: int = MAX_CHARS) -> str:
    """Return a text as HTML that shows it and does nothing else; a longer one ends in an ellipsis.

    It is isolated, so that text from right to left reorders nothing else.
    """
    return f"<bdi>{escape(one_line(value, limit))}</bdi>"


def cell(content: Cell | str) -> str:
    """Return a cell, with its interval on a quieter line below; hyphens become dashes."""
    given = Cell(content) if isinstance(content, str) else content
    main, below = (escape(part).replace("-", "&ndash;") for part in given[:2])
    main = f"<b>{main}</b>" if given.is_best else main
    return f"<td>{main}<small>{below}</small></td>" if below else f"<td>{main}</td>"


def table(caption: str, heads: Sequence[str], groups: Iterable[Group], *, links: int = 0) -> str:
    """Return a table with groups of rows, the first `links` of which lead to their collections."""
    columns = "".join(f'<th scope="col">{text(head)}</th>' for head in heads)
    bodies = []
    for title, rows in groups:
        lines = []
        if title:
            span = f'<th class="group" colspan="{len(heads)}" scope="rowgroup">'
            lines.append(f"<tr>{span}{text(title)}</th></tr>")
        for place, (name, cells) in enumerate(rows):
            head = f'<a href="#c{place}">{text(name)}</a>' if place < links else text(name)
            lines.append(f'<tr><th scope="row">{head}</th>{"".join(map(cell, cells))}</tr>')
        bodies.append("<tbody>\n" + "\n".join(lines) + "\n</tbody>")
    # The keyboard must reach a box that scrolls, so it needs a role and a name.
    return (
        f'<div class="scroll" role="group" tabindex="0" aria-label="{caption}">\n<table>\n'
        f"<caption>{caption}</caption>\n<thead><tr>{columns}</tr></thead>\n"
        + "\n".join(bodies)
        + "\n</table>\n</div>"
    )


def details(summary: str, content: str, *, is_open: bool = False) -> str:
    """Return content that a click on the summary opens."""
    state = " open" if is_open else ""
    return f"<details{state}>\n<summary>{summary}</summary>\n{content}\n</details>"


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Return terms with their meanings."""
    items = "\n".join(f"<dt>{term}</dt><dd>{meaning}</dd>" for term, meaning in pairs)
    return f"<dl>\n{items}\n</dl>"


def figures(pairs: Iterable[tuple[str | None, str]]) -> str:
    """Return plots with captions side by side; those that are None are left out."""
    kept = ((svg, f"<figcaption>{caption}</figcaption>") for svg, caption in pairs if svg)
    shown = "\n".join(f"<figure>\n{svg}\n{caption}\n</figure>" for svg, caption in kept)
    return f'<div class="figures">\n{shown}\n</div>' if shown else ""
