"""The blocks of an evaluation: its tables, for page and terminal; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from skillsearch.evaluation.reporting import report as words
from skillsearch.evaluation.reporting.figures import SHARES, abstention_figures
from skillsearch.evaluation.reporting.report import MAIN_MEASURE, percent, score_digits
from skillsearch.evaluation.types import ANSWERABLE, QueryExample, Report, States, StateShares
from skillsearch.rendering.blocks import Block, Cell, Row, RowGroup, Table, TextLine
from skillsearch.text.safe_text import counted, one_line

if TYPE_CHECKING:
    from skillsearch.evaluation.confusables import Confusion
    from skillsearch.evaluation.reporting.report import Outcome
    from skillsearch.training.gains import MeasuredChanges

Blocks: TypeAlias = Iterator[Block]

_MAIN = (MAIN_MEASURE, "Success@1")
"""Measures whose differences a terminal shows; the page shows all."""
_MAIN_OF_PARTS = (*_MAIN, "R@5")
_WORST = 3
"""Queries shown, of the best system."""
_MAX_PAIRS = 20
"""Confusable pairs shown on a terminal; --json has all."""
_EXAMPLE_CHARS = 120
QUERY_CHARS = 160
"""Of a query that is shown; a longer one is cut."""
_NAME_CHARS = 32
_DIFFERENCE = ("95 % interval", "p", "Holm p", "won/tied/lost", "verdict")


def outcome_blocks(outcomes: Sequence[Outcome]) -> Blocks:
    """Yield what a terminal shows of some outcomes; if there are several, a summary too."""
    for outcome in outcomes:
        yield from report_blocks(outcome.report)
        if outcome.report.languages:
            yield languages(outcome.report)
        if outcome.kinds:
            yield kinds(outcome.kinds)
        if outcome.confusions is not None:
            yield from confusion_blocks(outcome.confusions, outcome.answers[0].name)
    if len(outcomes) > 1:
        yield summary([outcome.report for outcome in outcomes], mean="mean")


def report_blocks(report: Report) -> Blocks:
    """Yield what a terminal shows of the measurements on a collection."""
    sources = [f"{count:,} {source}" for source, count in report.unanswerable.items()]
    nothing = f"; unanswerable: {', '.join(sources)}" if sources else ""
    skills, queries = counted(report.documents, "skill"), counted(report.queries, "judged query")
    title = (one_line(report.collection), "bold")
    yield TextLine((title, one_line(f": {skills}, {queries}{nothing}")), begins=True)
    if headline := words.headline(report):
        yield TextLine((one_line(headline),))
    yield mean_scores(report)
    yield differences(report, _MAIN)
    yield states(report)
    yield abstention(report)
    yield from _worst_queries(report)
    for number, note in enumerate(report.notes):
        yield TextLine((f"note: {one_line(note)}",), begins=not number)


def summary(reports: Sequence[Report], *, mean: str = "") -> Table:
    """Return the main measure of each system by collection; `mean` heads the means, if any."""
    names = list(dict.fromkeys(system.name for report in reports for system in report.systems))
    groups = [(report.collection, words.system_means(report)) for report in reports]
    if mean:
        groups.append((mean, words.mean_systems(reports)))
    rows: list[Row] = []
    for number, (head, systems) in enumerate(groups):
        best = words.best_systems(MAIN_MEASURE, systems)
        values = ((name, systems.get(name, {}).get(MAIN_MEASURE)) for name in names)
        link = f"#c{number}" if number < len(reports) else ""
        first = Cell(head, link=link)
        rows.append([first, *(Cell(percent(value), "", name in best) for name, value in values)])
    return Table(f"{MAIN_MEASURE} in percent", ["collection", *names], [RowGroup(rows)])


def mean_scores(report: Report) -> Table:
    """Return the means of all measures, and the time of a query if it is known."""
    names = words.measure_names(report)
    rows = _mean_rows(report, names)
    heads = [report.unit, *names]
    if any(system.milliseconds is not None for system in report.systems):
        heads.append("ms")
        for row, system in zip(rows, report.systems, strict=True):
            row.append(words.milliseconds(system.milliseconds))
    title = "Means in percent with their 95 % intervals"
    return Table(title, heads, [RowGroup(rows)], with_interval=[MAIN_MEASURE])


def _mean_rows(report: Report, measures: Sequence[str]) -> list[list[str | Cell]]:
    rows: list[list[str | Cell]] = [[system.name] for system in report.systems]
    for measure in measures:
        best = words.best_systems(measure, words.system_means(report))
        for row, system in zip(rows, report.systems, strict=True):
            interval = words.spread(system.intervals.get(measure))
            row.append(Cell(percent(system.means.get(measure)), interval, system.name in best))
    return rows


def differences(report: Report, measures: Sequence[str] = ()) -> Table:
    """Return the differences from the first system, by default on all measures."""
    groups: dict[str, list[Row]] = {}
    for comparison in report.comparisons:
        if not measures or comparison.measure in measures:
            ends = " to ".join(map(words.points, comparison.interval))
            chances = map(words.probability, (comparison.p_value, comparison.p_holm))
            counts = f"{comparison.wins}/{comparison.ties}/{comparison.losses}"
            row = comparison.system, words.points(comparison.difference), ends, *chances, counts
            groups.setdefault(comparison.measure, []).append([*row, words.verdict(comparison)])
    return Table(
        "Differences in points",
        [report.unit, f"from {report.systems[0].name}", *_DIFFERENCE],
        [RowGroup(rows, measure) for measure, rows in groups.items()],
        labels=("measure",),
        texts=["verdict"],
        wide=["p"],
    )


def languages(report: Report) -> Table:
    """Return the main measures by the language of queries, then of those that cross languages."""
    parts = {**report.languages, **report.crossing}
    return parts_table("By language of the query, in percent", "language", parts)


def kinds(parts: Mapping[str, Report]) -> Table:
    """Return the main measures by the kind of queries."""
    return parts_table("By kind of query, in percent", "kind", parts, is_compared=False)


def parts_table(
    title: str,
    head: str,
    parts: Mapping[str, Report],
    measures: Sequence[str] = _MAIN_OF_PARTS,
    *,
    is_compared: bool = True,
) -> Table:
    """Return some measures on parts of a collection, if `is_compared` with the main difference."""
    groups, against = [], []
    for name, part in parts.items():
        rows = _mean_rows(part, measures)
        if is_compared and len(rows) > 1:
            against = [f"from {part.systems[0].name}"]
            for row, system in zip(rows, part.systems, strict=True):
                row.append(words.against_baseline(part, system.name))
        queries = counted(part.queries, "query")
        groups.append(RowGroup(rows, f"{name}, {queries}", (name, f"{part.queries:,}")))
    heads, labels = ["system", *measures, *against], (head, "queries")
    return Table(title, heads, groups, labels, texts=against, with_interval=[MAIN_MEASURE])


def states(report: Report) -> Table:
    """Return what the answers of each system with a threshold say."""
    measured = ((system.name, system.abstention.default) for system in report.systems)
    groups = [RowGroup(_state_rows(states), name) for name, states in measured if states]
    title = "What answers say at the default threshold, in percent of the requests"
    heads = ("requests", "recall", "false", "perhaps", "none", "shown")
    return Table(title, heads, groups, labels=("system",))


def _state_rows(states: States) -> list[Row]:
    """Return the states of all answerable requests, of each kind, and of each other source."""
    rows: list[Row] = [
        (ANSWERABLE, *_share_cells(states.answerable), percent(states.shown)),
        *((f"of them {kind}", percent(share), *[""] * 4) for kind, share in states.kinds.items()),
    ]
    for source, shares in states.unanswerable.items():
        rows.append((source, "", *_share_cells(shares)[1:], ""))
    return rows


def _share_cells(shares: StateShares) -> list[str]:
    return [percent(getattr(shares, name)) for name in SHARES]


def abstention(report: Report) -> Table:
    """Return what systems say if nothing fits, with a column for each that has scores."""
    systems = [system for system in report.systems if system.abstention.top_scores]
    names = sorted(set().union(*(words.operating_points(system.abstention) for system in systems)))
    columns = [abstention_figures(report, system.abstention, names) for system in systems]
    groups: dict[str, list[Row]] = {}
    tabled = ([figure for figure in figures if figure.group] for figures in columns)
    for row in zip(*tabled, strict=True):
        if any(figure.value is not None for figure in row):
            cells = row[0].head, *(figure.show(figure.value) for figure in row)
            groups.setdefault(row[0].group, []).append(cells)
    return Table(
        "When nothing fits: shares in percent",
        ["figure", *(system.name for system in systems)],
        [RowGroup(rows, group) for group, rows in groups.items()],
        labels=("",),
    )


def gains(measured: MeasuredChanges) -> Table:
    """Return the means of each system before and after a tuning."""
    groups = []
    for system, change in measured.changes.items():
        rows: list[Row] = []
        for number, (measure, before) in enumerate(change.before.items()):
            after = change.after[measure]
            chance = "" if number else words.probability(change.test.p_value)
            figures = percent(before), percent(after), words.points(after - before), chance
            rows.append((measure, *figures))
        groups.append(RowGroup(rows, system))
    return Table("", ["measure", "before", "after", "points", "p"], groups, labels=("",))


def _worst_queries(report: Report) -> Blocks:
    if systems := [system for system in report.systems if system.worst]:
        best = max(systems, key=lambda system: system.means.get(MAIN_MEASURE, 0.0))
        yield TextLine(((f"Worst queries of {_name(best.name)}", "bold"),), begins=True)
        for example in best.worst[:_WORST]:
            yield TextLine((one_line(example.text, QUERY_CHARS),))
            yield TextLine(((_describe(example), "dim"),), indent=2)


def _describe(example: QueryExample) -> str:
    first_hit, first = "no answer", None
    for winner in example.top[:1]:
        first_hit = f"{_name(winner.name)} ({score_digits(winner.score)}) came first"
        first = winner.doc_id
    wanted = next((doc_id for doc_id in example.relevant if doc_id != first), None)
    instead = f", relevant is {_name(_last_part(wanted))}" if wanted else ""
    return f"{MAIN_MEASURE} {percent(example.value)}: {first_hit}{instead}"


def _last_part(doc_id: str) -> str:
    """Return the end of an id that is a path: the skill's folder says more than its root."""
    return doc_id.rstrip("/:").replace(":", "/").rpartition("/")[2] or doc_id


