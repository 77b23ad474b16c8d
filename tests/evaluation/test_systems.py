"""Descriptions of systems: what they mean, and what is said of those that mean nothing."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.systems import parse_systems
from skillsearch.evaluation.types import SystemSpec


def parse_system(text, **defaults):
    return parse_systems([text], SystemSpec("", **defaults))[0]


def test_without_any_the_hybrid_search_is_compared_with_its_halves():
    assert [spec.name for spec in parse_systems([])] == ["hybrid", "bm25", "dense"]
    assert parse_systems([])[0] == SystemSpec("hybrid", "hybrid", "onnx", "full")


def test_settings_follow_a_name():
    text = "mine=system:dense,model:st:org/a:v2,fields:metadata,threshold:0.25,calibration:c.json"
    spec = SystemSpec("mine", "dense", "st:org/a:v2", "metadata", 0.25, Path("c.json"))
    assert parse_system(text) == spec
    spec = SystemSpec("mine", model="hashing", threshold=1.0)
    assert parse_system("mine=threshold:1", model="hashing") == spec
    assert parse_system("bm25=fields:metadata") == SystemSpec("bm25", "bm25", fields="metadata")


def test_a_file_behind_an_at_sign_is_a_run():
    spec = parse_system("theirs=@runs/a=b,c:d.trec")
    assert (spec.name, spec.run) == ("theirs", Path("runs/a=b,c:d.trec"))
    assert spec.settings == "run file runs/a=b,c:d.trec"


def test_a_run_may_say_from_which_score_a_skill_fits_and_may_fit():
    spec = parse_system("theirs=run:c:d.trec,threshold:0.5,perhaps:0.25", model="hashing")
    assert spec == SystemSpec("theirs", run=Path("c:d.trec"), threshold=0.5, perhaps=0.25)
    assert spec.settings == "run file c:d.trec, threshold 0.5, perhaps 0.25"


def test_the_settings_are_told_in_a_line():
    assert parse_system("hybrid").settings == "hybrid, model onnx, fields full"
    text = "a=system:rrf,threshold:0.50,calibration:x.json"
    expected = "rrf, model onnx, fields full, threshold 0.5, calibration x.json"
    assert parse_system(text).settings == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("splade", "'splade': it is not a system; those are hybrid"),
        ("", "'': it is not a system; those are hybrid"),
        ("=system:bm25", "visible characters"),
        ("a\x1b[2J=system:bm25", "visible characters"),
        ("a\u202eb=system:bm25", "visible characters"),
        (f"{'a' * 81}=system:bm25", "visible characters"),
        ("a=", "'' is not a setting"),
        ("a=bm25", "'bm25' is not a setting; use key:value"),
        ("a=depth:5", "system, model, fields, threshold, reader, calibration"),
        ("a=system:splade", "system is 'splade'; use one of: hybrid, bm25, dense, rrf"),
        ("a=fields:body", "fields is 'body'; use one of: full, metadata"),
        ("a=examples:few", "examples is 'few'; use one of: none, given, packaged, all"),
        ("a=threshold:1.1", "threshold is '1.1'; use a number from 0 to 1"),
        ("a=threshold:nan", "threshold is 'nan'"),
        ("a=threshold:low", "threshold is 'low'"),
        ("a=model: ", "model is ' '; name one"),
        ("a=calibration:", "calibration is ''; name one"),
        ("a=system:bm25,system:dense", "it has system twice"),
        ("a=system:bm25,", "'' is not a setting"),
        ("a=@", "no file name after the @"),
        ("a=run:", "run is ''; name one"),
        ("a=perhaps:0.1", "it has no run; a run file has run, threshold, perhaps"),
        ("a=run:b,system:bm25", "it has system too; a run file has run, threshold, perhaps"),
        ("a=run:b,threshold:0.2,perhaps:0.3", "perhaps is above the threshold"),
        ("a=run:b,perhaps:0.3", "perhaps is above the threshold"),
        ("bm25=system:dense", "bm25 is the name of another way to search"),
    ],
)
def test_what_means_nothing_is_refused_with_the_piece_and_an_example(text, said):
    with pytest.raises(EvaluationError) as error:
        parse_system(text)
    assert said in str(error.value)
    assert "NAME=key:value,..." in str(error.value)
    assert "NAME=@FILE" in str(error.value)


def test_two_systems_of_one_name_are_refused():
    with pytest.raises(EvaluationError, match="Two systems are named 'a'"):
        parse_systems(["a=system:bm25", "bm25", "a=@run.trec"])


@given(st.text(max_size=30) | st.from_regex(r"\w{1,3}=(\w{1,9}:[^,]{0,5},?){0,3}", fullmatch=True))
def test_any_text_is_a_system_or_an_evaluation_error(text):
    with suppress(EvaluationError):
        assert text.startswith(parse_system(text).name)
