"""Tests of ``catalog``: a website that others can fetch the skills of."""

import json
import shlex
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from skillsearch.index.skill_index import SkillIndex

URL = "https://skills.example.org"
KNOWN = ".well-known"


@pytest.fixture
def website(tmp_path, monkeypatch):
    """Serve a folder on this machine; return it and its URL."""
    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            return

    folder = tmp_path / "site"
    served = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()
    thread.join(120)


def test_skills_of_one_name_are_refused_with_the_options_that_leave_all_but_one_out(
    cli, make_skill, tmp_path
):
    for name in ("tea", "egg", "rye"):
        for folder in ("a", "b") if name != "rye" else ("a",):
            make_skill(tmp_path / "r" / folder, name)
    cli("index", tmp_path / "r", "--model", "hashing")
    catalog = ("catalog", tmp_path / "site", "--url", URL)
    refused = cli(*catalog)
    assert (refused.exit_code, (tmp_path / "site").exists()) == (1, False)
    said, options = refused.stderr.strip().split(": ")[1:]
    assert said.startswith("Several skills are named 'egg', 'tea', and")
    assert cli(*catalog, *shlex.split(options)).exit_code == 0
    assert len(list((tmp_path / "site").rglob("SKILL.md"))) == 3


def test_add_takes_what_catalog_wrote(indexed, cli, drinks, website, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    (drinks / "steep-tea" / "scripts").mkdir()
    script = drinks / "steep-tea" / "scripts" / "steep.sh"
    script.write_bytes(b"#!/bin/sh\n\xff")
    script.chmod(0o755)
    folder, url = website
    assert indexed("catalog", folder, "--url", url).exit_code == 0
    result = cli("add", url)
    assert result.exit_code == 0, result.stderr
    index = SkillIndex.open()
    added = {document.name: document.path for document in index.documents()}
    assert added.keys() == {"brew-coffee", "squeeze-lemons", "steep-tea"}
    for name, path in added.items():
        original = drinks / name / "SKILL.md"
        assert (folder.parent / path).read_bytes() == original.read_bytes()
    copied = (index.opened.settings.roots[0].path / "steep-tea" / "scripts" / "steep.sh").stat()
    assert (copied.st_size, copied.st_mode & 0o777) == (11, 0o755)


def test_a_catalog_conforms_and_is_told_as_json(indexed, tmp_path, conforms):
    site = tmp_path / "site"
    record = json.loads(indexed("catalog", site, "--url", f"{URL}/", "--json").stdout)
    for kind, name in (
        ("catalog", "ai-catalog.json"),
        ("catalog", "ard.json"),
        ("index", "agent-skills/index.json"),
    ):
        conforms(kind, json.loads((site / KNOWN / name).read_bytes()))
    assert (record["folder"], record["url"]) == (str(site), URL)
    assert [skill["name"] for skill in record["skills"]] == [
        "brew-coffee",
        "squeeze-lemons",
        "steep-tea",
    ]
    assert (len(record["written"]), record["removed"], record["unvetted"]) == (6, [], 0)
    assert json.loads(indexed("catalog", site, "--url", URL, "--json").stdout)["written"] == []


def test_only_what_is_selected_and_published_is_offered(indexed, drinks, make_skill, tmp_path):
    make_skill(drinks, "hidden-tea", **{"disable-model-invocation": True})
    make_skill(drinks, "Odd_Tea")
    site = tmp_path / "site"
    result = indexed("catalog", site, "--url", URL, "--exclude", "brew-*", "--header")
    lines = [line.split("\t")[0] for line in result.stdout.splitlines()]
    assert lines == ["name", "squeeze-lemons", "steep-tea"]
    assert "Odd_Tea" in result.stderr
    result = indexed("catalog", site, "--url", URL, "--include", "steep-tea")
    assert "1 removed" in result.stderr
    assert not (site / KNOWN / "agent-skills" / "squeeze-lemons").exists()


def test_skills_that_nobody_vouches_for_are_offered_only_if_asked_for(cli, drinks, tmp_path):
    options = ("--index-dir", tmp_path / "index")
    cli("index", drinks, *options, "--model", "hashing", "--trust", "fetched")
    site = tmp_path / "site"
    result = cli("catalog", site, "--url", URL, *options)
    assert result.exit_code == 1
    assert "no skill to offer" in result.stderr
    assert not site.exists()
    result = cli("catalog", site, "--url", URL, "--include-unvetted", *options, "--json")
    assert len(json.loads(result.stdout)["skills"]) == 3


def test_what_it_did_not_write_is_left_alone(indexed, tmp_path):
    site = tmp_path / "site"
    (site / KNOWN).mkdir(parents=True)
    (site / KNOWN / "ard.json").write_text("mine")
    result = indexed("catalog", site, "--url", URL)
    assert result.exit_code == 2
    assert "Move them away, or name another folder" in result.stderr.replace("\n", " ")
    assert [path.name for path in (site / KNOWN).iterdir()] == ["ard.json"]


@pytest.mark.parametrize(
    "url", ["skills.example.org", "ftp://x.org", "https://x.org?a", "https://"]
)
def test_an_unusable_url_is_wrong_usage(indexed, tmp_path, url):
    result = indexed("catalog", tmp_path / "site", "--url", url)
    assert result.exit_code == 2
    assert "https://" in result.stderr or "http are supported" in result.stderr
    assert not (tmp_path / "site").exists()
