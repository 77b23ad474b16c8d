"""Fixtures of the tests of reports."""

import pytest

from skillsearch.index.skill_index import SkillIndex


@pytest.fixture
def index(drinks, index_dir, monkeypatch, tmp_path):
    """Make an index of the drinks, away from any project file."""
    monkeypatch.chdir(tmp_path)
    return SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")
