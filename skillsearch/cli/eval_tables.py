"""Reports of an evaluation: tables for a person, no cell of them markup, and rows for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from skillsearch.cli.output import emit_rows
from skillsearch.cli.tables import make_console, print_rows
from skillsearch.evaluation import report as words
from skillsearch.evaluation.report import MAIN_MEASURE, Cell, percent, score_digits
from skillsearch.evaluation.types import ANSWERABLE, QueryExample, Report, States
from skillsearch.text.safe_text import counted, one_line

if TYPE_CHECKING:
    from skillsearch.evaluation.confusables import Confusion
    from skillsearch.evaluation.report import Outcome
    from skillsearch.training.gains import Measured

_COMPARED = (MAIN_MEASURE, "Success@1")
"""Measures whose differences are shown; the HTML page shows all."""
_PART_MEASURES = (MAIN_MEASURE, "Success@1", "R@5")
_TEXTS = frozenset({"", "measure", "requests", "run", "system"})
"""Heads of columns that hold no numbers, as do those that say what systems differ from."""
_WORST = 3
"""Queries shown, of the best system."""
_MAX_PAIRS = 20
"""Confusable pairs shown on a terminal; --json has all."""
_EXAMPLE_CHARS = 120
_QUERY_CHARS = 160
_Row: TypeAlias = Sequence[str | Text]
_Table: TypeAlias = tuple[str, Sequence[str], Iterable[_Row]]
"""Title, heads and rows."""
Blocks: TypeAlias = "Iterator[Text | Padding | _Table]"
"""The parts of a report, to be printed one below the other."""
_STYLES = {"better": "bold green", "worse": "bold red"}
_short = partial(one_line, limit=24)
_name = partial(one_line, limit=32)


def print_blocks(blocks: Blocks, console: Console | None = None) -> None:
    """Print the parts of a report; columns of tables hold numbers, except for those of `_TEXTS`."""
    console = console or make_console()
    for block in blocks:
        if not isinstance(block, tuple):
            console.print(block)
            continue
        title, heads, rows = block
        is_text = [head in _TEXTS or head.startswith("from ") for head in heads]
        numbers = [position for position, text in enumerate(is_text) if position and not text]
        cut = (row[: len(heads)] for row in rows)
        shown = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in cut]
        print_rows(shown, heads, title=title, numbers=numbers, console=console)


def outcome_blocks(outcomes: Sequence[Outcome]) -> Blocks:
    """Yield all parts of some outcomes; if there are several, a summary too."""
    for outcome in outcomes:
        yield from report_blocks(outcome.report)
        if outcome.report.languages:
            yield Text()
            yield from language_blocks(outcome.report)
        if outcome.kinds:
            yield Text()
            yield from kind_blocks(outcome.kinds)
        if outcome.confusions is not None:
            yield Text()
            yield from confusion_blocks(outcome.confusions, outcome.answers[0].name)
        if len(outcomes) > 1:
            yield Text()
    if len(outcomes) > 1:
        yield from summary_blocks([outcome.report for outcome in outcomes])


def emit_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print rows for all figures of some outcomes, and for the means over several."""
    emit_rows((), ("collection", "system", "measure", "value", "low", "high"))
    for outcome in outcomes:
        parts = outcome.kinds, outcome.report.languages, outcome.report.crossing
        for report in (outcome.report, *(part for of in parts for part in of.values())):
            emit_report(report)
        emit_confusions(outcome.report.collection, outcome.confusions or ())
    if len(outcomes) > 1:
        emit_summary([outcome.report for outcome in outcomes])


def report_blocks(report: Report) -> Blocks:
    """Yield the measurements on a collection."""
    sources = [f"{count:,} {source}" for source, count in report.unanswerable.items()]
    nothing = f"; unanswerable: {', '.join(sources)}" if sources else ""
    skills, queries = counted(report.documents, "skill"), counted(report.queries, "judged query")
    counts = f": {skills}, {queries}{nothing}"
    headline = one_line(words.headline(report))
    title = Text(one_line(report.collection), style="bold")
    yield Text.assemble(title, one_line(counts), "\n" if headline else "", headline)
    tables = (_measures(report), *_differences(report), *_states(report), *_abstentions(report))
    for table in tables:
        yield Text()
        yield table
    yield from _remarks(report)


