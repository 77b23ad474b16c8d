"""Tests of the parts of a running server: its thread, its library, its streams, its end."""

import asyncio
import http.client
import json
import os
import queue
import signal
import threading
import time
from pathlib import Path

import anyio
import pytest

from skillsearch.config import load_settings
from skillsearch.errors import IndexNotFoundError, RootError
from skillsearch.mcp_server import desk as desk_module
from skillsearch.mcp_server.desk import Desk
from skillsearch.mcp_server.http import serve_http
from skillsearch.mcp_server.listening import Address, listen
from skillsearch.mcp_server.offers import MAX_SESSIONS, Offers
from skillsearch.mcp_server.running import LibraryWatch, run_server
from skillsearch.mcp_server.served_library import ServedLibrary
from skillsearch.mcp_server.stdio import MAX_MESSAGE_BYTES, serve_stdio

PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'


@pytest.fixture
def desk():
    """Make a desk whose calls may take a quarter of a second."""
    made = Desk(0.25)
    yield made
    made.close()


@pytest.fixture
def serve_library(monkeypatch):
    """Serve the library of some roots, or else of an index."""
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")

    def make(*roots, index_dir=None):
        return ServedLibrary(roots, load_settings(index_dir=index_dir), index_dir)

    return make


def settle(served):
    """Wait until a library makes no index any more."""
    deadline = time.monotonic() + 30
    while served.get().is_indexing and time.monotonic() < deadline:
        time.sleep(0.01)
        served.warm()
    assert not served.get().is_indexing


def converse(server, data):
    """Send bytes to a server over pipes, and return its answers."""
    (theirs, ours), (answers, replies) = os.pipe(), os.pipe()
    with os.fdopen(ours, "wb") as sender:
        threading.Thread(target=lambda: (sender.write(data), sender.close())).start()

        async def serve():
            with os.fdopen(theirs, "rb") as incoming, os.fdopen(replies, "wb") as outgoing:
                await serve_stdio(server, incoming, outgoing, anyio.Event())

        anyio.run(serve)
    with os.fdopen(answers, "rb") as reader:
        return [json.loads(line) for line in reader]


def test_calls_are_done_one_after_the_other(desk):
    """In the order in which they come, all in one thread."""
    done = []

    async def run():
        await asyncio.gather(*(desk.run(done.append, number) for number in range(20)))
        return {await desk.run(threading.get_ident) for _ in range(3)}

    threads = anyio.run(run)
    assert done == list(range(20))
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_a_call_that_waits_too_long_is_never_begun(desk):
    """What keeps it waiting goes on to its end."""
    release, begun = threading.Event(), []

    async def run():
        desk.submit(release.wait, 30)
        with pytest.raises(TimeoutError):
            await desk.run(begun.append, 1)
        release.set()
        return await desk.run(lambda: "next")

    assert anyio.run(run) == "next"
    assert begun == []


def test_a_desk_takes_no_more_than_it_can_hold(desk, monkeypatch):
    """Once the others are done, it takes more."""
    monkeypatch.setattr(desk_module, "MAX_WAITING", 1)
    release = threading.Event()

    async def run():
        desk.submit(release.wait, 30)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.run, release.is_set)
            await anyio.sleep(0.01)
            with pytest.raises(queue.Full):
                await desk.run(release.is_set)
            release.set()
        return await desk.run(release.is_set)

    assert anyio.run(run)


def test_an_error_of_a_call_is_raised_where_it_waits(desk):
    """As it is."""

    async def run():
        with pytest.raises(ZeroDivisionError):
            await desk.run(divmod, 1, 0)

    anyio.run(run)


def test_a_library_of_roots_is_opened_once(serve_library, drinks):
    """It is searched by an index of its own, in the user's cache."""
    served = serve_library(drinks)
    library = served.get()
    assert served.get() is library
    served.warm()
    settle(served)
    assert (served.index_dir / "CURRENT").exists()


def test_a_root_may_begin_with_a_tilde(serve_library, home, make_skill):
    """The configuration of a host is no shell, which would replace it."""
    make_skill(home / "skills", "steep-tea")
    assert len(serve_library(Path("~/skills")).get()) == 1


def test_the_index_of_roots_lies_where_it_is_told_to(serve_library, drinks, index_dir):
    """Not where the settings say."""
    served = serve_library(drinks, index_dir=index_dir)
    served.warm()
    settle(served)
    assert (index_dir / "CURRENT").exists()


def test_a_refresh_tells_what_changed_and_makes_it_ready(serve_library, drinks, make_skill):
    """Beside the server; then the first search finds it."""
    served = serve_library(drinks)
    served.warm()
    settle(served)
    make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
    assert served.refresh().added == ("drinks:boil-eggs",)
    settle(served)
    assert [hit.name for hit in served.get().search("boil eggs", 1)] == ["boil-eggs"]


