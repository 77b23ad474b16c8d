"""Parts of a report: kinds of queries, confusable skills and required minimums."""

import json
from dataclasses import replace

from skillsearch.evaluation.assess import assess, assess_kinds
from skillsearch.evaluation.confusables import confusables
from skillsearch.evaluation.reporting.report import Outcome, report_dict, shortfalls
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery, SystemAnswers
from skillsearch.types.skills import Diagnostic

COLLECTION = Collection(
    name="own skills",
    documents=tuple(JudgedDocument(key, key, f"about {key}") for key in "abc"),
    queries=(
        JudgedQuery("t1", "first", "trigger"),
        JudgedQuery("h1", "second", "heading"),
        JudgedQuery("t2", "third", "trigger"),
    ),
    qrels={"t1": {"a": 1}, "h1": {"b": 1}, "t2": {"a": 1}},
    negatives=(JudgedQuery("n", "none", "trigger"),),
    notes=("a note",),
)


def system(name, **answers):
    """Make answers; each query's are documents, best first."""
    rankings = {key: tuple((document, 1.0) for document in of) for key, of in answers.items()}
    return SystemAnswers(name, name, rankings, {"negatives": {"n": (("a", 0.5),)}})


GOOD = system("good", t1="a", h1="ab", t2="a")
BAD = system("bad", t1="b", h1="a", t2="ba")


def outcome(*systems, **fields):
    return Outcome(assess(COLLECTION, systems), tuple(systems), **fields)


def test_each_kind_of_query_is_measured_by_itself():
    kinds = assess_kinds(COLLECTION, (GOOD, BAD))
    assert list(kinds) == ["trigger", "heading"]
    assert kinds["trigger"].collection == "own skills: trigger"
    assert (kinds["trigger"].queries, kinds["heading"].queries) == (2, 1)
    good = [report.systems[0].means["RR@10"] for report in kinds.values()]
    bad = [report.systems[1].means["RR@10"] for report in kinds.values()]
    assert (good, bad) == ([1.0, 0.5], [0.25, 0.0])
    assert all(report.unanswerable == {"negatives": 1} for report in kinds.values())
    assert all(report.notes == () for report in kinds.values())
    only = Collection("one", COLLECTION.documents, COLLECTION.queries[:1], {"t1": {"a": 1}})
    assert assess_kinds(only, (GOOD,)) == {}


def test_the_json_form_is_that_of_the_report_and_more():
    plain = outcome(GOOD, BAD)
    assert plain.to_dict() == report_dict(plain.report)
    pairs = confusables(COLLECTION, BAD.answers, terms=str.split, least=1)
    diagnostic = Diagnostic("eval-empty", "note", "It is empty.", "/a/evals.json")
    full = outcome(
        GOOD,
        BAD,
        kinds=assess_kinds(COLLECTION, (GOOD, BAD)),
        confusions=pairs,
        diagnostics=(diagnostic,),
    ).to_dict()
    assert full["kinds"]["trigger"]["queries"] == 2
    assert full["kinds"]["trigger"]["systems"]["good"]["RR@10"] == 1.0
    assert full["kinds"]["heading"]["intervals"]["good"]["RR@10"] == [0.5, 0.5]
    actual = [(pair["loser"], pair["winner"], pair["queries"]) for pair in full["confusables"]]
    assert actual == [("a", "b", 1), ("b", "a", 1)]
    assert full["diagnostics"] == [diagnostic.to_dict()]
    assert json.loads(json.dumps(full))["collection"] == "own skills"
    assert outcome(GOOD, confusions=()).to_dict()["confusables"] == []


def test_languages_have_keys_of_their_own():
    plain = outcome(GOOD, BAD)
    assert not plain.to_dict().keys() & {"languages", "same_language", "cross_language"}
    part = assess(replace(COLLECTION, queries=COLLECTION.queries[:1]), (GOOD, BAD))
    report = replace(plain.report, languages={"zh": part}, crossing={"cross-language": part})
    record = json.loads(json.dumps(replace(plain, report=report).to_dict()))
    assert record["languages"].keys() == {"zh"}
    assert record["languages"]["zh"] == record["cross_language"]
    assert record["cross_language"].keys() == {"queries", "systems", "intervals", "comparisons"}
    assert record["cross_language"]["queries"] == 1
    assert record["cross_language"]["systems"]["bad"]["RR@10"] == 0
    assert record["cross_language"]["intervals"]["good"]["RR@10"] == [1, 1]
    assert record["cross_language"]["comparisons"][0]["difference"] == -1
    assert "same_language" not in record


def test_the_first_system_is_held_against_what_it_must_reach():
    """On average over the collections; a sum that is rounded down is no shortfall."""
    missed = shortfalls(
        [outcome(BAD, GOOD)], [("RR@10", 1 / 6), ("Success@1", 0.5), ("Success@5", 0.3)]
    )
    assert missed == ("bad has a mean Success@1 of 0, less than the 0.5 asked for",)
    assert shortfalls([outcome(GOOD)], [("RR@10", 5 / 6 + 1e-12)]) == ()
    outcomes = [outcome(GOOD), outcome(system("good", t1="a", h1="b", t2="a"))]
    assert shortfalls(outcomes, [("RR@10", 11 / 12)]) == ()
    (shortfall,) = shortfalls(outcomes, [("RR@10", 0.95)])
    assert shortfall == "good has a mean RR@10 of 0.916667, less than the 0.95 asked for"
