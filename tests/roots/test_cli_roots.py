"""Archives and URLs as roots, from the command line and the library to an answer."""

import json
import shutil
import socket

import pytest

from skillsearch.errors import RootError
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.roots.sources import folder_of
from skillsearch.settings.user_folders import cache_dir


def skill(name, description):
    return f"---\nname: {name}\ndescription: {description}\n---\n# {name}\n".encode()


TEA = {"drinks-main/steep-tea/SKILL.md": skill("steep-tea", "Steep green tea in hot water.")}
COFFEE = {"drinks-main/brew-coffee/SKILL.md": skill("brew-coffee", "Brew filter coffee.")}


@pytest.fixture
def index(cli, index_dir):
    def run(*roots):
        args = ("index", *roots, "--index-dir", index_dir, "--model", "hashing", "--json")
        result = cli(*args)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return run


@pytest.fixture
def query(cli, index_dir):
    def run(text):
        args = ("query", text, "--index-dir", index_dir, "--threshold", "0", "--json")
        return {hit["name"] for hit in json.loads(cli(*args).stdout)["hits"]}

    return run


@pytest.fixture
def no_network(monkeypatch):
    """Have every attempt to connect fail the test."""

    def connect(*args, **kwargs):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "create_connection", connect)


def test_a_new_archive_of_the_same_name_updates_the_index(index, query, pack):
    """It is the same root: what stayed is not embedded again."""
    index(pack("drinks.zip", TEA))
    report = index(pack("drinks.zip", {**TEA, **COFFEE}))
    assert (report["indexed"], report["reused"]) == (2, 1)
    assert index(pack("drinks.zip", COFFEE))["removed"] == 1
    assert query("tea or coffee") == {"brew-coffee"}


def test_a_url_is_indexed_and_looked_at_again_by_index_alone(index, query, cli, pack, server):
    """A query asks no server, and no more does a status."""
    server.page("/drinks.zip", pack("drinks.zip", TEA).read_bytes(), etag='"1"')
    url = f"{server.url}/drinks.zip"
    index(url)
    assert len(server.requests) == 1
    assert query("green tea") == {"steep-tea"}
    index()
    assert [path for path, _ in server.requests] == ["/drinks.zip"] * 2
    assert server.requests[1][1]["If-None-Match"] == '"1"'


def test_status_and_doctor_say_where_a_root_is_from(index, cli, pack, index_dir, no_network):
    archive = pack("drinks.zip", TEA)
    index(archive)
    status = cli("status", "--index-dir", index_dir)
    folder = folder_of(archive)
    assert f"root\t{folder} (alias drinks, from {archive}, fetched)" in status.stdout
    assert status.exit_code == 0
    doctor = cli("doctor", "--index-dir", index_dir).stdout
    assert f"(alias drinks, from {archive}, fetched)" in doctor


def test_doctor_says_what_a_url_will_be(cli, monkeypatch, index_dir, no_network):
    monkeypatch.setenv("SKILLS_ROOT", "https://x.org/drinks.zip?token=secret")
    result = cli("doctor", "--index-dir", index_dir)
    assert "https://x.org/drinks.zip?..., unpacked by: skillsearch index" in result.stdout
    assert "secret" not in result.stdout


def test_an_unpacked_root_that_is_lost_is_made_anew_by_index(index, query, cli, pack, index_dir):
    """A query says what to do and answers from the index."""
    archive = pack("drinks.zip", TEA)
    index(archive)
    shutil.rmtree(cache_dir() / "roots")
    result = cli("query", "green tea", "--index-dir", index_dir, "--threshold", "0")
    command = f"skillsearch index --index-dir {index_dir}"
    warning = f"is gone; searching the index as it was. To fix: run `{command}`"
    assert warning in result.stderr
    assert "steep-tea" in result.stdout
    index()
    assert cli("status", "--index-dir", index_dir).exit_code == 0


def test_a_folder_and_an_archive_of_one_name_are_told_apart(
    index, pack, make_skill, tmp_path, index_dir
):
    make_skill(tmp_path / "drinks", "squeeze-lemons")
    archive = pack("drinks.zip", TEA)
    index(tmp_path / "drinks", archive)
    roots = SkillIndex.open(index_dir).opened.settings.roots
    aliases = [f"{tmp_path.name}/drinks", f"{folder_of(archive).parent.name}/drinks"]
    assert [root.alias for root in roots] == aliases


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ("gone.zip", "no such archive"),
        ("https://user:secret@x.org/a.zip", "contains a user name or password"),
    ],
)
def test_a_root_that_cannot_be_had_is_one_line_and_exit_code_2(cli, index_dir, root, words):
    result = cli("index", root, "--index-dir", index_dir, "--model", "hashing")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert words in result.stderr
    assert "secret" not in result.stderr
    assert not index_dir.exists()


def test_an_index_of_a_library_is_one_for_its_source(pack):
    archive = pack("drinks.zip", TEA)
    first = SkillIndex.from_roots(str(archive), model="hashing")
    pack("drinks.zip", {**TEA, **COFFEE})
    second = SkillIndex.from_roots(archive, model="hashing")
    assert second.folder == first.folder
    assert [document.name for document in second.documents()] == ["brew-coffee", "steep-tea"]
    first.refresh()
    assert len(first) == 2


def test_a_library_reads_an_archive_or_refuses_it(pack):
    """Other than a folder that is missing, a refused archive does not come by itself."""
    with pytest.raises(RootError, match="was refused"):
        SkillLibrary.from_roots(pack("drinks.zip", {"../evil": b"x"}))
    archive = pack("drinks.tgz", TEA)
    library = SkillLibrary.from_roots(str(archive), model="hashing")
    assert [root.path for root in library.roots] == [folder_of(archive)]
    assert [root.alias for root in library.roots] == ["drinks"]
    assert library.get("steep-tea").body == "# steep-tea"


def test_budget_measures_an_archive(cli, fails, pack, tmp_path):
    measured = json.loads(cli("budget", pack("drinks.zip", TEA), "--json").stdout)
    assert measured["skills"] == 1
    (tmp_path / "notes.txt").write_text("x")
    for root in ("gone.zip", tmp_path / "gone", tmp_path / "notes.txt"):
        fails("budget", root, says="There is no folder or archive")


def test_mcp_config_names_archives_and_urls(cli, pack, no_network):
    archive = pack("drinks.zip", TEA)
    text = cli("mcp-config", "claude-code", archive, "https://x.org/a.zip").stdout
    arguments = json.loads(text)["mcpServers"]["skillsearch"]["args"]
    assert arguments[-2:] == [str(archive), "https://x.org/a.zip"]


def test_own_skills_in_an_archive_are_judged(fails, pack, tmp_path):
    """They are read; for a collection these two say too little of themselves."""
    archive = pack("drinks.zip", {**TEA, **COFFEE})
    command = ("eval", archive, "--self", "--system", "bm25", "--work", tmp_path / "work")
    fails(*command, says="No query can be made from 2 skills")