def _name(text: str) -> str:
    return one_line(text, _NAME_CHARS)


def confusion_blocks(confusions: Sequence[Confusion], system: str) -> Blocks:
    """Yield which skills steal queries from which, how often, and by which words."""
    if not confusions:
        sentence = f"Under {_name(system)} no skill steals several queries from another one."
        yield TextLine((sentence,), begins=True)
        return
    title = f"Skills that lose queries to others under {_name(system)}"
    yield TextLine(((title, "bold"),), begins=True)
    for pair in confusions[:_MAX_PAIRS]:
        loser, winner = _name(pair.loser_name), _name(pair.winner_name)
        yield TextLine(((loser, "bold"), " loses to ", (winner, "bold"), f": {_losses(pair)}"))
        reasons = {
            "won by": [word.text for word in pair.words],
            "only in its body": [word.text for word in pair.missing if word.in_loser == "body"],
            "nowhere in it": [word.text for word in pair.missing if word.in_loser == "nowhere"],
            "query": [one_line(example, _EXAMPLE_CHARS) for example in pair.examples[:1]],
        }
        for label, texts in reasons.items():
            if texts:
                yield TextLine(((f"{label}: ", "dim"), one_line(", ".join(texts))), indent=2)
    if len(confusions) > _MAX_PAIRS:
        more = counted(len(confusions) - _MAX_PAIRS, "more pair")
        yield TextLine((f"and {more} (--json lists all)",))


def _losses(pair: Confusion) -> str:
    losses = f"{counted(pair.queries, 'query')}, {percent(pair.share)} % of its own"
    losses += "" if pair.lead is None else f", lead {score_digits(pair.lead)}"
    losses += f", not found at all for {pair.unranked:,}" if pair.unranked else ""
    return losses + (", and the other way round" if pair.is_mutual else "")
