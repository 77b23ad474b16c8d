"""Saved results over time: read back, joined by collection, compared, and refused."""

import io
import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from skillsearch.cli.tables import print_blocks
from skillsearch.errors import EvaluationError
from skillsearch.evaluation.comparison import compare, share_interval
from skillsearch.evaluation.reporting.history import read_history
from skillsearch.evaluation.reporting.page import render_page
from skillsearch.evaluation.reporting.report import Outcome
from skillsearch.evaluation.reporting.tables import outcome_blocks

HOSTILE = "<script>alert(1)</script>\"'\u202e\x1b[31m"
QUERIES = 40


@pytest.fixture
def save(tmp_path):
    """Save a result as ``eval --json`` prints it, and return its path."""

    def write(name, *reports, **stamp):
        records = [Outcome(report, ()).to_dict() for report in reports]
        result = {"collections": records} if len(records) > 1 else records[0]
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({**result, **stamp}), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def runs(report, system_report):
    """Make reports of the same collection that are better from one to the next."""
    kinds = {"old": (1, 0.5), "middle": (2, 0.6), "new": (3, 0.7)}
    made = {}
    for name, (seed, quality) in kinds.items():
        systems = (
            system_report("hybrid", seed, quality, queries=QUERIES),
            system_report("bm25", 9, 0.4, queries=QUERIES),
        )
        made[name] = report(*systems)
    return made


@pytest.fixture(scope="module")
def small(report, system_report):
    return report(system_report("hybrid", queries=5))


@pytest.fixture
def saved(runs, save):
    """Save three results, the dates in another order than the names."""
    days = {"middle": "2026-05-04", "new": "2026-06-01", "old": "2026-03-31"}
    stamps = {
        name: {"made": f"{day}T09:00:00+00:00", "version": "1.2"} for name, day in days.items()
    }
    return [save(name, runs[name], **stamp) for name, stamp in stamps.items()]


def test_runs_come_by_date_with_the_figures_that_were_saved(saved, runs):
    (history,) = read_history(saved)
    assert history.unit == "run"
    names = [run.name for run in history.systems]
    assert names == ["2026-03-31 old", "2026-05-04 middle", "2026-06-01 new"]
    for run, name in zip(history.systems, ("old", "middle", "new"), strict=True):
        was = runs[name].systems[0]
        measures = was.means
        assert {key: run.means[key] for key in measures} == pytest.approx(was.means, abs=1e-6)
        assert run.intervals["R@5"] == pytest.approx(was.intervals["R@5"], abs=1e-6)
        assert run.per_query["R@5"] == pytest.approx(was.per_query["R@5"], abs=1e-6)
        assert run.settings == f"version 1.2, {was.settings}"


def test_what_answers_say_becomes_measures_with_intervals_of_shares(saved, runs):
    (history,) = read_history(saved)
    new, states = history.systems[-1], runs["new"].systems[0].abstention.default
    expected = {"recall": (states.answerable.recall, QUERIES)}
    for source, of in states.unanswerable.items():
        expected[f"false answers, {source}"] = (of.false, 150)
    for measure, (share, size) in expected.items():
        assert new.means[measure] == pytest.approx(share, abs=1e-6)
        assert new.intervals[measure] == pytest.approx(share_interval(share, size), abs=1e-5)
    values = [(name, runs[name].systems[0].per_query) for name in ("old", "middle", "new")]
    for read, anew in zip(history.comparisons, compare(values), strict=True):
        assert read.baseline == "2026-03-31 old"
        assert read.system.endswith(anew.system)
        assert (read.measure, read.wins, read.losses) == (anew.measure, anew.wins, anew.losses)
        assert read.difference == pytest.approx(anew.difference, abs=1e-6)
        assert read.p_holm == pytest.approx(anew.p_holm, abs=1e-3)


def test_another_system_can_be_asked_for(saved):
    (history,) = read_history(saved, system="bm25")
    assert len({run.means["nDCG@10"] for run in history.systems}) == 1
    with pytest.raises(
        EvaluationError, match=r"lacks figures of 'dense'; its systems: 'hybrid', 'bm2"
    ):
        read_history(saved, system="dense")


def test_runs_without_a_date_come_first_as_given(save, small):
    paths = [save("b", small), save("a", small)]
    dated = save("c", small, made="2020-01-01T00:00:00Z")
    (history,) = read_history([dated, *paths])
    assert [run.name for run in history.systems] == ["b", "a", "2020-01-01 c"]


def test_collections_are_joined_by_name_and_those_of_one_file_left_out(save, small):
    tea, ale, mead = (replace(small, collection=name) for name in ("tea", "ale", "mead"))
    histories = read_history([save("a", tea, ale), save("b", tea), save("c", mead, ale)])
    runs = [(history.collection, len(history.systems)) for history in histories]
    assert runs == [("tea", 2), ("ale", 2)]
    with pytest.raises(EvaluationError, match="No collection is in two of the files"):
        read_history([save("a", tea), save("b", ale)])


