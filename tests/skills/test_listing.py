"""Tests of the list of a skill's files."""

import os
from pathlib import Path

import pytest

from skillsearch.errors import SkillError
from skillsearch.skills.resources import list_files


def test_files_are_listed_sorted_and_without_skill_md(skill_dir):
    (skill_dir / "out.txt").symlink_to("../../secret.txt")
    (skill_dir / "up").symlink_to("..")
    os.mkfifo(skill_dir / "fifo")
    for folder in (".git", "node_modules", "scripts/__pycache__"):
        (skill_dir / folder).mkdir()
        (skill_dir / folder / "x").write_text("x", encoding="utf-8")
    assert list_files(skill_dir) == (("references/guide.md", "scripts/brew.sh"), False)


def test_listing_stops_at_its_limit(skill_dir):
    assert list_files(skill_dir, limit=1) == (("references/guide.md",), True)
    assert list_files(skill_dir, limit=2)[1] is False
    assert list_files(skill_dir, limit=0) == ((), True)


def test_endless_and_deep_folders_are_cut(skill_dir):
    deep = skill_dir
    for _ in range(40):
        deep = deep / "d"
        deep.mkdir()
    (deep / "x").write_text("x", encoding="utf-8")
    assert list_files(skill_dir) == (("references/guide.md", "scripts/brew.sh"), True)
    files, is_truncated = list_files(skill_dir, max_entries=2)
    assert len(files) <= 2
    assert is_truncated


def test_folder_that_vanishes_while_listing_is_left_out(skill_dir, monkeypatch):
    real_open = os.open

    def fail_inside(path, flags, **options):
        if path == "scripts":
            raise FileNotFoundError(2, "gone")
        return real_open(path, flags, **options)

    monkeypatch.setattr(os, "open", fail_inside)
    assert list_files(skill_dir) == (("references/guide.md",), True)


def test_folder_that_fails_while_it_is_read_is_a_skill_error(skill_dir, monkeypatch):
    def fail(fd):
        raise OSError(5, "Input/output error")

    with pytest.raises(SkillError, match="cannot be read"):
        list_files(skill_dir / "gone")
    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(SkillError, match="Input/output"):
        list_files(skill_dir)


def test_names_that_are_not_utf8_are_left_out(skill_dir):
    Path(os.fsdecode(os.fsencode(skill_dir) + b"/caf\xe9.md")).touch()
    assert list_files(skill_dir) == (("references/guide.md", "scripts/brew.sh"), True)
