"""Tests of what clients can hold of the server over HTTP: connections, time, sessions."""

import http.client
import json
import logging
import socket
import threading
from contextlib import ExitStack

import pytest

from skillsearch.mcp_server.connections import HttpLimits, machine_of
from skillsearch.mcp_server.listening import listen

TOKEN = "correct-horse-battery-staple"
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "Authorization": f"Bearer {TOKEN}",
}
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
FIELDS = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items()).encode()
WAIT = 120


class Client:
    """A client of the older protocol that says what it wants by hand."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(*address, timeout=WAIT)
        self.session = {}

    def request(self, verb, body=None):
        self.connection.request(verb, "/mcp", body, {**HEADERS, **self.session})
        return self.connection.getresponse()

    def begin(self, method):
        """Send a message; return the answer once it begins, before the result is there."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
        return self.request("POST", json.dumps(message))

    def ask(self, method):
        answer = self.begin(method)
        answer.read()
        return answer.status

    def open(self):
        self.session = {}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        answer = self.request("POST", json.dumps(message))
        self.session = {"Mcp-Session-Id": answer.headers.get("mcp-session-id", "")}
        answer.read()
        return answer.status


@pytest.fixture
def serve(make_server, drinks, serve_over_http):
    """Serve over HTTP within limits."""

    def start(server=None, host="127.0.0.1", **limits):
        listener = listen(host, token=TOKEN, allow_remote=host != "127.0.0.1")
        bounds = HttpLimits(**limits)
        return serve_over_http(server or make_server(drinks), listener, limits=bounds)

    return start


@pytest.fixture
def connect():
    with ExitStack() as stack:

        def start(address, data=b""):
            made = stack.enter_context(socket.create_connection(address, timeout=WAIT))
            made.sendall(data)
            return made

        yield start


@pytest.fixture
def visit():
    with ExitStack() as stack:

        def make(address):
            made = Client(address)
            stack.callback(made.connection.close)
            return made

        yield make


def is_closed(made):
    """Return whether the server has closed a connection, without an answer."""
    try:
        return made.recv(1) == b""
    except ConnectionResetError:
        return True


