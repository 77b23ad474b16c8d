"""Tests of who may own the folder and the socket of the daemon."""

import os
import socket
import subprocess
import sys

import pytest

from skillsearch.daemon import client, server
from skillsearch.errors import DaemonError
from skillsearch.settings import environ

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
NOBODY = 65_534


def make_socket(path, mode=0o600):
    """Make a socket that nobody listens on any more."""
    with socket.socket(socket.AF_UNIX) as server_socket:
        server_socket.bind(str(path))
    path.chmod(mode)
    return str(path)


@pytest.fixture
def folder(runtime):
    """Make the daemon's folder as it has to be."""
    runtime.mkdir(mode=0o700)
    return runtime


def test_only_a_folder_and_a_socket_of_our_own_will_do(folder):
    """Others could put their questions, or their daemon behind it."""
    client.check_private(str(folder), is_folder=True)
    client.check_private(make_socket(folder / "s"), is_folder=False)
    (folder / "file").touch(mode=0o600)
    (folder / "link").symlink_to(folder / "s")
    (folder / "up").symlink_to(folder)
    for name, is_folder in (("file", False), ("s", True), ("link", False), ("up", True)):
        with pytest.raises(DaemonError):
            client.check_private(str(folder / name), is_folder=is_folder)
    for mode in (0o602, 0o620):
        (folder / "s").chmod(mode)
        with pytest.raises(DaemonError, match="not private to you"):
            client.check_private(str(folder / "s"), is_folder=False)
    for mode in (0o701, 0o710, 0o1777):
        folder.chmod(mode)
        with pytest.raises(DaemonError, match="SKILLSEARCH_DAEMON=off"):
            client.check_private(str(folder), is_folder=True)


@NEEDS_ROOT
def test_what_belongs_to_somebody_else_is_refused(folder):
    path = make_socket(folder / "s")
    os.chown(path, NOBODY, NOBODY)
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(DaemonError, match=f"of user {NOBODY}"):
        client.check_private(path, is_folder=False)
    with pytest.raises(DaemonError, match=f"of user {NOBODY}"):
        client.check_private(str(folder), is_folder=True)


def test_a_peer_of_our_own_is_named_by_its_process(folder):
    left, right = socket.socketpair()
    with left, right:
        assert client.peer_of(left) in (os.getpid(), None)


@NEEDS_ROOT
@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="this system does not tell")
def test_a_peer_of_another_user_is_refused(folder):
    folder.parent.chmod(0o755)
    folder.chmod(0o755)
    code = f"import socket, time; s = socket.socket(1); s.connect({str(folder / 's')!r}); s.recv(1)"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        (folder / "s").chmod(0o777)
        listener.listen()
        listener.settimeout(120)
        peer = subprocess.Popen(["/usr/bin/env", "python3", "-c", code], user=NOBODY)
        try:
            connection, _ = listener.accept()
            with connection, pytest.raises(DaemonError, match=f"belongs to user {NOBODY}"):
                client.peer_of(connection)
        finally:
            peer.kill()
            peer.wait(timeout=120)


def test_the_folder_and_socket_of_a_daemon_are_for_its_user_alone(runtime):
    before = os.umask(0)
    try:
        listener, lock = server.listen(runtime)
    finally:
        os.umask(before)
    with listener:
        os.close(lock)
        modes = {path.name: path.stat().st_mode & 0o777 for path in runtime.iterdir()}
    assert modes == {"daemon.sock": 0o600, "daemon.lock": 0o600}
    assert runtime.stat().st_mode & 0o777 == 0o700


def test_of_two_daemons_one_listens(folder, connect):
    make_socket(folder / "daemon.sock")
    listener, lock = server.listen(folder)
    with listener, connect():
        socket_before = (folder / "daemon.sock").stat().st_ino
        assert server.listen(folder) is None
        assert (folder / "daemon.sock").stat().st_ino == socket_before
        os.close(lock)


def test_a_folder_or_a_lock_that_was_there_before_is_not_trusted(folder, tmp_path):
    (folder / "daemon.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"daemon\.lock"):
        server.listen(folder)
    assert not (tmp_path / "victim").exists()
    (folder / "daemon.lock").unlink()
    folder.chmod(0o777)
    with pytest.raises(DaemonError):
        server.listen(folder)
    folder.rmdir()
    (tmp_path / "theirs").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "theirs")
    with pytest.raises(DaemonError):
        server.listen(folder)
    assert list((tmp_path / "theirs").iterdir()) == []


def test_a_path_too_long_for_a_socket_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    with pytest.raises(DaemonError, match="set XDG_RUNTIME_DIR to a folder of yours"):
        server.listen(tmp_path / ("x" * 100) / "skillsearch")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_the_login_is_used_where_there_is_one(monkeypatch):
    """A relative one is none, by the rules of XDG."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7/")
    assert environ.runtime_dir() == "/run/user/7/skillsearch"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    assert not environ.runtime_dir().startswith("relative")


@pytest.mark.skipif(os.access(f"/run/user/{os.getuid()}", os.W_OK), reason="systemd has one")
def test_without_a_folder_of_the_login_the_cache_is_used(monkeypatch, home):
    """Never one for temporary files, where anybody may come first."""
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert environ.runtime_dir() == f"{home}/cache/skillsearch/run"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert environ.runtime_dir() == f"{home}/.cache/skillsearch/run"


@pytest.mark.usefixtures("default_reader")
def test_only_variables_that_settings_depend_on_are_passed_on(monkeypatch):
    monkeypatch.setenv("OTHER_TOKEN", "secret")
    monkeypatch.setenv("SKILLSEARCH_N", "7")
    passed = environ.variables()
    assert passed["SKILLSEARCH_N"] == "7"
    assert {"SKILLSEARCH_N", "HOME"} <= set(passed) <= {"SKILLSEARCH_N", *environ.PLACES}


def test_asking_costs_little(runtime):
    """No daemon, no socket, and nothing heavy is imported to find that out."""
    code = (
        "import sys; from skillsearch.daemon import client\n"
        "assert client.ask('status', seconds=1) is None\n"
        "print(*sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    heavy = {"socket", "subprocess", "numpy", "click", "pydantic", "typing", "skillsearch.types"}
    assert not heavy & set(run.stdout.split())
