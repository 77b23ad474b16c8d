"""Reports of an evaluation as one HTML page that needs nothing else: no network, no script.

The page forbids itself to load or run anything, and all that others wrote enters through `text`,
so that a hostile collection can do no more than look odd. Other functions take HTML, but for cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TypeVar

from skillsearch.evaluation import plots
from skillsearch.evaluation.report import (
    EXPLAINED,
    MAIN_MEASURE,
    MISSING,
    VERDICTS,
    against_baseline,
    best_systems,
    headline,
    mean_systems,
    percent,
    points,
    probability,
    score_digits,
    spread,
    system_means,
    verdict,
)
from skillsearch.evaluation.types import (
    Abstention,
    OperatingPoint,
    QueryExample,
    Report,
    SystemReport,
)
from skillsearch.text.safe_text import listed, one_line

_T = TypeVar("_T")
MAX_CHARS = 5_000
"""No text on a page is longer."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_QUERY_CHARS = 160
"""A longer query is cut, and opens on a click."""
_MAX_RELEVANT = 5
"""Relevant documents named of a query."""
_NAMED = 3
"""Collections named in the title; more are counted."""
_MEANS_CAPTION = "Means in percent with their 95 % intervals"
_MEASURES_CAPTION = (
    "Dots are means, lines their intervals. If the lines of two systems overlap, see the table of "
    "differences for whether one is better: it compares them query by query."
)
_QUERIES_CAPTION = (
    "Each dot is the queries with the same two values, the larger the more. Above the dashed line "
    "{system} is better, below it {baseline}."
)
_CAPTIONS: Mapping[Callable[..., str | None], str] = {
    plots.plot_top_scores: "Scores of first hits. The less the scores of answerable queries "
    "overlap with those below, the better a threshold separates them. A query without a hit "
    "counts as 0; each row has its own height.",
    plots.plot_thresholds: "The effect of a threshold. At a good one false answers are few, and "
    "most of what can be answered is kept.",
    plots.plot_reliability: "The meaning of a score. On the dashed line it is the probability of "
    "being relevant; below the line the system is too sure, above it too modest. The bars show how "
    "many queries stand behind each dot.",
}
_LANGUAGES_EXPLAINED = (
    "A query in the same language asks for at least one skill in its own language, a "
    "cross-language one only for skills in others. Queries are in neither group if their "
    "language, or the language of the skills, is unknown. Differences are in points of "
    f"{MAIN_MEASURE}, and corrected for the number of comparisons within each group."
)


def render_page(
    reports: Sequence[Report], *, made: str, version: str, has_mean: bool = True
) -> str:
    """Return reports, at least one, as an HTML page, the same for the same arguments.

    `made` is the time in words. A mean is left out if the reports are of parts of a whole.
    """
    names = [report.collection for report in reports]
    title = text(", ".join(names) if len(names) <= _NAMED else f"{len(names)} collections", 200)
    style = files("skillsearch.evaluation").joinpath("page.css").read_text(encoding="utf-8")
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # A title holds text only: a tag in it would be shown.
        f"<title>Search quality on {title.removeprefix('<bdi>').removesuffix('</bdi>')}</title>",
        f"<style>\n{style}</style>\n</head>\n<body>\n<header>",
        f"<h1>Search quality on {title}</h1>",
        f'<p class="quiet">Made {text(made)} with skillsearch {text(version)}.</p>',
        details("How to read this page", definitions(EXPLAINED.items())),
        "</header>\n<main>",
        *(_summary(reports, has_mean=has_mean) if len(reports) > 1 else ()),
        *(part for place, report in enumerate(reports) for part in _collection(report, place)),
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _summary(reports: Sequence[Report], *, has_mean: bool) -> Iterator[str]:
    """Compare the systems over the collections."""
    names = list(dict.fromkeys(system.name for report in reports for system in report.systems))

    def line(head: str, means: Mapping[str, Mapping[str, float]]) -> str:
        best = best_systems(MAIN_MEASURE, means)
        values = ((name, means.get(name, {}).get(MAIN_MEASURE)) for name in names)
        return row(head, (cell(percent(value), is_best=name in best) for name, value in values))

    rows = [
        line(f'<a href="#c{place}">{text(report.collection)}</a>', system_means(report))
        for place, report in enumerate(reports)
    ]
    rows += [line("mean of the collections", mean_systems(reports))] if has_mean else []
    yield "<section>\n<h2>All collections</h2>"
    yield table(f"{MAIN_MEASURE} in percent", ["collection", *map(text, names)], [("", rows)])
    yield "</section>"


