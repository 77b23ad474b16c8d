"""Tests of ``skillsearch setup``."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import validate

import skillsearch
from skillsearch.cli.app import app
from skillsearch.hosts.files import FileChange, host_file

PLUGIN = Path(skillsearch.__file__).parent / "plugin"


@pytest.fixture
def machine(home, tmp_path, make_skill, monkeypatch):
    """Make a machine with two hosts, a folder of skills, and our program."""
    program = tmp_path / "bin" / "skillsearch"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    make_skill(home / ".agents" / "skills", "tea-timer")
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("# mine\n")
    (home / ".cursor").mkdir()
    return home


def files(folder):
    return {path: path.read_bytes() for path in folder.glob(".c*/*") if path.is_file()}


def record(result):
    """Return what --json prints, which fits its schema."""
    printed = json.loads(result.stdout)
    assert result.exit_code == int(not printed["done"]), result.stderr
    validate(printed, json.loads(CliRunner().invoke(app, ["setup", "--json-schema"]).stdout))
    return printed


def test_without_a_terminal_it_only_shows_what_it_would_do(cli, machine):
    before = files(machine)
    result = cli("setup")
    assert result.exit_code == 1
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    index = machine / "cache" / "skillsearch" / "default"
    assert rows == [
        ["index", str(machine / ".agents" / "skills"), str(index)],
        ["codex", "server, hook", str(machine / ".codex" / "config.toml"), "write"],
        ["cursor", "server", str(machine / ".cursor" / "mcp.json"), "write"],
    ]
    assert "skillsearch setup --yes" in result.stderr
    assert f"+++ {machine / '.codex' / 'config.toml'}" in result.stderr
    assert "+[mcp_servers.skillsearch]" in result.stderr
    assert result.stderr.index("+++") < result.stderr.index("Nothing was changed")
    assert files(machine) == before
    assert not index.exists()


def test_a_machine_without_hosts_and_skills_is_told_so(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = cli("setup")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Neither hosts nor skills" in result.stderr
    assert "--yes" not in result.stderr


def test_it_indexes_and_configures_and_takes_it_back(cli, machine):
    before = files(machine)
    done = record(cli("setup", "--yes", "--json"))
    assert done["done"]
    assert [row["state"] for row in done["hosts"]] == ["changed", "changed"]
    config = (machine / ".codex" / "config.toml").read_text()
    assert config.startswith("# mine\n")
    assert config.count(done["index_dir"]) == 2
    again = record(cli("setup", "--yes", "--json"))
    assert [row["state"] for row in again["hosts"]] == ["unchanged", "unchanged"]
    assert len(json.loads(cli("list", "--json").stdout)["skills"]) == 1
    assert record(cli("setup", "--remove", "--yes", "--json"))["roots"] == []
    assert files(machine) == before


def test_it_indexes_what_it_shows_also_where_an_index_holds_other_roots(
    cli, machine, tmp_path, make_skill
):
    make_skill(tmp_path / "mine", "mine")
    make_skill(tmp_path / "work" / ".claude" / "skills", "theirs")
    cli("index", tmp_path / "mine")
    shown = [line.split("\t")[1] for line in cli("setup").stdout.splitlines()[:3]]
    assert {Path(root).parent.name for root in shown} == {tmp_path.name, ".claude", ".agents"}
    done = record(cli("setup", "--yes", "--json"))
    assert done["roots"] == shown
    roots = json.loads(cli("status", "--json").stdout)["roots"]
    assert {root["path"]: root["trust"] for root in roots} == {
        str(tmp_path / "mine"): "vetted",
        str(tmp_path / "work" / ".claude" / "skills"): "project",
        str(machine / ".agents" / "skills"): "vetted",
    }


def test_a_root_that_is_gone_stops_it_before_a_host_is_changed(cli, machine, tmp_path, make_skill):
    make_skill(tmp_path / "mine", "mine")
    cli("index", tmp_path / "mine")
    (tmp_path / "mine").rename(tmp_path / "away")
    before = files(machine)
    result = cli("setup", "--yes")
    assert result.exit_code == 2
    assert "bring it back, or leave its skills out: skillsearch index --replace" in result.stderr
    assert files(machine) == before


def test_where_nothing_is_to_be_done_nothing_is_asked(cli, machine, make_skill):
    assert cli("setup", "--yes").exit_code == 0
    for words in ([], ["--only", "hook"]):
        result = cli("setup", *words)
        assert result.exit_code == 0
        assert "There is nothing to change." in result.stderr
        assert "--yes" not in result.stderr
    make_skill(machine / ".codex" / "skills", "new")
    assert "To do this: skillsearch setup --yes" in cli("setup").stderr
    cli("setup", "--yes", "--remove")
    assert "There is nothing to change" in cli("setup", "--remove").stderr
    assert "To do this: skillsearch setup --yes" in cli("setup").stderr


@pytest.mark.parametrize(("kind", "other"), [("server", "hook"), ("hook", "server")])
def test_server_or_hook_can_be_had_alone(cli, machine, kind, other):
    rows = record(cli("setup", "--yes", "--only", kind, "--json"))["hosts"]
    assert {row["entries"] for row in rows} == {kind}
    record(cli("setup", "--yes", "--only", other, "--json"))
    rows = record(cli("setup", "--remove", "--yes", "--only", kind, "--json"))["hosts"]
    assert {row["entries"] for row in rows} == {kind}
    text = (machine / ".codex" / "config.toml").read_text()
    assert ("[mcp_servers.skillsearch]" in text) == (other == "server")
    assert ("UserPromptSubmit" in text) == (other == "hook")


@pytest.mark.parametrize(
    ("settings", "installed", "state"),
    [
        ({"skillsearch@skillsearch": True}, ["skillsearch@skillsearch"], "plugin"),
        ({"skillsearch@skillsearch": True}, [], "write"),
        ({}, ["skillsearch@mine"], "plugin"),
        ({"skillsearch@skillsearch": False}, ["skillsearch@skillsearch"], "write"),
        ({"other@skillsearch": True}, ["skillsearch-more@x"], "write"),
    ],
)
def test_a_host_with_our_plugin_gets_no_second_server_or_hook(
    cli, machine, settings, installed, state
):
    claude = machine / ".claude"
    (claude / "plugins").mkdir(parents=True)
    (claude / "settings.json").write_text(json.dumps({"enabledPlugins": settings}))
    listed = {"version": 2, "plugins": {name: [{"scope": "user"}] for name in installed}}
    (claude / "plugins" / "installed_plugins.json").write_text(json.dumps(listed))
    result = cli("setup", "--yes", "--json")
    rows = [row for row in record(result)["hosts"] if row["host"] == "claude-code"]
    assert {row["state"] for row in rows} == {{"write": "changed"}.get(state, state)}
    assert ("has the plugin skillsearch@" in result.stderr) == (state == "plugin")
    assert (machine / ".claude.json").exists() == (state == "write")


@pytest.mark.parametrize("only", [(), ("--only", "server"), ("--only", "hook")])
def test_what_setup_wrote_goes_once_the_plugin_is_there(cli, machine, only):
    claude = machine / ".claude"
    (claude / "plugins").mkdir(parents=True)
    cli("setup", "--yes", *only)
    listed = {"plugins": {"skillsearch@mine": [{"scope": "user"}]}}
    (claude / "plugins" / "installed_plugins.json").write_text(json.dumps(listed))
    for state in ("changed", "plugin"):
        rows = record(cli("setup", "--yes", "--json", *only))["hosts"]
        assert {row["state"] for row in rows if row["host"] == "claude-code"} == {state}
    ours = [machine / ".claude.json", claude / "settings.json"]
    assert not any("skillsearch" in path.read_text() for path in ours if path.exists())


@pytest.mark.parametrize(
    ("trusted", "is_on", "is_told"),
    [
        ({}, None, True),
        ({"{here}": "TRUST_FOLDER"}, None, False),
        ({"{here}/..": "DO_NOT_TRUST"}, None, True),
        ({"{here}/x": "TRUST_PARENT"}, None, False),
        ({"{here}x": "TRUST_FOLDER"}, None, True),
        ({}, False, False),
    ],
)
def test_a_folder_that_gemini_does_not_trust_is_told(
    cli, machine, tmp_path, trusted, is_on, is_told
):
    """Its own list would say no more than that the server is disabled."""
    here = str(tmp_path / "work")
    (machine / ".gemini").mkdir()
    levels = {path.replace("{here}", here): level for path, level in trusted.items()}
    (machine / ".gemini" / "trustedFolders.json").write_text(json.dumps(levels))
    if is_on is not None:
        security = {"security": {"folderTrust": {"enabled": is_on}}}
        (machine / ".gemini" / "settings.json").write_text(json.dumps(security))
    assert ('"untrusted folder: Disabled"' in cli("setup").stderr) == is_told


def test_however_often_it_runs_one_copy_stays_beside_a_file(cli, machine):
    for words in (["--yes"], ["--remove", "--yes"], ["--yes"]):
        cli("setup", *words)
    assert [path.name for path in (machine / ".codex").glob("*.bak")] == [
        "config.toml.skillsearch.bak"
    ]


def test_a_file_that_cannot_be_changed_does_not_stop_the_others(cli, machine):
    (machine / ".codex" / "config.toml").write_text("a = ")
    result = cli("setup", "--yes")
    assert result.exit_code == 1
    assert "refused" in result.stdout
    assert "config.toml is not valid TOML" in result.stderr
    assert host_file("cursor").exists()


def test_the_users_own_index_is_named_even_in_a_project(cli, machine, tmp_path):
    """The hosts' files are the user's, and mean the same everywhere."""
    (tmp_path / "work" / "skillsearch.toml").write_text('index_dir = "idx"\n')
    shown = record(cli("setup", "--json"))
    assert shown["index_dir"] == str(machine / "cache" / "skillsearch" / "default")


def test_a_host_is_found_by_its_program_and_servers_need_their_extra(
    cli, machine, tmp_path, monkeypatch
):
    program = shutil.copy(tmp_path / "bin" / "skillsearch", tmp_path / "bin" / "goose")
    hosts = [row["host"] for row in record(cli("setup", "--json"))["hosts"]]
    assert hosts == ["codex", "goose", "cursor"]
    Path(program).unlink()
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = cli("setup")
    assert [line.split("\t")[1] for line in result.stdout.splitlines()[1:]] == ["hook"]
    assert "they need an extra" in result.stderr


def test_on_a_terminal_it_asks(cli, machine, tmp_path):
    script = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    command = [sys.executable, "-c", script, sys.executable, "-m", "skillsearch", "setup"]
    before = files(machine)
    done = subprocess.run(command, input=b"n\n", capture_output=True, timeout=120, check=False)
    assert b"Do this?" in done.stdout
    assert files(machine) == before
    shown = re.sub(r"\x1b\[[\d;?]*m", "", done.stdout.decode())
    assert re.findall(r"^(\w+) +server", shown, re.MULTILINE) == ["codex", "cursor"]
    assert "\t" not in shown


def test_what_is_refused_only_at_the_end_is_said_too(cli, machine, monkeypatch):
    before = machine / ".codex" / "config.toml"
    write = FileChange.write

    def late(change):
        if change.path == before:
            before.write_text("# theirs\n")
        return write(change)

    monkeypatch.setattr(FileChange, "write", late)
    result = cli("setup", "--yes")
    assert result.exit_code == 1
    assert f"refused: {before} was changed by another program meanwhile" in result.stderr
    assert "See whether it answers" not in result.stderr.partition("refused")[0]
    assert before.read_text() == "# theirs\n"
    assert host_file("cursor").exists()


def test_the_plugin_is_this_version_and_configures_what_mcp_config_does(cli, machine):
    """Claude Code reads no link out of a plugin, so its skill is there twice."""
    skill = Path("find-skills", "SKILL.md")
    example = PLUGIN.parent / "examples" / skill
    assert (PLUGIN / "skills" / skill).read_bytes() == example.read_bytes()
    manifest = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    assert manifest["version"] == skillsearch.__version__
    assert manifest["mcpServers"] == {"skillsearch": {"command": "skillsearch", "args": ["mcp"]}}
    ((group,),) = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"].values()
    printed = json.loads(cli("mcp-config", "claude-code", "--hook").stdout)
    (wanted,) = printed["hooks"]["UserPromptSubmit"][0]["hooks"]
    start, _, _ = wanted["command"].partition(" --index-dir")
    assert group["hooks"] == [{**wanted, "command": f"skillsearch {start.split(' ', 1)[1]}"}]