def summary_blocks(reports: Sequence[Report]) -> Blocks:
    """Yield the main measure of each system on each collection, and its means."""
    names, rows = words.summary_rows(reports, mean="mean" if len(reports) > 1 else "")
    lines: list[_Row] = [(_short(head), *map(_text, cells)) for head, cells in rows]
    yield f"{MAIN_MEASURE} in percent", ["collection", *map(_short, names)], lines


def kind_blocks(kinds: Mapping[str, Report]) -> Blocks:
    """Yield the main measures of the queries of each kind separately."""
    heads = ["kind", "queries", "system", *_heads(_PART_MEASURES)]
    yield "By kind of query, in percent", heads, _part_rows(kinds)


def language_blocks(report: Report) -> Blocks:
    """Yield the main measures by the language of queries, then of those that cross languages."""
    heads = ["language", "queries", "system", *_heads(_PART_MEASURES)]
    if len(report.systems) > 1:
        heads.append(f"from {_name(report.systems[0].name)}")
    rows = [*_part_rows(report.languages), *([()] if report.crossing else [])]
    yield "By language of the query, in percent", heads, [*rows, *_part_rows(report.crossing)]


def emit_report(report: Report) -> None:
    """Print a row for each figure: collection, system, measure, value, and any low and high end."""
    _emit_figures(report.collection, _figures(report))


def emit_summary(reports: Sequence[Report]) -> None:
    """Print a row for each mean over all collections, in the form of `emit_report`."""
    means = words.mean_systems(reports).items()
    _emit_figures("mean", ((name, *mean) for name, of in means for mean in of.items()))


def _emit_figures(where: str, figures: Iterable[tuple[str, str, *tuple[float, ...]]]) -> None:
    rows = []
    for system, what, *values in figures:
        cells = [f"{value:.6f}" for value in values]
        rows.append((where, system, what, *cells, *[""] * (3 - len(cells))))
    emit_rows(rows)


def _figures(report: Report) -> Iterator[tuple[str, str, *tuple[float, ...]]]:
    """Yield system, measure, value, and the ends of its interval if they are known."""
    for system in report.systems:
        for measure, mean in system.means.items():
            yield system.name, measure, mean, *system.intervals.get(measure, ())
    for comparison in report.comparisons:
        what = f"{comparison.measure} from {comparison.baseline}"
        yield comparison.system, what, comparison.difference, *comparison.interval
        yield comparison.system, f"p (Holm) of {what}", comparison.p_holm
    for source, auroc in report.style.items():
        yield "style", f"AUROC {source}", auroc
    for system in report.systems:
        abstention = system.abstention
        for source, auroc in abstention.auroc.items():
            yield system.name, f"AUROC {source}", auroc
        yield from ((system.name, *figure) for figure in _state_figures(abstention.default))
        points = words.operating_points(abstention) if report.unanswerable else {}
        for name, point in points.items():
            yield system.name, f"threshold ({name})", point.threshold
            yield system.name, f"kept ({name})", point.kept
            for source, share in point.false_answers.items():
                yield system.name, f"false answers {source} ({name})", share
        for kind, error in abstention.calibration_error.items():
            yield system.name, f"calibration error ({kind})", error


def _state_figures(states: States | None) -> Iterator[tuple[str, float]]:
    if states is None:
        return
    yield "threshold (default)", states.threshold
    yield "lower bound (default)", states.lower_bound
    if states.precision is not None:
        yield "precision (default)", states.precision
    groups = {ANSWERABLE: states.answerable, **states.unanswerable}
    for name, shares in groups.items():
        heads = words.STATE_HEADS[name != ANSWERABLE : 4]
        yield from ((f"{head} {name}", getattr(shares, head)) for head in heads)
    if states.shown is not None:
        yield f"shown {ANSWERABLE}", states.shown
    for face, of in states.faces.items():
        if of.shown is not None:
            yield f"shown {ANSWERABLE} ({face})", of.shown
        yield from (
            (f"none {name} ({face})", shares.none) for name, shares in of.unanswerable.items()
        )
    yield from ((f"kept {kind}", kept) for kind, kept in states.kinds.items())


