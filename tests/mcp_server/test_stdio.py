"""Tests of the server as a program that a host starts and talks to by stdin and stdout."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

import skillsearch
from skillsearch.mcp_server.stdio import LAST_SECONDS

MAX_START_BYTES = 8_000
MANY = 1_000
MODERN = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


def write(process, **message):
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


@pytest.fixture
def started(command, variables):
    def by(*args):
        program, *rest = [*command, *map(str, args)]
        return stdio_client(StdioServerParameters(command=program, args=rest, env=variables))

    return by


@pytest.mark.parametrize(
    ("mode", "version"),
    [
        pytest.param("auto", "2026-07-28", marks=pytest.mark.slow),
        pytest.param("legacy", "2025-11-25", marks=pytest.mark.night),
    ],
)
def test_the_official_client_uses_every_tool(started, talk, drinks, mode, version):
    (drinks / "steep-tea" / "notes.md").write_text("Oolong: 90 C.\n", encoding="utf-8")

    async def say(client):
        assert client.protocol_version == version
        names = [tool.name for tool in (await client.list_tools()).tools]
        search = await client.call_tool("search_skills", {"query": "steep green tea"})
        best = search.structured_content["skills"][0]["name"]
        body = await client.call_tool("load_skill", {"name": best})
        page = await client.call_tool("read_skill_file", {"name": best, "path": "notes.md"})
        listed = await client.call_tool("list_skills", {})
        missing = await client.call_tool("load_skill", {"name": "nothing like it"})
        return names, best, body, page, listed, missing

    names, best, body, page, listed, missing = talk(started(drinks), say, mode)
    assert names == ["search_skills", "load_skill", "read_skill_file", "list_skills"]
    assert best == "steep-tea"
    assert body.structured_content["body"] == "# Tea\n\nUse 80 C."
    assert page.structured_content["content"] == "Oolong: 90 C.\n"
    assert listed.structured_content["total"] == 3
    assert missing.is_error


@pytest.mark.slow
def test_a_program_without_an_index_starts_and_says_so(program, index_dir):
    with program("--index-dir", index_dir) as process:
        params = {"name": "list_skills", "arguments": {}, **MODERN}
        write(process, id=1, method="tools/call", params=params)
        answer = json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(120) == 0
        warning = process.stderr.read().decode()
    assert "skillsearch index FOLDER" in answer["result"]["content"][0]["text"]
    assert warning.startswith("warning: There is no index in ")


@pytest.mark.slow
def test_a_program_takes_the_options_of_what_to_offer(wire, drinks):
    with wire(drinks, "--include", "*tea*") as host:
        answer = host.ask("tools/call", {"name": "list_skills", "arguments": {}}, 7)
    names = [skill["name"] for skill in answer["result"]["structuredContent"]["skills"]]
    assert names == ["steep-tea"]


@pytest.mark.slow
def test_the_end_of_stdin_ends_it(wire, drinks):
    with wire(drinks) as host:
        host.process.stdin.close()
        assert host.process.wait(120) == 0
        assert host.rest() == []
        assert host.process.stderr.read() == b""


@pytest.mark.slow
def test_what_a_pipe_asks_is_answered_before_it_ends(program, drinks):
    """As in ``skillsearch mcp < requests.jsonl``; what was cancelled is not waited for."""
    client = {"name": "tests", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    call = {"name": "search_skills", "arguments": {"query": "steep green tea"}}
    messages = [
        {"id": 0, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/list"},
        {"id": "two", "method": "tools/call", "params": call},
        {"id": 3, "method": "tools/call", "params": call},
        {"method": "notifications/cancelled", "params": {"requestId": 3}},
    ]
    with program(drinks) as process:
        for message in messages:
            write(process, **message)
        process.stdin.close()
        answers = {answer["id"]: answer for answer in map(json.loads, process.stdout)}
        assert process.wait(120) == 0
    assert all("result" in answers[request] for request in (0, 1, "two"))


@pytest.mark.slow
def test_a_client_that_listens_for_changes_is_not_waited_for(program, drinks):
    params = {"notifications": {}} | MODERN
    with program(drinks, "--watch") as process:
        write(process, id=1, method="subscriptions/listen", params=params)
        assert b"subscriptions/acknowledged" in process.stdout.readline()
        process.stdin.close()
        started = time.monotonic()
        assert process.wait(120) == 0
        assert time.monotonic() - started < LAST_SECONDS


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.slow
def test_a_signal_ends_it_at_once(program, drinks, number, code):
    with program(drinks) as process:
        write(process, id=1, method=5)
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(120) == code
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


@pytest.mark.slow
def test_a_host_that_reads_no_more_ends_it(program, drinks):
    """A server that nobody hears is of no use."""
    with program(drinks) as process:
        process.stdout.close()
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n' * 2)
        process.stdin.flush()
        assert process.wait(120) == 0


@pytest.mark.slow
def test_what_else_is_printed_goes_to_stderr(variables, program, drinks, tmp_path):
    """Stray prints, of Python and of whatever writes to the descriptor, are no messages.

    They begin when the server has taken the streams for itself.
    """
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, threading, time\n"
        "def chatter():\n"
        "    while True:\n"
        "        time.sleep(0.02)\n"
        "        print('stray', flush=True)\n"
        "        os.write(1, b'low\\n')\n"
        "def later():\n"
        "    pipe = os.fstat(1).st_ino\n"
        "    while os.fstat(1).st_ino == pipe:\n"
        "        time.sleep(0.01)\n"
        "    chatter()\n"
        "threading.Thread(target=later, daemon=True).start()\n"
    )
    variables["PYTHONPATH"] = os.pathsep.join([str(tmp_path), variables["PYTHONPATH"]])
    with program(drinks) as process:
        for number in range(40):
            write(process, id=number, method="nothing")
            assert json.loads(process.stdout.readline())["id"] == number
            time.sleep(0.05)
        process.stdin.close()
        assert process.wait(120) == 0
        assert b"stray" in process.stderr.read()


@pytest.mark.parametrize(
    ("args", "most"),
    [
        pytest.param((), 2_500, marks=pytest.mark.night),
        pytest.param(("--allow-run",), 3_300, marks=pytest.mark.slow),
    ],
)
def test_the_definitions_are_small_as_they_are_sent(program, wire, drinks, args, most):
    with wire(drinks, *args) as host:
        host.send("tools/list", request_id=1)
        sent = [host.lines.get(timeout=60)]
    with program(drinks, *args) as process:
        write(process, id=1, method="tools/list", params=MODERN)
        sent.append(process.stdout.readline())
    for answer in sent:
        names = {tool["name"] for tool in json.loads(answer)["result"]["tools"]}
        assert {"search_skills", "load_skill", "read_skill_file", "list_skills"} <= names
        assert len(answer) < most
    tools = json.dumps(json.loads(sent[0])["result"]["tools"], separators=(",", ":"))
    page = Path(skillsearch.__file__).parent / "mcp_server" / "README.md"
    assert f"{len(tools):,} characters" in page.read_text("utf-8")


@pytest.mark.slow
def test_the_start_of_a_session_is_small_with_thousands_of_skills(wire, tmp_path, make_skill):
    for number in range(MANY):
        make_skill(tmp_path / "many", f"skill-{number}", f"Does {number} things. " * 20)
    with wire(tmp_path / "many") as host:
        start = [host.greet(), host.ask("tools/list", request_id=1)]
        total = host.ask("tools/call", {"name": "list_skills", "arguments": {"n": 1}}, 2)
    assert total["result"]["structuredContent"]["total"] == MANY
    assert sum(len(json.dumps(answer)) for answer in start) < MAX_START_BYTES


@pytest.mark.slow
def test_an_index_that_is_watched_may_come_later(wire, cli, drinks, index_dir, make_skill):
    pytest.importorskip("watchfiles")
    with wire("--index-dir", index_dir, "--watch") as host:
        cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
        time.sleep(3)
        make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
        while host.read().get("method") != "notifications/resources/list_changed":
            pass
        listed = host.ask("tools/call", {"name": "list_skills", "arguments": {}}, 2)
    assert listed["result"]["structuredContent"]["total"] == 4
