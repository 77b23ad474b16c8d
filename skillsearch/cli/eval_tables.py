"""Reports of an evaluation: tables for a person at a terminal, plain rows for other programs.

Texts are `rich.text.Text`, never markup, so a collection cannot style what is printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from skillsearch.cli.output import emit_rows
from skillsearch.cli.tables import fitted, make_console, plain_table
from skillsearch.evaluation.report import (
    MAIN_MEASURE,
    MISSING,
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
    Comparison,
    OperatingPoint,
    QueryExample,
    Report,
)
from skillsearch.text.safe_text import one_line

if TYPE_CHECKING:
    from skillsearch.evaluation.confusables import Confusion
    from skillsearch.evaluation.report import Outcome

_COMPARED = (MAIN_MEASURE, "Success@1")
"""Measures whose differences are shown; the HTML page shows all."""
_PART_MEASURES = (MAIN_MEASURE, "Success@1", "R@5")
_WORST = 3
"""Queries shown, of the best system."""
_MAX_PAIRS = 20
"""Confusable pairs shown on a terminal; --json has all."""
_NAME_CHARS = 24
_WIDE_NAME_CHARS = 32
_EXAMPLE_CHARS = 120
_QUERY_CHARS = 160
_STYLES = {"better": "bold green", "worse": "bold red"}


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print all tables of some outcomes; if there are several, a summary too."""
    for outcome in outcomes:
        print_report(outcome.report)
        if outcome.report.languages:
            click.echo()
            print_languages(outcome.report)
        if outcome.kinds:
            click.echo()
            print_kinds(outcome.kinds)
        if outcome.confusions is not None:
            click.echo()
            print_confusions(outcome.confusions, outcome.answers[0].name)
        if len(outcomes) > 1:
            click.echo()
    if len(outcomes) > 1:
        print_summary([outcome.report for outcome in outcomes])


def emit_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print all rows of some outcomes; if there are several, their means too."""
    for outcome in outcomes:
        parts = (outcome.kinds, outcome.report.languages, outcome.report.crossing)
        for report in (outcome.report, *(part for of in parts for part in of.values())):
            emit_report(report)
        emit_confusions(outcome.report.collection, outcome.confusions or ())
    if len(outcomes) > 1:
        emit_summary([outcome.report for outcome in outcomes])


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the measurements on a collection."""
    console = console or make_console()
    tables = [_measures(report)]
    for measure in _COMPARED:
        chosen = [one for one in report.comparisons if one.measure == measure]
        tables += [_differences(chosen)] if chosen else []
    if report.unanswerable:
        tables.append(_abstentions(report))
    console.print(_title(report))
    for table in tables:
        console.print()
        console.print(fitted(table, console.width))
    for line in (*_calibration(report), *_worst(report), *_notes(report)):
        console.print(line)


def print_summary(reports: Sequence[Report], console: Console | None = None) -> None:
    """Print the main measure of each system on each collection, and its means."""
    console = console or make_console()
    names = list(dict.fromkeys(system.name for report in reports for system in report.systems))
    heads = ["collection", *(_short(name).plain for name in names)]
    table = _table(f"{MAIN_MEASURE} in percent", heads)
    rows = [(_short(report.collection), system_means(report)) for report in reports]
    rows += [(Text("mean"), mean_systems(reports))] if len(reports) > 1 else []
    for head, means in rows:
        table.add_row(head, *(_value(name, MAIN_MEASURE, means) for name in names))
    console.print(fitted(table, console.width))


def emit_report(report: Report) -> None:
    """Print a row for each figure: collection, system, measure, value, low and high end.

    Means come first, then differences from the baseline and their p, then abstention. The ends
    are empty if no interval is known.
    """
    rows = [(report.collection, *row) for row in _mean_rows(report)]
    rows += [(report.collection, *row) for row in _difference_rows(report)]
    rows += [(report.collection, *row, "", "") for row in _abstention_rows(report)]
    emit_rows(rows)


