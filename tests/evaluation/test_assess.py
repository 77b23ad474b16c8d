"""The report: what is measured, compared and shown, and its JSON."""

import json
import math
from dataclasses import replace

import pytest

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.assess import assess
from skillsearch.evaluation.comparison import compare, interval
from skillsearch.evaluation.measures import MEASURES, measure
from skillsearch.evaluation.reporting.report import mean_systems, report_dict
from skillsearch.evaluation.types import (
    Collection,
    JudgedDocument,
    JudgedQuery,
    RankedDocument,
    SystemAnswers,
)

RIGHT_AT_2 = 1 / math.log2(3)


def collection(queries=4, notes=(), **changes):
    """Make a collection in which document d1 answers q1, d2 answers q2, and so on."""
    numbers = range(1, queries + 1)
    made = Collection(
        "tea",
        documents=tuple(JudgedDocument(f"d{n}", f"skill-{n}", "") for n in range(1, 10)),
        queries=tuple(JudgedQuery(f"q{n}", f"query {n}") for n in numbers),
        qrels={f"q{n}": {f"d{n}": 1, "d9": 0} for n in numbers},
        notes=notes,
    )
    return replace(made, **changes)


def ranking(*documents):
    return tuple((document, 0.9 - index / 10) for index, document in enumerate(documents))


def system(name, *answers, **fields):
    """Make a system that answers q1, q2, … with these rankings, each a text of document ids."""
    made = {f"q{n}": ranking(*documents.split()) for n, documents in enumerate(answers, start=1)}
    return SystemAnswers(name, f"settings of {name}", made, **fields)


FIRST = system("first", "d1", "d9 d2", "d9", "d4", milliseconds=1.5)
SECOND = system("second", "d9 d1", "d2", "d3", "")


def examples(report, name, kind):
    (named,) = [system for system in report.systems if system.name == name]
    return [example.query_id for example in getattr(named, kind)]


def test_a_report_says_what_was_measured():
    first = replace(FIRST, unanswerable={"foreign": {"f1": (), "f2": ()}, "negatives": {}})
    second = replace(SECOND, unanswerable={"foreign": {"f2": (), "f3": ()}})
    report = assess(collection(notes=("read so",)), [first, second], notes=["asked so"])
    assert (report.collection, report.documents, report.queries) == ("tea", 9, 4)
    assert report.unanswerable == {"foreign": 3}
    assert report.notes == ("read so", "asked so")
    rows = [(system.name, system.settings, system.milliseconds) for system in report.systems]
    assert rows == [("first", "settings of first", 1.5), ("second", "settings of second", None)]


def test_means_and_intervals_are_those_of_the_queries():
    report = assess(collection(), [FIRST, SECOND])
    first, second = report.systems
    assert set(first.means) == set(MEASURES)
    assert first.means["nDCG@10"] == pytest.approx((1 + RIGHT_AT_2 + 0 + 1) / 4)
    assert first.means["Success@1"] == 2 / 4
    assert second.means["R@5"] == 3 / 4
    for system, answers in ((first, FIRST), (second, SECOND)):
        assert system.per_query == measure(collection().qrels, answers.answers)
        assert system.intervals["RR@10"] == interval(list(system.per_query["RR@10"].values()))
    assert report.comparisons == compare([("first", first.per_query), ("second", second.per_query)])


def test_queries_without_a_relevant_document_are_not_measured():
    extra = replace(FIRST, answers={**FIRST.answers, "q7": ranking("d7")})
    assert assess(collection(), [extra]) == assess(collection(), [FIRST])
    qrels = {"q1": {"d1": 1}, "q2": {"d2": 0}, "q3": {}}
    report = assess(collection(qrels=qrels), [FIRST])
    assert report.queries == 1
    assert list(report.systems[0].per_query["R@5"]) == ["q1"]


def test_the_worst_queries_come_lowest_first_and_ties_by_their_order():
    judged = collection()
    report = assess(judged, [FIRST], examples=3)
    assert examples(report, "first", "worst") == ["q3", "q2", "q1"]
    turned = replace(judged, queries=judged.queries[::-1])
    assert examples(assess(turned, [FIRST]), "first", "worst") == ["q3", "q2", "q4", "q1"]


def test_the_best_queries_are_those_where_another_system_did_worst():
    report = assess(collection(), [FIRST, SECOND])
    assert examples(report, "first", "best") == ["q4", "q1"]
    assert examples(report, "second", "best") == ["q3", "q2"]
    report = assess(collection(), [FIRST, SECOND, system("third")])
    assert examples(report, "first", "best") == ["q1", "q4", "q2"]
    assert examples(report, "third", "best") == []
    assert examples(assess(collection(), [FIRST]), "first", "best") == ["q1", "q4", "q2"]
    assert examples(assess(collection(), [FIRST], examples=0), "first", "best") == []


