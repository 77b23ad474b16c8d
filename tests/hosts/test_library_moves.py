"""Tests of skills that are moved out of the folders of hosts: whatever ends it, nothing is lost."""

import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import skillsearch
from skillsearch.errors import SkillError, StorageError
from skillsearch.hosts import library_moves as moved
from skillsearch.hosts.library_moves import move_away, move_back, open_journal
from skillsearch.hosts.table import library_folder

KILLER = """
import errno, os, signal, sys
from pathlib import Path
import skillsearch.hosts.library_moves as moved

action, folder, is_other_disk = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
count = 0

def dying(name):
    real = getattr(os, name)

    def call(*args, **options):
        global count
        if name == "rename" and is_other_disk == "1" and not str(args[0]).startswith(".", 0):
            here = "/library/" in str(args[0]), "/library/" in str(args[1])
            if here[0] != here[1]:
                raise OSError(errno.EXDEV, "other disk")
        for _ in range(2):
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            if _ == 0:
                result = real(*args, **options)
        return result

    setattr(os, name, call)

for line in sys.stdin:
    step, child = int(line), os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    for name in ("rename", "fsync", "unlink", "rmdir", "mkdir", "symlink", "truncate"):
        dying(name)
    with moved.open_journal() as journal:
        if action == "move":
            moved.move_away(journal, folder, folder.name)
        else:
            moved.move_back(journal, journal.away()[0])
    os._exit(min(count, 255))
"""
"""A program that does something once for each line, in a process that kills itself at the step that
the line says; one that lives exits with the number of its steps."""


def contents(folder):
    """Return all that is in a folder: modes, times of files, texts of links, bytes."""
    folder, entries = folder.resolve(), {}
    for path in sorted((folder, *folder.rglob("*"))):
        status = path.lstat()
        data = str(path.readlink()) if path.is_symlink() else b""
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes(), status.st_mtime_ns
        entries[str(path.relative_to(folder))] = status.st_mode, data
    return entries


@pytest.fixture
def killer():
    """Start what runs an action in a process that kills itself at a step.

    It returns None for a process that was killed, and else how many steps it made.
    """
    started = []

    def start(action, folder, *, is_other_disk):
        ours = {**os.environ, "PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
        command = [sys.executable, "-c", KILLER, action, str(folder), str(int(is_other_disk))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, env=ours, text=True, bufsize=1, **pipes)
        started.append(process)

        def run(step):
            process.stdin.write(f"{step}\n")
            code = int(process.stdout.readline())
            assert code == -signal.SIGKILL or code > 1
            return None if code < 0 else code

        return run

    yield start
    for process in started:
        process.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("is_other_disk", [False, True], ids=["rename", "copy"])
@pytest.mark.parametrize("is_link", [False, True], ids=["folder", "link"])
@pytest.mark.parametrize("action", ["move", "restore"])
def test_a_kill_at_any_step_loses_nothing(folder, tmp_path, killer, action, is_link, is_other_disk):
    killed_at = killer(action, folder, is_other_disk=is_other_disk)
    if is_link:
        real = tmp_path / "real" / "tea"
        shutil.copytree(folder, real, symlinks=True)
        shutil.rmtree(folder)
        folder.symlink_to(os.path.relpath(real, folder.parent))
    before = contents(folder)
    text = folder.readlink() if is_link else None
    step, steps = 1, None
    while steps is None:
        with open_journal() as journal:
            if action == "restore" and folder.exists():
                move_away(journal, folder, "tea")
            elif action == "move" and not os.path.lexists(folder):
                move_back(journal, journal.away()[0])
        steps = killed_at(step)
        copies = [path for path in (folder, *library_folder().glob("tea*")) if path.exists()]
        assert any(contents(path) == before for path in copies), step
        with open_journal() as journal:
            away = journal.away()
        copies = [
            path for path in (folder, *library_folder().glob("[!.]*")) if os.path.lexists(path)
        ]
        assert len(copies) == 1
        assert contents(copies[0]) == before
        assert bool(away) == (copies[0] != folder)
        assert not list(folder.parent.glob(".*"))
        assert not list(library_folder().glob(".*"))
        step += 1
    assert steps > 10
    with open_journal() as journal:
        for move in journal.away():
            move_back(journal, move)
    assert contents(folder) == before
    assert (folder.readlink() if is_link else None) == text


def test_a_skill_goes_and_comes_back_as_it_was(make_tea):
    first = make_tea()
    before = contents(first)
    with open_journal() as journal:
        first_move = move_away(journal, first, "tea")
        second = make_tea()
        second_move = move_away(journal, second, "tea")
        assert [move.number for move in journal.away()] == [1, 2]
        assert first_move.target != second_move.target
    with open_journal() as journal:
        move_back(journal, journal.away()[1])
        with pytest.raises(SkillError, match="Something lies at"):
            move_back(journal, journal.away()[0])
        assert contents(Path(first_move.target)) == before
        with pytest.raises(SkillError, match="is not there any more"):
            move_away(journal, first.with_name("nothing"), "nothing")


@pytest.fixture
def other_disk(monkeypatch):
    real = os.rename

    def rename(old, new):
        if ("/library/" in str(old)) != ("/library/" in str(new)):
            raise OSError(18, "Invalid cross-device link")
        real(old, new)

    monkeypatch.setattr(moved.os, "rename", rename)


@pytest.fixture
def no_root(monkeypatch):
    """Have modes of folders and files count for us, as for a user who is not root."""

    def checked(name):
        real = getattr(os, name)

        def call(path, *args, dir_fd=None, **options):
            status = Path(path).parent.stat() if dir_fd is None else os.fstat(dir_fd)
            if not status.st_mode & stat.S_IWUSR:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *args, dir_fd=dir_fd, **options)

        monkeypatch.setattr(os, name, call)

    def access(path, mode):
        need = stat.S_IWUSR * bool(mode & os.W_OK) | stat.S_IRUSR * bool(mode & os.R_OK)
        return Path(path).stat().st_mode & need == need

    for name in ("unlink", "rmdir"):
        checked(name)
    monkeypatch.setattr(os, "access", access)


