"""The comparison with peers, where no peer is needed, and the mutations of lines."""

import ast
import json

import numpy as np
import pytest

from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.skills.parser import read_skill


@pytest.fixture
def compare(import_script):
    return import_script("compare")


@pytest.fixture
def collection():
    """Two skills of one name, one whose name is no folder, two requests, and four for nothing."""
    documents = (
        JudgedDocument("a", "brew-tea", "Make tea: green or black.", "# Tea\n---\nHot water."),
        JudgedDocument("b", "brew-tea", "Other tea"),
        JudgedDocument("c", "Café/../crème", 'Foam "milk"\nwell'),
    )
    queries = (JudgedQuery("1", "tea"), JudgedQuery("2", "coffee"))
    none = tuple(JudgedQuery(f"n{number}", "zeppelin") for number in range(4))
    return Collection("made", documents, queries, {"1": {"a": 1}, "2": {"c": 1}}, negatives=none)


def answer(*hits, fits=True, named=True):
    return {"hits": hits, "fits": fits, "named": named}


def test_skills_are_written_as_folders_that_every_parser_reads(compare, collection, tmp_path):
    ids = compare.write_skills(collection, tmp_path)
    found = {}
    for path in tmp_path.glob("*/SKILL.md"):
        skill = read_skill(path, doc_id="x", root=tmp_path)
        found[ids[path.parent.name]] = skill.name, skill.description, skill.body.strip()
    assert found == {
        one.doc_id: (one.name, one.description, one.body) for one in collection.documents
    }
    assert ids["brew-tea"] == "a"


def test_a_threshold_passes_no_more_wrong_answers_than_allowed_and_keeps_what_is_above(compare):
    wrong = np.arange(40.0)  # two of forty are 5 %: 38 and 39 pass, so the threshold is 37
    right = np.array([-np.inf, 5.0, 37.0, 37.5, 38.0, 50.0])
    kept, low, high = compare.keep(right, wrong)
    assert kept == 3 / 6
    assert 0 <= low <= kept <= high <= 1


def test_answers_are_judged_by_ranking_and_by_what_they_say_of_negatives(compare, collection):
    hits = (("a", 0.9), ("c", 0.5))
    none = {
        "n0": answer(("a", 0.2)),
        "n1": answer(fits=False),
        "n2": answer(fits=False, named=False),
        "n3": answer(fits=False, named=False),
    }
    found = {
        "skillsearch": {"answers": {"1": answer(*hits), "2": answer(*hits), **none}},
        "blind": {"answers": dict.fromkeys(["1", "2", *none], answer())},
    }
    judged = compare.judge(collection, found)
    ours = judged["skillsearch"]
    assert ours["hit_1"][0] == 0.5
    assert ours["ndcg"][0] == pytest.approx((1 + 1 / np.log2(3)) / 2)
    assert (ours["fits"][0], ours["named"][0], ours["kept"][0]) == (0.25, 0.5, 1.0)
    assert ours["told"][0] == 0.5
    assert judged["blind"]["ndcg"][0] == judged["blind"]["kept"][0] == 0
    assert judged["blind"]["p_holm"] <= 1


def test_a_mutant_differs_in_one_place_and_numbers_of_docstrings_and_modules_stay(import_script):
    mutate = import_script("mutate")
    body = '    """Less than 3."""\n    return n < 5 and n > 0\n'
    source = f"LIMIT = 3\n\n\ndef is_few(n: int) -> bool:\n{body}"
    tree = ast.unparse(ast.parse(source))
    made = [mutate.mutant(source, at) for at in range(len(mutate.sites(ast.parse(source))))]
    assert sorted(change for _, change in made) == [
        "6: 0 -> 1",
        "6: 5 -> 6",
        "6: n < 5 -> n <= 5",
        "6: n < 5 and n > 0 -> n < 5 or n > 0",
        "6: n > 0 -> n >= 0",
    ]
    assert all(text != tree and text.startswith("LIMIT = 3\n") for text, _ in made)


@pytest.mark.parametrize(("low", "is_fault"), [(0.25, True), (0.15, False)])
def test_attackers_who_surely_gain_fail_the_night(import_script, low, is_fault):
    nightly = import_script("nightly")
    row = {"kind": "stuffing", "gain": 0.3, "gain_interval": [low, 0.5]}
    found = nightly.summed_up("attacks", {"attacks": [row, {"kind": "none"}]})
    assert found["worst_gain"] == 0.3
    assert bool(nightly.fault("attacks", 0, "", "", found)) == is_fault


def test_a_step_that_fails_says_why(import_script, tmp_path, monkeypatch):
    nightly = import_script("nightly")
    monkeypatch.setattr(nightly, "SCRIPTS", tmp_path)
    (tmp_path / "bad.py").write_text("import sys; sys.exit('the disk is full')")
    (tmp_path / "good.py").write_text(f"print({json.dumps(json.dumps({'errors': 0}))})")
    bad = nightly.run("mcp", ["bad.py"], tmp_path / "none", 60)
    assert bad["fault"] == "soak_mcp.py ended with 1: the disk is full"
    (tmp_path / "slow.py").write_text("import os, time; os.fork(); time.sleep(60)")
    slow = nightly.run("mcp", ["slow.py"], tmp_path / "none", 0.5)
    assert slow["fault"] == "not done within 0.5 s"
    good = nightly.run("mcp", ["good.py"], tmp_path / "none", 60)
    assert (good["fault"], good["found"]) == ("", {"errors": 0.0})


@pytest.mark.parametrize(
    ("test", "found", "fault"),
    [
        ("def test_a():\n    assert 1", {"passed": 1}, ""),
        ("def test_a():\n    assert 0", {"failed": 1}, "test_it.py::test_a']"),
    ],
)
def test_tests_of_the_night_are_counted_and_named(import_script, tmp_path, test, found, fault):
    (tmp_path / "test_it.py").write_text(test)
    words = ["-m", "pytest", "-rf", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", tmp_path]
    done = import_script("nightly").run("tests", [*map(str, words)], tmp_path / "none", 60)
    assert (done["found"], bool(done["fault"])) == (found, bool(fault))
    assert done["fault"].endswith(fault)
