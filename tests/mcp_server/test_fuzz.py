"""Tests with input that no client sends: the server answers or ignores it, and goes on."""

import json
import random

import pytest

SEARCH = {"name": "search_skills", "arguments": {"query": "steep green tea"}}
NESTED = b'{"a":' * 90 + b"1" + b"}" * 90


def request(method, params, request_id=7):
    record = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return json.dumps(record).encode()


def is_alive(host):
    answer = host.ask("tools/call", SEARCH, "alive")
    return answer["result"]["structuredContent"]["skills"][0]["name"] == "steep-tea"


@pytest.fixture(scope="module")
def host(tmp_path_factory, launch, open_wire, module_variables, write_skill):
    """Start one server that all tests of this file use: it has to live through them all."""
    root = tmp_path_factory.mktemp("fuzz")
    write_skill(root / "skills", "steep-tea", "Steep green tea at the right temperature.")
    with launch(root, module_variables, root / "skills") as process:
        yield open_wire(process)


def shown(value):
    return str(value)[:50]


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"hello", -32700, None),
        (b"\xff\xfe\x00", -32700, None),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": "\xc3\x28"}}',
            -32700,
            None,
        ),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\\ud800"}', -32600, 1),
        (b"null", -32600, None),
        (b'{"jsonrpc": "1.0", "id": 3, "method": "ping"}', -32600, 3),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "ping", "params": []}', -32600, "x"),
        (b'{"jsonrpc": "2.0", "id": 6, "result": 5}', -32600, None),
        (request("nothing/there", {}), -32601, 7),
        (request("resources/subscribe", {"uri": "skill://a"}), -32601, 7),
        (request("tools/list", {"cursor": {}}), -32602, 7),
        (request("tools/call", {}), -32602, 7),
        (request("tools/call", {"name": 5}), -32602, 7),
        (request("tools/call", {"name": "load_skill", "arguments": []}), -32602, 7),
    ],
    ids=shown,
)
@pytest.mark.slow
def test_a_bad_line_is_answered_by_an_error(host, line, code, request_id):
    host.write(line + b"\n")
    answer = host.read()
    assert (answer["error"]["code"], answer.get("id")) == (code, request_id)
    assert is_alive(host)


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "\0"},
        {"query": "tea", "n": 10**30},
        {"query": "tea", "threshold": "NaN"},
        {"query": "x" * 1_000_000},
        {"query": "tea", "a" * 10_000: 1},
        json.loads(NESTED),
    ],
    ids=shown,
)
def test_bad_arguments_are_answered_by_the_tool(host, arguments):
    answer = host.ask("tools/call", {"name": "search_skills", "arguments": arguments})
    text = answer["result"]["content"][0]["text"]
    assert 0 < len(text) < 20_000
    assert is_alive(host)


def test_an_id_that_is_in_use_does_no_harm(host):
    for _ in range(2):
        host.send("tools/call", SEARCH, 5)
    assert [host.read().get("id"), host.read().get("id")] == [5, 5]
    assert is_alive(host)


def test_a_call_that_is_cancelled_is_forgotten(host):
    host.send("tools/call", SEARCH, 5)
    host.send("notifications/cancelled", {"requestId": 5})
    host.send("notifications/cancelled", {"requestId": {"no": "id"}})
    assert is_alive(host)


@pytest.mark.slow
def test_a_message_may_have_no_end(wire, drinks):
    with wire(drinks) as host:
        host.write(b'{"jsonrpc": "2.0", "id": 1, "meth')
        host.process.stdin.close()
        assert host.process.wait(120) == 0
        assert [answer["error"]["code"] for answer in host.rest()] == [-32700]


@pytest.mark.parametrize(
    "lines",
    [pytest.param(400, marks=pytest.mark.slow), pytest.param(5_000, marks=pytest.mark.night)],
)
def test_random_damage_never_ends_the_server(wire, drinks, lines):
    chance = random.Random(5)
    seeds = [
        request("tools/call", SEARCH),
        request("tools/call", {"name": "load_skill", "arguments": {"name": "steep-tea"}}),
        request("skills/list", {}),
        request("resources/read", {"uri": "skill://drinks/steep-tea/SKILL.md"}),
        request("resources/directory/read", {"uri": "skill://drinks/steep-tea"}),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
    ]
    with wire(drinks) as host:
        for _ in range(lines):
            line = bytearray(chance.choice(seeds))
            for _ in range(chance.randint(1, 6)):
                start = chance.randrange(len(line))
                line[start : start + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
            host.write(bytes(line).replace(b"\n", b" ") + b"\n")
        assert is_alive(host)
        host.process.stdin.close()
        assert host.process.wait(120) == 0
        host.rest()
        assert b"Traceback" not in host.process.stderr.read()


def test_arguments_as_json_text_are_read(host):
    text = {**SEARCH, "arguments": json.dumps(SEARCH["arguments"])}
    assert host.ask("tools/call", text) == host.ask("tools/call", SEARCH)
    for arguments in ("{", "[1]", "7"):
        answer = host.ask("tools/call", {**SEARCH, "arguments": arguments})
        assert answer["error"]["code"] == -32602