def _collection(report: Report, place: int) -> Iterator[str]:
    """Show everything that was measured on one collection."""
    yield f'<section id="c{place}">\n<h2>{text(report.collection)}</h2>'
    others = [f"{count:,} {text(source)}" for source, count in report.unanswerable.items()]
    nothing = f" Queries that nothing answers: {', '.join(others)}." if others else ""
    yield f"<p>{report.documents:,} skills, {report.queries:,} judged queries.{nothing}</p>"
    yield f"<p>{text(headline(report))}</p>"
    if report.notes:
        yield f"<ul>{''.join(f'<li>{text(note)}</li>' for note in report.notes)}</ul>"
    yield from _measures(report)
    if report.comparisons:
        yield from _comparisons(report)
    yield from language_section(report)
    yield _overview_figures(report, place)
    if any(system.abstention.top_scores for system in report.systems):
        yield from _abstention(report, place)
    if any(system.worst or system.best for system in report.systems):
        yield "<h3>Worst and best queries</h3>"
        yield from (_examples(report, system) for system in report.systems)
    yield "</section>"


def _measures(report: Report) -> Iterator[str]:
    """Show the mean of each measure with its interval."""
    names = _measure_names(report)
    cells = _mean_cells(report, names)
    if any(system.milliseconds is not None for system in report.systems):
        names.append("ms a query")
        for system in report.systems:
            time = system.milliseconds
            cells[system.name].append(cell(MISSING if time is None else f"{time:,.1f}"))
    rows = [row(text(name), of) for name, of in cells.items()]
    yield "<h3>Measures</h3>"
    yield table(_MEANS_CAPTION, ["system", *map(text, names)], [("", rows)])
    settings = definitions((text(one.name), text(one.settings)) for one in report.systems)
    yield details("Settings of the systems", settings)


def _measure_names(report: Report) -> list[str]:
    return list(dict.fromkeys(name for system in report.systems for name in system.means))


def _mean_cells(report: Report, names: Sequence[str]) -> dict[str, list[str]]:
    """Return for each system a cell with the mean and interval of each measure."""
    means = system_means(report)
    best = {name: best_systems(name, means) for name in names}
    return {
        system.name: [
            cell(
                percent(system.means.get(name)),
                spread(system.intervals.get(name)),
                is_best=system.name in best[name],
            )
            for name in names
        ]
        for system in report.systems
    }


def _comparisons(report: Report) -> Iterator[str]:
    """Show each system against the baseline."""
    groups: dict[str, list[str]] = {}
    for one in report.comparisons:
        shown = (
            points(one.difference),
            " to ".join(map(points, one.interval)),
            probability(one.p_value),
            probability(one.p_holm),
            f"{one.wins} / {one.ties} / {one.losses}",
            VERDICTS[verdict(one)],
        )
        line = row(text(one.measure), map(cell, shown))
        groups.setdefault(text(one.system), []).append(line)
    heads = ["measure", "points", "95 % interval", "p", "Holm p", "queries", "verdict"]
    yield f"<h3>Differences from {text(report.systems[0].name)}</h3>"
    caption = "Difference in percentage points; queries on which it is better / equal / worse"
    yield table(caption, heads, groups.items())


