"""Nothing is written outside our own folders, and nothing goes over the network.

Each command runs with a fresh home folder, in a separate network that counts every attempt.
"""

import importlib.util
import json
import mmap
import sys
from pathlib import Path

import pytest

from skillsearch.cli.app import COMMANDS

INDEX = "skillsearch index --examples"
WHO = {"name": "test", "version": "1"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": WHO}
SEARCH = {"name": "search_skills", "arguments": {"query": "my pod restarts"}}
CALLS = "\n".join(
    json.dumps({"jsonrpc": "2.0", **call})
    for call in (
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": SEARCH},
    )
)
"""A client's messages to the server."""
QUICK = {
    "index": "skillsearch index --verify",
    "query": "skillsearch query 'my pod restarts' | grep kubernetes-crashloop"
    " && skillsearch query --explain 회의록",
    "add": "mkdir m && printf -- '---\\nname: m\\ndescription: d\\n---\\n' > m/SKILL.md"
    " && skillsearch add ./m",
    "remove": "mkdir m && printf -- '---\\nname: m\\ndescription: d\\n---\\n' > m/SKILL.md"
    " && skillsearch add ./m && skillsearch remove ./m",
    "update": "skillsearch update",
    "find": "(sleep 3; printf 'my pod restarts\\r'; sleep 9)"
    " | script -qec 'skillsearch find' /dev/null | grep kubernetes-crashloop",
    "list": "skillsearch list",
    "families": "skillsearch families",
    "show": "skillsearch show kubernetes-crashloop --body",
    "why": "skillsearch why kubernetes-crashloop"
    " && skillsearch why log-triage 'my pod restarts' | grep kubernetes-crashloop",
    "run": "skillsearch run fill-pdf-forms -- python3 -c 'print(1)'",
    "status": "skillsearch status",
    "doctor": "skillsearch doctor",
    "validate": "mkdir s && printf -- '---\\nname: s\\ndescription: d\\n---\\n' > s/SKILL.md"
    " && skillsearch validate s",
    "audit": "skillsearch audit",
    "catalog": "skillsearch catalog site --url https://skills.example.org",
    "setup": "! skillsearch setup",
    "mcp-config": "skillsearch mcp-config codex",
    "hook": 'echo \'{"prompt": "my pod restarts"}\' | skillsearch hook --client codex'
    " && skillsearch daemon start && skillsearch daemon status && skillsearch daemon stop",
    "prompt": "skillsearch prompt 'my pod restarts'",
    "budget": "skillsearch budget",
    "library": "skillsearch library list",
    "enrich": "skillsearch enrich --pending && skillsearch enrich --list",
    "improve": "printf 'pod keeps crashing\\nwhy does my pod restart\\n'"
    " | skillsearch improve kubernetes-crashloop --requests -",
    "usage": "export SKILLSEARCH_USAGE=text && skillsearch query 'my pod restarts'"
    " && skillsearch usage --pin 'my pod restarts' kubernetes-crashloop && skillsearch usage --json"
    " && skillsearch usage --forget --yes",
    "eval": "mkdir -p e/m/evals"
    " && printf -- '---\\nname: m\\ndescription: d\\n---\\n' > e/m/SKILL.md"
    ' && echo \'[{"query": "make tea", "should_trigger": true}]\' > e/m/evals/trigger-evals.json'
    " && skillsearch eval --self e --html page.html",
    "cache": "skillsearch cache && skillsearch cache --clear && skillsearch status",
    "env": "skillsearch env list",
    "completion": "skillsearch completion bash",
}
STAYING = {  # for 20 s: ONNX Runtime, left to itself, reports after 10
    "watch": "timeout 20 skillsearch watch",
    "mcp": f"(echo '{CALLS}'; sleep 20) | skillsearch mcp | grep kubernetes-crashloop",
    "ui": "timeout 20 skillsearch ui; test $? = 124",
    "daemon": "skillsearch daemon start && skillsearch query 'my pod restarts' && sleep 20"
    " && skillsearch query 'my pod restarts' && skillsearch daemon stop",
}
WITH_AN_EXTRA = {"tune"}
"""Commands that are watched if their extra, ``train``, is installed."""


@pytest.fixture(scope="module")
def indexed_home(watched):
    """Make a home folder with an index of the examples; that too asks nobody."""
    first_run = watched(INDEX)
    first_run.check()
    return first_run.home


def test_every_command_is_watched():
    assert QUICK.keys() | STAYING.keys() | WITH_AN_EXTRA == COMMANDS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_command_asks_nobody_and_writes_only_to_our_folders(name, indexed_home, watched):
    watched(QUICK[name], indexed_home).check()


@pytest.mark.slow
def test_what_stays_asks_nobody(indexed_home, watched):
    """The daemon, the server, the watcher, and a program of somebody's own, for 20 seconds.

    ONNX Runtime beside them, left to itself, makes a device id and looks for its makers' collector.
    """
    library = "import time, skillsearch; skillsearch.search_skills('my pod restarts');"
    scripts = {**STAYING, "library": f'{sys.executable} -c "{library} time.sleep(20)"'}
    begun = {name: watched(script, indexed_home) for name, script in scripts.items()}
    unguarded = watched(f'{sys.executable} -c "import onnxruntime, time; time.sleep(20)"')
    for name, run in begun.items():
        run.check(code=124 if name == "watch" else 0)  # timeout's own code
    _, _, report = unguarded.end()
    if reports():
        assert "mobile.events.data.microsoft.com" in report["asked"]
        assert any(name.endswith("deviceid") for name in unguarded.foreign())


def reports():
    """Return whether the ONNX Runtime that is installed can report: from 1.29 on."""
    folder = importlib.util.find_spec("onnxruntime").submodule_search_locations[0]
    library = next(Path(folder).glob("capi/onnxruntime_pybind11_state*"))
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(b"ORT_DISABLE_TELEMETRY") >= 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "names", "tries"),
    [
        ("getaddrinfo('example.com', 80)", ["example.com"], "Udp:OutDatagrams"),
        ("create_connection(('192.0.2.1', 443))", [], "Ip:OutNoRoutes"),
        ("create_connection(('2001:db8::1', 443))", [], "Ip6:OutNoRoutes"),
        ("create_connection(('127.0.0.1', 443))", [], "Tcp:ActiveOpens"),
        ("socket(type=SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))", [], "Ip:OutNoRoutes"),
    ],
)
def test_whoever_is_asked_is_seen(act, names, tries, watched):
    code = f"import warnings; warnings.simplefilter('ignore'); from socket import *; {act}"
    run = watched(f'touch $TMPDIR/t $HOME/h; {sys.executable} -c "{code}"')
    ended, _, report = run.end()
    assert ended == 1
    assert report["asked"] == names
    assert report["tries"].keys() == {tries}
    assert run.foreign() == ["h", "t"]
