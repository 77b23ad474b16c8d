"""What a tuned model gains: measured before and after, and decided by both."""

import json
from dataclasses import replace

import pytest

from skillsearch.evaluation.types import Comparison
from skillsearch.training.gains import MeasuredChanges, QualityChange, decide, measure_both
from skillsearch.training.material import TrainingMaterial


def make_change(difference, p_value, before=0.5):
    test = Comparison("after", "before", "nDCG@10", difference, (0, 0), p_value, 1.0, 1, 1, 1)
    means = dict.fromkeys(("nDCG@10", "R@5", "Success@1"), before)
    return QualityChange(means, {name: value + difference for name, value in means.items()}, test)


def make_measured(dense, hybrid, queries=100):
    return MeasuredChanges(
        queries, 500, {"dense": make_change(*dense), "hybrid": make_change(*hybrid)}
    )


@pytest.mark.parametrize(
    ("dense", "hybrid", "expected"),
    [
        ((0.1, 0.001), (0.05, 0.01), True),
        ((0.1, 0.001), (0.01, 0.6), True),
        ((0.1, 0.001), (0.0, 1.0), True),
        ((0.1, 0.001), (-0.008, 0.6), True),
        ((0.1, 0.001), (-0.008, 0.01), False),
        ((0.1, 0.001), (-0.012, 0.6), False),
        ((0.1, 0.2), (0.05, 0.2), False),
        ((-0.1, 0.001), (0.01, 0.6), False),
        ((-0.1, 0.001), (-0.1, 0.001), False),
    ],
)
def test_a_model_is_better_where_something_is_beyond_chance_and_the_hybrid_hardly_lower(
    dense, hybrid, expected
):
    """The hybrid is what a user gets."""
    assert decide({"held_out": make_measured(dense, hybrid)}) is expected


def test_enough_judged_queries_decide_and_few_do_not():
    """Unless what they do not decide got worse beyond chance."""
    good, bad = make_measured((0.1, 0.001), (0.1, 0.001)), make_measured((0.0, 1.0), (0.0, 1.0))
    worse = make_measured((-0.1, 0.001), (-0.1, 0.001))
    assert not decide({"held_out": good, "judged": bad})
    assert decide({"held_out": good, "judged": replace(bad, queries=29)})
    assert decide({"held_out": bad, "judged": good})
    assert not decide({"held_out": worse, "judged": good})
    assert not decide({})


@pytest.mark.slow
def test_two_models_are_compared_on_both_ways_to_search(tmp_path, make_texts):
    collection = TrainingMaterial.gather(make_texts(60), [], 0).collections()["held_out"]
    measured = measure_both(collection, ("hashing", "hashing"), work=tmp_path)
    assert (measured.queries, measured.documents) == (12, 60)
    for change in measured.changes.values():
        assert change.before == change.after
        assert set(change.before) == {"nDCG@10", "R@5", "Success@1"}
        assert (change.test.difference, change.test.p_value) == (0.0, 1.0)
    record = json.loads(json.dumps(measured.to_dict()))
    assert record["hybrid"]["difference"] == 0
    assert not measured.is_better
    assert not measured.is_worse


def test_a_change_as_json_has_rounded_values():
    record = make_measured((0.1234567, 0.0009), (-1 / 3, 0.5), queries=3).to_dict()
    assert (record["queries"], record["documents"]) == (3, 500)
    assert record["dense"]["difference"] == 0.123457
    assert record["dense"]["p_value"] == 0.0009
    assert record["hybrid"]["after"]["R@5"] == 0.166667
    assert record["hybrid"]["interval"] == [0, 0]
