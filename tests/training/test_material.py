"""Requests struck out of skills to be asked later, and judged ones: a log, or a collection."""

import json

import numpy as np
import pytest

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.collection import save_collection
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.training.material import REQUESTS, hold_out, is_measured, mean_gain, read_judged
from skillsearch.training.queries import MinedSkill, SkillText, without_name

ABOUT = "Sorts parcels by weight and street. Use when parcel bin {} is full of letters."
BODY = """# Bins

Ask the depot first.

> "please empty parcel bin {} for me"

## When to use

- Somebody wants bin {} weighed again

Each parcel goes over the scale twice, the second time with its label up, bin {} last of all.
"""


@pytest.fixture
def skills():
    texts = [(ABOUT.format(number), BODY.format(number, number, number)) for number in range(30)]
    return [SkillText(f"sorter-{number}", *both) for number, both in enumerate(texts)]


def test_what_is_held_out_stands_in_no_text_any_more(skills):
    left, queries = hold_out(skills, 12, seed=1)
    assert len(queries) == 12
    changed = {row for _, (row,) in queries}
    assert len(changed) == 12
    for text, (row,) in queries:
        assert text not in f"{left[row].about}\n{left[row].body}"
        assert text in f"{skills[row].about}\n{skills[row].body}"
        assert f"{row} " in f"{text} "
    for row in set(range(30)) - changed:
        assert left[row] == skills[row]


def test_requests_come_first_and_pieces_only_where_they_are_too_few(skills):
    mined = [MinedSkill.mine(skill).sources for skill in skills]
    stated = [
        {without_name(text, skill.name) for kind in REQUESTS for text in sources.get(kind, ())}
        for skill, sources in zip(skills, mined, strict=True)
    ]
    assert all(text in stated[row] for text, (row,) in hold_out(skills, 30, seed=1)[1])
    about = "Keeps the belt of the sorting machine clean and running all night."
    body = "Loosen both screws before the belt is lifted, and never while the lamp is red."
    silent = [
        SkillText(f"belt-{sources}", f"{about} Lamp {sources}.", f"{body} Lamp {sources}.")
        for sources in range(3)
    ]
    queries = hold_out([*skills[:2], *silent], 4, seed=1)[1]
    assert sum(query.startswith("Loosen both screws") for query, _ in queries) == 2


SORTS = 'Sorts the parcels of a depot by street. Say "empty the parcel bin"'


@pytest.mark.parametrize(
    "skill",
    [
        SkillText("bin", "Use when the bin is full.", ""),  # would have no description any more
        SkillText("bin", f"{SORTS} or *empty* the parcel bin.", ""),
        SkillText("bin", f"{SORTS}.", "", ("Waits for *empty* the parcel bin.",)),
    ],
)
def test_all_that_is_said_and_what_is_said_again_in_other_marks_is_not_held_out(skill):
    assert hold_out([skill], 1, seed=0)[1] == []


def test_a_request_is_struck_from_what_scripts_say_too():
    said = ("Waits for empty the parcel bin, then does it.",)
    left, queries = hold_out([SkillText("tidy", f"{SORTS}.", "", said)], 1, seed=0)
    assert [query.query for query in queries] == ["empty the parcel bin"]
    assert left[0].scripts == ("Waits for  , then does it.",)


def test_the_seed_decides(skills):
    assert hold_out(skills, 9, seed=4) == hold_out(skills, 9, seed=4)
    assert hold_out(skills, 9, seed=4) != hold_out(skills, 9, seed=5)


def test_the_gain_is_that_of_the_ranks():
    """Ranks one and three; equal documents stand before the right one."""
    documents = np.array([[1, 0], [0, 1], [0, 1], [0.6, 0.8]], np.float32)
    queries = np.array([[1, 0], [0, 1]], np.float32)
    assert mean_gain(queries, [0, 3], documents) == pytest.approx((1 + 1 / 2) / 2)
    assert mean_gain(queries[1:], [1], documents) == pytest.approx(1 / np.log2(3))


NAMES = ("brew-coffee", "steep-tea", "squeeze-lemons", "steep-tea")
IDS = ("a:brew-coffee", "a:steep-tea", "a:squeeze-lemons", "b:steep-tea")
LIBRARY = {doc_id: SkillText(name, "", "") for doc_id, name in zip(IDS, NAMES, strict=True)}


def test_a_log_names_skills_as_people_write_them(log):
    """Case, hyphens and underscores make no difference; an id names one of two of a name.

    Skills that are not here are counted: a log may be older than the library.
    """
    path = log(
        {"query": "bake", "skill": "bake-bread"},
        {"query": "make espresso", "skill": "Brew_Coffee"},
        {"query": "green tea", "skill": "steep tea"},
        {"query": "other tea", "skill": "b:steep-tea"},
        {"query": "both", "skills": ["squeeze-lemons", "brew coffee"]},
    )
    queries, lost = read_judged(path, LIBRARY)
    assert [(query.query, query.rows) for query in queries] == [
        ("make espresso", (0,)),
        ("green tea", (1, 3)),
        ("other tea", (3,)),
        ("both", (0, 2)),
    ]
    assert lost == 1


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"query": "tea"}',
        '{"skill": "steep-tea"}',
        '{"query": "tea", "skill": ["steep-tea", 3]}',
        '{"query": "  ", "skill": "steep-tea"}',
        json.dumps({"query": "tea " * 40_000, "skill": "steep-tea"}),
    ],
)
def test_a_line_that_cannot_be_used_is_named(log, line):
    with pytest.raises(EvaluationError, match=r"log\.jsonl:2: "):
        read_judged(log({"query": "tea", "skill": "steep-tea"}, line), LIBRARY)


def test_a_collection_is_matched_by_id_and_else_by_name(tmp_path):
    """A grade of 0 means not chosen."""
    documents = (
        JudgedDocument("a:brew-coffee", "anything", ""),
        JudgedDocument("x", "Steep Tea", ""),
    )
    collection = Collection(
        "c",
        documents,
        (JudgedQuery("1", "espresso"), JudgedQuery("2", "tea")),
        {"1": {"a:brew-coffee": 2, "x": 0}, "2": {"x": 1}},
    )
    save_collection(collection, tmp_path / "c")
    queries, _ = read_judged(tmp_path / "c", LIBRARY)
    assert [(query.query, query.rows) for query in queries] == [("espresso", (0,)), ("tea", (1, 3))]


def test_about_a_third_is_kept_to_measure_by_and_copies_stay_together():
    measured = [is_measured(f"query {number}") for number in range(600)]
    assert 160 < sum(measured) < 240
    for number in range(20):
        assert is_measured(f"Query  {number}") == is_measured(f"query {number}")