def drips_into_nothing(made):
    """Send one more byte; return whether the server has closed the connection."""
    made.settimeout(0.1)
    try:
        made.sendall(b" ")
        return made.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [b"", HEAD + b"X-Slow: ", HEAD + FIELDS + b"Content-Length: 1000\r\n\r\n{"],
    ids=["nothing", "headers", "body"],
)
def test_300_clients_that_say_half_keep_nobody_out(serve, visit, connect, data):
    with serve() as address:
        visit(address).open()
        held = [connect(address, data) for _ in range(300)]
        for _ in range(3):
            assert visit(address).open() == 200
        assert is_closed(held[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "data", [HEAD + b"X-Slow: ", HEAD + FIELDS + b"Content-Length: 1000\r\n\r\n{"]
)
def test_a_request_has_to_arrive_in_time(serve, visit, connect, data):
    with serve(seconds=3) as address:
        visit(address).open()
        held = connect(address, data)
        while not drips_into_nothing(held):
            assert visit(address).open() == 200


@pytest.mark.slow
def test_an_answer_has_to_be_read_in_time(serve, visit, connect, drinks, wait_for):
    (drinks / "steep-tea" / "big.txt").write_text("x" * 200_000)
    with serve(seconds=3, connections=1) as address:
        client = visit(address)
        client.open()
        client.connection.close()
        arguments = {"name": "steep-tea", "path": "big.txt", "limit": 200_000}
        call = {"name": "read_skill_file", "arguments": arguments}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        session = f"Mcp-Session-Id: {client.session['Mcp-Session-Id']}\r\n"
        end = f"{session}Content-Length: {len(body)}\r\n\r\n{body}".encode()
        assert connect(address, (HEAD + FIELDS + end) * 80).recv(1) == b"H"
        assert visit(address).open() == 503
        assert wait_for(lambda: visit(address).open() == 200)


@pytest.fixture
def blocked(make_server, drinks):
    server = make_server(drinks)
    release = threading.Event()
    server.thread.submit(release.wait, WAIT)
    yield server, release
    release.set()


def test_a_call_gives_way_to_nobody(serve, visit, blocked):
    server, release = blocked
    with serve(server, connections=1) as address:
        caller = visit(address)
        caller.open()
        answer = caller.begin("tools/list")
        assert visit(address).open() == 503
        release.set()
        assert b"search_skills" in answer.read()
        assert visit(address).open() == 200


def test_half_a_request_gives_way_before_a_client_between_two(serve, visit, connect):
    with serve(connections=3) as address:
        client = visit(address)
        client.open()
        halves = [connect(address), connect(address)]
        newest = connect(address)
        assert is_closed(halves[0])
        assert client.ask("ping") == 200
        for made in (halves[1], newest):
            made.settimeout(0.05)
            with pytest.raises(TimeoutError):
                made.recv(1)


def test_a_stream_gives_way_to_a_request(serve, visit):
    with serve(connections=1) as address:
        listening = visit(address)
        listening.open()
        stream = listening.request("GET")
        assert stream.status == 200
        assert visit(address).open() == 200
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            stream.read()


def test_another_machine_has_connections_of_its_own(serve, connect):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but its own")
        here = probe.getsockname()[0]
    with serve(host="0.0.0.0", of_machine=2) as (_, port):
        local = [connect(("127.0.0.1", port)) for _ in range(5)]
        remote = [connect((here, port)) for _ in range(5)]
        assert all(map(is_closed, remote[:3]))
        for made in (*local, *remote[3:]):
            made.settimeout(0.05)
            with pytest.raises(TimeoutError):
                made.recv(1)


@pytest.mark.parametrize(
    ("address", "machine"),
    [
        ("127.0.0.1", None),
        ("127.8.9.1", None),
        ("::1", None),
        ("::ffff:127.0.0.1", None),
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_a_machine_is_known_by_its_address(address, machine):
    assert machine_of((address, 80)) == machine


def test_a_client_that_breaks_off_leaves_no_trace(serve, visit, connect, caplog):
    with caplog.at_level(logging.WARNING), serve() as address:
        for _ in range(3):
            connect(address, HEAD + FIELDS + b"Content-Length: 9\r\n\r\n{").close()
        assert visit(address).open() == 200
    assert caplog.records == []


def test_a_new_session_ends_the_one_that_was_silent_longest(serve, visit):
    with serve(sessions=3) as address:
        clients = [visit(address) for _ in range(4)]
        for client in clients[:3]:
            assert (client.open(), client.ask("ping")) == (200, 200)
        assert clients[0].ask("ping") == 200
        assert clients[3].open() == 200
        assert [client.ask("ping") for client in clients] == [200, 404, 200, 200]
        assert (clients[1].open(), clients[1].ask("ping")) == (200, 200)


def test_sessions_that_nobody_uses_end_first(serve, visit):
    with serve(sessions=3, seconds=WAIT) as address:
        working = visit(address)
        assert (working.open(), working.ask("ping")) == (200, 200)
        greeting = visit(address)
        assert {greeting.open() for _ in range(50)} == {200}
        assert working.ask("ping") == 200


def test_a_session_in_the_middle_of_a_call_is_not_ended(serve, visit, blocked):
    server, release = blocked
    with serve(server, sessions=2) as address:
        caller = visit(address)
        assert (caller.open(), caller.ask("ping")) == (200, 200)
        answer = caller.begin("tools/list")
        for _ in range(5):
            other = visit(address)
            assert (other.open(), other.ask("ping")) == (200, 200)
        release.set()
        assert b"search_skills" in answer.read()
        assert caller.ask("ping") == 200


def test_a_session_that_its_client_ends_leaves_room(serve, visit):
    with serve(sessions=2) as address:
        staying, leaving, coming = (visit(address) for _ in range(3))
        for client in (staying, leaving):
            assert (client.open(), client.ask("ping")) == (200, 200)
        answer = leaving.request("DELETE")
        answer.read()
        assert answer.status == 200
        assert (coming.open(), coming.ask("ping")) == (200, 200)
        assert staying.ask("ping") == 200
        assert leaving.ask("ping") == 404