def test_another_disk_is_copied_to_and_compared(folder, other_disk, monkeypatch):
    before = contents(folder)
    with open_journal() as journal:
        move = move_away(journal, folder, "tea")
        assert contents(Path(move.target)) == before
        move_back(journal, move)
    assert contents(folder) == before
    copy = shutil.copytree

    def edited(source, *args, **options):
        copy(source, *args, **options)
        if Path(source) == folder:  # it is called for the folders within, too
            (folder / "SKILL.md").write_text("edited meanwhile")

    monkeypatch.setattr(shutil, "copytree", edited)
    with open_journal() as journal:
        with pytest.raises(StorageError, match="changed while it was copied"):
            move_away(journal, folder, "tea")
        assert journal.away() == []
    assert contents(folder).keys() == before.keys()
    assert (folder / "SKILL.md").read_text() == "edited meanwhile"
    assert list(library_folder().iterdir()) == []


def test_read_only_folders_go_to_another_disk_and_back(folder, other_disk, no_root):
    (folder / "scripts").chmod(0o555)
    folder.chmod(0o555)
    before = contents(folder)
    with open_journal() as journal:
        move = move_away(journal, folder, "tea")
    assert list(folder.parent.iterdir()) == []
    with open_journal() as journal:
        move_back(journal, move)
    assert contents(folder) == before
    assert list(library_folder().iterdir()) == []


@pytest.mark.parametrize("fault", ["pipe", "socket", "file", "folder", "parent"])
def test_what_cannot_be_moved_is_named_and_all_stays(
    folder, other_disk, no_root, fault, monkeypatch
):
    path = folder / "scripts" / "fault"
    if fault == "pipe":
        os.mkfifo(path)
    elif fault == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            monkeypatch.chdir(path.parent)  # The address of a socket may not be long.
            server.bind(path.name)
    elif fault == "parent":
        path = folder.parent
        path.chmod(0o555)
    else:
        path.mkdir() if fault == "folder" else path.touch()
        path.chmod(0)
    with open_journal() as journal:
        with pytest.raises(StorageError, match=rf"tea stays in {folder}: {path}: \w+"):
            move_away(journal, folder, "tea")
        assert journal.away() == []
    assert path.exists()
    assert list(library_folder().iterdir()) == []
    with open_journal() as journal:
        assert [move.state for move in journal.moves.values()] == ["restored"]
    path.chmod(0o755)


