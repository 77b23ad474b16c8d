"""Tests of skills that are moved out of the folders of hosts: whatever ends it, nothing is lost."""

import json
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
from skillsearch.hosts.entries import HOSTS
from skillsearch.hosts.files import host_file
from skillsearch.hosts.library_moves import move_away, move_back, open_journal
from skillsearch.hosts.table import library_folder
from skillsearch.index.skill_index import SkillIndex

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


def make(home, make_skill, name="tea"):
    folder = make_skill(home / ".claude" / "skills", name, "Brew tea in a pot.").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "pour.sh").write_text("#!/bin/sh\necho tea\n")
    (folder / "scripts" / "pour.sh").chmod(0o755)
    (folder / "empty").mkdir(mode=0o700)
    (folder / "link").symlink_to("scripts/pour.sh")
    os.utime(folder / "SKILL.md", (1e9, 1e9))
    return folder


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
def test_a_kill_at_any_step_loses_nothing(
    home, make_skill, tmp_path, killer, action, is_link, is_other_disk
):
    folder = make(home, make_skill)
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


def test_a_skill_goes_and_comes_back_as_it_was(home, make_skill):
    first = make(home, make_skill)
    before = contents(first)
    with open_journal() as journal:
        first_move = move_away(journal, first, "tea")
        second = make(home, make_skill)
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


def test_another_disk_is_copied_to_and_compared(home, make_skill, other_disk, monkeypatch):
    folder = make(home, make_skill)
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


def test_read_only_folders_go_to_another_disk_and_back(home, make_skill, other_disk, no_root):
    folder = make(home, make_skill)
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
    home, make_skill, other_disk, no_root, fault, monkeypatch
):
    folder = make(home, make_skill)
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
def test_a_step_that_fails_leaves_it_where_the_journal_says(
    home, make_skill, other_disk, monkeypatch, step
):
    folder, count = make(home, make_skill), 0
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


def test_what_a_move_leaves_for_good_hinders_no_command(
    home, make_skill, other_disk, monkeypatch, caplog
):
    folder = make(home, make_skill)

    def fail(path):
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(moved.shutil, "rmtree", fail)
    with open_journal() as journal:
        move_away(journal, folder, "tea")
    assert f"{folder.with_name('.leaving-1')}: Operation not permitted. Delete it." in caplog.text
    with open_journal() as journal:
        assert [move.name for move in journal.away()] == ["tea"]


def test_a_move_that_cannot_be_finished_hinders_no_other(home, make_skill, monkeypatch, caplog):
    folder = make(home, make_skill)
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


def test_what_was_changed_in_between_stays_in_both_places(home, make_skill):
    folder = make(home, make_skill)
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


def test_a_disk_that_fills_up_in_a_line_tears_no_later_one(home, make_skill):
    """What is noted next, such as that nothing was moved, was written behind the torn line."""
    folder = make(home, make_skill)
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


def test_a_torn_line_is_no_damage_and_another_is_told(home, make_skill):
    """The last one was being written when the process ended."""
    folder = make(home, make_skill)
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


# The command.


@pytest.fixture
def tea(home, make_skill, monkeypatch, cli):
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    folder = make(home, make_skill)
    make_skill(home / ".claude" / "skills", "coffee", "Brew coffee with a scale.")
    assert cli("index").exit_code == 0
    return folder


def names_found():
    return sorted(document.name for document in SkillIndex.open().documents())


def test_what_is_moved_is_listed_by_no_host_and_found_by_search(cli, tea):
    unconfirmed = cli("library", "move", "tea")
    assert (unconfirmed.exit_code, tea.exists()) == (1, True)
    done = cli("library", "move", "tea", "--yes")
    assert done.exit_code == 0
    assert "Claude Code: 2 → 1 of your skills listed; all 2 are found" in done.stderr
    assert not tea.exists()
    assert names_found() == ["coffee", "tea"]
    assert (
        json.loads(cli("query", "brew tea in a pot", "--json").stdout)["hits"][0]["name"] == "tea"
    )
    budget = cli("budget", "--json")
    assert json.loads(budget.stdout)["skills"] == 1
    assert "1 skill of your library: found by search, listed by no host" in budget.stderr
    assert "tea" in cli("library", "list").stdout
    assert cli("library", "move", "tea", "--yes").exit_code == 1
    assert cli("library", "move", "coffee", "brewing", "--yes").exit_code == 1  # all or nothing
    assert cli("library", "restore", "milk", "--yes").exit_code == 1
    assert cli("library", "restore", "--all", "--yes").exit_code == 0
    assert tea.exists()
    assert names_found() == ["coffee", "tea"]
    assert "No skill has been moved" in cli("library", "list").stderr


