"""Reports at a terminal, and as rows for other programs."""

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from skillsearch.evaluation.reporting.figures import figure_rows
from skillsearch.evaluation.reporting.report import Outcome, headline
from skillsearch.evaluation.reporting.tables import _last_part, report_blocks, summary
from skillsearch.evaluation.types import QueryExample, RankedDocument

BOLD = re.compile(r"\x1b\[1m([^\x1b]+)\x1b\[0m")
HOSTILE = "[red]tea[/red] \x1b[31m\u202ex\x00 :coffee:"
HARMLESS = "[red]tea[/red] [31mx"


def summary_blocks(reports):
    return summary(reports, mean="mean" if len(reports) > 1 else "")


def figures(*reports):
    return [list(row) for row in figure_rows([Outcome(report, ()) for report in reports])]


def words(lines):
    return [line.split() for line in lines]


@pytest.fixture
def measured(report, system_report):
    """Make a report of two systems of which all that is compared is given."""

    def make(**comparison):
        systems = [
            replace(
                system_report(name, is_empty=True),
                means={"nDCG@10": mean, "Success@1": 0.5, "R@5": 0.25},
                intervals={"nDCG@10": (mean - 0.1, mean + 0.05), "R@5": (0.2, 0.3)},
                worst=(),
                milliseconds=time,
            )
            for name, mean, time in (("bm25", 0.5, None), ("hybrid", 0.7, 3.14))
        ]
        made = report(*systems, unanswerable={})
        figures = {"wins": 9, "ties": 5, "losses": 2, "p_holm": 0.01, **comparison}
        return replace(made, comparisons=tuple(replace(row, **figures) for row in made.comparisons))

    return make


def test_means_are_percent_with_the_interval_of_the_main_measure(measured, printed):
    made = replace(measured(), notes=("one thing", "another\nthing"))
    lines = printed(report_blocks(made), 100)
    rows = words(lines)
    assert ["system", "nDCG@10", "95", "%", "Success@1", "R@5", "ms"] in rows
    assert ["bm25", "50.0", "40.0-55.0", "50.0", "25.0", "-"] in rows
    assert ["hybrid", "70.0", "60.0-75.0", "50.0", "25.0", "3.1"] in rows
    assert lines[-2:] == ["note: one thing", "note: another thing"]
    text = "\n".join(printed(report_blocks(made), 100, is_styled=True))
    bold = {cell.strip() for cell in BOLD.findall(text)}
    assert "70.0" in bold
    assert not {"50.0", "25.0"} & bold


def test_the_title_says_what_was_measured_and_what_was_found(report, printed):
    lines = printed(report_blocks(report()), 200)
    counts = "697 skills, 240 judged queries; unanswerable: 150 foreign, 150 dropped relevant"
    assert lines[:2] == [f"office-skills: {counts}", headline(report())]


@pytest.mark.parametrize(
    ("difference", "interval", "p_holm", "row"),
    [
        (0.2, (0.1, 0.3), 0.01, "+20.0 +10.0 to +30.0 0.010 9/5/2 better"),
        (-0.2, (-0.3, -0.1), 0.0001, "-20.0 -30.0 to -10.0 <0.001 9/5/2 worse"),
        (0.01, (-0.1, 0.1), 0.4, "+1.0 -10.0 to +10.0 0.400 9/5/2 may be chance"),
    ],
)
def test_a_terminal_shows_differences_on_two_measures(
    measured, difference, interval, p_holm, row, printed
):
    made = measured(difference=difference, interval=interval, p_holm=p_holm)
    lines = printed(report_blocks(made), 100)
    assert lines.count("Differences in points") == 1
    assert any("from bm25" in line for line in lines)
    rows = [" ".join(cells) for cells in words(lines)]
    is_shown = [f"{measure} hybrid {row}" in rows for measure in ("nDCG@10", "Success@1", "R@5")]
    assert is_shown == [True, True, False]