def test_other_queries_are_not_tested_and_other_skills_are_told(save, small, report, system_report):
    """A difference between other queries, or none at all, would say nothing of the system."""
    few = report(system_report("hybrid", queries=20), documents=690)
    paths = [save(name, report(system_report("hybrid", queries=30))) for name in ("a", "b")]
    (history,) = read_history([*paths, save("c", few)])
    assert {comparison.system for comparison in history.comparisons} == {"b"}
    assert len(history.systems) == 3
    assert history.notes == ("No test: c has other queries.", "c searched 690 skills, a 697.")
    for nothing in ({}, {"hybrid": {}}, {"hybrid": {"nDCG@10": {}}}):
        paths = [save(name, small, per_query=nothing) for name in ("old", "new")]
        (history,) = read_history(paths)
        assert history.comparisons == ()
        assert history.notes == ("No test: new has other queries.",)


def test_two_files_of_one_name_are_refused(saved):
    with pytest.raises(EvaluationError, match="Two runs are named '2026-05-04 middle'"):
        read_history([*saved, saved[0]])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"systems": None}, "systems: Input should be an object"),
        ({"systems": {"hybrid": {"nDCG@10": 1.5}}}, "less than or equal to 1"),
        ({"systems": {"hybrid": {"nDCG@10": float("nan")}}}, "finite|less than or equal|greater"),
        (
            {"intervals": {"hybrid": {"nDCG@10": [0.1]}}},
            "intervals.hybrid.nDCG@10.1: Field required",
        ),
        ({"intervals": {}}, "lacks figures of 'hybrid'; its systems: 'hybrid'"),
        ({"queries": 10**400}, "queries: Input should be less than"),
        ({"queries": 0}, "queries: Input should be greater than or equal to 1"),
        ({"unanswerable": {}}, "lacks figures of 'foreign'"),
        ({"made": "yesterday"}, "made: Input should be a valid datetime"),
        ({"made": "2026-01-01T00:00:00"}, "made: Input should have timezone info"),
        ({"collections": {}}, "collections: Input should be a valid array"),
        ({"collections": []}, "No collection is in two of the files"),
        ({"per_query": {"hybrid": {"nDCG@10": {"q1": "high"}}}}, "per_query.hybrid.nDCG@10.q1"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(save, small, change, said):
    good, bad = save("good", small), save("bad", small, **change)
    with pytest.raises(EvaluationError, match=said):
        read_history([good, bad])


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"\xff\xfe", b"[" * 100_000, b'{"a":1}'])
def test_a_file_that_is_no_result_is_refused_with_the_cure(tmp_path, data):
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(EvaluationError) as caught:
        read_history([path])
    said = str(caught.value)
    assert said.startswith(str(path))
    assert "\n" not in said
    assert len(said) < 600


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_a_result_holds_it_is_read_or_refused(save, small, data):
    good = save("x", small)
    record = json.loads(good.read_text(encoding="utf-8"))
    part, key = record, data.draw(st.sampled_from(sorted(record)))
    while isinstance(part[key], dict) and part[key] and data.draw(st.booleans()):
        part = part[key]
        key = data.draw(st.sampled_from(sorted(part)))
    part[key] = data.draw(
        st.none() | st.integers() | st.floats() | st.text() | st.just({}) | st.just([])
    )
    with suppress(EvaluationError):
        (history,) = read_history([good, save("y", small, **record)])
        assert [run.name for run in history.systems][-1].endswith("y")
        assert all(0 <= mean <= 1 for run in history.systems for mean in run.means.values())
        (history,) = read_history([save("z", small, **record), save("y", small, **record)])
        assert all(0 <= comparison.p_holm <= 1 for comparison in history.comparisons)


@pytest.mark.slow
def test_the_page_shows_a_plot_for_each_measure_then_the_tables(saved):
    html = render_page(read_history(saved), made="today", version="1")
    labels = [part.split('"')[0] for part in html.split('aria-label="')]
    assert [label for label in labels if label.endswith("run by run with intervals")] == [
        "nDCG@10, run by run with intervals",
        "recall, run by run with intervals",
        "false answers, foreign, false answers, dropped relevant, run by run with intervals",
    ]
    assert html.count("<svg ") == 3
    assert html.index("2026-06-01 new has an nDCG@10 of") < html.index("<svg ")
    assert html.rindex("<svg ") < html.index("<table")
    assert '<th scope="col"><bdi>run</bdi></th>' in html
    assert "office-skills over time" in html


@pytest.mark.slow
def test_hostile_names_are_shown_and_do_nothing(save, report, system_report):
    system = replace(system_report(HOSTILE), settings=HOSTILE)
    made = replace(
        report(system, collection=HOSTILE), unanswerable={"foreign": 1, "dropped relevant": 1}
    )
    histories = read_history([save(name, made, version=HOSTILE) for name in ("a", "b\u202e")])
    html = render_page(histories, made="today", version="1")
    assert "<script" not in html
    assert not set("\x1b\u202e") & set(html)
    file = io.StringIO()
    print_blocks(
        outcome_blocks([Outcome(history, ()) for history in histories]), Console(file=file)
    )
    assert file.getvalue().count("a") > 2
    assert not set("\x1b\u202e") & set(file.getvalue())
