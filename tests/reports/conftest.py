"""Fixtures of the tests of reports."""

import pytest

from skillsearch.index.skill_index import SkillIndex


@pytest.fixture
def index(drinks, index_dir, monkeypatch, tmp_path):
    """Make an index of the drinks, away from any project file."""
    monkeypatch.chdir(tmp_path)
    return SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")


@pytest.fixture
def make_hub(make_skill):
    """Write a skill made of what people ask for in general into a root."""
    requests = (
        "I want to look at the pictures of last week, put two of them on one page",
        "tell five people on Monday what we found, I have three pages of notes since last month",
        "four of nine answers are like nothing I know, look at them and say which to keep",
    )
    body = "\n\n".join(requests * 3)
    return lambda root: make_skill(root, "do-it-all", ". ".join(requests), body=body)