def test_each_threshold_has_a_row_of_false_answers(report, printed):
    made = report()
    lines = printed(report_blocks(made), 120)
    rows = [" ".join(row) for row in words(lines)]
    start = rows.index("When nothing fits: shares in percent")
    assert rows[start + 1] == "figure bm25 dense hybrid"
    assert rows[start + 2].startswith("AUROC against foreign ")
    assert rows[start + 4] == "AUROC of style alone foreign 0.876 0.876 0.876"
    assert rows[start + 5] == "at its own threshold threshold - - 0.30"
    points = [system.abstention.keeping[0.9] for system in made.systems]
    assert "recall " + " ".join(f"{100 * point.recall:.1f}" for point in points) in rows
    shares = [f"{100 * point.false_answers['foreign']:.1f}" for point in points]
    assert f"false answers, foreign {' '.join(shares)}" in rows
    assert "calibration error answerable queries - - 0.061" in rows
    assert "all queries - - 0.043" in rows


def test_the_states_at_the_default_threshold_have_a_table(report, printed):
    made = report()
    lines = printed(report_blocks(made))
    start = lines.index("What answers say at the default threshold, in percent of the requests")
    states = made.systems[2].abstention.default
    recall, foreign = states.answerable.recall, states.unanswerable["foreign"]
    said = [f"{100 * share:.1f}" for share in (foreign.false, foreign.perhaps, foreign.none)]
    table = [row for row in words(lines[start + 1 :]) if row and not row[0].startswith("─")][:6]
    assert table[0] == ["system", "requests", "recall", "false", "perhaps", "none", "shown"]
    assert table[1][:4] == ["hybrid", "answerable", f"{100 * recall:.1f}", "5.0"]
    assert table[2:5] == [
        ["of", "them", "short", "61.0"],
        ["of", "them", "task", "42.0"],
        ["foreign", *said],
    ]


def test_the_worst_queries_of_the_best_system_are_shown(measured, printed):
    top = (RankedDocument("a", "brew-tea", 0.91, False), RankedDocument("b", "steep", 0.5, True))
    right = (RankedDocument("b", "steep-tea", 0.5, True),)
    worst = (
        QueryExample("q1", "make tea", 0.63, ("b",), top),
        QueryExample("q2", "make coffee", 0.0, ("c", "d"), ()),
        QueryExample("q3", "make a cake", 1.0, ("b",), right),
        QueryExample("q4", "make a pie", 1.0, ("b",), right),
    )
    made = measured()
    systems = (made.systems[0], replace(made.systems[1], worst=worst))
    lines = printed(report_blocks(replace(made, systems=systems)))
    start = lines.index("Worst queries of hybrid")
    assert lines[start + 1 :] == [
        "make tea",
        "  nDCG@10 63.0: brew-tea (0.91) came first, relevant is b",
        "make coffee",
        "  nDCG@10 0.0: no answer, relevant is c",
        "make a cake",
        "  nDCG@10 100.0: steep-tea (0.50) came first",
    ]


@pytest.mark.parametrize("width", [80, 100])
def test_usual_reports_fit_without_a_broken_word(report, system_report, width, printed):
    sources = ("foreign", "dropped relevant", "negatives")
    systems = [
        system_report(name, seed, sources=sources)
        for seed, name in enumerate(("bm25", "dense", "hybrid-minilm"))
    ]
    lines = printed(report_blocks(report(*systems)), width)
    assert max(map(cell_len, lines)) <= width
    rows = words(lines)
    names = [row[0] for row in rows if row]
    assert names.count("hybrid-minilm") >= 4
    heads = ["nDCG@10"] if width >= 100 else ["nDCG", "Success"]
    assert all(any(head in row for row in rows) for head in heads)
    assert any("won/tied/lost" in row for row in rows)
    assert any("negatives" in row for row in rows)


def test_summary_has_a_row_for_each_collection_and_their_mean(measured, printed):
    tea, coffee = (replace(measured(), collection=name) for name in ("tea", "coffee"))
    extra = replace(coffee.systems[0], name="new", means={"nDCG@10": 0.9})
    coffee = replace(coffee, systems=(*coffee.systems, extra))
    assert words(printed(summary_blocks([tea, coffee]))) == [
        ["nDCG@10", "in", "percent"],
        ["collection", "bm25", "hybrid", "new"],
        ["tea", "50.0", "70.0", "-"],
        ["coffee", "50.0", "70.0", "90.0"],
        ["mean", "50.0", "70.0", "-"],
    ]
    assert len(printed(summary_blocks([tea]))) == 3, "one collection has no mean"


