"""Tests of sources that are added, updated and removed, with servers that are kind or hostile."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from skillsearch.cli.commands import COMMANDS
from skillsearch.index.skill_index import SkillIndex
from skillsearch.roots import lock
from skillsearch.roots.sources import added_source, folder_of

pytestmark = pytest.mark.usefixtures("hashing")


def test_the_skills_of_a_host_are_added_pinned_updated_and_removed(cli, fails, host, names, state):
    url = host({"brew-tea": "Hot.", "boil-egg": "Six minutes."})
    result = cli("add", url, "--json")
    assert result.exit_code == 0
    (source,) = json.loads(result.stdout)["sources"]
    assert source["skills"] == ["boil-egg", "brew-tea"]
    assert names() == ["boil-egg", "brew-tea"]
    (entry,) = lock.read_lock().values()
    assert (entry.text, entry.digest) == (url, source["digest"])
    assert json.loads(cli("prompt", "brew tea", "--json").stdout)["skills"] == []
    assert "unchanged since" in cli("update").stderr

    host({"brew-tea": "Hotter.", "fry-egg": "Hot pan."})
    before = state()
    fails("update", says="added: fry-egg; changed: brew-tea; removed: boil-egg", code=1)
    assert state() == before
    assert cli("index").exit_code == 0  # it renews nothing that was added
    assert state() == before
    updated = json.loads(cli("update", url, "--yes", "--json").stdout)["sources"]
    assert [record["state"] for record in updated] == ["updated"]
    assert names() == ["brew-tea", "fry-egg"]
    assert cli("update").exit_code == 0

    assert cli("remove", "http://nowhere.example").exit_code == 2
    other = cli("index", "--examples")
    assert other.exit_code == 0
    assert cli("remove", url).exit_code == 0
    assert lock.read_lock() == {}
    assert "brew-tea" not in names()


def test_a_folder_of_an_archive_is_the_root(cli, server, pack, names, skill_md):
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


@pytest.mark.parametrize("spelling", ["./w/own", "{here}/w/own"])
def test_a_folder_here_is_not_pinned_and_is_removed_by_its_path(cli, names, make_skill, spelling):
    make_skill("w/own", "mine")
    make_skill("w/two", "other")
    make_skill("w/third", "last")
    assert cli("add", "w/own", "w/two", "w/third").exit_code == 0
    assert names() == ["last", "mine", "other"]
    assert not lock.lock_file().exists()
    assert SkillIndex.open().opened.settings.roots[0].trust == "vetted"
    shutil.rmtree("w/own")
    own = spelling.format(here=Path.cwd())
    assert cli("remove", own).stdout.startswith(f"{own}: removed\n")
    assert names() == ["last", "other"]
    assert cli("remove", "w/two").stdout == "w/two: removed, 1 skill: other\n1 skill in the index\n"


def test_archives_of_one_name_in_two_folders_are_two(
    cli, fails, pack, tmp_path, monkeypatch, names, skill_md
):
    for folder in ("p1", "p2", "p3"):
        (tmp_path / folder).mkdir()
        pack(f"{folder}/s.zip", {f"{folder}/SKILL.md": skill_md(folder)})
        monkeypatch.chdir(tmp_path / folder)
        assert cli("add", "s.zip").exit_code == 0
    monkeypatch.chdir(tmp_path / "p1")
    assert {entry.text for entry in lock.read_lock().values()} == set(lock.read_lock())
    assert "unchanged since" in cli("update", "s.zip").stderr
    assert cli("remove", "s.zip").exit_code == 0
    assert names() == ["p2", "p3"]
    monkeypatch.chdir(tmp_path)
    for command in ("update", "remove"):
        fails(command, "s.zip", says="was not added")
    near = cli("remove", f"{tmp_path}/p2/s.zi").stderr
    assert near.count(f"{tmp_path}/p2/s.zip") == near.count(f"{tmp_path}/p3/s.zip") == 1
    assert cli("add", "p1/../p2/s.zip").exit_code == 0
    assert len(lock.read_lock()) == 2
    assert cli("remove", "p3/../p2/s.zip").exit_code == 0
    assert names() == ["p3"]


@pytest.mark.parametrize("url", ["https://", "https:///", "http:///skills.zip", "mcp+https://"])
def test_a_url_without_a_host_is_no_folder(fails, url):
    fails("add", url, says="is not a usable URL; write it as https://HOST/PATH")


def test_an_update_of_nothing_says_so(cli):
    result = cli("update")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Nothing was added from elsewhere, so there is nothing to update" in result.stderr


def test_a_folder_here_needs_no_update(cli, make_skill):
    make_skill("own", "mine")
    own = Path.cwd() / "own"
    assert cli("add", "own").stdout == f"{own}: added, 1 skill: mine\n1 skill in the index\n"
    assert "folders here are followed without it" in cli("update").stderr
    refused = cli("update", "own")
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"Error: {Path.cwd()}/own is a folder here: the index follows it without updates.\n",
    )


def test_the_only_source_can_be_removed_again(cli, host, names):
    url = host({"good": "Good."})
    assert cli("add", url).exit_code == 0
    removed = cli("remove", url, "--json")
    assert (removed.exit_code, json.loads(removed.stdout)["indexed"]) == (0, 0)
    assert json.loads(removed.stdout)["sources"][0]["skills"] == ["good"]
    assert lock.read_lock() == {}
    assert cli("query", "good", "--no-refresh").exit_code == 4
    assert cli("add", url).exit_code == 0
    assert names() == ["good"]


def test_sources_are_removed_one_by_one_up_to_the_last(cli, pack, names, skill_md):
    archives = [pack(f"{name}.zip", {f"{name}/SKILL.md": skill_md(name)}) for name in ("a", "b")]
    assert cli("add", *archives).exit_code == 0
    for archive in archives:
        assert cli("remove", archive).exit_code == 0
    assert lock.read_lock() == {}
    assert cli("list").exit_code == 4
    assert cli("add", archives[1]).exit_code == 0
    assert names() == ["b"]


def test_a_folder_of_a_host_that_was_taken_out_keeps_the_index_from_being_emptied(
    cli, fails, home, pack, skill_md, make_skill, names
):
    make_skill(home / ".claude" / "skills", "pdf-forms", "Fill in a PDF form.")
    archive = pack("a.zip", {"a/SKILL.md": skill_md("a")})
    assert cli("add", archive).exit_code == 0
    assert cli("index", "--remove", home / ".claude" / "skills").exit_code == 0
    fails("remove", archive, says="Nothing would be left")
    assert names() == ["a"]


def test_an_index_of_exactly_what_was_named_is_not_emptied(cli, fails, host):
    url = host({"good": "Good."})
    cli("add", url)
    cli("index", "--replace", added_source(url))
    fails("remove", url, says="Nothing would be left")
    assert len(lock.read_lock()) == 1


# A first index.


def test_a_first_index_holds_what_hosts_look_for_too(cli, host, home, names, make_skill, tmp_path):
    make_skill(home / ".claude" / "skills", "pdf-forms", "Fill in a PDF form.")
    url = host({"good": "Good."})
    assert cli("add", url, "--index-dir", tmp_path / "other").exit_code == 0
    assert [document.name for document in SkillIndex.open(tmp_path / "other").documents()] == [
        "good"
    ]
    added = cli("add", url)
    assert names() == ["good", "pdf-forms"]
    assert f"new: {home}/.claude/skills (1 skill; " in added.stderr
    make_skill(home / ".claude" / "skills", "later")
    assert cli("query", "later").exit_code == 0
    assert names() == ["good", "later", "pdf-forms"]
    assert cli("remove", url).exit_code == 0
    assert names() == ["later", "pdf-forms"]


def test_settings_that_name_roots_say_what_a_first_index_holds(
    cli, host, home, names, make_skill, tmp_path, monkeypatch
):
    make_skill(home / ".claude" / "skills", "pdf-forms")
    make_skill(tmp_path / "mine", "mine")
    monkeypatch.setenv("SKILLSEARCH_ROOTS", str(tmp_path / "mine"))
    assert cli("add", host({"good": "Good."})).exit_code == 0
    assert names() == ["good", "mine"]


@pytest.mark.parametrize("root", ["~", "{home}/..", "/etc"])
def test_a_whole_home_folder_is_refused(fails, home, monkeypatch, root):
    monkeypatch.chdir(home)
    root = root.format(home=home)
    for variables, command in (
        ({}, ("add", root)),
        ({"SKILLSEARCH_ROOTS": root}, ("index",)),
        ({"SKILLSEARCH_ROOTS": root}, ("index", "--replace")),
        ({"SKILLSEARCH_ROOTS": root}, ("add", "owner/repo")),
        ({"SKILLSEARCH_ROOTS": root}, ("watch",)),
    ):
        refused = fails(*command, env=variables, says="a whole home folder or disk")
        assert re.search(r"skillsearch index --yes /\S*", " ".join(refused.stderr.split()))
    assert not lock.lock_file().exists()


def test_roots_of_the_settings_that_are_agreed_to_are_not_asked_about_again(cli, home, make_skill):
    make_skill(home / "a", "mine")
    variables = {"SKILLSEARCH_ROOTS": str(home)}
    assert cli("index", "--yes", env=variables).exit_code == 0
    assert cli("index", env=variables).exit_code == 0


def test_an_archive_without_a_skill_is_not_added(cli, server, pack):
    for files in ({"README.md": b"x"}, {}):
        url = server.page("/x.zip", pack("x.zip", files).read_bytes())
        for source in (url, f"{url}#folder=none" if files else url):
            refused = cli("add", source)
            assert refused.exit_code == 2
            assert not folder_of(added_source(source)).exists()
        assert "holds no skill" in cli("add", url).stderr
    assert lock.read_lock() == {}
    assert cli("query", "x").exit_code == 4


def test_the_command_that_vouches_works_as_it_is_printed(
    cli, server, host, pack, tmp_path, skill_md
):
    url = server.page(
        "/o/r/archive/HEAD.zip", pack("r.zip", {"s x/a/SKILL.md": skill_md("a")}).read_bytes()
    )
    for source, option in (
        (host({"good": "x"}), []),
        (f"{url}?key=secret#folder=a", ["--index-dir", tmp_path / "an index"]),
        (f"{url}#folder=", []),
    ):
        message = cli("add", source, *option).stderr
        command = re.search(r"to vouch for them: skillsearch (.*)", message)[1]
        assert "secret" not in message
        assert cli(*shlex.split(command)).exit_code == 0
        roots = {root.path: root for root in SkillIndex.open(*option[1:]).opened.settings.roots}
        assert roots[folder_of(added_source(source))].trust == "vetted"


def test_two_folders_of_one_archive_are_told_apart(cli, server, pack, skill_md):
    data = pack("r.zip", {f"r/{name}/a/SKILL.md": skill_md(name) for name in "ab"}).read_bytes()
    url = server.page("/o/r/archive/HEAD.zip", data)
    cli("index", f"{url}#folder=a", f"{url}#folder=b")
    for command in ("doctor", "status"):
        output = "".join(cli(command).stdout.split())
        assert f"{url}#folder=a" in output
        assert f"{url}#folder=b" in output


# Words that people bring.


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *(("install", "add"), ("uninstall", "remove"), ("upgrade", "update"), ("ls", "list")),
        *(("info", "show"), ("serve", "mcp"), ("init", "setup"), ("lookup", "query")),
        *(("qurey", "query"), ("indx", "index"), ("serach", "search"), ("seach", "search")),
    ],
)
def test_other_tools_words_lead_to_ours(fails, word, meant):
    fails(word, "pdf", says=f"Did you mean: {meant}")


@pytest.mark.parametrize("meant", [name for name, row in COMMANDS.items() if row.intents])
def test_misspelt_words_of_other_tools_lead_to_ours_too(cli, meant):
    others = {word for row in COMMANDS.values() for word in row.intents.split()} | set(COMMANDS)
    for word in (word for word in COMMANDS[meant].intents.split() if len(word) > 6):
        for at in range(1, len(word) - 1):
            left_out, doubled = word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:]
            swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
            for wrong in {left_out, doubled, swapped} - others:
                assert re.search(rf"Did you mean: .*\b{meant}\b", cli(wrong, "pdf").stderr), wrong
