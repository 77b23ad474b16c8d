"""``scripts/train_reader.py``: which skills requests and their twins are read with."""

import gzip
import json
import random
from collections import Counter
from functools import partial

import numpy as np
import pytest

from skillsearch.training.queries import SkillText

pytestmark = pytest.mark.torch
pytest.importorskip("torch")
pytest.importorskip("transformers")
THINGS = "kettle pump ladder lantern anvil violin compass saddle barrel hammock".split()


@pytest.fixture
def graded(import_script):
    return import_script("graded_requests")


@pytest.fixture
def make_drawer(import_script, graded):
    """Make a drawer of ten skills, of which each is nearest to the next one."""
    texts = [
        SkillText(f"mend-{thing}", f"Helps to mend a {thing}.", f"# {thing}\n\nSee the {thing}.")
        for thing in THINGS
    ]
    turns = np.arange(10) / 3
    vectors = np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)
    skills = graded.Skills(texts, ["en"] * 10, {})
    return partial(import_script("train_reader").Drawer, skills, vectors, seed=1)


@pytest.fixture
def drawer(make_drawer):
    return make_drawer()


@pytest.fixture
def request_of(graded):
    def make(text, grades, rows=range(8), cluster=1, kind="s", writer="w00", **twin):
        source = graded.WRITERS.get(writer[:2], "written")
        return graded.Request(text, tuple(rows), grades, cluster, kind, source, writer, **twin)

    return make


def grades_of(group):
    """Return the grade of each skill that a request is read with."""
    return dict(zip(group.skills, group.grades, strict=True))


def test_a_request_is_read_with_skills_that_fit_and_that_do_not(drawer, request_of):
    elsewhere = request_of("a barrel", {8: 2}, rows=(8, 9), cluster=2)
    strangers = 0
    for seed in range(40):
        drawer._chance = random.Random(seed)
        group, _ = drawer.groups([request_of("mend it", {0: 2, 1: 2, 2: 2, 3: 1}), elsewhere])
        grades = grades_of(group)
        assert list(grades.values()).count(2) == 2
        strangers += (is_strange := not set(group.skills) <= set(range(8)))
        assert len(grades) - is_strange in (4, 5)
        for row, text in zip(group.skills, group.texts, strict=True):
            assert THINGS[row] in text
    assert 10 < strangers < 36


def test_a_twin_is_read_with_what_fitted_and_with_what_fits_now(drawer, request_of):
    """Of near twins one; the others each, and what fits them is read with the original too."""
    twins = [
        request_of("mend her kettle", {4: 2}, kind="x", writer="twin", twin_of="mend my kettle"),
        request_of("mend no kettle", {}, twin_of="mend my kettle", rename=("my", "no")),
        request_of("mend a kettle", {}, twin_of="mend my kettle", rename=("my", "a")),
        request_of("mend a lost one", {}, kind="x", cluster=3, twin_of="nobody asks"),
    ]
    group, alone = drawer.groups([request_of("mend my kettle", {0: 2}), *twins])
    assert [twin.request for twin in group.twins][:1] == ["mend her kettle"]
    assert len(group.twins) == 2
    for twin in group.twins:
        assert twin.skills[0] == 0
        assert twin.grades[0] == 0
    assert grades_of(group.twins[0])[4] == 2
    assert grades_of(group)[4] == 0
    assert (alone.request, alone.grades, len(alone.skills)) == ("mend a lost one", (0, 0, 0), 3)


def test_a_skill_with_the_other_name_fits_the_near_twin_alone(drawer, request_of):
    request = request_of("Mend a kettle", {0: 2})
    twin = request_of("Mend a Tagine", {}, twin_of=request.text, rename=("kettle", "Tagine"))
    other = request_of("Mend a pot", {}, twin_of="Mend a pan", rename=("pan", "pot"))
    group, alone = drawer.groups([request, twin, other])
    (changed,) = group.twins
    skill = changed.skills[-1]
    assert skill[:2] == (0, "mend-tagine")
    assert changed.texts[-1] == "mend tagine. Helps to mend a tagine. | # tagine See the tagine."
    assert group.texts[-1] == changed.texts[-1]
    assert grades_of(changed) | {0: 0, skill: 2} == grades_of(changed)
    assert grades_of(group)[skill] == 0
    assert not any(isinstance(skill, tuple) for skill in alone.skills)


def test_everyday_requests_are_all_read_and_a_share_of_the_others(make_drawer, request_of):
    requests = [
        request_of(f"{writer} {number}", {0: 2}, kind="t", writer=writer)
        for writer in ("w00", "ev3")
        for number in range(200)
    ]
    read = [group.request for group in make_drawer(again_share=0.35).groups(requests)]
    assert sum(text.startswith("ev3") for text in read) == 200
    assert 45 < sum(text.startswith("w00") for text in read) < 95
    assert len(list(make_drawer().groups(requests))) == 400


@pytest.mark.parametrize(
    ("text", "expected"),
    [("AWS and aws-cli, not LAWS", "GCP and gcp-cli, not LAWS"), ("Aws", "Gcp")],
)
def test_a_name_is_written_as_the_one_before(graded, text, expected):
    assert graded.renamed(text, "aws", "gcp", in_words=True) == expected


def test_near_misses_and_some_requests_of_agents_are_left_out(drawer, request_of):
    requests = [request_of("a near miss", {}, kind="n")]
    requests += [request_of(f"agent {number}", {0: 2}, writer="ag") for number in range(100)]
    requests += [request_of("hard", {}, kind="n", writer="hd0")]
    texts = [group.request for group in drawer.groups(requests)]
    assert texts[-1] == "hard"
    assert "a near miss" not in texts
    assert 40 < len(texts) < 80


def test_of_short_requests_without_a_written_twin_a_share_is_read(make_drawer, request_of):
    """All long ones are; a near twin is not a written one."""
    requests = [request_of(f"short {number}", {0: 2}) for number in range(100)]
    requests += [request_of(f"near {number}", {0: 2}) for number in range(100)]
    near = [
        request_of("x", {}, twin_of=f"near {number}", rename=("near", "far"))
        for number in range(100)
    ]
    always_read = [request_of("long", {0: 2}, kind="t"), request_of("twin", {0: 2})]
    twin = request_of("a twin", {}, kind="x", writer="twin", twin_of="twin")
    groups = list(make_drawer(alone_share=0.3).groups([*requests, *near, *always_read, twin]))
    counts = Counter(group.request.partition(" ")[0] for group in groups)
    assert (counts["long"], counts["twin"]) == (1, 1)
    assert 15 < counts["short"] < 45
    assert 15 < counts["near"] < 45


def test_requests_are_read_with_rows_of_distinct_skills(graded, tmp_path):
    record = {"writer": "tr-x", "kind": "s", "text": "repair", "cluster": 1}
    records = [
        record | {"rows": [0, 1, 2], "grades": {"0": 2, "2": 1}},
        record | {"rows": [2], "grades": {"2": 2}},
        record | {"rows": [0], "grades": {"0": 2}, "cluster": 2},
    ]
    with gzip.open(tmp_path / "r.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in records)
    (request,) = graded.read_requests(tmp_path / "r.gz", {2}, {0: 5, 1: 5})
    assert (request.rows, request.grades) == ((5,), {5: 2})
    assert (request.source, request.twin_of) == ("translated", None)
