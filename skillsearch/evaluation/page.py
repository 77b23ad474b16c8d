"""Reports of an evaluation as one HTML page that needs nothing else: no network, no script.

The page forbids itself to load or run anything, so that a hostile collection can do no more than
look odd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files

from skillsearch.evaluation import plots
from skillsearch.evaluation.assess import EXAMPLE_MEASURE, mean_systems, system_means
from skillsearch.evaluation.markup import cell, definitions, details, figures, row, table, text
from skillsearch.evaluation.page_languages import language_section
from skillsearch.evaluation.types import (
    Abstention,
    OperatingPoint,
    QueryExample,
    Report,
    SystemReport,
)
from skillsearch.evaluation.wording import (
    EXPLAINED,
    MISSING,
    VERDICTS,
    best_systems,
    headline,
    percent,
    points,
    probability,
    score_digits,
    spread,
    verdict,
)
from skillsearch.text.safe_text import listed

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_QUERY_CHARS = 160
"""A longer query is cut, and opens on a click."""
_MAX_RELEVANT = 5
"""Relevant documents named of a query."""
_NAMED = 3
"""Collections named in the title; more are counted."""
_MEASURES_CAPTION = (
    "Dots are means, lines their intervals. Where the lines of two systems overlap, the table of "
    "differences tells whether one is better: it compares them query by query."
)
_QUERIES_CAPTION = (
    "Each dot is the queries with the same two values, the larger the more. Above the dashed line "
    "{system} is better, below it {baseline}."
)
_CAPTIONS: Mapping[Callable[..., str | None], str] = {
    plots.plot_top_scores: "Scores of first hits. The less the scores of answerable queries "
    "overlap with those below, the better a threshold tells them apart. A query without a hit "
    "counts as 0; each row has its own height.",
    plots.plot_thresholds: "What a threshold does. At a good one false answers are few, and most "
    "of what can be answered is kept.",
    plots.plot_reliability: "What a score is worth. On the dashed line it is the probability of "
    "being relevant; below the line the system is too sure, above it too modest. The bars say how "
    "many queries stand behind each dot.",
}


def render_page(
    reports: Sequence[Report], *, made: str, version: str, has_mean: bool = True
) -> str:
    """Return reports as an HTML page, the same for the same arguments.

    Args:
        reports: One report a collection, at least one; texts in them may be hostile.
        made: When it was made, in words.
        version: Version of skillsearch.
        has_mean: False where the reports are of parts of a whole, whose mean says nothing.

    Returns:
        The whole page.

    Raises:
        MissingDependencyError: When matplotlib is not installed.
    """
    names = [report.collection for report in reports]
    title = text(", ".join(names) if len(names) <= _NAMED else f"{len(names)} collections", 200)
    style = files("skillsearch.evaluation").joinpath("page.css").read_text(encoding="utf-8")
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # A title holds text alone: a tag in it would be shown.
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
    rows = []
    for place, report in enumerate(reports):
        head = f'<a href="#c{place}">{text(report.collection)}</a>'
        rows.append(row(head, _main_values(names, system_means(report))))
    if has_mean:
        rows.append(row("mean of the collections", _main_values(names, mean_systems(reports))))
    yield "<section>\n<h2>All collections</h2>"
    heads = ["collection", *map(text, names)]
    yield table(f"{EXAMPLE_MEASURE} in percent", heads, [("", rows)])
    yield "</section>"


def _main_values(names: Iterable[str], means: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a cell with the main measure of each system."""
    best = best_systems(EXAMPLE_MEASURE, means)
    return [
        cell(percent(means.get(name, {}).get(EXAMPLE_MEASURE)), is_best=name in best)
        for name in names
    ]


def _collection(report: Report, place: int) -> Iterator[str]:
    """Show all that was measured on one collection."""
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
    names = list(dict.fromkeys(name for system in report.systems for name in system.means))
    means = system_means(report)
    cells: dict[str, list[str]] = {system.name: [] for system in report.systems}
    for name in names:
        best = best_systems(name, means)
        for system in report.systems:
            mean, interval = system.means.get(name), system.intervals.get(name)
            is_best = system.name in best
            cells[system.name].append(cell(percent(mean), spread(interval), is_best=is_best))
    if any(system.milliseconds is not None for system in report.systems):
        names.append("ms a query")
        for system in report.systems:
            time = system.milliseconds
            cells[system.name].append(cell(MISSING if time is None else f"{time:,.1f}"))
    rows = [row(text(name), of) for name, of in cells.items()]
    yield "<h3>Measures</h3>"
    heads = ["system", *map(text, names)]
    yield table("Means in percent with their 95 % intervals", heads, [("", rows)])
    settings = definitions((text(one.name), text(one.settings)) for one in report.systems)
    yield details("Settings of the systems", settings)


