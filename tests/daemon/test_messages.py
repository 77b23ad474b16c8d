"""Tests of the messages between the daemon and its clients."""

import ast
import contextlib
import json
import re
import socket
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skillsearch
from skillsearch.daemon import client
from skillsearch.errors import DaemonError


def receive(data):
    """Send bytes through a socket, close it, and read them as a message."""
    left, right = socket.socketpair()

    def send():
        with left, contextlib.suppress(BrokenPipeError):
            left.sendall(data)

    with right:
        sender = threading.Thread(target=send)
        sender.start()
        try:
            return client.receive(right, 1 << 20, time.monotonic() + 120)
        finally:
            right.close()
            sender.join(timeout=120)


TEXTS = st.text(st.characters(codec=None))


@given(st.dictionaries(TEXTS, TEXTS | st.integers() | st.floats(allow_nan=False) | st.none()))
def test_what_is_sent_is_what_arrives(content):
    expected = {"protocol": client.PROTOCOL, "version": skillsearch.__version__, "x": content}
    assert receive(client.message({"x": content})) == expected


@given(st.binary(max_size=300))
def test_no_line_of_bytes_does_more_than_be_refused(data):
    with contextlib.suppress(DaemonError):
        assert receive(data + b"\n")["protocol"] == client.PROTOCOL


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\n", "not JSON"),
        (b"{\n", "not JSON"),
        (b"\xff\xfe\n", "not JSON"),
        (b"[" * 100_000 + b"\n", "not JSON"),
        (b'{"protocol": ' + b"1" * 10_000 + b"}\n", "not JSON"),
        (b"[]\n", f"not of protocol {client.PROTOCOL}"),
        (b"{}\n", f"not of protocol {client.PROTOCOL}"),
        (b'{"protocol": 1}\n', f"not of protocol {client.PROTOCOL}"),
        (b'{"protocol": 5}', "in the middle"),
        (b"", "in the middle"),
        (b"x" * (1 << 21), "longer than 1,048,576 bytes"),
    ],
    ids=["empty", "half", "not UTF-8", "deep", "digits", "list", "none", "one", "cut", "0", "long"],
)
def test_what_is_no_message_is_refused_with_a_reason(data, reason):
    with pytest.raises(DaemonError, match=reason):
        receive(data)


def test_a_message_that_comes_byte_by_byte_has_one_deadline():
    """A sender cannot win time by sending a little now and then."""
    left, right = socket.socketpair()
    done = threading.Event()

    def drip():
        while not done.wait(0.02):
            left.send(b" ")

    sender = threading.Thread(target=drip)
    with left, right:
        sender.start()
        try:
            with pytest.raises(TimeoutError):
                client.receive(right, 1 << 20, time.monotonic() + 0.2)
        finally:
            done.set()
            sender.join(timeout=120)


def test_the_longest_query_fits_into_a_request_and_what_follows_is_not_read():
    assert len(client.message({"query": "\U0001f375" * 65_536})) < client.MAX_REQUEST_BYTES
    assert receive(client.message({"x": 1}) + b"nonsense")["x"] == 1


@pytest.mark.parametrize(
    ("response", "message", "is_final"),
    [
        ({"error": {"message": "no index", "final": True}}, "no index", True),
        ({"error": {"message": "busy", "final": False}}, "busy", False),
        ({"error": {"message": "busy", "final": "yes"}}, "busy", False),
        ({"error": {"message": 7}}, "answer cannot be read", False),
        ({"result": []}, "answer cannot be read", False),
        ({}, "answer cannot be read", False),
    ],
    ids=json.dumps,
)
def test_a_response_without_a_result_is_an_error(response, message, is_final):
    with pytest.raises(DaemonError, match=message) as caught:
        client.result_of(response)
    assert caught.value.is_final is is_final


def test_every_refusal_says_what_to_do():
    calls = [
        node.exc
        for path in Path(client.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise) and "DaemonError(" in ast.unparse(node)
    ]
    texts = [ast.unparse(call.args[0]) for call in calls]
    assert len(texts) > 20
    step = re.compile(r"; |\{(command|reason)\}|error\['message'\]")
    assert [text for text in texts if not step.search(text)] == []
