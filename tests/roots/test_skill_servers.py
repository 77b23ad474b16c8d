"""Skills of MCP servers: read whole, within bounds, or not at all."""

import base64
import gzip
import hashlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import skillsearch
from skillsearch.index.skill_index import SkillIndex
from skillsearch.roots import lock, skill_servers
from skillsearch.roots.bundles import content_digest
from skillsearch.roots.sources import added_source, folder_of

pytestmark = pytest.mark.usefixtures("hashing")


def sha256(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_skills_of_a_server_come_with_all_their_files(
    cli, fails, tmp_path, make_skill, names, home
):
    pytest.importorskip("mcp")
    served = tmp_path / "served"
    path = make_skill(served, "draw-map", "Draw a map of a walk.")
    (path.parent / "assets").mkdir()
    (path.parent / "assets" / "dot.bin").write_bytes(bytes(range(256)))
    ours = {"HOME": str(home), "PATH": os.environ["PATH"], "SKILLSEARCH_MODEL": "hashing"}
    ours |= {"PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
    command = [sys.executable, "-m", "skillsearch", "mcp", str(served), "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, env=ours, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = re.search(r"http://\S+", process.stderr.readline())[0]
            assert cli("add", f"mcp+{url}").exit_code == 0
        finally:
            process.send_signal(signal.SIGKILL)
    assert names() == ["draw-map"]
    (document,) = SkillIndex.open().documents()
    copy = Path(document.path).parent
    assert content_digest(copy) == content_digest(path.parent)
    fails("update", says="does not serve skills", code=1)
    assert names() == ["draw-map"]


@pytest.fixture
def served(server):
    """Serve skills by the extension of the protocol, with a change of each result; as events."""
    pytest.importorskip("mcp")

    def serve(skills, change=lambda method, result: result, as_events=True):
        texts = {
            f"skill://{path}": data for skill in skills.values() for path, data in skill.items()
        }
        listed = [
            {
                "uri": f"skill://{name}/SKILL.md",
                "resources": [
                    {"uri": f"skill://{path}", "digest": sha256(data)}
                    for path, data in skill.items()
                ],
            }
            for name, skill in skills.items()
        ]

        def result_of(request):
            if request["method"] == "initialize":
                version = request["params"]["protocolVersion"]
                about = {"name": "x", "version": "1"}
                return {"protocolVersion": version, "capabilities": {}, "serverInfo": about}
            if request["method"] == "skills/list":
                return {"skills": listed}
            uri = request["params"]["uri"]
            blob = base64.b64encode(texts[uri]).decode()
            return {"contents": [{"uri": uri, "mimeType": "text/plain", "blob": blob}]}

        def answer(handler):
            request = json.loads(handler.body)
            if "id" not in request:
                handler.send_response(202)
                handler.send_header("Content-Length", "0")
                handler.end_headers()
                return
            reply = {"jsonrpc": "2.0", "id": request["id"]}
            if request["method"] == "server/discover":
                reply |= {"error": {"code": -32601, "message": "no"}}
            else:
                reply |= {"result": change(request["method"], result_of(request))}
            data = json.dumps(reply).encode()
            data = b"event: message\ndata: " + data + b"\n\n" if as_events else data
            kind = "text/event-stream" if as_events else "application/json"
            handler.send_response(200)
            handler.send_header("Content-Type", kind)
            handler.end_headers()
            handler.wfile.write(data)

        server.pages["/mcp"] = answer
        return f"mcp+{server.url}/mcp"

    return serve


def test_files_of_a_server_may_be_as_large_as_we_say(
    cli, fails, served, names, monkeypatch, skill_md
):
    assert skill_servers.MAX_FILE_BYTES * 4 // 3 < skill_servers.MAX_ANSWER  # as base64
    monkeypatch.setattr(skill_servers, "MAX_FILE_BYTES", 1 << 18)
    most = bytes(skill_servers.MAX_FILE_BYTES)
    files = {"a/SKILL.md": skill_md("a"), "a/most.bin": most}
    assert cli("add", served({"a": files})).exit_code == 0
    assert names() == ["a"]
    url = served({"a": {**files, "a/more.bin": most + b"x"}}, as_events=False)
    fails("update", "--yes", says="is larger than 262,144 bytes", code=1)
    assert len(list(folder_of(added_source(url)).rglob("*.bin"))) == 1


def endless(handler, kind, begin, block):
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    handler.end_headers()
    handler.wfile.write(begin)
    while True:
        handler.wfile.write(block * (1 << 16))


def packed(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Encoding", "gzip")
    handler.end_headers()
    handler.wfile.write(gzip.compress(b'"' + bytes(1 << 24)))


ENDLESS = {
    "text": (lambda handler: endless(handler, "application/json", b'{"a": "', b"x"), "more than"),
    "lists": (lambda handler: endless(handler, "application/json", b"", b"["), "more than"),
    "an event": (
        lambda handler: endless(handler, "text/event-stream", b"data: ", b"x"),
        "more than",
    ),
    "lines": (lambda handler: endless(handler, "text/event-stream", b"", b"data:\n"), "more than"),
    "pings": (lambda handler: endless(handler, "text/event-stream", b"", b":\n\n"), "more than"),
    "packed": (packed, "packs its answers (gzip)"),
}


@pytest.mark.parametrize(("answer", "message"), ENDLESS.values(), ids=ENDLESS)
def test_an_answer_of_a_server_has_an_end(fails, server, monkeypatch, answer, message):
    pytest.importorskip("mcp")
    monkeypatch.setattr(skill_servers, "MAX_ANSWER", 1 << 18)
    server.pages["/mcp"] = answer
    result = fails("add", f"mcp+{server.url}/mcp", says=message)
    assert len(result.stderr.splitlines()) == 1
    assert lock.read_lock() == {}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        *(("application/json", data) for data in (b"", b"[" * 9999, b"\xff")),
        ("text/event-stream", b"nothing"),
        ("text/html", b"nothing"),
    ],
)
def test_an_odd_server_is_one_line(fails, server, kind, data):
    pytest.importorskip("mcp")
    server.page("/mcp", data, content_type=kind)
    result = fails("add", f"mcp+{server.url}/mcp", says="does not serve skills")
    assert len(result.stderr.splitlines()) == 1


def test_what_the_library_logs_of_an_odd_server_is_not_told(cli, server, monkeypatch):
    """Without a handler, as in the command line, Python prints what is logged on stderr."""
    pytest.importorskip("mcp")
    for name in (None, *skill_servers._LIBRARIES):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    server.page("/mcp", b"{", content_type="application/json")
    message = cli("add", f"mcp+{server.url}/mcp").stderr
    assert message.startswith("Error: ")
    assert len(message.splitlines()) == 1


def test_a_skill_of_too_many_files_is_left_out_and_told(
    cli, fails, served, names, caplog, skill_md
):
    many = {f"b/{number}": b"" for number in range(skill_servers.MAX_FILES)}
    skills = {"a": {"a/SKILL.md": skill_md("a")}, "b": {"b/SKILL.md": skill_md("b"), **many}}
    assert cli("add", served(skills)).exit_code == 0
    assert names() == ["a"]
    assert "skill://b/SKILL.md has 513 files, more than 512" in caplog.text
    url = served({"b": skills["b"]})
    fails("add", url, says="serves no skills that can be used")


@pytest.mark.parametrize(
    ("path", "more", "fault"),
    [
        ("a/b", {"a/b/x/SKILL.md": b""}, None),
        ("a/b", {}, "'a/b' would be both a file and a folder"),
        ("x" * 256, {}, "xxx…' has a part of more than 255 bytes"),
        ("b" + "/b" * 40, {}, "is more than 32 folders deep"),
        ("A", {}, "'A' differs from 'a' only in case or accents"),
        ("b:c", {}, "'b:c/SKILL.md' has a colon in its name"),
        ("b", {"b/x": b"", "b/x/y": b""}, "'b/x' would be both a file and a folder"),
        ("b", {"c/x": b""}, "names skill://c/x, which is not one of its files"),
        ("b", {"b/../../x": b""}, "names skill://b/../../x, which is not one of its files"),
        ("b", {"b/\u202e": b""}, "which is not one of its files"),
    ],
)
def test_a_skill_of_impossible_names_is_left_out_and_the_rest_comes(
    cli, served, names, caplog, path, more, fault, skill_md
):
    """The disk was blamed, and nothing came."""
    first = {"a/SKILL.md": skill_md("a")} | ({} if fault is None else {"a/b": b"file"})
    other = {f"{path}/SKILL.md": skill_md("b"), **more}
    assert cli("add", served({"a": first, path: other})).exit_code == 0
    assert names() == (["a"] if fault else ["a", "b"])
    assert (fault or "") in caplog.text
    assert ("Left out" in caplog.text) == bool(fault)
