"""Tests of how a running server ends."""

import os
import signal

import pytest

from skillsearch.mcp_server.listening import run_server


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
