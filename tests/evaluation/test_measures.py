"""Measures, against ir_measures and pytrec_eval."""

import math
import sys
from contextlib import suppress

import ir_measures
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.measures import MEASURES, answerable_qrels, measure, parse_minimum

DOCUMENTS = [f"d{number}" for number in range(15)]
GRADES = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), max_size=8)
SCORED = st.dictionaries(st.sampled_from(DOCUMENTS), st.sampled_from([0.0, 0.1, 0.5, 2.0]))
QUERIES = st.sampled_from(["q1", "q2", "q3"])
TREC = {
    "nDCG@10": "ndcg_cut_10",
    "R@5": "recall_5",
    "R@10": "recall_10",
    "Success@1": "success_1",
    "Success@5": "success_5",
}


def ranking(*documents):
    """Rank documents, all with the same score."""
    return tuple((document, 0.5) for document in documents)


def as_trec_orders(scores):
    """Rank scored documents as trec_eval does: ties by falling document id."""
    pairs = sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)
    return tuple(pairs)


def test_cutoffs_hold():
    sixth = ranking("1", "2", "3", "4", "5", "a")
    eleventh = ranking(*"123456789", "10", "a")
    values = measure({"six": {"a": 1}, "eleven": {"a": 1}}, {"six": sixth, "eleven": eleventh})
    assert {name: of["eleven"] for name, of in values.items()} == dict.fromkeys(MEASURES, 0.0)
    assert (values["R@5"]["six"], values["R@10"]["six"]) == (0, 1)
    assert (values["Success@5"]["six"], values["RR@10"]["six"]) == (0, 1 / 6)
    assert values["nDCG@10"]["six"] == pytest.approx(1 / math.log2(7), abs=1e-12)


@given(st.dictionaries(QUERIES, GRADES), st.dictionaries(QUERIES, SCORED))
def test_tied_runs_are_measured_as_by_trec_eval(qrels, run):
    """pytrec_eval sees the scores with their ties, we the order that it makes of them."""
    values = measure(qrels, {query: as_trec_orders(scores) for query, scores in run.items()})
    judged = {query for query, grades in qrels.items() if max(grades.values(), default=0) > 0}
    oracle = pytrec_eval.RelevanceEvaluator(
        {query: qrels[query] for query in judged}, {*TREC.values(), "recip_rank"}
    ).evaluate({query: scores for query, scores in run.items() if scores})
    for query in judged:
        expected = oracle.get(query, {})
        for name, trec in TREC.items():
            assert values[name][query] == pytest.approx(expected.get(trec, 0.0), abs=1e-9)
        reciprocal = expected.get("recip_rank", 0.0)
        first_ten = reciprocal if reciprocal >= 0.1 else 0.0
        assert values["RR@10"][query] == pytest.approx(first_ten, abs=1e-9)


@pytest.mark.filterwarnings("ignore:.* removed in Python 3.14:DeprecationWarning")  # by it
@given(st.dictionaries(QUERIES, GRADES), st.dictionaries(QUERIES, SCORED), st.randoms())
def test_measures_equal_those_of_ir_measures(qrels, run, random):
    orders = {query: random.sample(sorted(scores), len(scores)) for query, scores in run.items()}
    values = measure(qrels, {query: ranking(*order) for query, order in orders.items()})
    judged = {q: grades for q, grades in qrels.items() if max(grades.values(), default=0) > 0}
    falling = {
        query: {document: -float(rank) for rank, document in enumerate(order)}
        for query, order in orders.items()
        if order and query in judged
    }
    assert all(list(of) == list(judged) for of in values.values())
    if not falling:
        assert all(value == 0 for of in values.values() for value in of.values())
        return
    names = [ir_measures.parse_measure(name) for name in MEASURES]
    for metric in ir_measures.iter_calc(names, judged, falling):
        ours = values[str(metric.measure)][metric.query_id]
        assert ours == pytest.approx(metric.value, abs=1e-9)
    for name, mean in ir_measures.calc_aggregate(names, judged, falling).items():
        ours = values[str(name)].values()
        assert sum(ours) / len(ours) == pytest.approx(mean, abs=1e-9)


def test_every_judged_query_has_a_value():
    qrels = {"silent": {"a": 1}, "empty": {"a": 1}, "good": {"a": 1}, "bad": {"a": 0}, "none": {}}
    answers = {"empty": (), "good": ranking("a"), "bad": ranking("a"), "unknown": ranking("a")}
    for of in measure(qrels, answers).values():
        assert of == {"silent": 0.0, "empty": 0.0, "good": 1.0}
    assert measure({}, {"q": ranking("a")}) == {name: {} for name in MEASURES}
    qrels = {"b": {"x": 1}, "none": {}, "zero": {"x": 0}, "less": {"x": -1}, "a": {"x": 0, "y": 2}}
    assert list(answerable_qrels(qrels).items()) == [("b", {"x": 1}), ("a", {"x": 0, "y": 2})]


def test_the_order_given_counts_and_not_the_scores():
    values = measure({"q": {"a": 1}}, {"q": (("x", 0.1), ("a", 0.9))})
    assert values["RR@10"] == {"q": 0.5}


@pytest.mark.parametrize(("odd", "other"), [("a\0b", "a\0c"), ("\ud800", "\ud801"), ("", " ")])
def test_odd_ids_stay_apart(odd, other):
    """Neither a NUL nor half a character, which C would cut or crash at, in any id."""
    qrels = {odd: {odd: 1, other: 0}, other: {other: 1}}
    values = measure(qrels, {odd: ranking(other, odd), other: ranking(other)})
    assert values["RR@10"] == {odd: 0.5, other: 1.0}
    assert values["nDCG@10"] == pytest.approx({odd: 1 / math.log2(3), other: 1.0})


def test_a_document_that_comes_twice_keeps_its_first_place():
    answers = {"q": ranking("a", "b", "a", "c", "b", "d", "e")}
    values = measure({"q": {"d": 1, "e": 1}}, answers)
    assert (values["RR@10"]["q"], values["R@5"]["q"], values["Judged@10"]["q"]) == (1 / 4, 1, 2 / 5)


def test_all_is_measured_without_any_library(monkeypatch):
    for name in ("ir_measures", "pytrec_eval", "scipy", "matplotlib", "jinja2"):
        monkeypatch.setitem(sys.modules, name, None)
    assert measure({"q": {"a": 1}}, {"q": ranking("a")})["nDCG@10"] == {"q": 1.0}


@pytest.mark.parametrize(("number", "value"), [("0", 0), ("0.8", 0.8), ("1", 1), (" 1e-1", 0.1)])
def test_a_minimum_is_read(number, value):
    for name in MEASURES:
        assert parse_minimum(f"{name}={number}") == (name, value)


@pytest.mark.parametrize(
    "text",
    [
        *"nDCG@10 nDCG@10= =0.8 nDCG@10=x nDCG@10==0.8 ndcg@10=0.5 P@5=0.5".split(),
        *"nDCG@10=nan nDCG@10=inf nDCG@10=1.01 nDCG@10=-0.1".split(),
        *("", "nDCG@10 =0.8", "R@5=" + "9" * 5000),
    ],
)
def test_what_is_no_minimum_is_refused(text):
    with pytest.raises(EvaluationError, match=r"nDCG@10=0\.8.*Judged@10") as error:
        parse_minimum(text)
    assert len(str(error.value)) < 300


@given(st.text())
def test_any_other_text_is_refused_as_one(text):
    with suppress(EvaluationError):
        name, value = parse_minimum(text)
        assert name in MEASURES
        assert 0 <= value <= 1
