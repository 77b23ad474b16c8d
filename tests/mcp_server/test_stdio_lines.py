"""Tests of the server over pipes: lines that are not messages."""

import pytest

from skillsearch.mcp_server.streams import MAX_MESSAGE_BYTES


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
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}' + b" " * MAX_MESSAGE_BYTES, [-32700]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_lines_that_are_no_messages_are_answered_in_their_order(
    converse, make_server, drinks, data, codes
):
    assert [answer["error"]["code"] for answer in converse(make_server(drinks), [data])] == codes


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
def test_a_request_that_cannot_be_read_is_answered_by_its_id(
    converse, make_server, drinks, data, request_id
):
    """So that its client does not wait for ever; the next line is answered as ever."""
    refused, other = converse(make_server(drinks), [data + b'\n{"id": 8, "method": 5}\n'])
    assert (refused["id"], other["id"]) == (request_id, 8)
    assert refused["error"]["code"] in ((-32600,) if request_id else (-32600, -32700))
