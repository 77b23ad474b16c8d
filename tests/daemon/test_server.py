"""Tests of the daemon's connections and of why it ends; it serves in a thread here."""

import errno
import fcntl
import json
import os
import resource
import select
import socket
import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest

import skillsearch
from skillsearch.daemon import client, server
from skillsearch.embedders.embedder import LOADERS
from skillsearch.errors import DaemonError

PATIENCE = 120


def error_in(response):
    return json.loads(response)["error"]


MALFORMED = [b"", b"nonsense", b"[]", b"\x00" * 99, b"[" * 99_999, b'{"protocol": 9}']
NO_METHODS = [
    {"method": "run", "arguments": {}},
    {"method": ["search"], "arguments": {}},
    {"method": "search", "arguments": [1]},
    {"method": "search"},
    {},
]


def test_a_malformed_line_or_method_gets_an_error_and_hurts_nobody(serve, raw, names):
    serve()
    for data in MALFORMED:
        assert "A message is" in error_in(raw(data + b"\n"))["message"]
    for content in NO_METHODS:
        error = error_in(raw(client.message(content)))
        assert error["message"].startswith(f"There is no method {str(content.get('method'))!r}")
    assert names() == ["brew-coffee"]


def test_a_request_that_is_too_long_is_not_read_to_its_end(serve, names, connect):
    serve()
    with connect() as connection, pytest.raises((BrokenPipeError, ConnectionResetError)):
        connection.sendall(b"x" * (64 << 20))
    assert names() == ["brew-coffee"]


def test_a_slow_client_is_left_and_keeps_nobody_waiting(serve, names, connect):
    serve(read_seconds=PATIENCE)
    names()
    silent = [connect() for _ in range(10)]
    try:
        for connection in silent:
            connection.send(b"{")
        assert names() == ["brew-coffee"]
        assert select.select(silent, [], [], 0)[0] == []  # so all of them were waited for meanwhile
    finally:
        for connection in silent:
            connection.close()


def test_a_client_that_has_said_all_gets_its_answer_and_one_that_says_half_is_left(
    serve, raw, question
):
    serve(read_seconds=1.0)
    assert raw(b"{") == b""
    request = client.message({"method": "search", "arguments": question()})
    assert json.loads(raw(request, half_close=True))["result"]["result"]["hits"]


def test_a_client_that_leaves_or_does_not_read_hurts_nobody(serve, names, question, connect):
    serve()
    for _ in range(5):
        with connect() as connection:
            connection.sendall(client.message({"method": "search", "arguments": question()}))
    assert names() == ["brew-coffee"]


def test_a_client_too_many_is_turned_away(serve, names, connect):
    daemon, _ = serve(connections=1, read_seconds=PATIENCE)
    with connect(), pytest.raises(DaemonError):
        names()
    assert daemon._free.acquire(timeout=PATIENCE)
    daemon._free.release()
    assert names() == ["brew-coffee"]


def test_a_shortage_of_files_is_waited_out(serve, names):
    """The client still waits to be accepted, so trying at once would take a whole processor."""
    daemon, _ = serve(tick_seconds=0.05)
    tried = []

    class Short:
        fileno, close, listener = daemon.listener.fileno, daemon.listener.close, daemon.listener

        def accept(self):
            tried.append(time.monotonic())
            if len(tried) < 4:
                raise OSError(errno.EMFILE, "Too many open files")
            return self.listener.accept()

    daemon.listener = Short()
    assert names() == ["brew-coffee"]
    assert all(later - earlier > 0.04 for earlier, later in pairwise(tried[:4]))


def test_a_client_for_whom_no_thread_starts_is_answered_before_others(serve, names, monkeypatch):
    """A daemon of too little memory came up, and not even its end could be asked for."""
    serve(connections=1)
    monkeypatch.setattr(server, "threading", SimpleNamespace(Thread=_no_thread))
    assert client.ask("status", seconds=PATIENCE)["pid"] == os.getpid()
    assert names() == ["brew-coffee"]
    assert client.ask("stop", seconds=PATIENCE) == {"pid": os.getpid()}


def _no_thread(**_options):
    raise RuntimeError("can't start new thread")


