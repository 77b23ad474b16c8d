"""Tests of how a running server ends."""

import http.client
import os
import signal

import anyio
import pytest

from skillsearch.mcp_server.http import serve_http
from skillsearch.mcp_server.listening import listen, run_server

PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_sets_the_event_and_decides_the_exit_code(number, code):
    async def serve(stop):
        os.kill(os.getpid(), number)
        await stop.wait()

    assert run_server(serve) == code


def test_a_server_that_has_nobody_left_ends_with_0():
    async def serve(stop):
        assert not stop.is_set()

    assert run_server(serve) == 0


def test_http_is_served_until_the_event_is_set(make_server, drinks):
    listener = listen("127.0.0.1")
    port = listener.socket.getsockname()[1]

    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
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
