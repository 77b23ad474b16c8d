"""What the lists of all faces return for the requests of the example collection."""

from pathlib import Path

import pytest

import skillsearch
from skillsearch import SkillIndex, search_skills
from skillsearch.agents.toolsets import context, skills_manager
from skillsearch.agents.toolsets.environments import Environment
from skillsearch.evaluation.collection import EXAMPLE, load_collection

pytestmark = pytest.mark.usefixtures("default_reader")
EXAMPLES = Path(skillsearch.__file__).parent / "examples"


@pytest.fixture(scope="module")
def collection():
    return load_collection(EXAMPLE)


@pytest.fixture(scope="module")
def example_index(tmp_path_factory):
    """Index the examples once for tests that only read it, and return the folder."""
    folder = tmp_path_factory.mktemp("examples") / "index"
    SkillIndex.from_roots(EXAMPLES, index_dir=folder)
    return folder


@pytest.mark.slow
def test_a_list_has_the_right_skill_and_is_empty_where_none_fits(collection, example_index):
    """For some requests; how many of all have one is counted where the example is judged."""
    manager = skills_manager.SkillsManager(EXAMPLES, index_dir=example_index)
    right = 0
    for query in collection.queries[:12]:
        names = {row["name"] for row in manager.search_skills(query.text)}
        right += not names.isdisjoint(collection.qrels[query.query_id])
    assert right >= 7
    assert [
        query.text for query in collection.negatives[:6] if manager.search_skills(query.text)
    ] == []


@pytest.mark.slow
def test_every_list_has_the_same_skills(collection, example_index, monkeypatch):
    options = {"index_dir": example_index}
    index = SkillIndex.open(example_index)
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(example_index))
    second = context.SkillsManager(context.SkillsLoader(EXAMPLES, **options))
    third = skills_manager.SkillsManager(EXAMPLES, **options)
    environment = Environment("examples", EXAMPLES, **options)
    states = set()
    for query in (*collection.queries[:6], collection.negatives[0]):
        result = index.search(query.text)
        expected = [(hit.name, "fits") for hit in result]
        expected += [(hit.name, "perhaps") for hit in result.perhaps]
        states.add(result.state)
        for rows in (
            search_skills(query.text),
            third.search_skills(query.text),
            environment.search_skills(query.text),
        ):
            assert [(row["name"], row.get("state", "fits")) for row in rows] == expected
        matches = second.search_skills(query.text)
        assert [(match.name, getattr(match, "state", "fits")) for match in matches] == expected[:3]
    assert states == {"fits", "perhaps", "none"}


@pytest.mark.parametrize(
    ("request_text", "names"),
    [
        ("my pod keeps restarting", ["kubernetes-crashloop"]),
        ("fill in the tax form and save it as a PDF", ["fill-pdf-forms"]),
        ("who won the world cup", []),
    ],
)
@pytest.mark.slow
@pytest.mark.parametrize("face", ["terminal", "prompt", "list"])
def test_what_the_readme_asks_is_answered_without_noise(example_index, request_text, names, face):
    index = SkillIndex.open(example_index)
    assert [hit.name for hit in index.search(request_text, face=face).shown] == names
