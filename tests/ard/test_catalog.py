"""Tests of what a website offers, as files."""

import hashlib
import io
import json
import zipfile

import pytest

from skillsearch.ard import catalog
from skillsearch.ard.catalog import CATALOGS, SkillFiles, base_of, website_of
from skillsearch.errors import RootError, SkillError
from skillsearch.roots.sources import WELL_KNOWN
from skillsearch.roots.well_known import read_index

URL = "https://skills.example.org"
SKILL = b"---\nname: steep-tea\ndescription: Steep green tea.\n---\nUse 80 C.\n"
MORE = {"SKILL.md": SKILL, "scripts/steep.sh": b"#!/bin/sh\n", "a/\xe9.txt": b"\0"}


@pytest.fixture
def skill(document):
    """Make a skill with its files."""

    def make(name="steep-tea", files=None, programs=(), origin="", **fields):
        made = document(name, **fields)
        content = {"SKILL.md": SKILL} if files is None else files
        return SkillFiles(made, made.description, content, frozenset(programs), origin)

    return make


def test_a_website_offers_skills_by_both_forms(skill, conforms):
    skills = [skill(examples=["how do I steep tea", "is 80 C fine"]), skill("pour", MORE)]
    files, offered = website_of(f"{URL}/", skills)
    texts = {path: data for path, data in files.items() if path.endswith(".json")}
    records = {path: json.loads(data) for path, data in texts.items()}
    assert list(records) == [WELL_KNOWN, *CATALOGS]
    assert list(files)[-3:] == list(records), "what refers to others comes last"
    conforms("index", records[WELL_KNOWN])
    first, second = [conforms("catalog", records[path]) for path in CATALOGS]
    assert first == second
    tea, pour = first["entries"]
    assert tea["identifier"] == "urn:air:skills.example.org:skills:steep-tea"
    assert tea["representativeQueries"] == ["how do I steep tea", "is 80 C fine"]
    assert [tea["type"], pour["type"]] == [
        'text/markdown; profile="urn:air:agent-skills"',
        "application/agent-skills+zip",
    ]
    assert [offer.name for offer in offered] == ["steep-tea", "pour"]


def test_each_digest_is_that_of_the_file_behind_the_url(skill):
    files, _ = website_of(URL, [skill(), skill("pour", MORE)])
    offers = read_index(files[WELL_KNOWN], URL + WELL_KNOWN)
    entries = json.loads(files[CATALOGS[0]])["entries"]
    digests = {offer.url: offer.digest for offer in offers}
    assert digests == {entry["url"]: entry["metadata"]["digest"] for entry in entries}
    for url, digest in digests.items():
        data = files[url.removeprefix(URL)]
        assert digest == f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_an_archive_has_all_files_with_their_modes_and_always_the_same_bytes(skill):
    turned = dict(reversed(MORE.items()))
    packed = [
        website_of(URL, [skill(files=files, programs=["scripts/steep.sh"])]).files
        for files in (MORE, turned)
    ]
    assert packed[0] == packed[1]
    path = next(path for path in packed[0] if path.endswith(".zip"))
    with zipfile.ZipFile(io.BytesIO(packed[0][path])) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == MORE
        modes = {info.filename: oct(info.external_attr >> 16) for info in archive.infolist()}
    assert modes == dict.fromkeys(MORE, "0o100644") | {"scripts/steep.sh": "0o100755"}


def test_a_skill_without_a_place_of_its_own_is_offered_as_an_archive(skill):
    """One file that is no SKILL.md is not offered as if it were."""
    files, _ = website_of(URL, [skill(files={"SKILL.md": SKILL, "b": b""})])
    assert "/.well-known/agent-skills/steep-tea.zip" in files


@pytest.mark.parametrize(
    ("origin", "expected"),
    [("https://x.org/a.zip", {"origin": "https://x.org/a.zip"}), ("/home/me/a.zip", {}), ("", {})],
)
def test_only_an_origin_that_everybody_can_reach_is_told(skill, origin, expected):
    files, _ = website_of(URL, [skill(origin=origin)])
    metadata = json.loads(files[CATALOGS[1]])["entries"][0]["metadata"]
    assert metadata.keys() - {"digest"} == expected.keys()
    assert metadata | expected == metadata


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "skills.example.org",
            "ftp://example.org",
            "file:///tmp",
            "https://",
            "https://é.org",
        ),
        *("https://me:secret@example.org", "https://example.org/?a=b", "https://example.org/#a"),
        *("https://example.org?", "https://example.org:0", "https://example.org/\x1b[2J"),
    ],
)
def test_an_unusable_url_is_refused_and_no_password_repeated(url):
    with pytest.raises(RootError) as raised:
        base_of(url)
    assert "secret" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_a_website_may_have_a_path_and_a_port(skill):
    files, offered = website_of("http://127.0.0.1:8000/site/", [skill()])
    assert offered[0].url.startswith("http://127.0.0.1:8000/site/.well-known/agent-skills/")
    assert b"urn:air:agent.localhost:" in files[CATALOGS[0]]


def test_two_skills_of_one_name_are_refused(skill):
    twice = [skill(), skill(doc_id="other:steep-tea")]
    with pytest.raises(SkillError, match=r"--exclude other:steep-tea$"):
        website_of(URL, twice)


def test_no_skill_is_an_error_that_says_where_to_look():
    with pytest.raises(SkillError, match="skillsearch list"):
        website_of(URL, [])


@pytest.mark.parametrize(
    ("name", "most"),
    [("MAX_SKILLS", 1), ("MAX_BYTES", 2 * len(SKILL) - 1), ("MAX_INDEX_BYTES", 500)],
)
def test_more_than_readers_take_is_refused(skill, monkeypatch, name, most):
    monkeypatch.setattr(catalog, name, most)
    website_of(URL, [skill()])
    with pytest.raises(SkillError, match="The 2 skills have"):
        website_of(URL, [skill(), skill("pour")])
