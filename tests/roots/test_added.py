"""Tests of sources that are added, updated and removed, with servers that are kind or hostile."""

import base64
import errno
import gzip
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import skillsearch
from skillsearch.cli.commands import COMMANDS
from skillsearch.errors import RootError
from skillsearch.index.skill_index import SkillIndex
from skillsearch.roots import lock, skill_servers, well_known
from skillsearch.roots.bundles import content_digest, local_root
from skillsearch.roots.downloads import fetch
from skillsearch.roots.sources import WELL_KNOWN, added_source, place_of
from skillsearch.roots.well_known import SCHEMA, read_index

GITHUB = "https://github.com/owner/repo/archive"


def skill_md(name, text="Do it."):
    """Return the bytes of a SKILL.md."""
    return f"---\nname: {name}\ndescription: The skill {name} does a thing.\n---\n{text}\n".encode()


def sha256(data):
    """Return a digest as the index of a host has it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.fixture(autouse=True)
def hashing(monkeypatch):
    """Embed without a model."""
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")


@pytest.fixture
def host(server):
    """Offer skills at the well-known place, given by name and text; entries may be changed."""

    def offer(skills, change=lambda entry: entry, **index):
        entries = []
        for name, text in skills.items():
            data = skill_md(name, text)
            server.page(f"/files/{name}.md", data)
            entry = {"name": name, "type": "skill-md", "description": "x"}
            entries.append(change(entry | {"url": f"/files/{name}.md", "digest": sha256(data)}))
        record = {"$schema": SCHEMA, "skills": entries} | index
        server.page(WELL_KNOWN, json.dumps(record).encode())
        return server.url

    return offer


@pytest.fixture
def names():
    """Return the names of all skills of the user's index."""

    def find():
        return sorted(document.name for document in SkillIndex.open().documents())

    return find


def state():
    """Return all that a command may change: the lock file, and the bytes of each source's copy."""
    path = lock.lock_file()
    copies = {entry.source: place_of(entry.source) for entry in lock.known_sources().values()}
    digests = {name: content_digest(place) for name, place in copies.items() if place.is_dir()}
    return path.read_text() if path.exists() else "", digests


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ("owner/repo", f"{GITHUB}/HEAD.zip"),
        ("owner/repo@v1.2", f"{GITHUB}/v1.2.zip"),
        ("owner/repo/skills/pdf", f"{GITHUB}/HEAD.zip#folder=skills/pdf"),
        ("owner/repo@main/skills", None),
        ("https://github.com/owner/repo", f"{GITHUB}/HEAD.zip"),
        ("https://github.com/owner/repo.git", f"{GITHUB}/HEAD.zip"),
        ("git@github.com:owner/repo.git", f"{GITHUB}/HEAD.zip"),
        ("https://github.com/owner/repo/tree/main/skills", f"{GITHUB}/main.zip#folder=skills"),
        (
            "https://gitlab.com/owner/repo",
            "https://gitlab.com/owner/repo/-/archive/HEAD/repo-HEAD.zip",
        ),
        ("https://skills.example.com", f"https://skills.example.com{WELL_KNOWN}"),
        ("https://skills.example.com/", f"https://skills.example.com{WELL_KNOWN}"),
        ("https://x.example/pack.zip", "https://x.example/pack.zip"),
        ("mcp+https://x.example/mcp", "mcp+https://x.example/mcp"),
    ],
)
def test_what_people_name_means_a_source(given, source):
    """As it stands on the page of a repository, or as other tools have it."""
    assert added_source(given) == (source or f"{GITHUB}/main/skills.zip")


