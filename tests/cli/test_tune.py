"""Tests of ``skillsearch tune``: what it prints, and what it refuses."""

import json

import pytest

from skillsearch.evaluation.types import Comparison
from skillsearch.training.gains import MeasuredChanges, QualityChange
from skillsearch.training.tuning import Tuned

KEYS = {"better", "folder", "skills", "judged", "steps", "share", "measured", "seconds", "notes"}


@pytest.fixture
def tuned():
    """Say what a tuning gave; the tuning itself has tests of its own."""
    test = Comparison("after", "before", "nDCG@10", 0.125, (0.1, 0.2), 0.001, 0.01, 9, 1, 2)
    before = {"nDCG@10": 0.5, "R@5": 0.6, "Success@1": 0.4}
    change = QualityChange(before, {name: value + 0.125 for name, value in before.items()}, test)
    measured = {"held_out": MeasuredChanges(100, 500, {"dense": change, "hybrid": change})}

    def make(folder):
        is_better = folder is not None
        notes = ("a note",)
        return Tuned(is_better, folder, 500, 0, 300, 0.75, measured, 1190.0, notes)

    return make


@pytest.fixture
def run(cli, drinks, tmp_path, tuned):
    """Run the command with a tuning that is done at once, and note what it was asked for."""
    wishes_of_runs = []

    def run(*args, gains=True):
        def tune(wishes, *, progress, tell):
            wishes_of_runs.append(wishes)
            progress("train", 1, 1)
            tell("Tuning on 500 skills.")
            return tuned(wishes.out if gains else None)

        return cli("tune", drinks, "--out", tmp_path / "out", *args, obj=tune)

    run.wishes = wishes_of_runs
    return run


def test_a_better_model_gets_rows_and_advice(run, tmp_path, drinks):
    result = run("--model", "onnx", "--minutes", "5", "--seed", "3")
    lines = result.stdout.splitlines()
    assert lines[0].split("\t") == ["held_out", "dense", "nDCG@10", "0.500000", "0.625000"]
    assert len(lines) == 7
    assert lines[-1] == (
        "Better (300 steps on 500 skills, 20 minutes). Use it: "
        f"skillsearch index --model {tmp_path / 'out'}"
    )
    assert result.stderr.splitlines() == ["Tuning on 500 skills.", "note: a note"]
    (wishes,) = run.wishes
    assert (wishes.roots, wishes.out) == ((drinks,), tmp_path / "out")
    assert (wishes.model, wishes.minutes, wishes.seed, wishes.keep) == ("onnx", 5.0, 3, False)


def test_json_is_one_object_and_not_better_no_error(run, tmp_path):
    record = json.loads(run("--json").stdout)
    assert record.keys() == KEYS
    assert (record["better"], record["folder"]) == (True, str(tmp_path / "out"))
    dense = record["measured"]["held_out"]["dense"]
    assert dense["before"]["nDCG@10"] == 0.5
    assert (dense["difference"], dense["interval"], dense["p_value"]) == (0.125, [0.1, 0.2], 0.001)
    assert json.loads(run("--json", gains=False).stdout)["folder"] is None
    result = run(gains=False)
    assert result.exit_code == 0
    assert "Not better" in result.stdout
    assert "keep what you have." in result.stdout


def test_a_person_gets_a_table(run, terminal):
    terminal()
    shown = run().stdout
    assert "100 requests held out of the skills, among 500 skills" in shown
    assert "50.0" in shown
    assert "+12.5" in shown


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [(("--minutes", "0"), 2, "0"), (("--queries", "nowhere.jsonl"), 2, "nowhere.jsonl")],
)
def test_bad_values_and_no_folder_for_the_model_are_refused(run, cli, drinks, args, code, message):
    without = cli("tune", drinks)
    assert without.exit_code == 2
    assert "--out" in without.stderr
    result = run(*args)
    assert result.exit_code == code
    assert message in result.stderr


def test_a_reader_is_tuned_on_judged_queries(run, tmp_path, drinks):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    queries = tmp_path / "log.jsonl"
    queries.write_text("")
    result = run("--reader", "--queries", queries, "--model", tmp_path, "--keep")
    assert result.stdout.splitlines()[-1].endswith(
        f"Use it: skillsearch query --reader {tmp_path / 'out'}"
    )
    (wishes,) = run.wishes
    assert (wishes.roots, wishes.queries, wishes.keep) == ((drinks,), queries, True)
    assert (wishes.reader, wishes.model) == (str(tmp_path), "onnx")
    run("--reader", "--queries", queries)
    assert run.wishes[1].reader == "packaged"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--reader",), "--reader learns from judged requests: name them with --queries PATH"),
        (("--reader", "--queries", ".", "--teacher", "st:x"), "--teacher st:x goes without"),
        (
            ("--reader", "--queries", ".", "--model", "onnx"),
            "--model onnx is not a reader that can",
        ),
    ],
)
def test_what_makes_no_sense_with_a_reader_is_refused(run, args, message):
    result = run(*args)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not run.wishes


@pytest.mark.slow
def test_too_few_skills_are_told_in_a_line(cli, drinks, tmp_path):
    for name in ("sentence_transformers", "onnx"):
        pytest.importorskip(name)
    result = cli("tune", drinks, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "2 skills that differ" in result.stderr
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []
