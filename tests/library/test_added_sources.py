"""Sources that are added: unpinned if they are not indexed, and found by what a text names.

What commands do with them is tested in tests/roots.
"""

import zipfile

import pytest

from skillsearch.errors import RootError
from skillsearch.index.roots.held import held_roots
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.added_sources import (
    added,
    adding,
    named_sources,
)
from skillsearch.roots.lock import read_lock
from skillsearch.settings.config import load_settings


@pytest.fixture(autouse=True)
def _outside_of_projects(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")


@pytest.fixture
def pack(tmp_path):
    """Make an archive of skills from their names and bodies."""

    def make(skills):
        path = tmp_path / "skills.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, body in skills.items():
                text = f"---\nname: {name}\ndescription: Does {name}.\n---\n{body}\n"
                archive.writestr(f"{name}/SKILL.md", text)
        return str(path)

    return make


@pytest.fixture
def add(index_dir):
    """Add a source to an index that a flag names, and return the settings that name it."""

    def run(source):
        settings = load_settings(index_dir=index_dir)
        with added({source: source}):
            SkillIndex.build(adding([source], settings), index_dir)
        return settings

    return run


def test_what_is_new_is_unpinned_if_it_is_not_indexed(pack):
    source = pack({"tea": "Hot."})

    def interrupt():
        assert read_lock().keys() == {source}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), added({source: source}):
        interrupt()
    assert read_lock() == {}


def test_a_text_names_what_was_added_or_is_held(pack, add, tmp_path):
    source = pack({"tea": "Hot."})
    held = held_roots(add(source))
    locked = read_lock()
    assert named_sources([source], locked) == {source: source}
    assert named_sources([source], {}, held) == {source: source}
    with pytest.raises(RootError, match=rf"Did you mean: {source}\?"):
        named_sources([str(tmp_path / "skill.zip")], locked, held)
    folder = str(tmp_path / "plain")
    assert named_sources([folder], locked, held) == {folder: folder}
    with pytest.raises(RootError, match="was not added"):
        named_sources([folder], locked)
    with pytest.raises(RootError, match=rf"{folder} was not added. Nothing was added\."):
        named_sources([folder], {})
