"""Tests of the server over HTTP: who may reach it, what a client must show, how it ends."""

import http.client
import json
import re
import signal
import socket
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import ConfigError
from skillsearch.mcp_server.listening import Listener, listen, parse_address

TOKEN = "correct-horse-battery-staple"
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@contextmanager
def served(start, *args):
    """Start a server at any free port; yield its process and its URL."""
    with start(*args, "--http", "127.0.0.1:0") as process:
        line = process.stderr.readline().decode()
        yield process, re.fullmatch(r"Serving skills at (\S+)(?: to .*)?\n", line)[1]


def port_of(url):
    return int(re.search(r":(\d+)/", url)[1])


def post(url, body=HELLO, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port_of(url), timeout=120)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body)
        connection.request("POST", "/mcp", data, {**HEADERS, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory, launch, module_variables, write_skill):
    """Start one server that all tests use that leave it as it is."""
    root = tmp_path_factory.mktemp("http")
    write_skill(root / "skills", "steep-tea", "Steep green tea.", "Use 80 C.\n")

    def start(*args):
        return launch(root, module_variables, *args)

    with served(start, root / "skills") as (_, where):
        yield where


def test_a_client_over_http_is_not_told_how_to_keep_examples(url, talk):
    """They are the user's, and it may be somebody else's."""

    async def say(client):
        return [prompt.name for prompt in (await client.list_prompts()).prompts]

    assert talk(url, say) == ["find_skill", "use_skill"]


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_official_client_finds_and_loads(url, talk, mode, version):
    async def say(client):
        answer = await client.call_tool("search_skills", {"query": "steep green tea"})
        loaded = await client.call_tool("load_skill", {"name": "steep-tea"})
        missing = await client.call_tool("load_skill", {"name": "nothing"})
        return client.protocol_version, answer, loaded, missing

    spoken, answer, loaded, missing = talk(url, say, mode)
    assert spoken == version
    assert [hit["name"] for hit in answer.structured_content["skills"]] == ["steep-tea"]
    assert loaded.structured_content["body"] == "Use 80 C."
    assert missing.is_error


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "https://LocalHost"}, 200),
        ({"Origin": "http://[::1]:3000"}, 200),
        ({"Host": "LOCALHOST"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "[::1]:80"}, 200),
        ({"Host": "localhost:80@evil.example"}, 421),
        ({"Host": "user@localhost"}, 421),
        ({"Host": "localhost."}, 421),
        ({"Host": "127.0.0.1:123456"}, 421),
        ({"Host": "127x0y0z1"}, 421),
        ({"Host": "[::1]evil.example"}, 421),
        ({"Host": "localhost.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://localhost:80@evil.example"}, 403),
        ({"Origin": "http://evil.example#http://localhost"}, 403),
        ({"Origin": "http://localhost/"}, 403),
        ({"Origin": "localhost"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 400),
    ],
)
def test_a_web_page_cannot_use_the_server(url, headers, status):
    assert post(url, **headers)[0] == status


def test_each_origin_of_a_request_must_be_of_this_machine(url):
    connection = http.client.HTTPConnection("127.0.0.1", port_of(url), timeout=120)
    connection.putrequest("POST", "/mcp")
    for origin in ("http://localhost", "http://evil.example"):
        connection.putheader("Origin", origin)
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()


def test_a_body_of_five_megabytes_is_refused(url):
    assert post(url, b" " * (5 << 20))[0] == 413


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b"null"])
def test_a_bad_body_is_answered_by_an_error(url, body):
    status, answer = post(url, body)
    assert (status, "error" in json.loads(answer)) == (400, True)
    assert post(url)[0] == 200


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, launch, module_variables):
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "token").chmod(0o600)

    def start(*args):
        return launch(folder, module_variables, *args)

    with served(start, "--token-file", folder / "token") as (_, where):
        yield where


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        (None, 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (TOKEN, 401),
        ("Bearer ", 401),
        ("Basic é", 401),
        (f"Bearer {TOKEN}", 200),
    ],
)
def test_only_who_shows_the_token_is_answered(guarded, shown, status):
    headers = {} if shown is None else {"Authorization": shown.encode("latin-1")}
    assert post(guarded, **headers)[0] == status


@pytest.mark.slow
def test_the_token_may_come_from_a_variable(program, variables):
    variables["SKILLSEARCH_MCP_TOKEN"] = TOKEN
    with served(program) as (_, url):
        assert post(url)[0] == 401
        assert post(url, Authorization=f"Bearer {TOKEN}")[0] == 200


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.slow
def test_a_signal_ends_it_while_a_stream_is_open(program, drinks, number, code):
    with served(program, drinks) as (process, url):
        opened = http.client.HTTPConnection("127.0.0.1", port_of(url), timeout=120)
        opened.request("POST", "/mcp", json.dumps(HELLO), HEADERS)
        answer = opened.getresponse()
        session = {"Mcp-Session-Id": answer.headers["mcp-session-id"]}
        answer.read()
        opened.request("GET", "/mcp", headers={**HEADERS, **session})
        assert opened.getresponse().status == 200
        process.send_signal(number)
        assert process.wait(120) == code
        assert process.stdout.read() == b""
        opened.close()


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8765", "127.0.0.1", 8765),
        ("localhost:0", "localhost", 0),
        ("[::1]:80", "::1", 80),
    ],
)
def test_an_address_is_a_host_and_a_port(text, host, port):
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "8765", ":8765", "localhost", "localhost:", "::1:80", "[a]:80", "[]:80"),
        *("a:65536", "a:-1", "a:1e3", "a:٣", "a b\n:80", "a:" + "0" * 99),
    ],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ConfigError, match=re.escape("HOST:PORT, such as 127.0.0.1:8765")):
        parse_address(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "--allow-remote"),
        ({"token": TOKEN}, "--allow-remote"),
        ({"allow_remote": True}, "--token-file"),
        ({"allow_remote": True, "token": "short"}, "at least 16 characters"),
        ({"allow_remote": True, "token": "é" * 20}, "ASCII"),
    ],
)
def test_other_machines_need_leave_and_a_token(options, said):
    with pytest.raises(ConfigError, match=said):
        listen("0.0.0.0", **options)


def test_with_both_other_machines_may_come():
    listener = listen("0.0.0.0", token=TOKEN, allow_remote=True)
    with listener.socket:
        assert not listener.is_local
        assert listener.authority is None


def test_a_named_machine_is_known_by_its_name_alone():
    with socket.socket() as made:
        names = Listener(made, "box.example", TOKEN, is_local=False).authority
    hosts = ("box.example", "box.example:80", "localhost", "boxyexample", "evil.box.example")
    assert [bool(re.fullmatch(names, host)) for host in hosts] == [True, True, False, False, False]


@pytest.fixture(scope="module")
def local_names():
    with socket.socket() as made:
        return Listener(made, "127.0.0.1", "", is_local=True).authority


_PARTS = ("localhost", "LOCALHOST", "127.0.0.1", "::1", "[", "]", ":", "@", ".", "/", "80", "evil")


@given(st.lists(st.sampled_from(_PARTS), max_size=6).map("".join))
def test_no_other_machine_passes_for_this_one(local_names, host):
    if re.fullmatch(local_names, host, re.IGNORECASE):
        url = urlsplit(f"http://{host}")
        assert url.hostname in {"localhost", "127.0.0.1", "::1"}
        assert (url.username, url.path) == (None, "")
        assert url.port in {None, 80, 8080}


@pytest.mark.slow
def test_a_port_in_use_is_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}: Address already in use; .*port 0"):
            listen("127.0.0.1", port)
