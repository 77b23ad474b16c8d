"""Tests of staging a skill: a copy that is as hashed, read-only, and made anew only when needed."""

import hashlib
import itertools
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import WorkspaceError
from skillsearch.execution.workspaces import staging
from skillsearch.execution.workspaces.files import COPY_LIMITS, Budget, CopyLimits
from skillsearch.execution.workspaces.staging import (
    digest_tree,
    folder_name,
    list_tree,
    stage_skill,
)
from skillsearch.files.openat import open_folder, using

ANY_TEXT = st.text(st.characters(exclude_categories=()))
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
FILES = {
    "SKILL.md": b"---\nname: tea\n---\n",
    "a.txt": b"a",
    "a/b.txt": b"b\0b",
    "scripts/brew.sh": b"#!/bin/sh\necho tea\n",
}

SMALL = 4096
"""Bytes that are read of what is not copied, at most."""


@pytest.fixture
def skill(tmp_path):
    folder = tmp_path / "skill"
    write(folder, FILES)
    (folder / "scripts" / "brew.sh").chmod(0o755)
    return folder


@pytest.fixture
def reads(monkeypatch):
    seen = []
    read = os.read

    def counted(fd, size):
        if size > SMALL:
            seen.append(fd)
        return read(fd, size)

    monkeypatch.setattr(os, "read", counted)
    return seen


def stage_settled(workspace, name, skill):
    with patch.object(staging, "RACY_NS", -(1 << 62)):
        return stage_skill(workspace, name, skill)


def folder_digest(folder):
    with using(open_folder(folder)) as fd:
        return digest_tree(fd, list_tree(fd, Budget()), Budget())