GITLAB, CODEBERG = "https://gitlab.com/owner/repo", "https://codeberg.org/owner/repo"
HEAD = "archive/HEAD.zip"
IN_GITLAB = "-/archive/{0}/repo-{0}.zip".format
FORGE_URLS = {
    "https://github.com/owner/repo": {
        # A repository, however its page is reached.
        **dict.fromkeys(("", "/", ".git", "?tab=readme-ov-file", "/?tab=readme#use", "#use"), HEAD),
        "@v1.2": "archive/v1.2.zip",
        "#folder=skills/pdf": f"{HEAD}#folder=skills/pdf",
        # A state of it, and a folder there.
        "/tree/main": "archive/main.zip",
        "/tree/v1.2/": "archive/v1.2.zip",
        "/tree/main/skills": "archive/main.zip#folder=skills",
        "/tree/main/my%20skills/pdf?x=1": "archive/main.zip#folder=my%20skills/pdf",
        "/commit/0a1b2c": "archive/0a1b2c.zip",
        "/releases/tag/v1.2": "archive/v1.2.zip",
        # The page of a SKILL.md is the folder of that skill.
        "/blob/main/skills/pdf/SKILL.md": "archive/main.zip#folder=skills/pdf",
        "/blob/main/SKILL.md?plain=1": "archive/main.zip",
        # Files, and pages that show no folder, are taken as they are.
        **dict.fromkeys(
            (
                *("/archive/main.zip", "/archive/refs/heads/main.zip"),
                *("/archive/refs/tags/v1.tar.gz", "/archive/HEAD.zip#folder=a", "/zipball/main"),
                *("/releases/download/v1/x.zip", "/releases/latest/download/x.tar.gz"),
                *("/raw/main/SKILL.md", "/raw/refs/heads/main/a/SKILL.md"),
                *("/blob/main/README.md", "/issues", "/issues/7", "/releases", "/wiki/tree"),
            )
        ),
    },
    GITLAB: {
        **dict.fromkeys(("", "/", ".git", "?ref_type=heads"), IN_GITLAB("HEAD")),
        "@v1": IN_GITLAB("v1"),
        "/-/tree/main": IN_GITLAB("main"),
        "/tree/main/a": IN_GITLAB("main") + "#folder=a",
        "/-/tree/main/skills/pdf?ref_type=heads": IN_GITLAB("main") + "#folder=skills/pdf",
        "/-/blob/main/pdf/SKILL.md": IN_GITLAB("main") + "#folder=pdf",
        "/-/commit/0a1b2c": IN_GITLAB("0a1b2c"),
        "/-/releases/v1": IN_GITLAB("v1"),
        "/-/tags/v1": IN_GITLAB("v1"),
        **dict.fromkeys(
            ("/-/archive/main/repo-main.zip", "/-/raw/main/SKILL.md", "/-/issues", "/-/releases")
        ),
    },
    "https://gitlab.com/group/inner/repo": {
        "": IN_GITLAB("HEAD"),
        "/-/tree/main/a": IN_GITLAB("main") + "#folder=a",
    },
    CODEBERG: {
        **dict.fromkeys(("", "/", ".git"), HEAD),
        "/src/branch/main": "archive/main.zip",
        "/src/branch/main/skills/pdf": "archive/main.zip#folder=skills/pdf",
        "/src/branch/main/skills/pdf/SKILL.md": "archive/main.zip#folder=skills/pdf",
        "/src/tag/v1/skills": "archive/v1.zip#folder=skills",
        "/src/commit/0a1b2c": "archive/0a1b2c.zip",
        "/releases/tag/v1": "archive/v1.zip",
        **dict.fromkeys(
            ("/archive/main.zip", "/raw/branch/main/SKILL.md", "/releases/download/v1/x.zip")
        ),
    },
}


@pytest.mark.parametrize(
    ("page", "rest", "source"),
    [(page, *pair) for page, pairs in FORGE_URLS.items() for pair in pairs.items()],
)
def test_a_url_of_a_forge_means_what_it_shows(page, rest, source):
    """With and without a scheme, in any case of the host."""
    wanted = f"{page}/{source}" if source else f"{page}{rest}"
    bare = page.removeprefix("https://")
    host, _, path = bare.partition("/")
    www = (f"https://www.{bare}", f"www.{bare}") if source else ()
    for spelling in (
        page,
        bare,
        f"git+{page}",
        f"git://{bare}",
        f"https://{host.upper()}/{path}",
        *www,
    ):
        if spelling != f"https://{host.upper()}/{path}" or source:
            assert added_source(f"{spelling}{rest}") == wanted


@pytest.mark.parametrize("text", ["example.com/a/b", "a", "a/b?c", "a/b/../../c#d", "-/-", "a//b"])
def test_what_is_no_source_is_refused(text):
    """With what can be written."""
    with pytest.raises(RootError, match="is no folder here, and no source of skills"):
        added_source(text)


