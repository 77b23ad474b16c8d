"""Tests of the command that moves skills out of the folders of hosts, and back."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from skillsearch.hosts.entries import HOSTS
from skillsearch.hosts.files import host_file
from skillsearch.hosts.table import library_folder
from skillsearch.index.skill_index import SkillIndex


@pytest.fixture
def tea(folder, home, make_skill, monkeypatch, cli):
    """Index a skill of that name and another, and return its folder."""
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    make_skill(home / ".claude" / "skills", "coffee", "Brew coffee with a scale.")
    assert cli("index").exit_code == 0
    return folder


def indexed_names():
    return sorted(document.name for document in SkillIndex.open().documents())


def test_what_is_moved_is_listed_by_no_host_and_found_by_search(cli, tea):
    unconfirmed = cli("library", "move", "tea")
    assert (unconfirmed.exit_code, tea.exists()) == (1, True)
    done = cli("library", "move", "tea", "--yes")
    assert done.exit_code == 0
    assert "Claude Code: 2 → 1 of your skills listed; all 2 are found" in done.stderr
    assert not tea.exists()
    assert indexed_names() == ["coffee", "tea"]
    assert (
        json.loads(cli("query", "brew tea in a pot", "--json").stdout)["hits"][0]["name"] == "tea"
    )
    budget = cli("budget", "--json")
    assert json.loads(budget.stdout)["skills"] == 1
    assert "1 skill of your library: found by search, listed by no host" in budget.stderr
    assert "tea" in cli("library", "list").stdout
    assert cli("library", "move", "tea", "--yes").exit_code == 1
    assert cli("library", "move", "coffee", "brewing", "--yes").exit_code == 1  # all or nothing
    assert cli("library", "restore", "milk", "--yes").exit_code == 1
    assert cli("library", "restore", "--all", "--yes").exit_code == 0
    assert tea.exists()
    assert indexed_names() == ["coffee", "tea"]
    assert "No skill has been moved" in cli("library", "list").stderr
    empty = cli("library", "restore", "tea", "--yes").stderr
    assert empty == "Error: 'tea' is not in the library. It is empty.\n"


@pytest.mark.parametrize("form", ["itself", "link", "inner", "library"])
def test_what_holds_a_folder_of_hosts_stays(cli, tea, home, make_skill, monkeypatch, form):
    top = skills = tea.parent
    if form == "link":
        skills.rename(home / "skills")
        skills.symlink_to(home / "skills")
    elif form in ("inner", "library"):
        top = skills / "all"
        monkeypatch.setenv("CODEX_HOME", str(top))
        if form == "library":
            monkeypatch.setenv("XDG_DATA_HOME", str(top))
        else:
            skills = top / "skills"
            make_skill(skills, "milk", "Foam milk.")
    make_skill(top.parent, top.name, "All of it.").rename(top / "SKILL.md")
    result = cli("library", "move", top.name, "tea", "--yes")
    assert result.exit_code == 1
    where = library_folder().resolve() if form == "library" else skills.resolve()
    assert f"{where}, " in result.stderr
    assert f"would be moved with {top.name}, and all in it" in result.stderr
    assert tea.exists()


def test_what_lies_within_a_skill_goes_along_once(cli, tea, make_skill):
    make_skill(tea, "milk", "Foam milk for it.")
    unconfirmed = cli("library", "move", "tea")
    assert "With tea go the skills within it: milk" in unconfirmed.stderr
    done = cli("library", "move", "milk", "tea", "milk", "tea", "--yes")
    assert done.exit_code == 0
    assert "Claude Code: 3 → 1 of your skills listed; all 3 are found" in done.stderr
    assert indexed_names() == ["coffee", "milk", "tea"]
    assert cli("library", "restore", "tea", "--yes").exit_code == 0
    assert cli("library", "move", "milk", "--yes").exit_code == 0
    assert cli("library", "move", "tea", "--yes").exit_code == 0
    alone = cli("library", "restore", "milk", "--yes")
    assert alone.exit_code == 1
    assert "milk lay within tea, which is away; restore tea first" in alone.stderr
    assert cli("library", "restore", "--all", "--yes").exit_code == 0
    assert (tea / "milk" / "SKILL.md").exists()


def test_one_that_cannot_be_moved_keeps_no_other_from_it(cli, tea, monkeypatch):
    real = os.rename

    def rename(old, new):
        if str(old) == str(tea):
            raise PermissionError(1, "Operation not permitted", str(old))
        real(old, new)

    monkeypatch.setattr(os, "rename", rename)
    done = cli("library", "move", "tea", "coffee", "--yes")
    assert done.exit_code == 1
    assert f"not moved: tea stays in {tea}: {tea}: Operation not permitted." in done.stderr
    assert "Claude Code: 2 → 1 of your skills listed" in done.stderr
    assert json.loads(cli("query", "brew coffee", "--json").stdout)["hits"][0]["name"] == "coffee"


def test_hosts_see_skills_along_links(cli, tea, home, tmp_path, make_skill):
    """A link goes if what it leads to lies nowhere that hosts look."""
    codex = home / ".codex" / "skills"
    codex.mkdir(parents=True)
    (codex / "tea").symlink_to(tea)
    real = make_skill(tmp_path / "elsewhere", "milk", "Foam milk.").parent
    (codex / "milk").symlink_to(real)
    assert cli("index", real.parent).exit_code == 0
    done = cli("library", "move", "tea", "milk", "--yes")
    assert done.exit_code == 0
    assert f"milk: {codex / 'milk'}, listed no more by Codex" in done.stderr
    assert "Codex: 2 → 0 of your skills listed" in done.stderr
    assert real.exists()
    assert list(codex.iterdir()) == [codex / "tea"]
    assert cli("library", "restore", "--all", "--yes").exit_code == 0
    assert (codex / "milk").resolve() == real


def test_skills_of_projects_and_plugins_stay(cli, tea, make_skill, tmp_path, monkeypatch):
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    path = make_skill(project / ".claude" / "skills", "deploy", "Deploy the project.")
    monkeypatch.chdir(project)
    cli("query", "deploy")
    result = cli("library", "move", "deploy", "--yes")
    assert result.exit_code == 1
    assert "lies in no folder where hosts look for skills of yours" in result.stderr
    assert path.exists()


@pytest.mark.parametrize("host", ["claude-code", "opencode"])
def test_a_host_s_own_switch_is_written_and_taken_out(cli, tea, host):
    file = host_file(host, hook="hook" in HOSTS[host])
    file.parent.mkdir(parents=True, exist_ok=True)
    text = '{\n  // mine\n  "theme": "dark"\n}\n'
    file.write_text(text)
    assert cli("library", "move", "tea", "--switch", host, "--yes").exit_code == 0
    value = {"claude-code": '"skillOverrides"', "opencode": '"permission"'}[host]
    assert value in file.read_text()
    assert "// mine" in file.read_text()
    assert tea.exists()
    assert indexed_names() == ["coffee", "tea"]
    assert cli("library", "restore", "tea", "--yes").exit_code == 0
    assert file.read_text() == text


def test_what_a_host_was_told_before_is_told_again(cli, tea):
    file = host_file("claude-code", hook=True)
    file.parent.mkdir(exist_ok=True)
    text = '{"skillOverrides": {"tea": "name-only"}}'

    def write(text):
        file.write_text(text)
        return json.loads(text)

    for later in (None, '{"skillOverrides": {"tea": "on"}}', "{}"):
        settings = write(text)
        assert cli("library", "move", "tea", "--switch", "claude-code", "--yes").exit_code == 0
        if later:
            settings = write(later)
        assert cli("library", "restore", "tea", "--yes").exit_code == 0
        assert json.loads(file.read_text()) == settings
    for broken in ("{", '{"skillOverrides": []}'):
        file.write_text(broken)
        failed = cli("library", "move", "tea", "--switch", "claude-code", "--yes")
        assert failed.exit_code == 2
        assert f"{file} " in failed.stderr
        assert "No skill has been moved" in cli("library", "list").stderr
    write("{}")
    for _ in range(2):  # its user took it out in between
        cli("library", "move", "tea", "--switch", "claude-code", "--yes")
        write("{}")
    assert len(json.loads(cli("library", "list", "--json").stdout)["moves"]) == 1


def test_a_switch_is_shown_before_the_yes_and_one_that_is_not_written_is_not_away(
    cli, tea, monkeypatch
):
    words = ("library", "move", "tea", "coffee", "--switch", "claude-code")
    unconfirmed = cli(*words)
    assert (unconfirmed.exit_code, unconfirmed.stderr.count('": "off"')) == (1, 2)
    assert unconfirmed.stderr.index('": "off"') < unconfirmed.stderr.index("Nothing was changed")

    replace = Path.replace

    def fail(path, target):
        if target.name == "settings.json":
            raise OSError(28, "No space left on device", target.name)
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        failed = cli(*words, "--yes")
    assert failed.exit_code == 1
    assert "settings.json cannot be written: No space left on device" in failed.stderr
    assert "No skill has been moved" in cli("library", "list").stderr
    assert cli(*words, "--yes").exit_code == 0
    assert cli("library", "list").stdout.count("claude-code") == 2


def test_what_is_gone_from_the_library_is_not_away_for_ever(cli, tea):
    cli("library", "move", "tea", "coffee", "--yes")
    shutil.rmtree(library_folder() / "tea")
    gone = cli("library", "restore", "--all", "--yes")
    assert gone.exit_code == 1
    assert (
        f"not restored: {library_folder() / 'tea'} is gone, so tea cannot be restored"
        in gone.stderr
    )
    assert "No skill has been moved" in cli("library", "list").stderr


def test_a_switch_is_for_what_its_host_lists(cli, tea, home, make_skill):
    make_skill(home / ".codex" / "skills", "milk", "Foam milk.")
    refused = cli("library", "move", "milk", "tea", "--switch", "claude-code", "--yes")
    assert refused.exit_code == 1
    assert "is not one of your skills that Claude Code lists" in refused.stderr
    assert "Hosts that list it: Codex." in refused.stderr
    file = host_file("claude-code", hook=True)
    assert not file.exists()
    done = cli("library", "move", "tea", "tea", "--switch", "claude-code", "--yes")
    assert "Claude Code: 2 → 1 of your skills listed; all 3 are found" in done.stderr
    again = cli("library", "move", "tea", "coffee", "--switch", "claude-code", "--yes")
    assert again.exit_code == 0
    assert f"tea: switched off in {file} already" in again.stderr
    assert "Claude Code: 1 → 0 of your skills listed" in again.stderr
    assert '+    "coffee": "off"' in again.stderr
    last = cli("library", "move", "tea", "--switch", "claude-code")
    assert last.exit_code == 0
    moves = json.loads(cli("library", "list", "--json").stdout)["moves"]
    assert [move["name"] for move in moves] == ["tea", "coffee"]


def test_another_of_the_same_name_stays_and_is_told(cli, tea, home, make_skill):
    make_skill(home / ".codex" / "skills", "tea", "Steep tea in a cup.")
    result = cli("library", "move", "TEA", "--yes")
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("Others have"))
    handle = line.removeprefix("Others have the name tea too, and stay: ")
    assert ".codex/skills" in handle
    assert cli("library", "move", handle, "--yes").exit_code == 0
    done = cli("library", "restore", "Tea", "--yes")
    assert done.exit_code == 0
    assert "Codex: 0 → 1 of your skills listed; all 3 are found" in done.stderr
    assert "No skill has been moved" in cli("library", "list").stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("move", "needs the NAMEs"),
        ("move --all", "--all is for restore"),
        ("restore --all tea", "leave out one of them"),
        ("list tea", "list takes no NAMEs"),
        ("restore tea --switch claude-code", "--switch is for move"),
        ("move tea --switch codex", "codex has no switch for single skills; claude-code, opencode"),
        ("move tea --switch claude", "Did you mean 'claude-code'?"),
        ("mvoe tea", "Did you mean 'move'?"),
    ],
)
def test_what_would_be_ignored_is_wrong_usage(cli, tea, words, hint):
    result = cli("library", *words.split(), "--yes")
    assert result.exit_code == 2
    assert hint in result.stderr
    assert tea.exists()


def test_an_index_that_is_made_anew_has_the_library_too(cli, tea):
    cli("library", "move", "tea", "--yes")
    with suppress(FileNotFoundError):
        shutil.rmtree(SkillIndex.open().folder)
    assert cli("index").exit_code == 0
    assert indexed_names() == ["coffee", "tea"]