@pytest.mark.parametrize("form", ["itself", "link", "inner", "library"])
def test_what_holds_a_folder_of_hosts_stays(cli, tea, home, make_skill, monkeypatch, form):
    top = skills = tea.parent
    if form == "link":
        skills.rename(home / "skills")
        skills.symlink_to(home / "skills")
    elif form in ("inner", "library"):
        top = skills / "all"
        monkeypatch.setenv("CODEX_HOME", str(top))
        if form == "library":
            monkeypatch.setenv("XDG_DATA_HOME", str(top))
        else:
            skills = top / "skills"
            make_skill(skills, "milk", "Foam milk.")
    make_skill(top.parent, top.name, "All of it.").rename(top / "SKILL.md")
    result = cli("library", "move", top.name, "tea", "--yes")
    assert result.exit_code == 1
    where = library_folder().resolve() if form == "library" else skills.resolve()
    assert f"{where}, " in result.stderr
    assert f"would be moved with {top.name}, and all in it" in result.stderr
    assert tea.exists()


def test_what_lies_within_a_skill_goes_along_once(cli, tea, make_skill):
    make_skill(tea, "milk", "Foam milk for it.")
    unconfirmed = cli("library", "move", "tea")
    assert "With tea go the skills within it: milk" in unconfirmed.stderr
    done = cli("library", "move", "milk", "tea", "milk", "tea", "--yes")
    assert done.exit_code == 0
    assert "Claude Code: 3 → 1 of your skills listed; all 3 are found" in done.stderr
    assert names_found() == ["coffee", "milk", "tea"]
    assert cli("library", "restore", "tea", "--yes").exit_code == 0
    assert cli("library", "move", "milk", "--yes").exit_code == 0
    assert cli("library", "move", "tea", "--yes").exit_code == 0
    alone = cli("library", "restore", "milk", "--yes")
    assert alone.exit_code == 1
    assert "milk lay within tea, which is away; restore tea first" in alone.stderr
    assert cli("library", "restore", "--all", "--yes").exit_code == 0
    assert (tea / "milk" / "SKILL.md").exists()


def test_one_that_cannot_be_moved_keeps_no_other_from_it(cli, tea, monkeypatch):
    real = os.rename

    def rename(old, new):
        if str(old) == str(tea):
            raise PermissionError(1, "Operation not permitted", str(old))
        real(old, new)

    monkeypatch.setattr(moved.os, "rename", rename)
    done = cli("library", "move", "tea", "coffee", "--yes")
    assert done.exit_code == 1
    assert f"not moved: tea stays in {tea}: {tea}: Operation not permitted." in done.stderr
    assert "Claude Code: 2 → 1 of your skills listed" in done.stderr
    assert json.loads(cli("query", "brew coffee", "--json").stdout)["hits"][0]["name"] == "coffee"


def test_hosts_see_skills_along_links(cli, tea, home, tmp_path, make_skill):
    """A link goes if what it leads to lies nowhere that hosts look."""
    codex = home / ".codex" / "skills"
    codex.mkdir(parents=True)
    (codex / "tea").symlink_to(tea)
    real = make_skill(tmp_path / "elsewhere", "milk", "Foam milk.").parent
    (codex / "milk").symlink_to(real)
    assert cli("index", real.parent).exit_code == 0
    done = cli("library", "move", "tea", "milk", "--yes")
    assert done.exit_code == 0
    assert f"milk: {codex / 'milk'}, listed no more by Codex" in done.stderr
    assert "Codex: 2 → 0 of your skills listed" in done.stderr
    assert real.exists()
    assert list(codex.iterdir()) == [codex / "tea"]
    assert cli("library", "restore", "--all", "--yes").exit_code == 0
    assert (codex / "milk").resolve() == real


def test_skills_of_projects_and_plugins_stay(cli, tea, make_skill, tmp_path, monkeypatch):
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    path = make_skill(project / ".claude" / "skills", "deploy", "Deploy the project.")
    monkeypatch.chdir(project)
    cli("query", "deploy")
    result = cli("library", "move", "deploy", "--yes")
    assert result.exit_code == 1
    assert "lies in no folder where hosts look for skills of yours" in result.stderr
    assert path.exists()


@pytest.mark.parametrize("host", ["claude-code", "opencode"])
def test_a_host_s_own_switch_is_written_and_taken_out(cli, tea, host):
    file = host_file(host, hook="hook" in HOSTS[host])
    file.parent.mkdir(parents=True, exist_ok=True)
    text = '{\n  // mine\n  "theme": "dark"\n}\n'
    file.write_text(text)
    assert cli("library", "move", "tea", "--switch", host, "--yes").exit_code == 0
    value = {"claude-code": '"skillOverrides"', "opencode": '"permission"'}[host]
    assert value in file.read_text()
    assert "// mine" in file.read_text()
    assert tea.exists()
    assert names_found() == ["coffee", "tea"]
    assert cli("library", "restore", "tea", "--yes").exit_code == 0
    assert file.read_text() == text


