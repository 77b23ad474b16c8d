"""A SKILL.md is replaced whole or not at all, and only where it is the user's own."""

import shutil
from pathlib import Path

import pytest

from skillsearch.errors import SkillError, StorageError
from skillsearch.files import atomic_files
from skillsearch.index.skill_index import SkillIndex
from skillsearch.reports.own_files import replace_skill_md, why_not_own


def test_only_plain_folders_of_the_user_are_edited(index, drinks, tmp_path):
    document = index.find("steep-tea")
    assert why_not_own(index, document, tmp_path) == ""
    index.add_roots(drinks, trust="project")
    assert "nobody vouches" in why_not_own(index, index.find("steep-tea"), tmp_path)


def test_a_skill_of_an_archive_and_a_link_out_of_the_root_are_refused(index, drinks, tmp_path):
    document = index.find("steep-tea")
    shutil.move(drinks / "steep-tea", tmp_path / "elsewhere")
    (drinks / "steep-tea").symlink_to(tmp_path / "elsewhere")
    assert "a link out of its root" in why_not_own(index, document, tmp_path)
    archive = shutil.make_archive(tmp_path / "tea", "zip", tmp_path, "elsewhere")
    index = SkillIndex.from_roots(archive, index_dir=tmp_path / "other", model="hashing")
    assert f"came from {archive}" in why_not_own(index, index.find("steep-tea"), tmp_path)


def test_a_file_is_replaced_with_its_mode_and_not_if_it_has_changed(drinks):
    path = drinks / "steep-tea" / "SKILL.md"
    before = path.read_bytes()
    path.chmod(0o640)
    replace_skill_md(path, before, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)
    with pytest.raises(SkillError, match="was changed meanwhile"):
        replace_skill_md(path, before, b"newer")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_an_interrupted_write_loses_nothing(drinks, monkeypatch, step):
    path = drinks / "steep-tea" / "SKILL.md"
    before = path.read_bytes()

    def fail(*_, **__):
        raise KeyboardInterrupt

    if step == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        monkeypatch.setattr(atomic_files.os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        replace_skill_md(path, before, b"new")
    assert path.read_bytes() == before
    assert [*path.parent.iterdir()] == [path]


def test_a_full_disk_is_told_and_the_file_stays(drinks, monkeypatch):
    path = drinks / "steep-tea" / "SKILL.md"
    before = path.read_bytes()

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(StorageError, match="No space left on device"):
        replace_skill_md(path, before, b"new")
    assert path.read_bytes() == before