def test_a_refresh_of_an_index_keeps_the_library(serve_library, cli, drinks, index_dir, make_skill):
    """What it wrote itself is no reason to open the index anew."""
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    served = serve_library(index_dir=index_dir)
    library = served.get()
    make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
    assert len(served.refresh()) == 0
    assert served.get().is_indexing
    deadline = time.monotonic() + 30
    while not (changes := served.refresh()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert changes.added == ("drinks:boil-eggs",)
    assert served.get() is library


def test_what_is_missing_is_looked_for_each_time(serve_library, index_dir, tmp_path):
    """The errors say what is missing."""
    for _ in range(2):
        with pytest.raises(IndexNotFoundError, match="skillsearch index FOLDER"):
            serve_library(index_dir=index_dir).get()
    served = serve_library(tmp_path / "a", tmp_path / "b")
    for _ in range(2):
        with pytest.raises(RootError, match=f"{tmp_path}/a, {tmp_path}/b"):
            served.get()


def test_the_session_that_was_silent_longest_is_forgotten(serve_library, drinks):
    """A server that runs for weeks does not fill up."""
    offers = Offers("workspace", serve_library(drinks))
    first, second = offers.of("1"), offers.of("2")
    for number in range(MAX_SESSIONS - 2):
        offers.of(f"more {number}")
    assert offers.of("1") is first
    offers.of("one too many")
    assert offers.of("1") is first
    assert offers.of("2") is not second


def test_what_is_loaded_outlives_a_new_index(serve_library, cli, drinks, index_dir):
    """The session stays, its library is the new one."""
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    served = serve_library(index_dir=index_dir)
    offers = Offers("workspace", served)
    before = offers.of("1")
    before.toolset.call("skill_load", {"skill": "steep-tea"})
    while served.get().is_indexing:  # files that are this new are looked at again
        served.refresh()
    (drinks / "squeeze-lemons" / "SKILL.md").unlink()
    cli("index", "--index-dir", index_dir)
    after = offers.of("1")
    assert after is not before
    assert "[Loaded] steep-tea" in after.prompt()
    assert "squeeze-lemons" not in after.prompt()


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (b"", []),
        (b"\n \n", []),
        (b"{\n", [-32700]),
        (b"[1]\n", [-32600]),
        (b'{"jsonrpc": "2.0", "id": true, "method": 1}\n', [-32600]),
        (b"x" * MAX_MESSAGE_BYTES, [-32700]),
        (b"x" * (MAX_MESSAGE_BYTES + 1) + b"\n{\n", [-32700, -32700]),
        (b"x" * (3 * MAX_MESSAGE_BYTES) + b"\n[1]\n", [-32700, -32600]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_lines_that_are_no_messages_are_answered_in_their_order(make_server, drinks, data, codes):
    """Blank ones are none; of a long one nothing but its end counts."""
    assert [answer["error"]["code"] for answer in converse(make_server(drinks), data)] == codes


@pytest.mark.parametrize(
    ("data", "request_id"),
    [
        (rb'{"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"a": "\ud800"}}', 7),
        (rb'{"jsonrpc": "2.0", "id": "s", "method": "ping", "params": {"\udfff": 1}}', "s"),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"a": "\xed\xa0\x80"}}', 7),
        (b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": 7, "method": "ping"}', 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": 5}', 7),
        (rb'{"jsonrpc": "2.0", "id": "\ud800", "method": "ping"}', None),
        (rb'{"jsonrpc": "2.0", "id": 7, "result": "\ud800"}', None),
        (b'{"jsonrpc": "2.0", "id": ' + b"9" * 5_000 + b', "method": 5}', None),
        (b"[" * 100_000, None),
    ],
    ids=lambda value: str(value)[:80],
)
def test_a_request_that_cannot_be_read_is_answered_by_its_id(make_server, drinks, data, request_id):
    """So that its client does not wait for ever; the next line is answered as ever."""
    refused, other = converse(make_server(drinks), data + b'\n{"id": 8, "method": 5}\n')
    assert (refused["id"], other["id"]) == (request_id, 8)
    assert refused["error"]["code"] in ((-32600,) if request_id else (-32600, -32700))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_sets_the_event_and_decides_the_exit_code(number, code):
    """What is served ends by itself."""

    async def serve(stop):
        os.kill(os.getpid(), number)
        await stop.wait()

    assert run_server(serve) == code


def test_a_server_that_has_nobody_left_ends_with_0():
    """No signal is waited for."""

    async def serve(stop):
        assert not stop.is_set()

    assert run_server(serve) == 0


def test_http_is_served_until_the_event_is_set(make_server, drinks):
    """Then the socket is closed."""
    listener = listen(Address("127.0.0.1", 0))
    port = listener.socket.getsockname()[1]

    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {"Host": "evil.example", "Content-Type": "application/json"}
        connection.request("POST", "/mcp", PING, headers)
        status = connection.getresponse().status
        connection.close()
        return status

    async def serve():
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_http, make_server(drinks), listener, stop)
            status = await anyio.to_thread.run_sync(ask)
            stop.set()
        return status

    assert anyio.run(serve) == 421
    assert listener.socket.fileno() == -1


@pytest.mark.slow
def test_a_watch_refreshes_the_library_and_tells(desk, serve_library, drinks, make_skill):
    """Until its block is left."""
    pytest.importorskip("watchfiles")
    served = serve_library(drinks)
    settle(served)

    async def run():
        told = anyio.Event()

        async def tell():
            told.set()

        with LibraryWatch(desk, served, tell), anyio.fail_after(30):
            await anyio.sleep(1)
            make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
            await told.wait()

    anyio.run(run)
    assert len(served.get()) == 4
    assert [hit.name for hit in served.get().search("boil eggs", 1)] == ["boil-eggs"]
