"""Tests of workspaces: made once, in order again after any command, and gone in the end."""

import errno
import fcntl
import logging
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skillsearch
from skillsearch.agents.failures import failure_of
from skillsearch.errors import WorkspaceError
from skillsearch.execution.workspaces import workspace as workspaces
from skillsearch.execution.workspaces.artifacts import FolderArtifacts
from skillsearch.execution.workspaces.staging import stage_skill
from skillsearch.execution.workspaces.workspace import (
    Workspace,
    Workspaces,
    make_base,
    remove_abandoned,
    safe_id,
)
from skillsearch.files.openat import open_folder
from skillsearch.settings.user_folders import cache_dir

ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""Lone surrogates included."""
HOSTILE = ["", ".", "..", "../../etc", "/etc/passwd", "a/b", "a\0b", "\n", "x" * 10_000, "\ud800"]
ENV = {"PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
HOLD = """
import sys
from pathlib import Path
from skillsearch.execution.workspaces.workspace import Workspaces
for session in sys.argv[2:]:
    print(Workspaces(Path(sys.argv[1])).of(session).path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def base(tmp_path):
    """Name the folder of the workspaces, which is still to be made."""
    return tmp_path / "base"


@contextmanager
def holding(base, *sessions):
    """Run a process that holds workspaces, and end it the hard way."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, base, *sessions],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENV,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
            process.wait(timeout=120)


def path_from(process):
    return Path(process.stdout.readline().rstrip("\n"))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_workspace_has_its_folders(workspace):
    assert names(workspace.path) == ["metadata.json", "out", "runs", "skills", "work"]
    assert names(workspace.work) == ["inputs"]
    assert workspace.path.stat().st_mode & 0o777 == 0o700
    assert [workspace.skills, workspace.work, workspace.runs, workspace.out] == [
        workspace.path / name for name in ("skills", "work", "runs", "out")
    ]


def test_its_path_is_absolute_and_has_no_links(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    workspace = Workspace.create(Path("link"), "s")
    assert workspace.path.parent == tmp_path.resolve() / "real"
    workspace.close()
    assert make_base(tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_closed_workspace_leaves_nothing_and_one_without_its_base_is_closed(
    workspace, base, caplog
):
    (workspace.out / "file").touch()
    workspace.close()
    workspace.close()
    assert names(base) == []
    assert not workspace.exists()
    other = Workspace.create(base, "s")
    base.rename(base.with_name("trash"))
    with caplog.at_level(logging.WARNING):
        other.close()
    assert caplog.messages == []


def test_a_forked_process_does_not_remove_it(base):
    code = """
import os, sys
from pathlib import Path
from skillsearch.execution.workspaces.workspace import Workspace
workspace = Workspace.create(Path(sys.argv[1]), "s")
if os.fork() == 0:
    workspace.close()
    os._exit(0)
os.wait()
print(workspace.exists(), workspace.out.is_dir())
workspace.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, base], env=ENV, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("True True\n", "")


def test_each_run_has_a_folder_of_its_own(workspace):
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: workspace.new_run_dir(), range(100)))
    assert len(set(paths)) == 100
    assert names(workspace.runs) == sorted(path.name for path in paths)


def test_a_moment_has_room_for_so_many_runs(workspace, monkeypatch):
    """A command may have taken the names before."""
    monkeypatch.setattr(workspaces, "MAX_SAME_TIME", 0)
    with pytest.raises(WorkspaceError, match="is full of runs of this moment"):
        workspace.new_run_dir()


@pytest.mark.parametrize("call", ["mkdir", "rename"])
def test_a_workspace_that_cannot_be_made_leaves_nothing(base, monkeypatch, call):
    make_base(base)

    def refuse(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(WorkspaceError, match="No space left on device"):
        Workspace.create(base, "s")
    assert names(base) == []


def test_a_folder_below_is_opened_without_links(workspace):
    (workspace.out / "link").symlink_to("../work")
    fd = workspace.open("work", "a", "b", make=True)
    assert os.path.samestat(os.fstat(fd), (workspace.work / "a" / "b").stat())
    os.close(fd)
    with pytest.raises(OSError, match="Not a directory"):
        workspace.open("out", "link")


@pytest.mark.parametrize(
    "put",
    [
        lambda path: None,
        lambda path: path.symlink_to("/"),
        lambda path: path.symlink_to("nowhere"),
        lambda path: os.mkfifo(path),
    ],
)
@pytest.mark.parametrize("name", ["skills", "work", "work/inputs", "runs", "out"])
def test_what_a_command_put_in_the_place_of_a_folder_gives_way(workspace, name, put):
    folder = workspace.path / name
    folder.rename(workspace.path / "away")
    put(folder)
    workspace.new_run_dir()
    assert folder.is_dir()
    assert not folder.is_symlink()


@pytest.mark.parametrize("swap", [lambda path: path.mkdir(), lambda path: path.symlink_to("/")])
def test_a_folder_in_the_place_of_the_workspace_is_not_used(workspace, swap):
    workspace.path.rename(workspace.path.with_name("away"))
    swap(workspace.path)
    assert not workspace.exists()
    with pytest.raises(WorkspaceError, match="is gone"):
        workspace.open("out")
    with pytest.raises(WorkspaceError, match="is gone"):
        workspace.new_run_dir()


@given(st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True))
def test_a_plain_session_keeps_its_name(session):
    assert safe_id(session) == session