def language_section(report: Report) -> Iterator[str]:
    """Show the measures by the language of the queries; nothing if there is only one."""
    parts = {**report.languages, **report.crossing}
    if not parts:
        return
    names = _measure_names(report)
    is_compared = len(report.systems) > 1
    groups = []
    for name, part in parts.items():
        title = f"{text(name)}, {part.queries:,} {'query' if part.queries == 1 else 'queries'}"
        cells = _mean_cells(part, names)
        for system, of in cells.items() if is_compared else ():
            of.append(cell(against_baseline(part, system)))
        groups.append((title, [row(text(system), of) for system, of in cells.items()]))
    heads = ["system", *map(text, names)]
    heads += [f"from {text(report.systems[0].name)}"] if is_compared else []
    yield f"<h3>Languages</h3>\n<p>{_LANGUAGES_EXPLAINED}</p>"
    yield table(_MEANS_CAPTION, heads, groups)


def _overview_figures(report: Report, place: int) -> str:
    """Plot the measures of all systems, and the queries of each against the baseline."""
    systems = {system.name: system for system in report.systems}
    svg = plots.plot_measures(report.systems, prefix=f"c{place}-measures")
    shown = [(svg, _MEASURES_CAPTION)]
    for number, one in enumerate(report.comparisons):
        if one.measure == MAIN_MEASURE:
            prefix = f"c{place}-queries{number}"
            svg = plots.plot_queries(report.systems[0], systems[one.system], one, prefix=prefix)
            names = {"system": text(one.system), "baseline": text(one.baseline)}
            shown.append((svg, _QUERIES_CAPTION.format(**names)))
    return figures(shown)


def _abstention(report: Report, place: int) -> Iterator[str]:
    """Show how well each system knows when nothing fits."""
    systems = [system for system in report.systems if system.abstention.top_scores]
    yield "<h3>When nothing fits</h3>"
    heads = ["", *(text(system.name) for system in systems)]
    yield table("Shares in percent", heads, _abstention_groups(report, systems))
    for number, system in enumerate(systems):
        shown = figures(
            (plot(system, prefix=f"c{place}-{plot.__name__}{number}"), caption)
            for plot, caption in _CAPTIONS.items()
        )
        is_open = system.abstention.default is not None
        yield details(f"Plots of {text(system.name)}", shown, is_open=is_open) if shown else ""


def _abstention_groups(
    report: Report, systems: Sequence[SystemReport]
) -> Iterator[tuple[str, list[str]]]:
    """Group the rows of the table, which has a column for each system."""
    known = [system.abstention for system in systems]
    sources = list(report.unanswerable)
    if sources:
        yield "AUROC against", _share_lines([one.auroc for one in known], sources, "")
    default = [one.default for one in known]
    if any(default):
        kept = _line("kept", default, lambda point: percent(point.kept))
        right = _line("precision", default, lambda point: percent(point.precision))
        yield "at its own threshold", [*_threshold_lines(sources, default), kept, right]
    yield from _keeping_groups(known, sources)
    errors = [one.calibration_error for one in known]
    if kinds := dict.fromkeys(kind for of in errors for kind in of):
        yield "calibration error", _share_lines(errors, kinds, " queries")


def _keeping_groups(
    known: Sequence[Abstention], sources: Iterable[str]
) -> Iterator[tuple[str, list[str]]]:
    for share in sorted({share for one in known for share in one.keeping}):
        chosen = [one.keeping.get(share) for one in known]
        yield f"to keep {100 * share:g} % of its right answers", _threshold_lines(sources, chosen)


def _share_lines(
    found: Sequence[Mapping[str, float]], names: Iterable[str], behind: str
) -> list[str]:
    """Return a row for each name, of values between 0 and 1."""
    return [
        _line(f"{text(name)}{behind}", [of.get(name) for of in found], "{:.3f}".format)
        for name in names
    ]


