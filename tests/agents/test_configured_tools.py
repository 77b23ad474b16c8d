"""Tests of the functions that agents call over the index of the settings."""

import json
import math
import re

import pytest

from skillsearch import SkillIndex
from skillsearch.agents import default_tools
from skillsearch.agents.default_tools import call, search_skills, tool_specs
from skillsearch.errors import IndexNotFoundError, QueryError, SkillSearchError


@pytest.fixture
def configured(drinks, index_dir, monkeypatch, tmp_path):
    """Index the drinks where the settings point, and return how to index them again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(index_dir))

    def build():
        return SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")

    build()
    return build


def test_an_index_is_opened_once_for_all_generations(configured, drinks, make_skill):
    default_tools._open.cache_clear()
    search_skills("tea")
    search_skills("coffee")
    make_skill(drinks, "mix-cocktails", "Mix cocktails with a shaker.")
    configured()
    assert search_skills("mix cocktails")[0]["name"] == "mix-cocktails"
    assert default_tools._open.cache_info().misses == 1


def test_other_settings_leave_a_library_in_use_as_it_is(configured, monkeypatch):
    first = default_tools.configured().library()
    monkeypatch.setenv("SKILLSEARCH_EXCLUDE", "brew-*")
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "1.0")
    second = default_tools.configured().library()
    assert (second.search("tea").threshold, len(second.list())) == (1.0, 2)
    assert (first.search("tea").threshold, len(first.list())) == (0.65, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": ""}, "query = ''"),
        ({"query": "tea", "n": 0}, "n = '0'"),
        ({"query": "tea", "threshold": math.nan}, "threshold = 'nan'"),
    ],
)
def test_a_bad_argument_is_named_with_its_value(arguments, message):
    with pytest.raises(QueryError, match=re.escape(message)) as caught:
        search_skills(**arguments)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, SkillSearchError)


def test_without_an_index_the_error_says_how_to_make_one(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IndexNotFoundError, match="skillsearch index FOLDER"):
        search_skills("tea")


def test_the_definitions_need_no_index(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = ["search_skills", "load_skill", "read_skill_file", "list_skills"]
    assert [spec["function"]["name"] for spec in tool_specs()] == names
    assert [spec["name"] for spec in tool_specs("anthropic")] == names


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_the_definitions_are_small(style):
    """Every agent pays for them in every request: under 2,200 characters together."""
    assert len(json.dumps(tool_specs(style))) < 2_200


def test_a_call_holds_the_threshold_of_the_settings(configured, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "1.0")
    assert call("search_skills", '{"query": "brew filter coffee"}')["result"]["skills"] == []


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
