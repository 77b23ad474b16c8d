"""``scripts/train_reader.py``: the queries that it draws from texts, and what it leaves out."""

import gzip
import json

import pytest

pytestmark = pytest.mark.torch
pytest.importorskip("torch")
pytest.importorskip("transformers")
THINGS = "kettle pump ladder lantern anvil violin compass saddle barrel hammock".split()
DEEDS = "repair paint sell borrow".split()


@pytest.fixture
def script(import_script):
    return import_script("train_reader")


@pytest.fixture
def texts(script):
    """Forty skills, one a deed and a thing."""
    skills = [
        (
            f"{deed}-{thing}",
            f"Helps to {deed} an old {thing} at home. Use when somebody asks to {deed} a {thing} "
            f"that a neighbour left behind. Covers what to look for in any {thing} first.",
            f"# {deed} a {thing}\n\nLook at the {thing} in daylight and note each defect in a "
            f"list.\n\nThen {deed} it by the book of the trade, page by page, without haste.\n",
        )
        for thing in THINGS
        for deed in DEEDS
    ]
    return script.Texts(skills)


def test_a_drawn_query_shares_no_words_in_a_row_with_its_skill(script, texts):
    """It is read with five other skills, none of them left out."""
    found = list(script.drawn(texts, set(range(4)), 30))
    assert len(found) == 30
    for group in found:
        assert group.grades == (2, 0, 0, 0, 0, 0)
        assert len(set(group.skills[:5])) == 5
        assert not {*group.skills} & set(range(4))
        assert not set(script._runs(group.request)) & set(script._runs(group.texts[0]))
    assert [one.request for one in found] == [
        one.request for one in script.drawn(texts, set(range(4)), 30)
    ]


def test_requests_are_read_with_all_judged_skills_and_a_stranger(script, texts, tmp_path):
    """Twins without the stranger, alone if their original is not read; near misses are left out."""
    asked = {"cluster": 1, "kind": "s", "text": "repair my kettle", "rows": [0, 1]}
    asked["grades"] = {"0": 2}
    twin = {**asked, "kind": "x", "text": "melt my kettle", "grades": {}, "twin_of": asked["text"]}
    near = {**asked, "kind": "n", "text": "sell a kettle on the moon", "grades": {}}
    other = {"cluster": 2, "kind": "s", "text": "paint a pump", "rows": [4, 5], "grades": {"5": 1}}
    lost = {**twin, "cluster": 3, "rows": [8, 9], "twin_of": "what nobody has"}
    path = tmp_path / "requests.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in (near, asked, twin, other, lost))
    (one, first), (two, second), (three, third) = script.written(path, texts, set())
    assert (one, first.request, first.grades) == (1, "repair my kettle", (2, 0, 0))
    assert first.skills[:2] == (0, 1)
    assert first.skills[2] in {4, 5, 8, 9}
    (changed,) = first.twins
    assert (changed.request, changed.skills, changed.grades) == ("melt my kettle", (0, 1), (0, 0))
    assert (two, second.grades[:2]) == (2, (0, 1))
    assert (three, third.skills, third.grades) == (3, (8, 9), (0, 0))
    assert script.measured_rows(texts, path, {2}, ()) == {4, 5}
