"""The section of a page on the languages of queries; without several it is empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillsearch.evaluation.assess import EXAMPLE_MEASURE, system_means
from skillsearch.evaluation.markup import cell, row, table, text
from skillsearch.evaluation.types import Report
from skillsearch.evaluation.wording import against_baseline, best_systems, percent, spread

_EXPLAINED = (
    "A query in the same language asks for at least one skill in its own language, a "
    "cross-language one only for skills in others. Queries are in neither group where their "
    "language, or that of the skills, cannot be told. Differences are in points of "
    f"{EXAMPLE_MEASURE}, and corrected for the number of comparisons within each group."
)


def language_section(report: Report) -> Iterator[str]:
    """Show the measures of the queries of each language, and of those that cross languages.

    Args:
        report: The report; texts in it may be hostile.

    Yields:
        Pieces of HTML; none where all queries are in one language.
    """
    parts = {**report.languages, **report.crossing}
    if not parts:
        return
    names = list(dict.fromkeys(name for system in report.systems for name in system.means))
    baseline = report.systems[0].name if len(report.systems) > 1 else ""
    heads = ["system", *map(text, names), *([f"from {text(baseline)}"] if baseline else [])]
    groups = ((_title(name, part), _rows(part, names)) for name, part in parts.items())
    yield f"<h3>Languages</h3>\n<p>{_EXPLAINED}</p>"
    yield table("Means in percent with their 95 % intervals", heads, groups)


def _title(name: str, part: Report) -> str:
    """Say of which queries the rows below are."""
    return f"{text(name)}, {part.queries:,} {'query' if part.queries == 1 else 'queries'}"


def _rows(part: Report, names: Sequence[str]) -> Iterator[str]:
    """Return a row for each system."""
    means = system_means(part)
    best = {name: best_systems(name, means) for name in names}
    for system in part.systems:
        cells = [
            cell(
                percent(system.means.get(name)),
                spread(system.intervals.get(name)),
                is_best=system.name in best[name],
            )
            for name in names
        ]
        if len(part.systems) > 1:
            cells.append(cell(against_baseline(part, system.name)))
        yield row(text(system.name), cells)