def write(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def hashed(files):
    text = b"".join(
        name.encode() + b"\0" + data + b"\0"
        for name, data in sorted((name, data) for name, data in files.items())
    )
    return hashlib.sha256(text).hexdigest()


def contents(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_the_digest_does_not_depend_on_times_or_on_the_order_of_writing(skill, tmp_path):
    other = tmp_path / "other"
    write(other, dict(reversed(FILES.items())))
    os.utime(other / "a.txt", (1, 1))
    (other / "empty").mkdir()
    assert folder_digest(other) == folder_digest(skill) == hashed(FILES)


@pytest.mark.parametrize(
    "change",
    [
        lambda skill: (skill / "a.txt").write_bytes(b"A"),
        lambda skill: (skill / "a.txt").rename(skill / "c.txt"),
        lambda skill: (skill / "a" / "new").touch(),
    ],
)
def test_any_change_of_the_files_changes_the_digest(skill, change):
    change(skill)
    assert folder_digest(skill) != hashed(FILES)


def test_a_staged_skill_is_a_copy_that_is_read_only_with_scripts_to_run(workspace, skill):
    (skill / "empty").mkdir()
    (skill / "a.txt").chmod(0o600)
    (skill / "scripts" / "brew.sh").chmod(0o6755)
    (skill / "a" / "b.txt").chmod(0o666)
    staged = stage_skill(workspace, "tea", skill)
    path = staged.path
    assert contents(path) == FILES
    assert staged.digest == hashed(FILES) == folder_digest(path)
    assert (path, staged.rel_path) == (workspace.skills / "tea", "skills/tea")
    assert (staged.is_new, staged.notes) == (True, ())
    assert [folder.name for folder in workspace.skills.iterdir()] == ["tea"]
    modes = {
        str(inner.relative_to(path)): inner.lstat().st_mode & 0o7777
        for inner in path.rglob("*")
        if not inner.is_symlink()
    }
    assert modes == {
        "SKILL.md": 0o444,
        "a": 0o555,
        "a.txt": 0o444,
        "a/b.txt": 0o444,
        "empty": 0o555,
        "scripts": 0o555,
        "scripts/brew.sh": 0o555,
    }
    assert path.stat().st_mode & 0o7777 == 0o555


def test_links_lead_to_the_folders_of_the_workspace(workspace, skill):
    path = stage_skill(workspace, "tea", skill).path
    assert {name: str((path / name).readlink()) for name in ("out", "work", "inputs")} == {
        "out": "../../out",
        "work": "../../work",
        "inputs": "../../work/inputs",
    }
    (path / "out" / "tea.txt").touch()
    (path / "inputs" / "leaf.txt").touch()
    assert (workspace.out / "tea.txt").exists()
    assert (workspace.work / "inputs" / "leaf.txt").exists()


def test_links_take_the_place_of_what_the_skill_calls_so(workspace, skill):
    write(skill, {"out/old.txt": b"old", "work": b"file", "a/out/kept.txt": b"kept"})
    (skill / "inputs").symlink_to("a")
    staged = stage_skill(workspace, "tea", skill)
    files = {**FILES, "a/out/kept.txt": b"kept"}
    assert contents(staged.path) == files
    assert staged.digest == hashed(files) == folder_digest(skill)
    assert staged.notes == tuple(
        f"'{name}' gives way to a folder of the workspace." for name in ("inputs", "out", "work")
    )


@pytest.mark.timeout(120)
def test_what_is_no_plain_file_is_left_out(workspace, skill, tmp_path, monkeypatch):
    write(tmp_path, {"secret/id.txt": b"secret"})
    (skill / "l1").symlink_to(tmp_path / "secret" / "id.txt")
    (skill / "l2").symlink_to(tmp_path / "secret")
    (skill / "a" / "l3").symlink_to("b.txt")
    (skill / "l4").symlink_to("l4")
    os.mkfifo(skill / "fifo")
    monkeypatch.chdir(skill)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        staged = stage_skill(workspace, "tea", skill)
    assert contents(staged.path) == FILES
    assert staged.notes == (
        "'a/l3' was left out: it is a link.",
        "'fifo' was left out: it is not a plain file.",
        "'l1' was left out: it is a link.",
        "'l2' was left out: it is a link.",
        "'l4' was left out: it is a link.",
        "'socket' was left out: it is not a plain file.",
    )


def test_of_many_notes_some_are_kept(workspace, skill):
    for number in range(30):
        (skill / f"link{number}").symlink_to("a.txt")
    notes = stage_skill(workspace, "tea", skill).notes
    assert len(notes) == 21
    assert notes[-1] == "and 10 more"


@NEEDS_ROOT
def test_a_hard_link_to_the_file_of_another_user_is_left_out(workspace, skill, tmp_path):
    """Somebody may have put it there to have it read."""
    (tmp_path / "foreign").write_bytes(b"secret")
    os.chown(tmp_path / "foreign", 65534, 65534)
    os.link(tmp_path / "foreign", skill / "foreign")
    os.link(skill / "a.txt", skill / "own.txt")
    staged = stage_skill(workspace, "tea", skill)
    assert contents(staged.path) == {**FILES, "own.txt": b"a"}
    assert staged.notes == (
        "'foreign' was left out: it is a hard link to the file of another user.",
    )


def test_version_control_is_left_out_and_odd_names_are_copied(workspace, skill):
    """It may hold secrets, and does not belong to the skill."""
    more = {".gitignore": b"kept", os.fsdecode(b"\xff\n"): b"x"}
    write(skill, {".git/config": b"token", "a/.svn/entries": b"x", **more})
    assert contents(stage_skill(workspace, "tea", skill).path) == {**FILES, **more}


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("entries", 6, "more than 5 files and folders"),
        ("depth", 1, "more than 0 folders deep"),
        ("file_bytes", 19, "larger than 18 bytes; split it up"),
        ("total_bytes", 41, "are larger than 40 bytes together"),
    ],
)
def test_a_skill_that_is_too_large_is_refused(workspace, skill, limit, value, message):
    with pytest.raises(WorkspaceError, match=message):
        stage_skill(workspace, "tea", skill, limits=CopyLimits(**{limit: value - 1}))
    assert list(workspace.skills.iterdir()) == []
    assert stage_skill(workspace, "tea", skill, limits=CopyLimits(**{limit: value})).is_new


