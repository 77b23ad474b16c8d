"""Tests of ``skillsearch daemon``, and of ``query`` where a daemon runs."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from skillsearch.daemon import client, server
from skillsearch.files.locks import briefly_locked

pytestmark = pytest.mark.slow


@pytest.fixture
def status(cli, runtime):
    """Return how to ask a daemon for its status."""
    return lambda: json.loads(cli("daemon", "status", "--json").stdout)


@pytest.fixture
def daemon(status, cli):
    """Start a daemon and return how to ask it for its status."""
    assert cli("daemon", "start").exit_code == 0
    return status


@pytest.fixture
def daemon_here(status, serve):
    """Serve in a thread of this process and return how to ask for the status."""
    serve()
    return status


def without_time(stdout):
    """Return the text of a result without the one number that differs each time."""
    return stdout[: stdout.rindex('"seconds"')]


def test_start_status_and_stop_tell_what_they_did(cli, runtime, terminal):
    started = cli("daemon", "start", "--idle", "3")
    assert (started.exit_code, started.stdout) == (0, "")
    pid = client.ask("status", seconds=120)["pid"]
    assert started.stderr == f"The daemon runs (pid {pid}); it stops when idle for 3 min.\n"
    assert cli("daemon", "start").stderr == f"The daemon already runs (pid {pid}).\n"
    status = cli("daemon", "status")
    rows = dict(line.split("\t") for line in status.stdout.splitlines())
    assert (rows["pid"], rows["answered"], status.exit_code) == (str(pid), "0", 0)
    terminal()
    assert re.search(rf"^pid +{pid} *$", cli("daemon", "status").stdout, re.MULTILINE)
    terminal(False)
    assert cli("daemon", "stop").stderr == "The daemon has stopped.\n"
    assert not (runtime / "daemon.sock").exists()
    again = cli("daemon", "stop")
    assert (again.exit_code, again.stderr) == (0, "No daemon is running.\n")
    assert cli("daemon", "start").exit_code == 0  # right after a stop
    assert client.ask("status", seconds=120)["pid"] != pid


@pytest.mark.skipif(sys.platform != "linux", reason="processes that have ended and stay")
def test_a_stopped_daemon_whose_parent_never_asks_is_stopped(runtime):
    """As in a container, where the first process takes over others and asks for no end of them."""
    code = (
        "import ctypes, subprocess, sys\n"
        "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"  # PR_SET_CHILD_SUBREAPER
        "for action in ('start', 'stop'):\n"
        "    subprocess.run([sys.executable, '-m', 'skillsearch', 'daemon', action], check=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("The daemon has stopped.\n")


def test_the_way_out_of_a_daemon_that_was_halted_ends_it(daemon, cli, monkeypatch):
    process = daemon()["pid"]
    os.kill(process, signal.SIGSTOP)
    monkeypatch.setattr(client, "QUERY_SECONDS", 0.3)
    step = cli("daemon", "stop").stderr.rpartition("to end it: ")[2]
    assert str(process) in step
    subprocess.run(step, shell=True, check=True)
    with briefly_locked(Path(client.lock_path()), seconds=60):
        assert client.ask("status", seconds=0.3) is None


def test_status_without_a_daemon_is_no(cli, runtime):
    status = cli("daemon", "status")
    assert (status.exit_code, status.stdout) == (1, "")
    assert "skillsearch daemon start" in status.stderr
    as_json = cli("daemon", "status", "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (1, {"running": False})


def test_a_daemon_of_another_version_is_named_with_the_way_out(cli, serve):
    """It is not ended unasked: another installation may use it."""
    serve(version="9.9")
    result = cli("daemon", "start")
    assert result.exit_code == 1
    assert "to stop it: skillsearch daemon stop" in result.stderr


def test_a_daemon_that_cannot_start_is_one_line(cli, runtime):
    runtime.mkdir()
    runtime.chmod(0o777)
    result = cli("daemon", "start")
    assert result.exit_code == 1
    assert "The daemon cannot be started" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "Missing argument"),
        (["restart"], "'restart' is not one of"),
        (["stop", "--idle", "3"], "--idle goes with start"),
        (["start", "--idle", "0"], "0.0 is not in the range"),
        (["start", "--idle", "nan"], "'nan' is not a number"),
        (["start", "--idle", "soon"], "'soon' is not a number, such as 0.5"),
    ],
)
def test_wrong_usage_exits_with_2(cli, runtime, args, message):
    result = cli("daemon", *args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not runtime.exists()


def test_the_answer_of_the_daemon_is_the_answer(daemon, indexed):
    questions = (
        ["brew filter coffee"],
        ["brew filter coffee", "--threshold", "0", "-n", "2"],
        ["grind coffee beans", "--explain", "--threshold", "0"],
        ["assemble a bookshelf"],
        ["stepp-tea", "--threshold", "0.99"],
        ["the of and is"],
    )
    for args in questions:
        here, there = (indexed("query", *args, "--json", *flags) for flags in (["--no-daemon"], []))
        assert without_time(there.stdout) == without_time(here.stdout), args
        here, there = (indexed("query", *args, *flags) for flags in (["--no-daemon"], []))
        assert (there.stdout, there.stderr) == (here.stdout, here.stderr), args
    assert daemon()["answered"] == 2 * len(questions)


@pytest.mark.parametrize("way", ["flag", "variable", "file", "batch"])
def test_the_daemon_can_be_left_alone(daemon_here, indexed, monkeypatch, way):
    if way == "variable":
        monkeypatch.setenv("SKILLSEARCH_DAEMON", "off")
    elif way == "file":
        Path("skillsearch.toml").write_text("daemon = 'off'\n", encoding="utf-8")
    request = {
        "flag": ["brew filter coffee", "--no-daemon"],
        "batch": ["--batch", "-"],  # it loads the model once for all its queries anyway
    }.get(way, ["brew filter coffee"])
    lines = '{"_id": 1, "text": "brew filter coffee"}\n'
    assert "brew-coffee" in indexed("query", *request, stdin=lines).stdout
    assert daemon_here()["answered"] == 0


def test_a_change_on_disk_is_seen_and_told_the_same(daemon, indexed, drinks, make_skill):
    indexed("query", "tea")
    make_skill(drinks, "mix-cocktails", "Mix cocktails with a shaker.")
    assert indexed("query", "mix cocktails", "--no-refresh").stdout == ""
    result = indexed("query", "mix cocktails")
    assert result.stderr == "index refreshed: 1 added, 0 changed, 0 removed\n"
    assert "mix-cocktails" in result.stdout
    drinks.rename(drinks.with_name("elsewhere"))
    assert f"warning: the folder {drinks} is gone" in indexed("query", "mix cocktails").stderr
    assert daemon()["answered"] == 4


@pytest.mark.parametrize(("args", "code"), [(["--threshold", "nan"], 2), ([" "], 2)])
def test_errors_are_those_of_a_query_without_a_daemon(daemon_here, indexed, args, code):
    with_daemon, without = (
        indexed("query", "tea" if args[0] == "--threshold" else "", *args, *flags)
        for flags in ([], ["--no-daemon"])
    )
    assert (with_daemon.exit_code, with_daemon.stderr) == (code, without.stderr)


def test_an_index_that_is_not_there_or_damaged_is_treated_as_ever(daemon, cli, indexed, index_dir):
    assert cli("query", "tea", "--index-dir", "nowhere").exit_code == 4
    part = max(index_dir.glob("generations/*/*"), key=lambda path: path.stat().st_size)
    part.write_bytes(part.read_bytes()[:-1])
    result = indexed("query", "brew filter coffee")
    assert "building it anew" in result.stderr
    assert "brew-coffee" in result.stdout


@pytest.mark.parametrize("trouble", ["killed", "foreign"])
def test_a_daemon_in_trouble_costs_no_answer(daemon, indexed, runtime, trouble):
    pid = daemon()["pid"]
    if trouble == "killed":
        os.kill(pid, signal.SIGKILL)
    else:
        (runtime / "daemon.sock").chmod(0o666)
    result = indexed("query", "brew filter coffee")
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    assert "brew-coffee" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("trouble", ["hanging", "full"])
def test_a_daemon_that_does_not_answer_is_not_waited_for(
    daemon, indexed, runtime, trouble, monkeypatch
):
    pid = daemon()["pid"]
    os.kill(pid, signal.SIGSTOP)
    connections = []
    try:
        if trouble == "full":  # Nobody takes the connections that wait.
            import socket

            connections = [socket.socket(socket.AF_UNIX) for _ in range(server.MAX_CONNECTIONS + 2)]
            for connection in connections:
                connection.setblocking(False)
                connection.connect_ex(str(runtime / "daemon.sock"))
        monkeypatch.setattr(client, "QUERY_SECONDS", 0.3)
        result = indexed("query", "brew filter coffee")
    finally:
        for connection in connections:
            connection.close()
        os.kill(pid, signal.SIGKILL)
    assert "brew-coffee" in result.stdout
    waited = "searching without the daemon: The daemon does not answer: timed out; to end it:"
    assert result.stderr == (f"warning: {waited} kill -9 {pid}\n" if trouble == "hanging" else "")


@pytest.mark.slow
@pytest.mark.parametrize("threshold", ["0", "1"], ids=["some fit", "none surely fits"])
def test_a_warm_query_imports_no_search(daemon_here, indexed, index_dir, threshold):
    """That is what makes it fast, whatever the answer is."""
    command = ["query", "tea", "--threshold", threshold, "--index-dir", str(index_dir)]
    code = (
        "import sys\nfrom skillsearch.cli.app import app\n"
        f"try: app({command!r})\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert bool(run.stdout) == (threshold == "0")
    assert not {"numpy", "faiss", "onnxruntime", "yaml"} & set(run.stderr.split())
    assert daemon_here()["answered"] == 1