def test_twenty_clients_at_once_all_get_their_answers(serve, question):
    serve()
    texts = ["brew filter coffee", "steep green tea"] * 10
    names = {}

    def ask(number):
        answer = client.ask("search", question(query=texts[number], n=1), seconds=120)
        names[number] = answer["result"]["hits"][0]["name"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert [names[number] for number in range(20)] == ["brew-coffee", "steep-tea"] * 10


def test_errors_say_whether_they_are_final(serve, question):
    """A bad query stays one; what only the daemon cannot do, its client can."""
    serve()
    with pytest.raises(DaemonError, match="n is 0") as caught:
        client.ask("search", question(n=0), seconds=120)
    assert caught.value.is_final
    with pytest.raises(DaemonError, match="has the wrong type") as caught:
        client.ask("search", question(n="0"), seconds=120)
    assert not caught.value.is_final


def test_an_answer_that_fails_unexpectedly_or_is_too_long_is_an_error(serve, question, monkeypatch):
    """A model that no version of ours has foreseen: it cannot even be loaded."""
    serve(response_bytes=300)
    with monkeypatch.context() as patch:
        patch.setitem(LOADERS, "hashing", lambda: 1 / 0)
        with pytest.raises(DaemonError, match="ZeroDivisionError"):
            client.ask("search", question(), seconds=120)
    assert client.ask("status", seconds=120)["answered"] == 0
    with pytest.raises(DaemonError, match="longer than 300 bytes"):
        client.ask("search", question(), seconds=120)


def test_another_version_is_turned_away_but_can_stop_the_daemon(serve, raw, question):
    """It would read old answers wrongly; status tells it which version runs."""
    _, reason = serve()

    def ask(method, arguments=None):
        request = client.message({"version": "9.9", "method": method, "arguments": arguments})
        return client.result_of(json.loads(raw(request)))

    with pytest.raises(DaemonError, match=f"has version {skillsearch.__version__}") as caught:
        ask("search", question())
    assert not caught.value.is_final
    assert ask("status")["version"] == skillsearch.__version__
    ask("stop")
    assert reason() == "it was asked to"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ('{"protocol": 0, "result": {}}', f"is not of protocol {client.PROTOCOL}"),
        (f'{{"protocol": {client.PROTOCOL}, "result": []}}', "cannot be read"),
        ("{", "is not JSON"),
    ],
    ids=["protocol", "answer", "message"],
)
def test_a_daemon_that_is_not_understood_is_named_so_that_it_can_be_ended(runtime, answer, reason):
    """It would not understand that it is to stop."""
    listener, lock = server.listen(runtime)

    def respond():
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(answer.encode() + b"\n")

    listener.settimeout(120)
    thread = threading.Thread(target=respond)
    with listener:
        thread.start()
        with pytest.raises(DaemonError, match=rf"({reason}).*; to end it: kill -9 {os.getpid()}$"):
            client.ask("stop", seconds=120)
        thread.join(timeout=120)
    os.close(lock)


def test_a_client_whose_time_is_up_gets_no_answer(serve):
    serve()
    for seconds in (0, -1):
        with pytest.raises(DaemonError, match="does not answer"):
            client.ask("status", seconds=seconds)


def test_a_daemon_that_is_silent_is_named_so_that_it_can_be_ended(runtime):
    listener, lock = server.listen(runtime)
    with listener, pytest.raises(DaemonError, match=rf"to end it: kill -9 {os.getpid()}$"):
        client.ask("status", seconds=0.3)
    os.close(lock)


def test_it_ends_when_idle_and_questions_put_that_off(serve, names, runtime):
    daemon, reason = serve(idle=3600.0)
    for hours in (0.5, 0.9):
        daemon._last_used -= hours * 3600
        assert names() == ["brew-coffee"]
    daemon._last_used -= 0.9 * 3600
    assert client.ask("status", seconds=120)
    daemon._last_used -= 0.2 * 3600
    assert reason() == "idle"
    assert not (runtime / "daemon.sock").exists()
    assert client.ask("status", seconds=120) is None


def test_it_ends_when_its_socket_is_replaced(serve, runtime):
    _, reason = serve()
    (runtime / "daemon.sock").unlink()
    (runtime / "daemon.sock").touch()
    assert reason() == "the socket was replaced"
    assert (runtime / "daemon.sock").exists()


def test_it_ends_when_the_package_is_replaced(serve, tmp_path):
    package = tmp_path / "__init__.py"
    package.touch()
    _, reason = serve(package=package)
    package.unlink()
    assert reason() == "the package was replaced"


def test_a_question_that_is_being_answered_is_answered_to_the_end(serve, question):
    """It waits for the turn of another one when the daemon is told to end."""
    daemon, reason = serve(end_seconds=PATIENCE)
    daemon.answers.busy_seconds = PATIENCE
    answers, before = [], daemon._last_used
    asking = threading.Thread(
        target=lambda: answers.append(client.ask("search", question(), seconds=120))
    )
    with daemon.answers._my_turn():
        asking.start()
        deadline = time.monotonic() + PATIENCE
        while daemon._last_used == before and time.monotonic() < deadline:
            time.sleep(0.01)
        daemon.end("now")
        ending = threading.Thread(target=reason)
        ending.start()
        ending.join(timeout=0.3)  # a few looks for a reason to end
        assert ending.is_alive()
    assert reason() == "now"
    asking.join(timeout=120)
    assert answers[0]["result"]["hits"]


def test_a_socket_beyond_the_thousandth_descriptor_is_waited_for():
    """A process that has opened many indexes has as many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    here, there = socket.socketpair()
    with here, there, socket.socket(fileno=fcntl.fcntl(here, fcntl.F_DUPFD, 1100)) as high:
        assert server._readable([high], 0) == set()
        there.send(b"!")
        assert server._readable([high], 60) == {high.fileno()}
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