@pytest.mark.timeout(120)
def test_a_huge_file_is_refused_before_it_is_read(workspace, skill, tmp_path):
    with pytest.raises(WorkspaceError, match=r"'tea' cannot be copied from .*: No such file"):
        stage_skill(workspace, "tea", tmp_path / "missing")
    with (skill / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(WorkspaceError, match="'huge' is larger than 67,108,864 bytes"):
        stage_skill(workspace, "tea", skill)


def test_an_unchanged_skill_is_not_read_again_and_one_that_was_touched_not_copied(
    workspace, skill, reads
):
    first = stage_settled(workspace, "tea", skill)
    assert reads
    reads.clear()
    second = stage_settled(workspace, "tea", skill)
    assert (first.is_new, second.is_new) == (True, False)
    assert (second.path, second.digest, second.notes) == (first.path, first.digest, first.notes)
    assert not reads
    os.utime(skill / "a.txt", (1, 1))
    assert not stage_skill(workspace, "tea", skill).is_new


def test_what_changed_just_now_is_read_again(workspace, skill, reads, monkeypatch):
    """A change in the same tick of the clock would not show."""
    monkeypatch.setattr(staging, "RACY_NS", 1 << 62)
    stage_skill(workspace, "tea", skill)
    reads.clear()
    assert not stage_skill(workspace, "tea", skill).is_new
    assert reads


def test_what_is_newer_than_the_clock_is_read_again(workspace, skill, reads, monkeypatch):
    """The clock was set back, so that a change may get the same time as before."""
    monkeypatch.setattr(staging, "RACY_NS", 0)
    staged = stage_skill(workspace, "tea", skill)
    reads.clear()
    assert not stage_skill(workspace, "tea", skill).is_new
    assert not reads
    last = workspace.staged["tea"]
    later = replace(last.source, newest_ns=last.source.seen_ns + (1 << 60))
    workspace.staged["tea"] = last._replace(source=later)
    again = stage_skill(workspace, "tea", skill)
    assert (again.is_new, again.digest) == (False, staged.digest)
    assert reads


@pytest.mark.parametrize(
    "change",
    [
        lambda skill: (skill / "a.txt").write_bytes(b"A"),
        lambda skill: rewrite(skill),
        lambda skill: (skill / "new.txt").touch(),
        lambda skill: (skill / "a.txt").chmod(0o755),
    ],
)
def test_a_changed_skill_is_copied_again(workspace, skill, change):
    stage_settled(workspace, "tea", skill)
    change(skill)
    staged = stage_settled(workspace, "tea", skill)
    assert staged.is_new
    assert contents(staged.path) == contents(skill)
    for name in contents(skill):
        assert bool((staged.path / name).stat().st_mode & 0o100) == bool(
            (skill / name).stat().st_mode & 0o100
        )


def unlock(path):
    """Do what a command can that owns a copy: make it writable again."""
    path.chmod(0o755)
    return path


def rewrite(path):
    """Change a file of a copy, and hide it: same size, time and permissions."""
    status = (path / "a.txt").stat()
    (path / "a.txt").chmod(0o644)
    (path / "a.txt").write_bytes(b"X")
    (path / "a.txt").chmod(0o444)
    os.utime(path / "a.txt", ns=(status.st_atime_ns, status.st_mtime_ns))


def relink(path):
    unlock(path)
    (path / "out").unlink()
    (path / "out").symlink_to("../../etc")
    path.chmod(0o555)


def add_many(path):
    unlock(path)
    for number in range(COPY_LIMITS.entries + 1):
        (path / f"f{number}").touch()


def deepen(path):
    unlock(path)
    fd = os.open(path, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("x" * 100, dir_fd=fd)
        inner = os.open("x" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


@pytest.mark.parametrize(
    "damage",
    [
        rewrite,
        relink,
        add_many,
        deepen,
        lambda path: (unlock(path) / "a.txt").chmod(0o666),
        lambda path: (unlock(path / "a") / "new.txt").touch(),
        lambda path: path.rename(path.parent / "away"),
        lambda path: (path.rename(path.parent / "away"), path.symlink_to("away")),
        lambda path: (path.rename(path.parent / "away"), os.mkfifo(path)),
    ],
)
def test_a_copy_that_a_command_changed_is_made_anew(workspace, skill, damage):
    path = stage_settled(workspace, "tea", skill).path
    damage(path)
    staged = stage_settled(workspace, "tea", skill)
    assert staged.is_new
    assert staged.path == path
    assert not path.is_symlink()
    assert contents(path) == FILES
    assert str((path / "out").readlink()) == "../../out"
    assert path.stat().st_mode & 0o777 == 0o555


def test_a_link_in_the_place_of_the_skills_folder_leads_nowhere(workspace, skill, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    workspace.skills.rmdir()
    workspace.skills.symlink_to(outside)
    with pytest.raises(WorkspaceError, match="cannot be copied"):
        stage_skill(workspace, "tea", skill)
    workspace.restore()
    assert stage_skill(workspace, "tea", skill).is_new
    assert list(outside.iterdir()) == []


def test_another_skill_of_the_same_name_takes_the_place(workspace, skill, tmp_path):
    write(tmp_path / "other", {"SKILL.md": b"other"})
    stage_skill(workspace, "tea", skill)
    staged = stage_skill(workspace, "tea", tmp_path / "other")
    assert staged.is_new
    assert contents(staged.path) == {"SKILL.md": b"other"}


def test_threads_may_stage_the_same_skill_at_once(workspace, skill):
    start = threading.Barrier(6)

    def stage(_):
        start.wait(timeout=120)
        return stage_skill(workspace, "tea", skill)

    with ThreadPoolExecutor(6) as pool:
        staged = list(pool.map(stage, range(6)))
    assert sorted(copy.is_new for copy in staged) == [False] * 5 + [True]
    assert contents(staged[0].path) == FILES


@pytest.mark.slow
def test_a_file_that_is_swapped_during_the_copy_never_brings_in_another(
    workspace, skill, tmp_path, repeating, swap_for_link
):
    write(tmp_path, {"secret": b"secret"})
    numbers = itertools.count(1)

    def swap():
        (skill / "new").write_bytes(b"%d" % next(numbers))
        (skill / "new").replace(skill / "a.txt")
        (skill / "link").symlink_to(tmp_path / "secret")
        (skill / "link").replace(skill / "a.txt")
        swap_for_link(skill / "a", tmp_path, skill / "away")

    seen = set()
    with repeating(swap):
        for _ in range(300):
            staged = stage_skill(workspace, "tea", skill)
            copied = contents(staged.path)
            assert staged.digest == hashed(copied)
            assert b"secret" not in copied.values()
            seen.add(staged.digest)
    assert len(seen) > 1


@pytest.mark.parametrize("name", ["My Skill", "周报", "a.b", "x" * 100])
def test_a_name_that_a_folder_can_have_stays(workspace, skill, name):
    staged = stage_skill(workspace, name, skill)
    assert staged.path == workspace.skills / name
    assert contents(staged.path) == FILES


@pytest.mark.parametrize("name", ["", "..", "../../x", "a\0b", ".staging", "x" * 101, "\ud800"])
def test_a_name_that_no_folder_should_have_becomes_another(workspace, skill, name):
    staged = stage_skill(workspace, name, skill)
    assert staged.path.parent == workspace.skills
    assert staged.path.name != name
    assert [path.name for path in workspace.skills.iterdir()] == [staged.path.name]
    assert not stage_skill(workspace, name, skill).is_new


@given(ANY_TEXT, ANY_TEXT)
def test_different_names_become_different_names_of_folders(name, other):
    folder = folder_name(name)
    assert 0 < len(folder.encode()) <= 100
    assert not set("/\\\0\n") & set(folder)
    assert not folder.startswith(".")
    assert (folder_name(name) == folder_name(other)) == (name == other)