@given(ANY_TEXT, ANY_TEXT)
def test_different_sessions_have_different_safe_ids(session, other):
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,49}", safe_id(session))
    assert (safe_id(session) == safe_id(other)) == (session == other)


@pytest.mark.parametrize("session", HOSTILE)
def test_no_session_has_a_workspace_elsewhere(base, session):
    workspace = Workspace.create(base, session)
    assert workspace.path.parent == base
    assert names(base) == [workspace.path.name, f"{workspace.path.name}.lock"]
    workspace.close()
    assert names(base.parent) == ["base"]


@pytest.mark.parametrize("mode", [0o1777, 0o720, 0o702, 0o750, 0o701])
def test_a_folder_that_others_may_enter_is_refused(base, mode):
    """They could swap what runs there, or run a file that a command gave its user's rights."""
    base.mkdir()
    base.chmod(mode)
    with pytest.raises(WorkspaceError, match="only you can enter"):
        Workspace.create(base, "s")
    assert names(base) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_folder_of_another_user_is_refused(base):
    base.mkdir(mode=0o700)
    os.chown(base, 65534, 65534)
    with pytest.raises(WorkspaceError, match="user 65534"):
        Workspace.create(base, "s")


def test_a_session_has_one_workspace_until_it_is_closed(base):
    with Workspaces(base) as workspaces:
        first = workspaces.of("s")
        (first.out / "kept.txt").touch()
        assert workspaces.of("s") is first
        assert names(first.out) == ["kept.txt"]
        other = workspaces.of("t")
        assert other is not first
        workspaces.close("s")
        assert not first.path.exists()
        assert workspaces.of("s").path != first.path
        assert workspaces.of("t") is other
    assert names(base) == []


def test_nothing_is_made_before_it_is_needed(base):
    with Workspaces(base) as workspaces:
        workspaces.close("s")
    assert not base.exists()


def test_workspaces_are_made_in_the_cache_folder(home):
    with Workspaces() as workspaces:
        assert workspaces.of("s").path.parent == cache_dir() / "workspaces"
        assert workspaces.of("s").path.is_relative_to(home)


def test_a_workspace_that_vanished_is_made_anew(base):
    with Workspaces(base) as workspaces:
        first = workspaces.of("s")
        (first.out / "mine.txt").touch()
        first.path.rename(base.parent / "moved")
        second = workspaces.of("s")
        assert second.path != first.path
        assert names(base) == [second.path.name, f"{second.path.name}.lock"]
        assert names(base.parent / "moved" / "out") == ["mine.txt"]


def test_of_too_many_workspaces_the_longest_unused_is_closed(base):
    with Workspaces(base, limit=2) as workspaces:
        a, b = workspaces.of("a"), workspaces.of("b")
        workspaces.of("a")
        c = workspaces.of("c")
        assert [a.exists(), b.exists(), c.exists()] == [True, False, True]


def test_a_workspace_in_use_is_not_pushed_out(base):
    with Workspaces(base, limit=1) as workspaces:
        with workspaces.held("a"), workspaces.held("a"):
            a = workspaces.of("a")
            b = workspaces.of("b")
            c = workspaces.of("c")
            assert [a.exists(), b.exists(), c.exists()] == [True, False, True]
        d = workspaces.of("d")
        assert [a.exists(), c.exists(), d.exists()] == [False, False, True]


def test_threads_that_ask_at_once_get_the_same_workspace(base):
    with Workspaces(base) as workspaces:
        start = threading.Barrier(8)

        def ask(session):
            start.wait(timeout=120)
            return session, workspaces.of(session)

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, ["s0", "s1"] * 4))
        assert len(answers) == 8
        assert len(set(answers)) == 2