def test_text_of_others_is_neither_markup_nor_obeyed(report, system_report, printed):
    top = (RankedDocument(HOSTILE, HOSTILE, 0.5, False),)
    example = QueryExample(HOSTILE, HOSTILE, 0.5, (HOSTILE + "2",), top)
    systems = [
        replace(system_report(name, is_empty=True), name=name, worst=(example,))
        for name in (HOSTILE, HOSTILE + "2")
    ]
    made = report(*systems, collection=HOSTILE, notes=(HOSTILE,), unanswerable={HOSTILE: 1})
    for blocks in (report_blocks(made), summary_blocks([made, made])):
        text = "\n".join(printed(blocks, 200))
        assert not set("\x1b\x00\u202e") & set(text)
        assert text.count(HARMLESS) >= 3
        assert "☕" not in text


def test_rows_for_other_programs_have_six_columns(measured):
    rows = figures(replace(measured(), collection="tea"))
    assert rows[:3] == [
        ["tea", "bm25", "nDCG@10", "0.500000", "0.400000", "0.550000"],
        ["tea", "bm25", "Success@1", "0.500000", "", ""],
        ["tea", "bm25", "R@5", "0.250000", "0.200000", "0.300000"],
    ]
    assert rows[6:8] == [
        ["tea", "hybrid", "nDCG@10 from bm25", "0.000000", "-0.030000", "0.030000"],
        ["tea", "hybrid", "p (Holm) of nDCG@10 from bm25", "0.010000", "", ""],
    ]
    assert {len(row) for row in rows} == {6}
    assert "mean" not in {row[0] for row in rows}
    assert ["mean", "bm25", "nDCG@10", "0.500000", "", ""] in figures(measured(), measured())


def test_rows_for_other_programs_say_what_happens_when_nothing_fits(report):
    made = report()
    said = {(system, measure): float(value) for _, system, measure, value, *_ in figures(made)}
    for system in made.systems:
        abstention = system.abstention
        for source, auroc in abstention.auroc.items():
            assert said[system.name, f"AUROC {source}"] == pytest.approx(auroc, abs=1e-6)
        for source, share in abstention.recall_at_few_false.items():
            label = f"recall at 5 % false {source}"
            assert said[system.name, label] == pytest.approx(share, abs=1e-6)
        points = {f"keep {100 * share:g} %": point for share, point in abstention.keeping.items()}
        for name, point in points.items():
            shares = {f"threshold ({name})": point.threshold, f"recall ({name})": point.recall}
            for source, share in point.false_answers.items():
                shares[f"false answers {source} ({name})"] = share
            for measure, figure in shares.items():
                assert said[system.name, measure] == pytest.approx(figure, abs=1e-6)
    assert any(measure.startswith("calibration error") for _, measure in said)
    states = made.systems[2].abstention.default
    expected = {"threshold (default)": 0.3, "lower bound (default)": 0.11, "shown answerable": 0.93}
    expected |= {"shown answerable (page)": 0.97, "perhaps answerable": 0.1}
    expected |= {"false answerable": 0.05, "recall short": 0.61, "recall task": 0.42}
    expected |= {"precision (default)": states.precision}
    expected |= {"recall answerable": states.answerable.recall}
    expected |= {"none foreign": states.unanswerable["foreign"].none, "perhaps foreign": 0.1}
    for measure, figure in expected.items():
        assert said["hybrid", measure] == pytest.approx(figure, abs=1e-6)
    assert said["style", "AUROC foreign"] == 0.8765
    assert ("hybrid", "recall foreign") not in said
    assert ("bm25", "recall answerable") not in said


def test_an_id_is_shown_by_its_end():
    """The folder of a skill names it; what lies above is cut first."""
    ids = ("root:plugins/audit/skills/fuzzing", "root:fuzzing", "fuzzing", "a/b/", "::")
    assert list(map(_last_part, ids)) == ["fuzzing", "fuzzing", "fuzzing", "b", "::"]
