"""Tests of the daemon as a process of its own."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skillsearch.daemon import client
from skillsearch.errors import DaemonError


@pytest.fixture
def start(runtime):
    def run(**options):
        client.start(seconds=120, **options)
        return client.ask("status", seconds=120)["pid"]

    return run


@pytest.fixture
def is_gone(wait_for):
    """Wait until a process is gone, and return whether that happened."""

    def has_gone(process):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        return False

    return lambda process: wait_for(lambda: has_gone(process))


def test_starting_twice_is_starting_once(start):
    first = start()
    assert start() == first


def test_of_many_starts_at_once_one_daemon_remains(runtime):
    command = [sys.executable, "-P", "-m", "skillsearch.daemon.server", "60"]
    starts = [subprocess.Popen(command, cwd="/") for _ in range(5)]
    try:
        assert [started.wait(timeout=120) for started in starts] == [0] * 5
    finally:
        for started in starts:
            started.kill()
            started.wait(timeout=120)
    assert len({client.ask("status", seconds=120)["pid"] for _ in range(5)}) == 1


def test_it_is_detached_from_whoever_started_it(start):
    process = start()
    assert os.getsid(process) != os.getsid(0)
    if Path("/proc/self").exists():
        proc = Path(f"/proc/{process}")
        assert (proc / "cwd").readlink() == Path("/")
        streams = {str((proc / "fd" / str(number)).readlink()) for number in range(3)}
        assert streams == {"/dev/null"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.slow
def test_a_signal_ends_it_and_its_socket(start, is_gone, runtime, number):
    process = start()
    os.kill(process, number)
    assert is_gone(process)
    assert not (runtime / "daemon.sock").exists()
    assert f"ending: {number.name}" in (runtime / "daemon.log").read_text(encoding="utf-8")


def test_it_ends_when_idle(start, is_gone, runtime):
    process = start(idle=3.0)
    assert is_gone(process)
    assert list(runtime.glob("*.sock")) == []
    assert start() != process


def test_a_killed_daemon_is_replaced(start, is_gone, names, runtime):
    process = start()
    os.kill(process, signal.SIGKILL)
    assert is_gone(process)
    assert (runtime / "daemon.sock").exists()
    assert client.ask("status", seconds=120) is None
    assert start() != process
    assert names() == ["brew-coffee"]


def test_the_log_is_ours_alone_and_holds_no_query(start, names, connect, runtime):
    start()
    names(query="a very private matter")
    with connect() as connection:
        connection.sendall(b"another private matter\n")
        connection.recv(1 << 16)
    log = runtime / "daemon.log"
    assert log.stat().st_mode & 0o077 == 0
    assert "serving" in log.read_text(encoding="utf-8")
    assert "private" not in log.read_text(encoding="utf-8")


@pytest.mark.parametrize("trouble", ["folder", "file", "path", "python", "log"])
def test_a_daemon_that_cannot_start_says_why(runtime, monkeypatch, tmp_path, trouble):
    if trouble == "folder":
        runtime.mkdir()
        runtime.chmod(0o777)
    elif trouble == "file":
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "file"))
    elif trouble == "path":
        monkeypatch.setenv("XDG_RUNTIME_DIR", f"/tmp/{'x' * 100}")
    elif trouble == "log":
        (runtime / "daemon.log").mkdir(parents=True)
        runtime.chmod(0o700)
    else:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(DaemonError, match="The daemon cannot be started: ") as caught:
        client.start(seconds=120)
    assert not re.search(r"Traceback|Errno", str(caught.value))
    assert not (runtime / "daemon.sock").exists()


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as on Linux")


def start_within(megabytes):
    """Start the daemon from a process that has so much memory, and return how that ended."""
    code = (
        "import resource; from skillsearch.daemon import client\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({megabytes} << 20,) * 2)\n"
        "client.start(seconds=120)"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@ON_LINUX
def test_a_daemon_that_ends_while_it_loads_says_why(runtime):
    """Its parent waits for it, so nobody is told to kill a process that is gone."""
    last = start_within(60).stderr.splitlines()[-1]
    assert "The daemon cannot be started: A library cannot be loaded: " in last
    assert "let it have more memory (ulimit -v)" in last


@ON_LINUX
@pytest.mark.parametrize("size", [108, 116, 120])
def test_a_daemon_with_too_little_memory_for_a_thread_answers_or_says_why(runtime, size):
    """It came up, closed every connection, and could not be told to stop."""
    done = start_within(size)
    if done.returncode:
        assert re.search(r"cannot be started: .*[Mm]emory", done.stderr)
        assert client.ask("status", seconds=120) is None
    else:
        assert client.ask("status", seconds=120)["pid"] == client.ask("stop", seconds=120)["pid"]


def test_nothing_in_the_working_folder_is_imported(runtime, tmp_path, monkeypatch):
    """A checkout cannot put its code into the daemon."""
    (tmp_path / "json.py").write_text("raise SystemExit('taken over')\n", encoding="utf-8")
    (tmp_path / "skillsearch").mkdir()
    (tmp_path / "skillsearch" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    client.start(seconds=120)
    assert client.ask("status", seconds=120)["pid"]
