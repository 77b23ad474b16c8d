"""Sources that were added, named, pinned, updated and removed, without a command line."""

import zipfile

import pytest

from skillsearch.errors import RootError
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.roots.held import held_roots
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.added_sources import (
    added,
    adding,
    named_sources,
    remove_added,
    update_added,
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


def test_a_source_is_pinned_while_it_is_held(pack, add):
    source = pack({"tea": "Hot."})
    settings = add(source)
    assert read_lock().keys() == {source}
    assert len(held_roots(settings)) == 1
    assert remove_added([source], settings, IndexOptions()) == 0
    assert read_lock() == {}
    assert not held_roots(settings)


def test_what_is_new_is_unpinned_if_it_is_not_indexed(pack):
    source = pack({"tea": "Hot."})

    def interrupt():
        assert read_lock().keys() == {source}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), added({source: source}):
        interrupt()
    assert read_lock() == {}


def test_a_source_without_skills_is_refused(pack):
    source = pack({})
    with pytest.raises(RootError, match="holds no skill"), added({source: source}):
        pass
    assert read_lock() == {}


def test_a_change_is_pinned_once_it_is_agreed_to(pack, add):
    source = pack({"tea": "Hot.", "egg": "Six minutes."})
    add(source)
    (before,) = read_lock().values()
    pack({"tea": "Hotter.", "soup": "Slowly."})
    seen = []
    update_added(before, lambda changes: seen.append(changes))
    assert list(read_lock().values()) == [before]
    update_added(before, lambda changes: not seen.append(changes))
    (after,) = read_lock().values()
    assert after.digest != before.digest
    assert seen[0] == seen[1]
    assert (seen[0].added, seen[0].changed, seen[0].removed) == (("soup",), ("tea",), ("egg",))
    update_added(after, lambda changes: pytest.fail(f"asked again: {changes}"))


def test_the_first_index_of_the_user_takes_up_what_hosts_look_for(pack, tmp_path):
    source = pack({"tea": "Hot."})
    change = adding([source], load_settings())
    assert change.follows == "hosts"
    SkillIndex.build(change, load_settings().index_dir)
    assert adding([source], load_settings()).follows == "projects"
    assert adding([source], load_settings(index_dir=tmp_path / "other")).follows == "projects"


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


def test_an_index_that_holds_more_stays_without_the_source(pack, add, make_skill, tmp_path):
    make_skill(tmp_path / "mine", "mine")
    source = pack({"tea": "Hot."})
    settings = add(source)
    SkillIndex.open(settings.index_dir).add_roots(tmp_path / "mine")
    assert remove_added([source], settings, IndexOptions()) == 1