def emit_summary(reports: Sequence[Report]) -> None:
    """Print a row for each mean over all collections, in the form of `emit_report`."""
    means = mean_systems(reports).items()
    emit_rows(
        ("mean", name, measure, f"{value:.6f}", "", "")
        for name, values in means
        for measure, value in values.items()
    )


def _mean_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield system, measure, mean and the ends of its interval."""
    for system in report.systems:
        for measure, mean in system.means.items():
            ends = system.intervals.get(measure)
            low, high = (f"{end:.6f}" for end in ends) if ends else ("", "")
            yield system.name, measure, f"{mean:.6f}", low, high


def _difference_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield system, measure and baseline, difference and the ends of its interval; then p."""
    for one in report.comparisons:
        what = f"{one.measure} from {one.baseline}"
        yield one.system, what, *(f"{figure:.6f}" for figure in (one.difference, *one.interval))
        yield one.system, f"p (Holm) of {what}", f"{one.p_holm:.6f}", "", ""


def _abstention_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield system, measure and value for each figure on scores and unanswerable queries."""
    for system in report.systems:
        known = system.abstention
        for source, auroc in known.auroc.items():
            yield system.name, f"AUROC {source}", f"{auroc:.6f}"
        for name, point in _thresholds(known).items() if report.unanswerable else ():
            yield system.name, f"threshold ({name})", f"{point.threshold:.6f}"
            yield system.name, f"kept ({name})", f"{point.kept:.6f}"
            for source, share in point.false_answers.items():
                yield system.name, f"false answers {source} ({name})", f"{share:.6f}"
        for kind, error in known.calibration_error.items():
            yield system.name, f"calibration error ({kind})", f"{error:.6f}"


def _thresholds(known: Abstention) -> dict[str, OperatingPoint]:
    """Return the default threshold, if any, and those that keep a share of the hits."""
    keeping = {f"keep {100 * share:g} %": at for share, at in sorted(known.keeping.items())}
    return {"default": known.default, **keeping} if known.default else keeping


def _table(title: str, heads: Iterable[str]) -> Table:
    """Return an empty table: a first column of texts, the others of numbers."""
    table = plain_table(heads, title)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _short(name: str) -> Text:
    return Text(one_line(name, _NAME_CHARS))


def _value(system: str, measure: str, means: Mapping[str, Mapping[str, float]]) -> Text:
    """Return the mean of a system, in bold if it is the best."""
    is_best = system in best_systems(measure, means)
    return Text(percent(means.get(system, {}).get(measure)), style="bold" if is_best else "")


def _title(report: Report) -> Text:
    """Return the size of the collection, and the main finding."""
    sources = [f"{count:,} {source}" for source, count in report.unanswerable.items()]
    nothing = f"; unanswerable: {', '.join(sources)}" if sources else ""
    counts = f": {report.documents:,} skills, {report.queries:,} judged queries{nothing}"
    name = Text(one_line(report.collection), style="bold")
    found = one_line(headline(report))
    return Text.assemble(name, one_line(counts), "\n" if found else "", found)


def _measures(report: Report) -> Table:
    """Return the mean of each measure, and the interval of the main one."""
    names = list(dict.fromkeys(name for system in report.systems for name in system.means))
    place = names.index(MAIN_MEASURE) + 1 if MAIN_MEASURE in names else len(names)
    heads = ["system", *names, "ms"]
    heads.insert(place + 1, "95 %")
    table = _table("Means in percent", heads)
    for system in report.systems:
        cells = [_value(system.name, name, system_means(report)) for name in names]
        cells.insert(place, Text(spread(system.intervals.get(MAIN_MEASURE)), style="dim"))
        time = system.milliseconds
        ms = MISSING if time is None else f"{time:,.1f}"
        table.add_row(_short(system.name), *cells, ms)
    return table


def _differences(comparisons: Sequence[Comparison]) -> Table:
    """Return each system against the baseline on one measure."""
    first = comparisons[0]
    table = _table(
        f"{first.measure}, points from {first.baseline}",
        ["system", "points", "95 %", "Holm p", "won/tied/lost", "verdict"],
    )
    for one in comparisons:
        meant = verdict(one)
        table.add_row(
            _short(one.system),
            points(one.difference),
            " to ".join(map(points, one.interval)),
            probability(one.p_holm),
            f"{one.wins}/{one.ties}/{one.losses}",
            Text(meant, style=_STYLES.get(meant, "")),
        )
    return table


def _abstentions(report: Report) -> Table:
    """Return how well each system knows when nothing fits: a row for each threshold."""
    sources = list(report.unanswerable)
    heads = ["system", "", "threshold", "kept", *(_short(source).plain for source in sources)]
    table = _table("When nothing fits: false answers in percent", heads)
    table.columns[1].justify = "left"
    for system in report.systems:
        known = system.abstention
        auroc = [f"{known.auroc[one]:.3f}" if one in known.auroc else MISSING for one in sources]
        table.add_row(_short(system.name), "AUROC", "", "", *auroc)
        for name, point in _thresholds(known).items():
            false = [percent(point.false_answers.get(source)) for source in sources]
            table.add_row("", name, score_digits(point.threshold), percent(point.kept), *false)
    return table


def _calibration(report: Report) -> Iterator[Text]:
    """Yield how far the scores of each system are from probabilities."""
    for system in report.systems:
        errors = system.abstention.calibration_error.items()
        said = ", ".join(f"{error:.3f} ({kind} queries)" for kind, error in errors)
        if said:
            yield Text(f"calibration error of {_short(system.name)}: {said}")


def _worst(report: Report) -> Iterator[Text]:
    """Yield the worst queries of the best system, and what won."""
    known = [system for system in report.systems if system.worst]
    if not known:
        return
    best = max(known, key=lambda system: system.means.get(MAIN_MEASURE, 0.0))
    yield Text()
    yield Text(f"Worst queries of {_short(best.name)}", style="bold")
    for example in best.worst[:_WORST]:
        yield Text(one_line(example.text, _QUERY_CHARS))
        yield Text(f"  {_outcome(example)}", style="dim")


def _outcome(example: QueryExample) -> str:
    """Return what came first for a query, and what should have."""
    first = "no answer"
    if example.top:
        winner = example.top[0]
        first = f"{_short(winner.name)} ({score_digits(winner.score)}) came first"
    shown = {hit.doc_id for hit in example.top[:1]}
    wanted = next((doc_id for doc_id in example.relevant if doc_id not in shown), None)
    instead = f", relevant is {_short(_last_part(wanted))}" if wanted else ""
    return f"{MAIN_MEASURE} {percent(example.value)}: {first}{instead}"


def _last_part(doc_id: str) -> str:
    """Return the end of an id that is a path: the skill's folder says more than its root."""
    return doc_id.rstrip("/:").replace(":", "/").rpartition("/")[2] or doc_id


