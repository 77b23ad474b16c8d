"""Fixtures of the daemon's tests: one that serves in a thread, and what to ask it."""

import os
import threading

import pytest

from skillsearch.daemon import client, protocol, server
from skillsearch.daemon.answers import Answers


@pytest.fixture
def question(indexed, index_dir):
    """Return the arguments of a search in an index of drinks, some changed."""

    def make(**changes):
        return {
            "index_dir": str(index_dir),
            "query": "brew filter coffee",
            "n": 5,
            "threshold": None,
            "system": "hybrid",
            "explain": False,
            "refresh": False,
            **changes,
        }

    return make


@pytest.fixture
def serve(runtime):
    """Serve in a thread; returns the daemon, and a function that waits for why it ended."""
    running = []

    def start(idle=60.0, package=server.PACKAGE, **limits):
        listener, lock = server.listen(runtime)
        limits = server.Limits(**{"tick_seconds": 0.1, **limits})
        path = runtime / "daemon.sock"
        daemon = server.Daemon(listener, path, idle, Answers(), limits=limits, package=package)
        reasons = []
        thread = threading.Thread(target=lambda: reasons.append(daemon.run()))
        thread.start()
        running.append((daemon, thread, lock))

        def reason():
            thread.join(timeout=10)
            return reasons[0]

        return daemon, reason

    yield start
    for daemon, thread, lock in running:
        daemon.end("the test is over")
        thread.join(timeout=10)
        daemon.close()
        os.close(lock)


@pytest.fixture
def names(question):
    """Ask the daemon and return the names of the hits."""

    def ask(**changes):
        answer = client.ask("search", seconds=10, **question(**changes))
        return [hit["name"] for hit in answer["result"]["hits"]]

    return ask


@pytest.fixture
def raw(runtime):
    """Send bytes to the daemon and return all that comes back; None to send nothing."""
    import socket

    def send(data=b"", *, half_close=False):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(protocol.socket_path())
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            received = b""
            while block := connection.recv(1 << 16):
                received += block
            return received

    return send