@pytest.mark.parametrize("step", range(1, 9))
def test_a_step_that_fails_leaves_it_where_the_journal_says(folder, other_disk, monkeypatch, step):
    count = 0
    before, journal_folder = contents(folder), library_folder().parent

    def sync(handle):
        nonlocal count
        path = Path(f"/proc/self/fd/{handle}").readlink()
        is_journal = path == journal_folder or (path.parent == journal_folder and path.is_file())
        count += not is_journal
        if count == step and not is_journal:
            raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr(os, "fsync", sync)
    with open_journal() as journal:
        with suppress(StorageError):
            move_away(journal, folder, "tea")
        remaining = Path(journal.away()[0].target) if journal.away() else folder
    assert contents(remaining) == before
    assert [path for path in (folder, library_folder() / "tea") if path.exists()] == [remaining]


def test_what_a_move_leaves_for_good_hinders_no_command(folder, other_disk, monkeypatch, caplog):

    def fail(path):
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(moved.shutil, "rmtree", fail)
    with open_journal() as journal:
        move_away(journal, folder, "tea")
    assert f"{folder.with_name('.leaving-1')}: Operation not permitted. Delete it." in caplog.text
    with open_journal() as journal:
        assert [move.name for move in journal.away()] == ["tea"]


def test_a_move_that_cannot_be_finished_hinders_no_other(folder, make_skill, monkeypatch, caplog):
    with open_journal() as journal:
        move = move_away(journal, folder, "tea")
        shutil.copytree(move.target, folder, symlinks=True)
        journal.note(moved.Move(**{**move.to_dict(), "state": "moving"}))
    rename = os.rename

    def fail(old, new):
        if Path(old) == folder:
            raise OSError(5, "Input/output error", str(old))
        rename(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        with open_journal() as journal:
            move_away(journal, make_skill(folder.parent, "milk").parent, "milk")
    assert f"tea is in the middle of a move: {folder}: Input/output error" in caplog.text
    with open_journal() as journal:
        assert [move.name for move in journal.away()] == ["tea", "milk"]
    assert not folder.exists()


def test_what_was_changed_in_between_stays_in_both_places(folder):
    with open_journal() as journal:
        move = move_away(journal, folder, "tea")
        shutil.copytree(move.target, folder, symlinks=True)
        (folder / "new.md").write_text("new")
        journal.note(moved.Move(**{**move.to_dict(), "state": "moving"}))
    with open_journal() as journal:
        assert journal.away() == []
    assert (folder / "new.md").exists()
    (copy,) = library_folder().iterdir()
    assert (copy / "SKILL.md").exists()


def test_a_disk_that_fills_up_in_a_line_tears_no_later_one(folder):
    """What is noted next, such as that nothing was moved, was written behind the torn line."""
    with open_journal() as journal:
        move = move_away(journal, folder, "tea")
        size = (library_folder().with_name("journal.jsonl")).stat().st_size
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))
        try:
            with pytest.raises(OSError, match=r"File too large.*journal\.jsonl"):
                journal.note(replace(move, state="restoring"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        journal.note(replace(move, name="green tea"))
    with open_journal() as journal:
        assert [move.name for move in journal.away()] == ["green tea"]


def test_a_torn_line_is_no_damage_and_another_is_told(folder):
    """The last one was being written when the process ended."""
    with open_journal() as journal:
        move_away(journal, folder, "tea")
    path = library_folder().with_name("journal.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"number": 2, "na')
    with open_journal() as journal:
        assert len(journal.away()) == 1
    assert path.read_bytes() == whole
    path.write_bytes(b"garbage\n" + whole)
    with pytest.raises(StorageError, match=r"Line 1 of .* cannot be read"), open_journal():
        pass
    assert path.read_bytes() == b"garbage\n" + whole