def _notes(report: Report) -> Iterator[Text]:
    if report.notes:
        yield Text()
    yield from (Text(f"note: {one_line(note)}") for note in report.notes)


def print_kinds(kinds: Mapping[str, Report], console: Console | None = None) -> None:
    """Print the main measures of the queries of each kind separately."""
    table = _parts_table("By kind of query, in percent", "kind")
    _add_parts(table, kinds)
    console = console or make_console()
    console.print(fitted(table, console.width))


def print_languages(report: Report, console: Console | None = None) -> None:
    """Print the main measures by the language of queries, then of those that cross languages."""
    table = _parts_table("By language of the query, in percent", "language")
    if len(report.systems) > 1:
        head = f"from {one_line(report.systems[0].name, _WIDE_NAME_CHARS)}"
        table.add_column(Text(head, style="dim"))
    _add_parts(table, report.languages)
    if report.crossing:
        table.add_row()
    _add_parts(table, report.crossing)
    console = console or make_console()
    console.print(fitted(table, console.width))


def print_confusions(
    confusions: Sequence[Confusion], system: str, console: Console | None = None
) -> None:
    """Print which skills steal queries from which, how often, and by which words."""
    console = console or make_console()
    name = one_line(system, _WIDE_NAME_CHARS)
    if not confusions:
        console.print(Text(f"Under {name} no skill steals several queries from another one."))
        return
    console.print(Text(f"Skills that lose queries to others under {name}", style="bold"))
    for one in confusions[:_MAX_PAIRS]:
        console.print(_head(one))
        for label, text in _reasons(one):
            line = Text.assemble((f"{label}: ", "dim"), one_line(text))
            console.print(Padding(line, (0, 0, 0, 2)))
    if len(confusions) > _MAX_PAIRS:
        console.print(Text(f"and {len(confusions) - _MAX_PAIRS:,} more pairs (--json lists all)"))