def gain_blocks(measured: Measured) -> Blocks:
    """Yield the means of each system before and after a tuning."""
    rows: list[_Row] = []
    for system, change in measured.changes.items():
        for row, (measure, before) in enumerate(change.before.items()):
            after = change.after[measure]
            chance = "" if row else words.probability(change.test.p_value)
            figures = (percent(before), percent(after), words.points(after - before), chance)
            rows.append(("" if row else system, measure, *figures))
    yield "", ["", "measure", "before", "after", "points", "p"], rows
    yield Text()


def _heads(measures: Iterable[str]) -> list[str]:
    """Return heads of columns, with one for its interval behind the main measure."""
    return [h for m in measures for h in ((m, "95 %") if m == MAIN_MEASURE else (m,))]


def _text(cell: Cell) -> Text:
    return Text(cell.text, style="bold" if cell.is_best else "")


def _means(cells: Sequence[Cell], measures: Iterable[str]) -> Iterator[Text]:
    for cell, measure in zip(cells, measures, strict=True):
        yield _text(cell)
        if measure == MAIN_MEASURE:
            yield Text(cell.interval, style="dim")


def _measures(report: Report) -> _Table:
    names = words.measure_names(report)
    times = {system.name: words.milliseconds(system.milliseconds) for system in report.systems}
    rows: list[_Row] = []
    for name, cells in words.mean_rows(report, names):
        rows.append((_short(name), *_means(cells, names), times[name]))
    return "Means in percent", [report.unit, *_heads(names), "ms"], rows


def _differences(report: Report) -> Iterator[_Table]:
    heads = [report.unit, "points", "95 %", "Holm p", "won/tied/lost", "verdict"]
    for measure in _COMPARED:
        rows: list[_Row] = []
        for comparison in (
            comparison for comparison in report.comparisons if comparison.measure == measure
        ):
            meant = words.verdict(comparison)
            ends = " to ".join(map(words.points, comparison.interval))
            counts = f"{comparison.wins}/{comparison.ties}/{comparison.losses}"
            figures = (
                words.points(comparison.difference),
                ends,
                words.probability(comparison.p_holm),
                counts,
            )
            rows.append(
                (_short(comparison.system), *figures, Text(meant, style=_STYLES.get(meant, "")))
            )
        if rows:
            yield f"{measure}, points from {report.systems[0].name}", heads, rows


def _states(report: Report) -> Iterator[_Table]:
    rows: list[_Row] = []
    for system in report.systems:
        head = _short(system.name)
        for name, cells in words.state_rows(at) if (at := system.abstention.default) else ():
            rows.append((head, _name(name), *cells))
            head = ""
    if rows:
        heads = ["system", "requests", *words.STATE_HEADS]
        yield "What answers say at the default threshold, in percent", heads, rows


def _abstentions(report: Report) -> Iterator[_Table]:
    sources = list(report.unanswerable)
    rows: list[_Row] = []
    if report.style:
        style = [words.decimals(report.style.get(source)) for source in sources]
        rows.append(("(style alone)", "AUROC", "", "", *style))
    for system in report.systems:
        abstention = system.abstention
        auroc = [words.decimals(abstention.auroc.get(source)) for source in sources]
        rows.append((_short(system.name), "AUROC", "", "", *auroc))
        for name, point in words.operating_points(abstention).items():
            false = [percent(point.false_answers.get(source)) for source in sources]
            rows.append(("", name, score_digits(point.threshold), percent(point.kept), *false))
    heads = ["system", "", "threshold", "kept", *map(_short, sources)]
    if sources and report.unit == "system":
        yield "When nothing fits: false answers in percent", heads, rows


def _part_rows(parts: Mapping[str, Report]) -> Iterator[_Row]:
    for part, report in parts.items():
        heads = (one_line(part), f"{report.queries:,}")
        for system, cells in words.mean_rows(report, _PART_MEASURES):
            against = words.against_baseline(report, system)
            yield *heads, _name(system), *_means(cells, _PART_MEASURES), against
            heads = ("", "")