def _comparisons(report: Report) -> Iterator[str]:
    """Show each system against the baseline."""
    groups: dict[str, list[str]] = {}
    for one in report.comparisons:
        cells = [
            cell(points(one.difference)),
            cell(" to ".join(map(points, one.interval))),
            cell(probability(one.p_value)),
            cell(probability(one.p_holm)),
            cell(f"{one.wins} / {one.ties} / {one.losses}"),
            cell(VERDICTS[verdict(one)]),
        ]
        groups.setdefault(text(one.system), []).append(row(text(one.measure), cells))
    heads = ["measure", "points", "95 % interval", "p", "Holm p", "queries", "verdict"]
    yield f"<h3>Differences from {text(report.systems[0].name)}</h3>"
    caption = "Difference in percentage points; queries on which it is better / equal / worse"
    yield table(caption, heads, groups.items())


def _overview_figures(report: Report, place: int) -> str:
    """Plot the measures of all systems, and the queries of each against the baseline."""
    systems = {system.name: system for system in report.systems}
    svg = plots.plot_measures(report.systems, prefix=f"c{place}-measures")
    shown = [(svg, _MEASURES_CAPTION)]
    for number, one in enumerate(report.comparisons):
        if one.measure == EXAMPLE_MEASURE:
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
        pairs = [
            (plot(system, prefix=f"c{place}-{plot.__name__}{number}"), caption)
            for plot, caption in _CAPTIONS.items()
        ]
        shown = figures(pairs)
        is_open = system.abstention.default is not None
        yield details(f"Plots of {text(system.name)}", shown, is_open=is_open) if shown else ""


def _abstention_groups(
    report: Report, systems: Sequence[SystemReport]
) -> Iterator[tuple[str, list[str]]]:
    """Group the rows of the table, which has a column for each system."""
    known = [system.abstention for system in systems]
    own = [one.default for one in known]
    if report.unanswerable:
        found = {source: [one.auroc.get(source) for one in known] for source in report.unanswerable}
        yield "AUROC against", _named_lines(found, "")
    if any(own):
        kept = _line("kept", [one.kept if one else None for one in own], percent)
        right = _line("precision", [one.precision if one else None for one in own], percent)
        yield "at its own threshold", [*_threshold_lines(report, own), kept, right]
    for share in sorted({share for one in known for share in one.keeping}):
        chosen = [one.keeping.get(share) for one in known]
        yield f"to keep {100 * share:g} % of its right answers", _threshold_lines(report, chosen)
    if errors := _calibration_errors(known):
        yield "calibration error", _named_lines(errors, " queries")


def _calibration_errors(known: Sequence[Abstention]) -> dict[str, list[float | None]]:
    """Return the calibration error of each system by the kind of queries."""
    kinds = dict.fromkeys(kind for one in known for kind in one.calibration_error)
    return {kind: [one.calibration_error.get(kind) for one in known] for kind in kinds}


def _named_lines(values: Mapping[str, Sequence[float | None]], behind: str) -> list[str]:
    """Return a row for each name, of values between 0 and 1."""
    return [
        _line(f"{text(name)}{behind}", found, "{:.3f}".format) for name, found in values.items()
    ]


def _threshold_lines(report: Report, chosen: Sequence[OperatingPoint | None]) -> list[str]:
    """Return rows with the threshold of each system and the false answers above it."""
    false = [
        _line(
            f"false answers, {text(source)}",
            [one.false_answers.get(source) if one else None for one in chosen],
            percent,
        )
        for source in report.unanswerable
    ]
    return [
        _line("threshold", [one.threshold if one else None for one in chosen], score_digits),
        *false,
    ]


def _line(head: str, values: Iterable[float | None], digits: Callable[[float], str]) -> str:
    """Return a row with a dash where there is no value."""
    return row(head, (cell(MISSING if value is None else digits(value)) for value in values))


def _examples(report: Report, system: SystemReport) -> str:
    """Show the queries on which a system did worst and best."""
    groups = {
        f"Worst by {EXAMPLE_MEASURE}": system.worst,
        "Furthest above another system" if report.comparisons else "Best": system.best,
    }
    shown = [
        f'<h4>{title}</h4>\n<div class="examples">\n{"".join(map(_example, examples))}</div>'
        for title, examples in groups.items()
        if examples
    ]
    return details(f"Queries of {text(system.name)}", "\n".join(shown)) if shown else ""


def _example(example: QueryExample) -> str:
    """Show a query, what won, and what should have."""
    query, whole = text(example.text, _QUERY_CHARS), text(example.text)
    asked = f"<p>{query}</p>" if query == whole else details(query, f"<p>{whole}</p>")
    hits = "".join(
        f"<li>{text(hit.name)} <small>{score_digits(hit.score)}</small>"
        f"{' <b>relevant</b>' if hit.is_relevant else ''}</li>"
        for hit in example.top
    )
    shown = {hit.doc_id for hit in example.top}
    missing = [text(doc_id) for doc_id in example.relevant if doc_id not in shown]
    value = f"{EXAMPLE_MEASURE} {percent(example.value)}"
    lines = [
        f"<article>\n{asked}\n<p>{value}, query {text(example.query_id, _QUERY_CHARS)}</p>",
        f"<ol>{hits}</ol>" if hits else "<p>It gave no answer.</p>",
        f"<p>Relevant, but not above: {listed(missing, _MAX_RELEVANT)}</p>" if missing else "",
        "</article>\n",
    ]
    return "\n".join(line for line in lines if line)
