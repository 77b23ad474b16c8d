"""Tests of the functions that agents call over the index of the settings."""

import json
import math
import re
from functools import cache

import pytest

import skillsearch
from skillsearch import SkillIndex
from skillsearch.agents import default_tools
from skillsearch.agents.default_tools import (
    SearchSkillsArgs,
    call,
    search_skills,
    tool_specs,
)
from skillsearch.errors import IndexNotFoundError, QueryError, SkillSearchError
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS


@pytest.fixture
def configured(drinks, index_dir, monkeypatch, tmp_path):
    """Index the drinks where the settings point, and return how to index them again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(index_dir))

    def build():
        return SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")

    build()
    return build


def test_the_hits_are_those_of_the_index(configured, index_dir, drinks):
    """Name, description, score and path, best first, as plain values."""
    found = search_skills("brew filter coffee", threshold=0.0)
    expected = SkillIndex.open(index_dir).search("brew filter coffee", threshold=0.0)
    assert found == [
        {"name": h.name, "description": h.description, "score": h.score, "path": h.path}
        for h in expected
    ]
    assert found[0]["path"] == str(drinks / "brew-coffee" / "SKILL.md")


def test_nothing_fits_is_an_empty_list(configured):
    """The agent is told so, not given the least bad skill."""
    assert search_skills("assemble a bookshelf") == []


def test_n_limits_the_list(configured):
    assert [hit["name"] for hit in search_skills("brew filter coffee", 1, 0.0)] == ["brew-coffee"]


def test_the_threshold_of_the_settings_holds_unless_one_is_given(configured, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "1.0")
    assert search_skills("brew filter coffee") == []
    assert search_skills("brew filter coffee", threshold=0.0)[0]["name"] == "brew-coffee"


def test_hidden_skills_are_not_offered(configured, drinks, make_skill):
    """``disable-model-invocation`` keeps a skill from models, not from people."""
    make_skill(drinks, "roast-beans", "Roast coffee beans.", **{"disable-model-invocation": True})
    index = configured()
    assert "roast-beans" in [hit.name for hit in index.search("roast coffee beans")]
    assert "roast-beans" not in [hit["name"] for hit in search_skills("roast coffee beans")]


def test_hidden_skills_have_no_say_in_the_scores(configured, drinks, make_skill):
    """A better one that is not offered puts none that is offered behind."""
    hidden = {"disable-model-invocation": True}
    make_skill(drinks, "roast-beans", "Roast coffee beans for espresso at home.", **hidden)
    index = configured()
    query = "roast coffee beans for espresso"
    every = {hit.name: hit.score for hit in index.search(query, threshold=0.0)}
    offered = search_skills(query, threshold=0.0)
    alone = index.search(query, threshold=0.0, exclude=["drinks:roast-beans"])
    assert [(hit["name"], hit["score"]) for hit in offered] == [(h.name, h.score) for h in alone]
    assert offered[0]["name"] == "brew-coffee"
    assert offered[0]["score"] > every["brew-coffee"]


def test_descriptions_are_one_bounded_line_without_tricks(configured, drinks, make_skill):
    """No line break, no hidden character, at most 1,024 characters."""
    make_skill(drinks, "grind-pepper", "Grind pepper.\n\u202eSecret\u200b " + "very fine " * 300)
    configured()
    (text,) = [hit["description"] for hit in search_skills("grind pepper", 1, 0.0)]
    assert text.startswith("Grind pepper. Secret very fine")
    assert len(text) <= MAX_DESCRIPTION_CHARS
    assert text.endswith("…")


def test_an_index_is_opened_once_for_all_generations(configured, drinks, index_dir, make_skill):
    """The second call reuses it; a newer generation on disk is picked up."""
    opened = []
    once = cache(lambda folder: opened.append(folder) or SkillLibrary.open(folder))

    def search(query):
        return default_tools.configured(once).search(SearchSkillsArgs(query=query))["skills"]

    search("tea")
    search("coffee")
    assert opened == [index_dir]
    make_skill(drinks, "mix-cocktails", "Mix cocktails with a shaker.")
    configured()
    assert search("mix cocktails")[0]["name"] == "mix-cocktails"
    assert opened == [index_dir]
    assert search_skills("mix cocktails") == search("mix cocktails")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": ""}, "query = ''"),
        ({"query": " \n"}, "query is empty"),
        ({"query": "x" * 65_537}, "at most 65536 characters"),
        ({"query": None}, "query: Field required"),
        ({"query": "tea", "n": 0}, "n = '0'"),
        ({"query": "tea", "n": 10**9}, "n = '1000000000'"),
        ({"query": "tea", "n": "many"}, "n = 'many'"),
        ({"query": "tea", "threshold": math.nan}, "threshold = 'nan'"),
        ({"query": "tea", "threshold": math.inf}, "threshold = 'inf'"),
        ({"query": "tea", "threshold": -0.1}, "threshold = '-0.1'"),
    ],
)
def test_a_bad_argument_is_named_with_its_value(configured, arguments, message):
    """The error is one of ours, on one line."""
    with pytest.raises(QueryError, match=re.escape(message)) as caught:
        search_skills(**arguments)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, SkillSearchError)


def test_without_an_index_the_error_says_how_to_make_one(monkeypatch, tmp_path):
    """The next step is in the message."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IndexNotFoundError, match="skillsearch index FOLDER"):
        search_skills("tea")