def test_an_example_shows_the_documents_that_won():
    report = assess(collection(), [system("one", "", "d9 ghost d2 d4")])
    (example,) = report.systems[0].best
    assert (example.query_id, example.text, example.relevant) == ("q2", "query 2", ("d2",))
    assert example.value == pytest.approx(0.5)
    assert example.top == (
        RankedDocument("d9", "skill-9", 0.9, False),
        RankedDocument("ghost", "ghost", 0.8, False),
        RankedDocument("d2", "skill-2", pytest.approx(0.7), True),
    )
    assert report.systems[0].worst[0].top == ()


@pytest.mark.parametrize("qrels", [{}, {"q1": {"d1": 0}}, {"elsewhere": {"d1": 1}}])
def test_a_collection_without_a_relevant_document_cannot_be_measured(qrels):
    with pytest.raises(EvaluationError, match=r"'tea' has a relevant document.*qrels\.tsv"):
        assess(collection(qrels=qrels), [FIRST])


def full_report():
    foreign = {"foreign": {"f1": ranking("d9"), "f2": ()}}
    hybrid = replace(FIRST, unanswerable=foreign, threshold=0.3, is_calibrated=True)
    return assess(collection(notes=("a note",)), [hybrid, SECOND])


def test_a_report_comes_back_from_json_with_all_its_figures():
    record = report_dict(full_report())
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    keys = """collection documents queries unanswerable systems intervals settings
        milliseconds comparisons abstention states style examples per_query notes"""
    assert list(record) == keys.split()
    assert (record["collection"], record["documents"], record["queries"]) == ("tea", 9, 4)
    assert record["unanswerable"] == {"foreign": 2}
    assert record["systems"]["first"]["nDCG@10"] == round((2 + RIGHT_AT_2) / 4, 6)
    assert list(record["intervals"]["second"]) == list(MEASURES)
    assert record["settings"] == {"first": "settings of first", "second": "settings of second"}
    assert record["milliseconds"] == {"first": 1.5, "second": None}
    assert record["per_query"]["first"]["nDCG@10"]["q2"] == 0.63093
    assert record["notes"] == ["a note"]
    first = record["comparisons"][0]
    low, high = first.pop("interval")
    assert low <= first["difference"] <= high
    assert 0 < first.pop("p_value") <= first.pop("p_holm") <= 1
    named = {"system": "second", "baseline": "first", "measure": "nDCG@10"}
    counted = {"wins": 2, "ties": 0, "losses": 2}
    assert first == {**named, **counted, "difference": first["difference"]}


def test_json_has_every_figure_of_abstention_or_null():
    record = report_dict(full_report())["abstention"]
    keys = ("auroc", "curve", "default", "keeping", "calibration_error", "reliability")
    assert set(record["first"]) == {*keys, "recall_at_few_false"}
    default = {"threshold": 0.3, "lower_bound": 0.3, "precision": 0.4, "faces": {}}
    assert record["first"]["default"] == default
    assert record["first"]["auroc"] == {"foreign": 0.75}
    assert list(record["first"]["keeping"]) == ["0.90", "0.95"]
    assert record["first"]["curve"][-1]["precision"] is None
    assert record["first"]["reliability"][0]["count"] == 5
    assert record["second"]["default"] is None
    assert record["second"]["calibration_error"] == {}


def test_a_number_that_json_lacks_is_missing_and_zero_has_no_sign():
    wild = SystemAnswers("wild", "", {"q1": (("d1", math.inf),)}, milliseconds=math.nan)
    record = report_dict(assess(collection(), [wild]))
    assert record["milliseconds"] == {"wild": None}
    assert record["examples"]["wild"]["best"][0]["top"][0]["score"] is None
    json.dumps(record, allow_nan=False)
    tiny = SystemAnswers("tiny", "", {"q1": (("d1", -1e-9),)})
    assert "-0.0" not in json.dumps(report_dict(assess(collection(queries=1), [tiny])))


def test_means_over_collections_count_each_once():
    """Four queries in one, one in the other; a system that is in one only is left out."""
    small = assess(collection(queries=1), [FIRST])
    means = mean_systems([assess(collection(), [SECOND, FIRST]), small])
    assert list(means) == ["first"]
    assert means["first"]["Success@1"] == pytest.approx((2 / 4 + 1) / 2)
    assert set(means["first"]) == set(MEASURES)