def test_a_folder_that_is_there_is_meant_before_a_repository(tmp_path, monkeypatch):
    """And what is neither is refused with what can be written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "repo").mkdir(parents=True)
    assert added_source("owner/repo") == str(tmp_path / "owner" / "repo")
    with pytest.raises(RootError, match="Write OWNER/REPO, a folder, an archive, a URL"):
        added_source("nothing")


def test_the_skills_of_a_host_are_added_pinned_updated_and_removed(cli, host, names):
    """With a question before anything is taken, and nothing offered in prompts."""
    url = host({"brew-tea": "Hot.", "boil-egg": "Six minutes."})
    result = cli("add", url, "--json")
    assert result.exit_code == 0
    (source,) = json.loads(result.stdout)["sources"]
    assert source["skills"] == ["boil-egg", "brew-tea"]
    assert names() == ["boil-egg", "brew-tea"]
    (entry,) = lock.read_lock().values()
    assert (entry.given, entry.digest) == (url, source["digest"])
    assert json.loads(cli("prompt", "brew tea", "--json").stdout)["skills"] == []
    assert "unchanged since" in cli("update").stderr

    host({"brew-tea": "Hotter.", "fry-egg": "Hot pan."})
    before = state()
    asked = cli("update")
    assert asked.exit_code == 1
    assert "added: fry-egg; changed: brew-tea; removed: boil-egg" in asked.stderr
    assert state() == before
    assert cli("index").exit_code == 0  # it renews nothing that was added
    assert state() == before
    taken = json.loads(cli("update", url, "--yes", "--json").stdout)["sources"]
    assert [record["state"] for record in taken] == ["updated"]
    assert names() == ["brew-tea", "fry-egg"]
    assert cli("update").exit_code == 0

    assert cli("remove", "http://nowhere.example").exit_code == 2
    other = cli("index", "--examples")
    assert other.exit_code == 0
    assert cli("remove", url).exit_code == 0
    assert lock.read_lock() == {}
    assert "brew-tea" not in names()


def test_a_folder_of_an_archive_is_the_root(cli, server, pack, names):
    """The rest of the repository is not there."""
    files = {
        f"repo-1/{part}/{name}/SKILL.md": skill_md(name)
        for part, name in (("skills", "a"), ("skills", "b"), ("other", "c"))
    }
    archive = pack("repo.zip", files)
    url = server.page("/owner/repo/archive/HEAD.zip", archive.read_bytes())
    assert cli("add", f"{url}#folder=skills").exit_code == 0
    assert names() == ["a", "b"]
    (root,) = SkillIndex.open().opened.settings.roots
    assert (root.path.name, root.trust) == ("repo", "fetched")
    for wrong in ("nothing", "../x", "skills/a/SKILL.md"):
        assert cli("add", f"{url}#folder={wrong}").exit_code == 2
    assert len(lock.read_lock()) == 1


def test_a_folder_here_is_added_as_the_user_s_and_not_pinned(cli, tmp_path, make_skill, names):
    """Nobody fetches it."""
    make_skill(tmp_path / "mine", "mine")
    assert cli("add", tmp_path / "mine").exit_code == 0
    assert names() == ["mine"]
    assert not lock.lock_file().exists()
    assert SkillIndex.open().opened.settings.roots[0].trust == "vetted"


def test_skills_of_a_server_come_with_all_their_files(cli, tmp_path, make_skill, names, home):
    """Byte for byte, by the extension of the protocol."""
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
    unreachable = cli("update")
    assert (unreachable.exit_code, "does not serve skills" in unreachable.stderr) == (1, True)
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

        def result_of(asked):
            if asked["method"] == "initialize":
                version = asked["params"]["protocolVersion"]
                about = {"name": "x", "version": "1"}
                return {"protocolVersion": version, "capabilities": {}, "serverInfo": about}
            if asked["method"] == "skills/list":
                return {"skills": listed}
            uri = asked["params"]["uri"]
            blob = base64.b64encode(texts[uri]).decode()
            return {"contents": [{"uri": uri, "mimeType": "text/plain", "blob": blob}]}

        def answer(handler):
            asked = json.loads(handler.body)
            if "id" not in asked:
                handler.send_response(202)
                handler.send_header("Content-Length", "0")
                handler.end_headers()
                return
            reply = {"jsonrpc": "2.0", "id": asked["id"]}
            if asked["method"] == "server/discover":
                reply |= {"error": {"code": -32601, "message": "no"}}
            else:
                reply |= {"result": change(asked["method"], result_of(asked))}
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


@pytest.mark.parametrize("as_events", [False, True])
def test_files_of_a_server_may_be_as_large_as_we_say(cli, served, names, as_events):
    """Whichever way it answers; and not larger."""
    most = bytes(skill_servers.MAX_FILE_BYTES)
    files = {"a/SKILL.md": skill_md("a"), "a/most.bin": most}
    assert cli("add", served({"a": files}, as_events=as_events)).exit_code == 0
    assert names() == ["a"]
    url = served({"a": {**files, "a/more.bin": most + b"x"}}, as_events=as_events)
    result = cli("update", "--yes")
    assert (result.exit_code, "is larger than 16,777,216 bytes" in result.stderr) == (1, True)
    assert len(list(place_of(added_source(url)).rglob("*.bin"))) == 1


def endless(handler, kind, begin, block):
    """Answer without an end."""
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    handler.end_headers()
    handler.wfile.write(begin)
    while True:
        handler.wfile.write(block * (1 << 16))


def packed(handler):
    """Answer with what unpacks to more than it seems."""
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
def test_an_answer_of_a_server_has_an_end(cli, server, monkeypatch, answer, message):
    """With a clear error in one line."""
    pytest.importorskip("mcp")
    monkeypatch.setattr(skill_servers, "MAX_ANSWER", 1 << 20)
    server.pages["/mcp"] = answer
    result = cli("add", f"mcp+{server.url}/mcp")
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert len(result.stderr.splitlines()) == 1
    assert lock.read_lock() == {}


@pytest.mark.parametrize("data", [b"", b"{", b"nothing", b"[" * 9999, b"\xff", b'{"jsonrpc": 1}'])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/html"])
def test_an_odd_server_is_one_line(cli, server, data, kind):
    """Whatever it answers instead of the protocol."""
    pytest.importorskip("mcp")
    server.page("/mcp", data, content_type=kind)
    result = cli("add", f"mcp+{server.url}/mcp")
    assert (result.exit_code, "does not serve skills" in result.stderr) == (2, True)
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("kind", ["application/json", "text/html"])
def test_what_the_library_logs_of_an_odd_server_is_not_told(server, kind):
    """By a process that has set up no log: Python prints it then."""
    pytest.importorskip("mcp")
    server.page("/mcp", b"{", content_type=kind)
    command = [sys.executable, "-m", "skillsearch", "add", f"mcp+{server.url}/mcp"]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert told.startswith("Error: ")
    assert len(told.splitlines()) == 1


def test_a_skill_of_too_many_files_is_left_out_and_told(cli, served, names, caplog):
    """Never cut; nothing is added if it is the only one."""
    many = {f"b/{number}": b"" for number in range(skill_servers.MAX_FILES)}
    skills = {"a": {"a/SKILL.md": skill_md("a")}, "b": {"b/SKILL.md": skill_md("b"), **many}}
    assert cli("add", served(skills)).exit_code == 0
    assert names() == ["a"]
    assert "skill://b/SKILL.md has 513 files; the most is 512" in caplog.text
    url = served({"b": skills["b"]})
    refused = cli("add", url)
    assert (refused.exit_code, "serves no skills that can be used" in refused.stderr) == (2, True)


# Hostile servers: a clear error, and everything as before.


def other_digest(entry):
    """Say of a file what it is not."""
    return entry | {"digest": sha256(b"other")}


def to_loopback(server):
    """Send whoever asks for the index to this machine, by another name."""
    server.redirect(WELL_KNOWN, f"http://localhost:{server.address.partition(':')[2]}/x")


def in_a_circle(server):
    """Send whoever asks for the index there again."""
    server.redirect(WELL_KNOWN, WELL_KNOWN)


def dying(server):
    """Break off in the middle of the index."""
    server.page(WELL_KNOWN, b'{"skills": [', content_length="1000")


ATTACKS = {
    "other digest": (lambda server, host: host({"a": "x"}, other_digest), "has the digest sha256:"),
    "redirect": (lambda server, host: to_loopback(server), "lies on this machine or its network"),
    "circle": (lambda server, host: in_a_circle(server), "redirects more than"),
    "dying": (lambda server, host: dying(server), "cannot be downloaded"),
    "page": (lambda server, host: server.page(WELL_KNOWN, b"<html>"), "is no index of skills"),
    "missing": (lambda server, host: server.page(WELL_KNOWN, b"", 404), "answered 404"),
    "failing": (lambda server, host: server.page(WELL_KNOWN, b"", 503), "is failing"),
    "huge": (
        lambda server, host: server.page(WELL_KNOWN, b" " * (well_known.MAX_INDEX_BYTES + 9)),
        "is larger than",
    ),
    "version": (lambda server, host: host({"a": "x"}, **{"$schema": "9"}), "its $schema is '9'"),
    "empty": (lambda server, host: host({}), "offers no skill"),
    "deep": (lambda server, host: server.page(WELL_KNOWN, b"[" * 100_000), "is no index of skills"),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("is_update", [False, True], ids=["add", "update"])
def test_a_hostile_server_changes_nothing(cli, server, host, names, attack, is_update):
    """Neither index, nor lock file, nor the copy that is there."""
    make, message = attack
    if is_update:
        host({"good": "Good."})
        assert cli("add", server.url).exit_code == 0
    before = state(), names() if is_update else []
    make(server, host)
    result = cli("update", "--yes") if is_update else cli("add", server.url)
    assert result.exit_code == (1 if is_update else 2)
    assert message in result.stderr
    assert (state(), names() if is_update else []) == before
    assert not list(place_of(added_source(server.url)).parent.glob(".temporary-*"))


def test_what_cannot_be_used_of_an_index_is_left_out(host, cli, names, caplog):
    """One bad entry never stops the rest."""
    bad = [
        {"name": "../up"},
        {"name": "UPPER"},
        {"type": "mcp"},
        {"url": "file:///etc/passwd"},
        {"url": ""},
        {"digest": "md5:1"},
        {"name": 5},
        {"url": "http://[::1"},
        {"name": "a" * 65},
    ]
    count = iter(bad)

    def spoil(entry):
        return entry if entry["name"] == "good" else entry | next(count)

    url = host({f"bad-{number}": "x" for number in range(len(bad))} | {"good": "y"}, spoil)
    assert cli("add", url).exit_code == 0
    assert names() == ["good"]
    assert len([line for line in caplog.messages if line.startswith("Left out of")]) == len(bad)


def test_an_index_is_read_whatever_its_entries_are():
    """Entries of any shape, one name twice, and more than count."""
    good = {"name": "a", "type": "archive", "url": "a.zip", "digest": sha256(b"")}
    entries = [
        None,
        1,
        [],
        "x",
        {},
        good,
        good,
        {**good, "name": "b", "url": "//cdn.example/b.zip"},
    ]
    data = json.dumps({"skills": entries}).encode()
    found = read_index(data, f"https://x.example{WELL_KNOWN}")
    assert [(offer.name, offer.url) for offer in found] == [
        ("a", "https://x.example/.well-known/agent-skills/a.zip"),
        ("b", "https://cdn.example/b.zip"),
    ]


def test_a_server_out_there_cannot_send_us_to_this_machine(server, monkeypatch, tmp_path):
    """Whoever is named may lie here; a stranger that a named one points to may not."""
    url = server.page("/x", b"x")
    with (tmp_path / "a").open("wb") as file:
        assert fetch(url, file) is not None
        with pytest.raises(RootError, match="if that is meant, name that URL yourself"):
            fetch(url, file, around="https://skills.example.com/index.json")
        fetch(url, file, around=f"{server.url}/index.json")


# The lock file.


def is_pinned():
    """Return whether each copy is what the lock file says."""
    known = lock.read_lock()
    return all(content_digest(place_of(name)) == known[name].digest for name in known)


def test_a_copy_that_was_never_agreed_to_is_asked_about_however_it_came(cli, host, names):
    """All of its skills are new then, and the server has nothing new to tell."""
    url = host({"good": "Good.", "same": "Same."})
    cli("add", url)
    (agreed,) = lock.read_lock().values()
    path = lock.lock_file()
    host({"good": "Other.", "same": "Same."})
    assert cli("update", "--yes").exit_code == 0
    path.write_text(path.read_text().replace(lock.read_lock()[agreed.source].digest, agreed.digest))
    for _ in range(2):
        asked = cli("update")
        assert (asked.exit_code, is_pinned()) == (1, False)
        assert f"{url}: added: good, same\n" in asked.stderr
        assert "skillsearch update" in cli("doctor").stdout
    assert cli("update", "--yes").exit_code == 0
    assert is_pinned()
    assert "unchanged since" in cli("update").stderr
    assert names() == ["good", "same"]


@pytest.mark.parametrize("command", ["add", "update"])
def test_nothing_is_taken_that_cannot_be_pinned(cli, host, monkeypatch, command):
    """As in a folder of settings that is read-only; later it works."""
    url = host({"good": "Good."})
    cli("add", url)
    before = state()
    host({"good": "Other."})
    ask = (command, url, *(["--yes"] if command == "update" else []))
    with monkeypatch.context() as patched:

        def fail(*_):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        patched.setattr(lock, "write_atomically", fail)
        result = cli(*ask)
    assert (result.exit_code, "cannot be written" in result.stderr) == (
        2 - (command == "update"),
        True,
    )
    assert state() == before
    assert cli(*ask).exit_code == 0
    assert is_pinned()


def test_what_is_added_again_is_pinned_even_if_it_cannot_be_indexed(cli, host):
    """Since the copy is what the user's index holds from then on."""
    url = host({"good": "Good."})
    cli("add", url)
    host({"good": "Other."})
    assert cli("add", url, "--index-dir", "/proc/nope").exit_code != 0
    assert is_pinned()
    assert "unchanged since" in cli("update").stderr