def emit_confusions(collection: str, confusions: Sequence[Confusion]) -> None:
    """Print a row for each pair of skills.

    Its columns: collection, the word ``confusable``, id and name of the right skill and of the one
    that comes first, stolen queries, their share, mean lead, words, missing words, an example.
    """
    emit_rows(
        (
            collection,
            "confusable",
            one.loser,
            one.loser_name,
            one.winner,
            one.winner_name,
            one.queries,
            f"{one.share:.6f}",
            "" if one.lead is None else f"{one.lead:.6f}",
            " ".join(word.text for word in one.words),
            " ".join(word.text for word in one.missing),
            one.examples[0] if one.examples else "",
        )
        for one in confusions
    )


def _parts_table(title: str, head: str) -> Table:
    table = plain_table(
        (head, "queries", "system", *_PART_MEASURES[:1], "95 %", *_PART_MEASURES[1:]), title
    )
    for place in (1, *range(3, len(table.columns))):
        table.columns[place].justify = "right"
    return table


def _add_parts(table: Table, parts: Mapping[str, Report]) -> None:
    """Add a row for each part and system, with as many cells as the table has columns."""
    for part, report in parts.items():
        for place, system in enumerate(report.systems):
            first, *others = (percent(system.means.get(name)) for name in _PART_MEASURES)
            ends = Text(spread(system.intervals.get(MAIN_MEASURE)), style="dim")
            heads = ("", "") if place else (one_line(part), f"{report.queries:,}")
            name = Text(one_line(system.name, _WIDE_NAME_CHARS))
            cells: list[str | Text] = [*map(Text, heads), name, first, ends, *others]
            cells.append(against_baseline(report, system.name))
            table.add_row(*cells[: len(table.columns)])


def _head(one: Confusion) -> Text:
    """Return which skill of a pair loses how much to the other."""
    loser, winner = (one_line(name, _WIDE_NAME_CHARS) for name in (one.loser_name, one.winner_name))
    lead = "" if one.lead is None else f", lead {score_digits(one.lead)}"
    unranked = f", not found at all for {one.unranked:,}" if one.unranked else ""
    also = ", and the other way round" if one.is_mutual else ""
    return Text.assemble(
        (loser, "bold"),
        " loses to ",
        (winner, "bold"),
        f": {one.queries:,} queries, {percent(one.share)} % of its own{lead}{unranked}{also}",
    )


def _reasons(one: Confusion) -> Iterator[tuple[str, str]]:
    """Yield the words that win, and those the loser's description lacks."""
    in_body = [word for word in one.missing if word.in_loser == "body"]
    nowhere = [word for word in one.missing if word.in_loser == "nowhere"]
    said = {"won by": one.words, "only in its body": in_body, "nowhere in it": nowhere}
    for label, words in said.items():
        if words:
            yield label, ", ".join(word.text for word in words)
    for example in one.examples[:1]:
        yield "query", one_line(example, _EXAMPLE_CHARS)
