"""Fixtures of the daemon's tests: what to ask it, and how."""

import socket

import pytest

from skillsearch.daemon import client
from skillsearch.index.search.options import SearchOptions


@pytest.fixture
def question(indexed, index_dir):
    """Return the arguments of a search in an index of drinks, some changed."""

    def make(**changes):
        question = client.search_question(
            "brew filter coffee", index_dir, SearchOptions(reader="off")
        )
        options = {name: changes.pop(name) for name in [*changes] if name in question["options"]}
        return question | changes | {"options": question["options"] | options}

    return make


@pytest.fixture
def names(question):
    def ask(**changes):
        answer = client.ask("search", question(**changes), seconds=120)
        return [hit["name"] for hit in answer["result"]["hits"]]

    return ask


@pytest.fixture
def connect(runtime):
    """Connect to the daemon by its socket."""

    def connect():
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(120)
        connection.connect(client.socket_path())
        return connection

    return connect


@pytest.fixture
def raw(connect):
    """Send bytes to the daemon and return all that comes back."""

    def send(data=b"", *, half_close=False):
        with connect() as connection:
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            received = b""
            while block := connection.recv(1 << 16):
                received += block
            return received

    return send
