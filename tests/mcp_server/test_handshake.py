"""The answer to ``initialize`` before the SDK is loaded is the one that the SDK would give."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import InitializeRequestParams
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from skillsearch.mcp_server.handshake import VERSIONS, Handshake
from skillsearch.mcp_server.session_tools import TOOLSETS

HANDSHAKE = Handshake(TOOLSETS["default"], tells_changes=False)
"""That of a usual server."""


def line_of(params, **more):
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params, **more}
    return json.dumps(request).encode() + b"\n"


def hello(version="2025-06-18", capabilities=None, **client):
    client = {"name": "host", "version": "1", **client}
    return {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": client}


def test_the_versions_are_those_of_the_sdk():
    assert VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS
    assert VERSIONS[-1] == LATEST_HANDSHAKE_VERSION


KEYS = st.sampled_from(
    ["roots", "sampling", "elicitation", "experimental", "tasks", "listChanged", "form", "other"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(KEYS, inner, max_size=2) | st.lists(inner, max_size=2),
    max_leaves=4,
)


@given(
    capabilities=st.dictionaries(
        KEYS, st.dictionaries(KEYS, VALUES, max_size=2) | VALUES, max_size=3
    )
    | VALUES,
    client=st.dictionaries(st.sampled_from(["title", "name", "icons", "websiteUrl"]), VALUES),
    version=st.sampled_from([*VERSIONS, "2099-01-01", ""]) | VALUES,
)
def test_what_is_greeted_is_accepted_by_the_sdk(capabilities, client, version):
    params = hello(version, capabilities, **client)
    params["capabilities"] = capabilities
    answer = HANDSHAKE.answer(line_of(params))
    try:
        InitializeRequestParams.model_validate(params, by_name=False)
    except ValidationError:
        assert answer is None


CAPABILITIES = {"sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}}


@pytest.mark.parametrize(
    ("toolset", "tells", "versions"),
    [
        ("default", False, (*VERSIONS, "2026-07-28", "")),
        *((name, True, VERSIONS[-1:]) for name in TOOLSETS),
    ],
)
def test_a_greeting_is_what_the_sdk_answers_and_the_session_goes_on(
    converse, make_server, drinks, toolset, tells, versions
):
    for version in versions:
        lines = [
            line_of(hello(version, CAPABILITIES, title="Host")),
            b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n',
            b'{"jsonrpc": "2.0", "id": "next", "method": "tools/list"}\n',
        ]
        greeted, alone = (
            converse(
                make_server(drinks, toolset=toolset, tells_changes=tells),
                lines,
                handshake,
                until="next",
            )
            for handshake in (Handshake(TOOLSETS[toolset], tells), None)
        )
        assert greeted == alone
        assert [answer["id"] for answer in greeted] == [1, "next"]
        assert "error" not in greeted[1]


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"\xff\n",
        b"[" * 100_000 + b"\n",
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
        line_of(hello(), id=True),
        line_of(hello(), id=None),
        line_of(hello(), jsonrpc="1.0"),
        line_of({**hello(), "_meta": {"progressToken": 1}}),
        line_of(hello(capabilities={"experimental": {"new": {}}})),
        line_of(hello(title="x" * (64 << 10))),
        line_of([]),
        line_of(hello(), id="\ud800"),
        line_of(hello(title="\ud800")),
        line_of(hello("\ud800")),
    ],
    ids=lambda line: line[:60].decode(errors="replace"),
)
def test_an_unusual_first_line_is_left_to_the_sdk(converse, make_server, drinks, line):
    assert HANDSHAKE.answer(line) is None
    server = make_server(drinks)
    lines = [line, b'{"jsonrpc": "2.0", "id": "end", "method": "ping"}\n']
    greeted, alone = (converse(server, lines, each, until="end") for each in (HANDSHAKE, None))
    assert greeted == alone


def test_a_client_is_greeted_before_anything_heavy_is_imported(variables, drinks):
    code = (
        "import sys\n"
        "from skillsearch.cli import main\n"
        "from skillsearch.mcp_server import streams\n"
        "def greet(*_):\n"
        "    sys.exit(' '.join(sys.modules))\n"
        "streams.greet = greet\n"
        f"sys.argv = ['skillsearch', 'mcp', {str(drinks)!r}]\n"
        "main()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False
    )
    loaded = set(run.stderr.split())
    assert "skillsearch.mcp_server.streams" in loaded
    assert not loaded & {"numpy", "mcp", "mcp_types", "pydantic", "anyio", "yaml", "onnxruntime"}