def _threshold_lines(sources: Iterable[str], chosen: Sequence[OperatingPoint | None]) -> list[str]:
    """Return rows with the threshold of each system and the false answers above it."""
    lines = [_line("threshold", chosen, lambda point: score_digits(point.threshold))]
    for source in sources:
        shares = [point.false_answers.get(source) if point else None for point in chosen]
        lines.append(_line(f"false answers, {text(source)}", shares, percent))
    return lines


def _line(head: str, values: Iterable[_T | None], digits: Callable[[_T], str]) -> str:
    """Return a row with a dash for a missing value."""
    return row(head, (cell(MISSING if one is None else digits(one)) for one in values))


def _examples(report: Report, system: SystemReport) -> str:
    """Show the queries on which a system did worst and best."""
    groups = {
        f"Worst by {MAIN_MEASURE}": system.worst,
        "Furthest above another system" if report.comparisons else "Best": system.best,
    }
    shown = [
        f'<h4>{title}</h4>\n<div class="examples">\n{"".join(map(_example, examples))}</div>'
        for title, examples in groups.items()
        if examples
    ]
    return details(f"Queries of {text(system.name)}", "\n".join(shown)) if shown else ""


def _example(example: QueryExample) -> str:
    """Show a query, the top documents, and relevant ones that are missing."""
    query, whole = text(example.text, _QUERY_CHARS), text(example.text)
    asked = f"<p>{query}</p>" if query == whole else details(query, f"<p>{whole}</p>")
    hits = "".join(
        f"<li>{text(hit.name)} <small>{score_digits(hit.score)}</small>"
        f"{' <b>relevant</b>' if hit.is_relevant else ''}</li>"
        for hit in example.top
    )
    shown = {hit.doc_id for hit in example.top}
    missing = [text(doc_id) for doc_id in example.relevant if doc_id not in shown]
    value = f"{MAIN_MEASURE} {percent(example.value)}"
    lines = [
        f"<article>\n{asked}\n<p>{value}, query {text(example.query_id, _QUERY_CHARS)}</p>",
        f"<ol>{hits}</ol>" if hits else "<p>It gave no answer.</p>",
        f"<p>Relevant, but not above: {listed(missing, _MAX_RELEVANT)}</p>" if missing else "",
        "</article>\n",
    ]
    return "\n".join(line for line in lines if line)


def text(value: str, limit: int = MAX_CHARS) -> str:
    """Return a text as HTML that shows it and does nothing else; a longer one ends in an ellipsis.

    It is isolated, so that text from right to left reorders nothing else.
    """
    return f"<bdi>{escape(one_line(value, limit))}</bdi>"


def cell(content: str, below: str = "", *, is_best: bool = False) -> str:
    """Return a cell of plain text, with a quieter line below; hyphens become dashes."""
    content, below = (escape(part).replace("-", "&ndash;") for part in (content, below))
    main = f"<b>{content}</b>" if is_best else content
    return f"<td>{main}<small>{below}</small></td>" if below else f"<td>{main}</td>"


def row(head: str, cells: Iterable[str]) -> str:
    """Return a row of a table."""
    return f'<tr><th scope="row">{head}</th>{"".join(cells)}</tr>'


def table(caption: str, heads: Sequence[str], groups: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return a table with titled groups of rows, in a box that scrolls if it is too wide."""
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    title = '<tr><th class="group" colspan="{}" scope="rowgroup">{}</th></tr>'
    bodies = [
        "\n".join([title.format(len(heads), name), *rows] if name else rows)
        for name, rows in groups
    ]
    # The keyboard must reach a box that scrolls, so it needs a role and a name.
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}">\n<table>\n'
        f"<caption>{caption}</caption>\n<thead><tr>{columns}</tr></thead>\n"
        + "\n".join(f"<tbody>\n{body}\n</tbody>" for body in bodies)
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
    shown = [
        f"<figure>\n{svg}\n<figcaption>{caption}</figcaption>\n</figure>"
        for svg, caption in pairs
        if svg
    ]
    return '<div class="figures">\n' + "\n".join(shown) + "\n</div>" if shown else ""
