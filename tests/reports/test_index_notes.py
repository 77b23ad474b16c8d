"""Notes after indexing: each where it is due, and nowhere else."""

import pytest

from skillsearch.index.skill_index import SkillIndex
from skillsearch.reports import index_notes
from skillsearch.settings.table import Settings
from skillsearch.types.skills import Root


@pytest.fixture
def index(drinks, index_dir):
    return SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")


def test_paths_that_no_root_holds_are_named(index, drinks, tmp_path):
    roots = index.opened.settings.roots
    link = tmp_path / "link"
    link.symlink_to(drinks)
    assert index_notes.below_no_root([drinks, drinks / "new", tmp_path, link], roots) == ""
    note = index_notes.below_no_root([drinks, tmp_path / "other"], roots)
    assert note.startswith(f"no root of this index holds {tmp_path / 'other'}; correct")


def test_roots_without_a_skill_are_named_unless_a_broken_one_is_reported(index, drinks, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert index_notes.without_skills([drinks], index, ()) == ""
    note = index_notes.without_skills([drinks, empty], index, ())
    assert note.startswith(f"no SKILL.md lies below {empty};")
    (drinks / "bad").mkdir()
    (drinks / "bad" / "SKILL.md").write_bytes(b"")
    assert index_notes.without_skills([drinks / "bad"], index, index.diagnostics()) != ""
    index.refresh()
    assert index_notes.without_skills([drinks / "bad"], index, index.diagnostics()) == ""


def test_who_vouches_for_nothing_is_told_how(tmp_path):
    vetted, doubted = Root(tmp_path / "a", "a"), Root(tmp_path / "b c", "b", "project")
    assert index_notes.unvetted([vetted], "") == ""
    note = index_notes.unvetted([vetted, doubted], " --index-dir i")
    assert f"of {doubted.path};" in note
    assert note.endswith(f"skillsearch index --trust '{doubted.path}=vetted' --index-dir i")


def test_a_root_outside_of_the_project_is_told_of_the_user_s_own_index(tmp_path):
    file = tmp_path / "project" / "skillsearch.toml"
    of_project = Settings(sources={"index_dir": str(file)})
    inside, outside = file.parent / "skills", tmp_path / "skills"
    assert index_notes.outside(Settings(), [outside]) == ""
    assert index_notes.outside(of_project, [inside]) == ""
    note = index_notes.outside(of_project, [inside, outside])
    assert f"skillsearch index {outside} --index-dir " in note
    assert f"{inside} " not in note