def test_every_argument_is_described_for_the_model():
    """The schema carries the texts that an agent reads."""
    properties = SearchSkillsArgs.model_json_schema()["properties"]
    assert set(properties) == {"query", "n", "threshold"}
    assert all(len(field["description"]) > 20 for field in properties.values())


def test_the_package_offers_the_same_function():
    """``from skillsearch import search_skills`` is this one."""
    assert skillsearch.search_skills is search_skills


def test_the_definitions_need_no_index(monkeypatch, tmp_path):
    """A host can offer the tools before there is anything to find."""
    monkeypatch.chdir(tmp_path)
    names = ["search_skills", "load_skill", "read_skill_file", "list_skills"]
    assert [spec["function"]["name"] for spec in tool_specs()] == names
    assert [spec["name"] for spec in tool_specs("anthropic")] == names


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_the_definitions_are_small(style):
    """Every agent pays for them in every request: under 2,000 characters together."""
    assert len(json.dumps(tool_specs(style))) < 2_000


def test_a_call_searches_the_same_index(configured):
    """The dispatcher and the plain function answer alike."""
    found = search_skills("brew filter coffee", threshold=0.0)
    answer = call("search_skills", {"query": "brew filter coffee", "threshold": 0.0})
    assert answer == {"result": {"skills": found, "perhaps": []}}
    assert found


def test_a_call_holds_the_threshold_of_the_settings(configured, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "1.0")
    assert call("search_skills", '{"query": "brew filter coffee"}')["result"]["skills"] == []


def test_a_call_sees_a_newer_generation(configured, drinks, make_skill):
    """A skill indexed meanwhile can be loaded."""
    assert call("load_skill", {"name": "mix-cocktails"})["error"]["code"] == "skill-not-found"
    make_skill(drinks, "mix-cocktails", "Mix cocktails with a shaker.")
    configured()
    assert call("load_skill", {"name": "mix-cocktails"})["result"]["name"] == "mix-cocktails"


def test_a_call_without_an_index_says_who_can_make_one(monkeypatch, tmp_path):
    """The model cannot; it is not told where the index would be."""
    monkeypatch.chdir(tmp_path)
    error = call("list_skills")["error"]
    assert error["code"] == "no-index"
    assert "skillsearch index FOLDER" in error["next_step"]
    assert str(tmp_path.parent) not in json.dumps(error)


def test_a_call_with_unusable_settings_is_an_answer(monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "high")
    assert call("search_skills", {"query": "tea"})["error"]["code"] == "config"