def _remarks(report: Report) -> Blocks:
    for system in report.systems:
        errors = system.abstention.calibration_error.items()
        if said := ", ".join(f"{error:.3f} ({kind} queries)" for kind, error in errors):
            yield Text(f"calibration error of {_short(system.name)}: {said}")
    if judged := [system for system in report.systems if system.worst]:
        best = max(judged, key=lambda system: system.means.get(MAIN_MEASURE, 0.0))
        yield Text()
        yield Text(f"Worst queries of {_short(best.name)}", style="bold")
        for example in best.worst[:_WORST]:
            yield Text(one_line(example.text, _QUERY_CHARS))
            yield Text(f"  {_outcome(example)}", style="dim")
    if report.notes:
        yield Text()
    yield from (Text(f"note: {one_line(note)}") for note in report.notes)


def _outcome(example: QueryExample) -> str:
    said, first = "no answer", None
    for winner in example.top[:1]:
        said = f"{_short(winner.name)} ({score_digits(winner.score)}) came first"
        first = winner.doc_id
    wanted = next((doc_id for doc_id in example.relevant if doc_id != first), None)
    instead = f", relevant is {_short(_last_part(wanted))}" if wanted else ""
    return f"{MAIN_MEASURE} {percent(example.value)}: {said}{instead}"


def _last_part(doc_id: str) -> str:
    """Return the end of an id that is a path: the skill's folder says more than its root."""
    return doc_id.rstrip("/:").replace(":", "/").rpartition("/")[2] or doc_id


def confusion_blocks(confusions: Sequence[Confusion], system: str) -> Blocks:
    """Yield which skills steal queries from which, how often, and by which words."""
    if not confusions:
        yield Text(f"Under {_name(system)} no skill steals several queries from another one.")
        return
    yield Text(f"Skills that lose queries to others under {_name(system)}", style="bold")
    for confusion in confusions[:_MAX_PAIRS]:
        said = f": {counted(confusion.queries, 'query')}, {percent(confusion.share)} % of its own"
        said += "" if confusion.lead is None else f", lead {score_digits(confusion.lead)}"
        said += f", not found at all for {confusion.unranked:,}" if confusion.unranked else ""
        said += ", and the other way round" if confusion.is_mutual else ""
        loser, winner = _name(confusion.loser_name), _name(confusion.winner_name)
        yield Text.assemble((loser, "bold"), " loses to ", (winner, "bold"), said)
        for label, text in _reasons(confusion):
            line = Text.assemble((f"{label}: ", "dim"), one_line(text))
            yield Padding(line, (0, 0, 0, 2))
    if len(confusions) > _MAX_PAIRS:
        yield Text(f"and {counted(len(confusions) - _MAX_PAIRS, 'more pair')} (--json lists all)")


def _reasons(confusion: Confusion) -> Iterator[tuple[str, str]]:
    lists = {
        "won by": [word.text for word in confusion.words],
        "only in its body": [word.text for word in confusion.missing if word.in_loser == "body"],
        "nowhere in it": [word.text for word in confusion.missing if word.in_loser == "nowhere"],
    }
    yield from ((label, ", ".join(texts)) for label, texts in lists.items() if texts)
    yield from (("query", one_line(example, _EXAMPLE_CHARS)) for example in confusion.examples[:1])


def emit_confusions(collection: str, confusions: Sequence[Confusion]) -> None:
    """Print a row for each pair of skills.

    Its columns: collection, the word ``confusable``, id and name of the right skill and of the one
    that comes first, stolen queries, their share, mean lead, words, missing words, an example.
    """
    rows = []
    for confusion in confusions:
        skills = (confusion.loser, confusion.loser_name, confusion.winner, confusion.winner_name)
        lead = "" if confusion.lead is None else f"{confusion.lead:.6f}"
        texts = [
            " ".join(word.text for word in terms) for terms in (confusion.words, confusion.missing)
        ]
        example = confusion.examples[0] if confusion.examples else ""
        figures = (confusion.queries, f"{confusion.share:.6f}", lead)
        rows.append((collection, "confusable", *skills, *figures, *texts, example))
    emit_rows(rows)