def test_what_a_host_was_told_before_is_told_again(cli, tea):
    file = host_file("claude-code", hook=True)
    file.parent.mkdir(exist_ok=True)
    text = '{"skillOverrides": {"tea": "name-only"}}'

    def write(text):
        file.write_text(text)
        return json.loads(text)

    for later in (None, '{"skillOverrides": {"tea": "on"}}', "{}"):
        said = write(text)
        assert cli("library", "move", "tea", "--switch", "claude-code", "--yes").exit_code == 0
        if later:
            said = write(later)
        assert cli("library", "restore", "tea", "--yes").exit_code == 0
        assert json.loads(file.read_text()) == said
    for broken in ("{", '{"skillOverrides": []}'):
        file.write_text(broken)
        failed = cli("library", "move", "tea", "--switch", "claude-code", "--yes")
        assert failed.exit_code == 2
        assert f"{file} " in failed.stderr
        assert "No skill has been moved" in cli("library", "list").stderr
    write("{}")
    for _ in range(2):  # its user took it out in between
        cli("library", "move", "tea", "--switch", "claude-code", "--yes")
        write("{}")
    assert len(json.loads(cli("library", "list", "--json").stdout)["moves"]) == 1


def test_a_switch_is_shown_before_the_yes_and_one_that_is_not_written_is_not_away(
    cli, tea, monkeypatch
):
    words = ("library", "move", "tea", "coffee", "--switch", "claude-code")
    unconfirmed = cli(*words)
    assert (unconfirmed.exit_code, unconfirmed.stderr.count('": "off"')) == (1, 2)
    assert unconfirmed.stderr.index('": "off"') < unconfirmed.stderr.index("Nothing was changed")

    replace = Path.replace

    def fail(path, target):
        if target.name == "settings.json":
            raise OSError(28, "No space left on device", target.name)
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        failed = cli(*words, "--yes")
    assert failed.exit_code == 1
    assert "settings.json cannot be written: No space left on device" in failed.stderr
    assert "No skill has been moved" in cli("library", "list").stderr
    assert cli(*words, "--yes").exit_code == 0
    assert cli("library", "list").stdout.count("claude-code") == 2


def test_what_is_gone_from_the_library_is_not_away_for_ever(cli, tea):
    cli("library", "move", "tea", "coffee", "--yes")
    shutil.rmtree(library_folder() / "tea")
    gone = cli("library", "restore", "--all", "--yes")
    assert gone.exit_code == 1
    assert (
        f"not restored: {library_folder() / 'tea'} is gone, so tea cannot be restored"
        in gone.stderr
    )
    assert "No skill has been moved" in cli("library", "list").stderr


def test_a_switch_is_for_what_its_host_lists(cli, tea, home, make_skill):
    make_skill(home / ".codex" / "skills", "milk", "Foam milk.")
    refused = cli("library", "move", "milk", "tea", "--switch", "claude-code", "--yes")
    assert refused.exit_code == 1
    assert "is not one of your skills that Claude Code lists" in refused.stderr
    assert "Hosts that list it: Codex." in refused.stderr
    file = host_file("claude-code", hook=True)
    assert not file.exists()
    done = cli("library", "move", "tea", "tea", "--switch", "claude-code", "--yes")
    assert "Claude Code: 2 → 1 of your skills listed; all 3 are found" in done.stderr
    again = cli("library", "move", "tea", "coffee", "--switch", "claude-code", "--yes")
    assert again.exit_code == 0
    assert f"tea: switched off in {file} already" in again.stderr
    assert "Claude Code: 1 → 0 of your skills listed" in again.stderr
    assert '+    "coffee": "off"' in again.stderr
    last = cli("library", "move", "tea", "--switch", "claude-code")
    assert last.exit_code == 0
    moves = json.loads(cli("library", "list", "--json").stdout)["moves"]
    assert [move["name"] for move in moves] == ["tea", "coffee"]


def test_another_of_the_same_name_stays_and_is_told(cli, tea, home, make_skill):
    make_skill(home / ".codex" / "skills", "tea", "Steep tea in a cup.")
    result = cli("library", "move", "TEA", "--yes")
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("Others have"))
    handle = line.removeprefix("Others have the name tea too, and stay: ")
    assert ".codex/skills" in handle
    assert cli("library", "move", handle, "--yes").exit_code == 0
    done = cli("library", "restore", "Tea", "--yes")
    assert done.exit_code == 0
    assert "Codex: 0 → 1 of your skills listed; all 3 are found" in done.stderr
    assert "No skill has been moved" in cli("library", "list").stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("move", "needs the NAMEs"),
        ("move --all", "--all is for restore"),
        ("restore --all tea", "leave out one of them"),
        ("list tea", "list takes no NAMEs"),
        ("restore tea --switch claude-code", "--switch is for move"),
        ("move tea --switch codex", "codex has no switch for single skills; claude-code, opencode"),
        ("move tea --switch claude", "Did you mean 'claude-code'?"),
        ("mvoe tea", "Did you mean 'move'?"),
    ],
)
def test_what_would_be_ignored_is_wrong_usage(cli, tea, words, hint):
    result = cli("library", *words.split(), "--yes")
    assert result.exit_code == 2
    assert hint in result.stderr
    assert tea.exists()


def test_an_index_that_is_made_anew_has_the_library_too(cli, tea):
    cli("library", "move", "tea", "--yes")
    with suppress(FileNotFoundError):
        shutil.rmtree(SkillIndex.open().folder)
    assert cli("index").exit_code == 0
    assert names_found() == ["coffee", "tea"]