KILLED = """
import os, signal, sys
from skillsearch.cli.app import app

left = int(sys.argv[1])

def kill(event, arguments):
    global left
    here = ("/roots/", "skillsearch.lock")
    if event in ("os.remove", "os.rename") and any(place in str(arguments) for place in here):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
app(["update", "--yes"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals as on POSIX")
def test_a_kill_at_any_step_of_an_update_is_healed_by_the_next(cli, host):
    """By asking, and by taking it with --yes; whatever is in the way in between, it is told."""
    url = host({"good": "0"})
    cli("add", url)
    for step in range(1, 60):
        host({"good": str(step)})
        command = [sys.executable, "-c", KILLED, str(step)]
        code = subprocess.run(command, capture_output=True, check=False).returncode
        found = cli("update")
        assert (found.exit_code, is_pinned()) in ((0, True), (1, True)), step
        host({"good": "another"})
        assert cli("update").exit_code == 1
        assert cli("update", "--yes").exit_code == 0
        assert is_pinned()
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert step > 4


def test_a_copy_that_was_cleaned_away_must_be_what_was_added(cli, host, names, server):
    """Else it is refused, with the way to see what changed."""
    url = host({"good": "Good."})
    cli("add", url)
    place = place_of(added_source(url))
    for _ in range(2):
        shutil.rmtree(place.parent)
        assert cli("index").exit_code == 0
        assert names() == ["good"]
    shutil.rmtree(place.parent)
    host({"good": "Bad."})
    refused = cli("index")
    assert refused.exit_code == 2
    assert f"skillsearch update {url}" in refused.stderr
    assert "its copy is gone" in cli("doctor").stdout
    assert cli("update", "--yes").exit_code == 0
    assert names() == ["good"]


def test_doctor_compares_copies_with_the_lock_file(cli, host):
    """What was changed in the copy is found by its content."""
    url = host({"good": "Good."})
    cli("add", url)
    assert f"{url}, added or updated on" in cli("doctor").stdout
    place = place_of(added_source(url))
    path = place / "good" / "SKILL.md"
    path.write_bytes(path.read_bytes().replace(b"Good", b"Evil"))
    assert "its copy is not what was added on" in cli("doctor").stdout
    assert "its copy is not what was added on" in cli("status").stdout
    cli("index", "--examples")
    cli("index", "--remove", added_source(url))
    assert f"it is not in the index: skillsearch add {url}" in cli("doctor").stdout


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 2, "sources": []}', '{"version": 1}', "x" * 9]
)
def test_a_broken_lock_file_is_told_and_in_the_way_of_changes_alone(
    cli, host, text, make_skill, tmp_path
):
    """It is never overwritten."""
    make_skill(tmp_path / "mine", "mine")
    cli("index", tmp_path / "mine")
    path = lock.lock_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for command in (("add", host({"good": "x"})), ("update",), ("remove", "x/y")):
        result = cli(*command)
        assert (result.exit_code, "cannot be read" in result.stderr) == (2, True)
    assert cli("query", "mine").exit_code == 0
    assert "The lock file" in cli("doctor").stdout
    assert path.read_text() == text


def test_a_source_that_cannot_be_indexed_is_not_locked(cli, host, monkeypatch):
    """Both or neither."""
    url = host({"good": "x"})

    def fail(*_args, **_options):
        raise RootError("no room")

    monkeypatch.setattr(SkillIndex, "build", fail)
    assert cli("add", url).exit_code == 2
    assert lock.read_lock() == {}


def test_nothing_is_fetched_unasked(cli, host, server):
    """By what only looks."""
    cli("add", host({"good": "x"}))
    server.asked.clear()
    for command in (("query", "good"), ("list",), ("doctor",), ("status",), ("index",), ("setup",)):
        cli(*command)
    local_root(added_source(server.url))
    assert server.asked == []


# Out again.


def test_a_source_that_the_index_lost_leaves_the_lock_file(cli, host, names, tmp_path, make_skill):
    """As after --replace, or a removal that was ended between index and lock file."""
    make_skill(tmp_path / "mine", "mine")
    url = host({"good": "Good."})
    cli("add", url)
    cli("index", "--replace", tmp_path / "mine")
    removed = cli("remove", url, "--json")
    assert (removed.exit_code, json.loads(removed.stdout)["indexed"]) == (0, 1)
    assert lock.read_lock() == {}
    assert names() == ["mine"]


def test_a_removal_that_cannot_be_pinned_is_done_by_the_next(cli, host, monkeypatch):
    """Whatever had happened to the index by then."""
    url = host({"good": "Good."})
    cli("add", url)
    with monkeypatch.context() as patched:

        def fail(*_):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        patched.setattr(lock, "write_atomically", fail)
        assert cli("remove", url).exit_code == 2
    assert cli("remove", url).exit_code == 0
    assert lock.read_lock() == {}


def test_what_another_index_holds_stays_pinned(cli, host, tmp_path, make_skill):
    """An index without it says so."""
    make_skill(tmp_path / "mine", "mine")
    url = host({"good": "Good."})
    cli("add", url)
    cli("index", tmp_path / "mine", "--index-dir", tmp_path / "other")
    refused = cli("remove", url, "--index-dir", tmp_path / "other")
    assert (refused.exit_code, "is not a root of this index" in refused.stderr) == (2, True)
    assert len(lock.read_lock()) == 1


@pytest.mark.parametrize("spelling", ["w/own", "./w/own", "{here}/w/own", "w/../w/own"])
def test_a_folder_that_is_gone_is_removed_by_its_path(cli, names, make_skill, spelling):
    """It is no repository, however it is written."""
    make_skill("w/own", "mine")
    make_skill("w/two", "other")
    cli("add", "w/own", "w/two")
    shutil.rmtree("w/own")
    assert cli("remove", spelling.format(here=Path.cwd())).exit_code == 0
    assert names() == ["other"]


def test_archives_of_one_name_in_two_folders_are_two(cli, pack, tmp_path, monkeypatch, names):
    """Each is meant in its own folder, and by its path from everywhere."""
    for folder in ("p1", "p2", "p3"):
        (tmp_path / folder).mkdir()
        pack(f"{folder}/s.zip", {f"{folder}/SKILL.md": skill_md(folder)})
        monkeypatch.chdir(tmp_path / folder)
        assert cli("add", "s.zip").exit_code == 0
    monkeypatch.chdir(tmp_path / "p1")
    assert {entry.given for entry in lock.read_lock().values()} == set(lock.read_lock())
    assert "unchanged since" in cli("update", "s.zip").stderr
    assert cli("remove", "s.zip").exit_code == 0
    assert names() == ["p2", "p3"]
    monkeypatch.chdir(tmp_path)
    for command in ("update", "remove"):
        refused = cli(command, "s.zip")
        assert (refused.exit_code, "was not added" in refused.stderr) == (2, True)
    assert cli("add", "p1/../p2/s.zip").exit_code == 0
    assert len(lock.read_lock()) == 2
    assert cli("remove", "p3/../p2/s.zip").exit_code == 0
    assert names() == ["p3"]


def test_the_only_source_can_be_removed_again(cli, host, names):
    """Then there is no index, as before; and it can be added anew."""
    url = host({"good": "Good."})
    for _ in range(2):
        assert cli("add", url).exit_code == 0
        assert names() == ["good"]
        removed = cli("remove", url, "--json")
        assert (removed.exit_code, json.loads(removed.stdout)["indexed"]) == (0, 0)
        assert json.loads(removed.stdout)["sources"][0]["skills"] == ["good"]
        assert lock.read_lock() == {}
        assert cli("query", "good", "--no-refresh").exit_code == 4


def test_an_index_of_exactly_what_was_named_is_not_emptied(cli, host):
    """Since without it another would be made by itself."""
    url = host({"good": "Good."})
    cli("add", url)
    cli("index", "--replace", added_source(url))
    refused = cli("remove", url)
    assert (refused.exit_code, "Nothing would be left" in refused.stderr) == (2, True)
    assert len(lock.read_lock()) == 1


# A first index.


def test_a_first_index_holds_what_hosts_look_for_too(cli, host, home, names, make_skill, tmp_path):
    """Unless it has a folder of its own, or the settings say what it is to hold."""
    make_skill(home / ".claude" / "skills", "pdf-forms", "Fill in a PDF form.")
    url = host({"good": "Good."})
    assert cli("add", url, "--index-dir", tmp_path / "other").exit_code == 0
    assert [document.name for document in SkillIndex.open(tmp_path / "other").documents()] == [
        "good"
    ]
    told = cli("add", url)
    assert names() == ["good", "pdf-forms"]
    assert f"new: {home}/.claude/skills (1 skill; " in told.stderr
    make_skill(home / ".claude" / "skills", "later")
    assert cli("query", "later").exit_code == 0
    assert names() == ["good", "later", "pdf-forms"]
    assert cli("remove", url).exit_code == 0
    assert names() == ["later", "pdf-forms"]


def test_settings_that_name_roots_say_what_a_first_index_holds(
    cli, host, home, names, make_skill, tmp_path, monkeypatch
):
    """Beside what is added."""
    make_skill(home / ".claude" / "skills", "pdf-forms")
    make_skill(tmp_path / "mine", "mine")
    monkeypatch.setenv("SKILLSEARCH_ROOTS", str(tmp_path / "mine"))
    assert cli("add", host({"good": "Good."})).exit_code == 0
    assert names() == ["good", "mine"]


@pytest.mark.parametrize("root", ["~", ".", "{home}", "{home}/..", "/etc"])
def test_a_whole_home_folder_is_refused(cli, home, monkeypatch, root):
    """By every command that takes folders, with the command that takes it all."""
    monkeypatch.chdir(home)
    root = root.format(home=home)
    for variables, command in (
        ({}, ("add", root)),
        ({"SKILLSEARCH_ROOTS": root}, ("index",)),
        ({"SKILLSEARCH_ROOTS": root}, ("index", "--replace")),
        ({"SKILLSEARCH_ROOTS": root}, ("add", "owner/repo")),
        ({"SKILLSEARCH_ROOTS": root}, ("watch",)),
    ):
        refused = cli(*command, env=variables)
        assert (refused.exit_code, "a whole home folder or disk" in refused.stderr) == (2, True)
        assert re.search(r"skillsearch index --yes /\S*", " ".join(refused.stderr.split()))
    assert not lock.lock_file().exists()


def test_roots_of_the_settings_that_are_agreed_to_are_not_asked_about_again(cli, home, make_skill):
    """With --yes once, and from then on since they are held."""
    make_skill(home / "a", "mine")
    variables = {"SKILLSEARCH_ROOTS": str(home)}
    assert cli("index", "--yes", env=variables).exit_code == 0
    assert cli("index", env=variables).exit_code == 0


def test_an_archive_without_a_skill_is_not_added(cli, server, pack):
    """Nothing of it is kept."""
    for files in ({"README.md": b"x"}, {}):
        url = server.page("/x.zip", pack("x.zip", files).read_bytes())
        for given in (url, f"{url}#folder=none" if files else url):
            refused = cli("add", given)
            assert refused.exit_code == 2
            assert not place_of(added_source(given)).exists()
        assert "holds no skill" in cli("add", url).stderr
    assert lock.read_lock() == {}
    assert cli("query", "x").exit_code == 4


def test_the_command_that_vouches_works_as_it_is_printed(cli, server, host, pack, tmp_path):
    """For whatever was typed, in an index of any name."""
    url = server.page(
        "/o/r/archive/HEAD.zip", pack("r.zip", {"s x/a/SKILL.md": skill_md("a")}).read_bytes()
    )
    for given in (
        host({"good": "x"}),
        f"{url}?key=secret#folder=a",
        f"{url}#folder=a",
        f"{url}#folder=",
    ):
        for option in ([], ["--index-dir", tmp_path / "an index"]):
            told = cli("add", given, *option).stderr
            command = re.search(r"to vouch for them: skillsearch (.*)", told)[1]
            assert "secret" not in told
            assert cli(*shlex.split(command)).exit_code == 0
            index = SkillIndex.open(*option[1:])
            (root,) = (
                one
                for one in index.opened.settings.roots
                if one.path == place_of(added_source(given))
            )
            assert root.trust == "vetted"


def test_two_folders_of_one_archive_are_told_apart(cli, server, pack):
    """By whoever lists them."""
    data = pack("r.zip", {f"r/{name}/a/SKILL.md": skill_md(name) for name in "ab"}).read_bytes()
    url = server.page("/o/r/archive/HEAD.zip", data)
    cli("index", f"{url}#folder=a", f"{url}#folder=b")
    for command in ("doctor", "status"):
        told = "".join(cli(command).stdout.split())
        assert f"{url}#folder=a" in told
        assert f"{url}#folder=b" in told


# Words that people bring.


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *(("install", "add"), ("uninstall", "remove"), ("upgrade", "update"), ("ls", "list")),
        *(("info", "show"), ("serve", "mcp"), ("init", "setup"), ("lookup", "query")),
        *(("instal", "add"), ("unistall", "remove"), ("upgarde", "update"), ("seach", "search")),
        *(("qurey", "query"), ("indx", "index"), ("serach", "search")),
    ],
)
def test_other_tools_words_lead_to_ours(cli, word, meant):
    """By what is meant, else by letters."""
    result = cli(word, "pdf")
    assert result.exit_code == 2
    assert f"Did you mean: {meant}" in result.stderr


@pytest.mark.parametrize("meant", [name for name, row in COMMANDS.items() if row.intents])
def test_misspelt_words_of_other_tools_lead_to_ours_too(cli, meant):
    """With a letter left out, doubled or swapped with the next, wherever that is no other word."""
    others = {word for row in COMMANDS.values() for word in row.intents.split()} | set(COMMANDS)
    for word in (word for word in COMMANDS[meant].intents.split() if len(word) > 6):
        for at in range(1, len(word) - 1):
            left_out, doubled = word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:]
            swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
            for wrong in {left_out, doubled, swapped} - others:
                assert re.search(rf"Did you mean: .*\b{meant}\b", cli(wrong, "pdf").stderr), wrong


def test_search_is_query(cli, make_skill, tmp_path):
    """In all it takes."""
    make_skill(tmp_path / "mine", "brew-tea", "Brew tea.")
    cli("index", tmp_path / "mine")
    assert (
        cli("search", "brew tea", "--json").stdout.split('"seconds"')[0]
        == (cli("query", "brew tea", "--json").stdout.split('"seconds"')[0])
    )
    assert "\n  search " not in cli("--help").stdout
