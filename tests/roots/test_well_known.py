"""The skills that a host offers, and hosts that are hostile."""

import hashlib
import json

import pytest

from skillsearch.errors import RootError
from skillsearch.roots import well_known
from skillsearch.roots.downloads import fetch
from skillsearch.roots.sources import WELL_KNOWN, added_source, folder_of
from skillsearch.roots.well_known import read_index

pytestmark = pytest.mark.usefixtures("hashing")


def sha256(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def other_digest(entry):
    return entry | {"digest": sha256(b"other")}


def to_loopback(server):
    """Send whoever asks for the index to this machine, by another name."""
    server.redirect(WELL_KNOWN, f"http://localhost:{server.address.partition(':')[2]}/x")


def dying(server):
    server.page(WELL_KNOWN, b'{"skills": [', content_length="1000")


ATTACKS = {
    "other digest": (lambda server, host: host({"a": "x"}, other_digest), "has the digest sha256:"),
    "redirect": (lambda server, host: to_loopback(server), "lies on this machine or its network"),
    "dying": (lambda server, host: dying(server), "cannot be downloaded"),
    "huge": (
        lambda server, host: server.page(WELL_KNOWN, b" " * (well_known.MAX_INDEX_BYTES + 9)),
        "is larger than",
    ),
    "version": (lambda server, host: host({"a": "x"}, **{"$schema": "9"}), "its $schema is '9'"),
    "empty": (lambda server, host: host({}), "offers no skill"),
    "deep": (
        lambda server, host: server.page(WELL_KNOWN, b"[" * 100_000),
        "is not an index of skills",
    ),
}


@pytest.mark.parametrize(("make", "message"), ATTACKS.values(), ids=ATTACKS)
def test_nothing_is_added_of_a_hostile_server(fails, server, host, state, make, message):
    make(server, host)
    fails("add", server.url, says=message)
    assert state() == ("", {})
    assert not list(folder_of(added_source(server.url)).parent.glob(".temporary-*"))


@pytest.mark.parametrize("attack", ["other digest", "dying", "empty"])
def test_a_server_that_became_hostile_changes_nothing(
    cli, fails, server, host, names, state, attack
):
    make, message = ATTACKS[attack]
    host({"good": "Good."})
    assert cli("add", server.url).exit_code == 0
    before = state(), names()
    make(server, host)
    fails("update", "--yes", says=message, code=1)
    assert (state(), names()) == before
    assert not list(folder_of(added_source(server.url)).parent.glob(".temporary-*"))


def test_what_cannot_be_used_of_an_index_is_left_out(host, cli, names, caplog):
    bad = [{"name": name} for name in ("../up", "UPPER", 5, "a" * 65)]
    bad += [{"url": url} for url in ("file:///etc/passwd", "", "http://[::1")]
    bad += [{"type": "mcp"}, {"digest": "md5:1"}]
    count = iter(bad)

    def spoil(entry):
        return entry if entry["name"] == "good" else entry | next(count)

    url = host({f"bad-{number}": "x" for number in range(len(bad))} | {"good": "y"}, spoil)
    assert cli("add", url).exit_code == 0
    assert names() == ["good"]
    assert len([line for line in caplog.messages if line.startswith("Left out of")]) == len(bad)


def test_an_index_is_read_whatever_its_entries_are():
    good = {"name": "a", "type": "archive", "url": "a.zip", "digest": sha256(b"")}
    other = {**good, "name": "b", "url": "//cdn.example/b.zip"}
    data = json.dumps({"skills": [None, 1, [], "x", {}, good, good, other]}).encode()
    offers = read_index(data, f"https://x.example{WELL_KNOWN}")
    assert [(offer.name, offer.url) for offer in offers] == [
        ("a", "https://x.example/.well-known/agent-skills/a.zip"),
        ("b", "https://cdn.example/b.zip"),
    ]


def test_a_server_out_there_cannot_send_us_to_this_machine(server, monkeypatch, tmp_path):
    url = server.page("/x", b"x")
    with (tmp_path / "a").open("wb") as file:
        assert fetch(url, file) is not None
        with pytest.raises(RootError, match="if that is meant, name that URL yourself"):
            fetch(url, file, around="https://skills.example.com/index.json")
        fetch(url, file, around=f"{server.url}/index.json")