def test_what_a_killed_process_left_is_swept_and_a_live_one_is_not(base):
    with holding(base, "live") as live:
        live_folder = path_from(live)
        with holding(base, *HOSTILE[:3], "killed") as killed:
            left = [path_from(killed) for _ in range(4)]
        assert all(path.is_dir() for path in left)
        with Workspaces(base) as workspaces:
            mine = workspaces.of("mine").path
            remove_abandoned(base)
            assert names(base) == sorted(
                name for path in (live_folder, mine) for name in (path.name, f"{path.name}.lock")
            )
            assert (live_folder / "out").is_dir()
    remove_abandoned(base)
    assert names(base) == []


@pytest.mark.slow
def test_several_processes_may_sweep_at_once(base):
    make_base(base)
    for number in range(40):
        name = f"ws_left_{number:016x}"
        (base / name / "out").mkdir(parents=True)
        (base / f"{name}.lock").touch()
    with holding(base, "a") as a, holding(base, "b") as b, holding(base, "c") as c:
        made = [path_from(process) for process in (a, b, c)]
        assert names(base) == sorted(
            name for path in made for name in (path.name, f"{path.name}.lock")
        )


def test_a_lock_that_a_sweep_removes_while_it_is_taken_is_made_anew(base):
    """Another process may find it before it is locked, and believe that it was left behind."""
    code = """
import sys
from pathlib import Path
from skillsearch.execution.workspaces.workspace import Workspace
base, removed = Path(sys.argv[1]), []
def remove_first(event, arguments):
    if event == "fcntl.flock" and not removed:
        removed.extend(base.glob("*.lock"))
        removed[0].unlink()
sys.addaudithook(remove_first)
workspace = Workspace.create(base, "s")
lock = Path(f"{workspace.path}.lock")
print(len(removed), lock.exists(), lock in removed)
workspace.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, base], env=ENV, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("1 True False\n", "")
    assert names(base) == []


def test_a_sweep_leaves_alone_what_is_not_ours(base, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").touch()
    make_base(base)
    for name in ("ws_frontend", "ws_a_0123456789abcdef", "notes"):
        (base / name).mkdir()
    for name in ("ws_frontend.lock", "other.lock", "notes.lock"):
        (base / name).touch()
    (base / "ws_b_0123456789abcdef").symlink_to(outside)
    (base / "ws_b_0123456789abcdef.lock").symlink_to(outside / "kept.txt")
    (base / "ws_c_0123456789abcdef").symlink_to(outside)
    (base / "ws_c_0123456789abcdef.lock").touch()
    before = set(names(base))
    remove_abandoned(base)
    assert before - set(names(base)) == {"ws_c_0123456789abcdef", "ws_c_0123456789abcdef.lock"}
    assert names(outside) == ["kept.txt"]


def test_what_cannot_be_removed_keeps_its_lock(base, caplog, monkeypatch):
    workspace = Workspace.create(base, "s")

    def refuse(*args, **kwargs):
        raise PermissionError

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(os, "rmdir", refuse)
        workspace.close()
    assert f"{workspace.path.name}.lock" in names(base)
    assert caplog.messages == [f"The workspace {workspace.path} could not be removed."]
    remove_abandoned(base)
    assert names(base) == []


def test_no_open_file_is_left(base):
    before = names(Path("/dev/fd"))
    for _ in range(3):
        with Workspaces(base) as workspaces:
            workspaces.of("s").new_run_dir()
    fd = open_folder(base)
    os.close(fd)
    assert names(Path("/dev/fd")) == before


def test_where_nothing_can_be_locked_no_file_stays_open(tmp_path, monkeypatch):
    """Some network file systems have no locks."""

    def refuse(fd, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    before = len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(WorkspaceError, match="No locks available"):
        Workspace.create(tmp_path / "base", "s")
    remove_abandoned(tmp_path / "base")
    assert len(list(Path("/dev/fd").iterdir())) == before


@pytest.mark.parametrize("name", ["artifacts", "workspaces", "skills"])
def test_what_a_model_is_told_of_an_error_has_no_folders(tmp_path, name):
    path = tmp_path / "Jo Doe" / name
    path.parent.mkdir()
    path.touch()
    with Workspaces(tmp_path / "base") as workspaces:
        failing = {
            "artifacts": lambda: FolderArtifacts(path).save("a", b"", "text/plain"),
            "workspaces": lambda: Workspace.create(path, "s"),
            "skills": lambda: stage_skill(workspaces.of("s"), "tea", path),
        }
        with pytest.raises(WorkspaceError) as caught:
            failing[name]()
    assert "Jo Doe" in str(caught.value)
    message = failure_of(caught.value)["error"]["message"]
    assert "Doe" not in message
    assert str(tmp_path) not in message
    assert f"'{name}'" in message
