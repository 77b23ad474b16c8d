"""``scripts/train_default.py``: which requests it learns from, and what stands beside them."""

import gzip
import json
import random

import pytest

from skillsearch.training.queries import SkillText

pytestmark = pytest.mark.torch
pytest.importorskip("torch")
pytest.importorskip("transformers")
THINGS = "kettle pump ladder lantern anvil violin compass saddle".split()
SKILLS = [
    SkillText(
        f"mend-{thing}",
        f"Helps to mend an old {thing} at home. Use when somebody asks to mend a {thing}.",
        f"# Mend a {thing}\n\nLook at the {thing} in daylight and note each defect in a list.\n",
    )
    for thing in THINGS
]
ROWS = {line: line - 1 for line in range(1, 9)}
"""Line 0 is no skill that can be read."""


@pytest.fixture
def script(import_script):
    return import_script("train_default")


def asked(cluster=1, text="my kettle leaks", lang="en", kind="s", grades=None):
    """Return the record of a request."""
    grades = {"1": 2} if grades is None else grades
    given = {"cluster": cluster, "text": text, "lang": lang, "kind": kind, "grades": grades}
    return given | {"writer": "w", "rows": list(range(8))}


@pytest.fixture
def write(tmp_path):
    def run(*records):
        path = tmp_path / "requests.jsonl.gz"
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(one)}\n" for one in records)
        return path

    return run


def test_what_nothing_fits_and_what_is_measured_is_left_out(script, write):
    """Twins, near misses, other languages, clusters, and skills that cannot be read."""
    path = write(
        asked(),
        asked(2, "the pump drips", grades={"2": 1, "0": 2}),
        asked(3, "measured"),
        asked(4, "wem gehört der Kessel", lang="de"),
        asked(5, "a twin", kind="x", grades={}),
        asked(5, "a near miss", kind="n", grades={}),
        asked(6, "unreadable", grades={"0": 2}),
    )
    found = script.requests_of(path, {3}, ROWS)
    assert {one.text: dict(one.grades) for some in found for one in some} == {
        "my kettle leaks": {0: 2},
        "the pump drips": {1: 1},
    }
    assert found[0][0].rows == tuple(range(7))
    assert len(script.requests_of(path, {3}, ROWS, most=1)) == 1


def test_no_document_of_a_cluster_helps_with_the_request_of_another(script):
    """Four requests at most, each with a skill that fits best, and three other skills."""
    chance = random.Random(4)
    for _ in range(50):
        requests = []
        for number in range(12):
            rows = chance.sample(range(8), chance.randint(1, 3))
            grades = {row: chance.randint(1, 2) for row in rows}
            requests.append(script.Request(f"request {number}", tuple(range(8)), grades))
        drawn = script.pairs_of_cluster(requests, SKILLS, chance)
        by_text = {one.text: one.grades for one in requests}
        answered = [(row, by_text[pair.query]) for row, pair in drawn if pair.query in by_text]
        assert 1 <= len(answered) <= script.TOGETHER
        assert len(drawn) - len(answered) <= script.BESIDE
        rows = [row for row, _ in drawn]
        assert len(set(rows)) == len(rows)
        for row, grades in answered:
            assert grades[row] == max(grades.values())
            assert [other for other in rows if other in grades] == [row]
