"""Judged queries: a log of what was chosen, or a judged collection."""

import json

import pytest

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.collection import save_collection
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.training.material import is_measured, read_judged
from skillsearch.training.queries import SkillText

NAMES = ("brew-coffee", "steep-tea", "squeeze-lemons", "steep-tea")
IDS = ("a:brew-coffee", "a:steep-tea", "a:squeeze-lemons", "b:steep-tea")
LIBRARY = {one: SkillText(name, "", "") for one, name in zip(IDS, NAMES, strict=True)}


@pytest.fixture
def log(tmp_path):
    """Write a log, a line for each record or text."""

    def write(*lines):
        path = tmp_path / "log.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts), encoding="utf-8")
        return path

    return write


def test_a_log_names_skills_as_people_write_them(log):
    """Case, hyphens and underscores make no difference; an id names one of two of a name."""
    path = log(
        {"query": "make espresso", "skill": "Brew_Coffee"},
        {"query": "green tea", "skill": "steep tea"},
        {"query": "other tea", "skill": "b:steep-tea"},
        {"query": "both", "skills": ["squeeze-lemons", "brew coffee"]},
    )
    found, lost = read_judged(path, LIBRARY)
    assert [(one.query, one.rows) for one in found] == [
        ("make espresso", (0,)),
        ("green tea", (1, 3)),
        ("other tea", (3,)),
        ("both", (0, 2)),
    ]
    assert lost == 0


def test_queries_for_skills_that_are_not_here_are_counted(log):
    """They are no error: a log may be older than the library."""
    path = log({"query": "bake", "skill": "bake-bread"}, {"query": "tea", "skill": "steep-tea"})
    found, lost = read_judged(path, LIBRARY)
    assert ([one.query for one in found], lost) == (["tea"], 1)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[" * 5_000,
        "[1]",
        '{"query": "tea"}',
        '{"skill": "steep-tea"}',
        '{"query": 3, "skill": "steep-tea"}',
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
    found, _ = read_judged(tmp_path / "c", LIBRARY)
    assert [(one.query, one.rows) for one in found] == [("espresso", (0,)), ("tea", (1, 3))]


def test_about_a_third_is_kept_to_measure_by_and_copies_stay_together():
    """The text alone decides, case and white space aside."""
    kept = [is_measured(f"query {number}") for number in range(600)]
    assert 160 < sum(kept) < 240
    for number in range(20):
        assert is_measured(f"Query  {number}") == is_measured(f"query {number}")
