"""A SKILL.md is replaced whole or not at all, and only where it is the user's own."""

import errno
import shutil
from pathlib import Path

import pytest

from skillsearch.errors import SkillError, StorageError
from skillsearch.files import atomic_files
from skillsearch.index.skill_index import SkillIndex
from skillsearch.reports.own_files import replace_skill_md, why_not_own

NO_SPACE = "No space left on device"


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


@pytest.fixture
def tea_file(drinks):
    return drinks / "steep-tea" / "SKILL.md"


def test_a_file_is_replaced_with_its_mode_and_not_if_it_has_changed(tea_file):
    before = tea_file.read_bytes()
    tea_file.chmod(0o640)
    replace_skill_md(tea_file, before, b"new")
    assert (tea_file.read_bytes(), tea_file.stat().st_mode & 0o777) == (b"new", 0o640)
    with pytest.raises(SkillError, match="was changed meanwhile"):
        replace_skill_md(tea_file, before, b"newer")
    assert tea_file.read_bytes() == b"new"


@pytest.mark.parametrize(
    ("owner", "step", "fault", "error", "message"),
    [
        (Path, "replace", KeyboardInterrupt(), KeyboardInterrupt, None),
        (atomic_files.os, "fsync", KeyboardInterrupt(), KeyboardInterrupt, None),
        (Path, "replace", OSError(errno.ENOSPC, NO_SPACE), StorageError, NO_SPACE),
    ],
    ids=["interrupted before the rename", "interrupted before it is on disk", "disk full"],
)
def test_a_write_that_fails_loses_nothing(
    tea_file, monkeypatch, owner, step, fault, error, message
):
    def fail(*_, **__):
        raise fault

    before = tea_file.read_bytes()
    monkeypatch.setattr(owner, step, fail)
    with pytest.raises(error, match=message):
        replace_skill_md(tea_file, before, b"new")
    assert tea_file.read_bytes() == before
    assert [*tea_file.parent.iterdir()] == [tea_file]
