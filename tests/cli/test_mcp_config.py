"""Tests of ``skillsearch mcp-config``."""

import json
import os
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from skillsearch.cli.hosts import hook
from skillsearch.files.own_folder import own_folder
from skillsearch.hosts.entries import HOOK_HOSTS, HOSTS
from skillsearch.hosts.files import host_file
from skillsearch.settings.environ import install_extra
from skillsearch.settings.user_folders import cache_dir


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a program of our name on the path, and nothing else."""
    path = tmp_path / "bin dir" / "skillsearch"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent))
    return str(path)


def entry(result):
    assert result.exit_code == 0
    return json.loads(result.stdout)["mcpServers"]["skillsearch"]


@pytest.mark.parametrize("kind", ["server", "hook"])
@pytest.mark.parametrize("whose", ["own", "project", "variable"])
def test_the_index_that_holds_here_is_named(cli, program, tmp_path, home, monkeypatch, kind, whose):
    """A host may start anywhere, and with other variables."""
    expected = home / "cache" / "skillsearch" / "default"
    if whose == "project":
        (tmp_path / "work" / "skillsearch.toml").write_text('index_dir = "idx"\n')
        expected = own_folder(tmp_path / "work" / "idx", cache_dir())
    elif whose == "variable":
        monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", "there")
        expected = tmp_path / "work" / "there"
    result = cli("mcp-config", "claude-code", *(["--hook"] if kind == "hook" else []))
    if kind == "server":
        assert entry(result)["args"] == ["mcp", "--index-dir", str(expected)]
    else:
        assert f"--index-dir {expected}" in result.stdout
    assert f"note: There is no index in {expected}" in result.stderr


def test_a_relative_path_is_made_absolute(cli, program, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin dir")
    assert entry(cli("mcp-config", "claude-code"))["command"] == program


def test_python_runs_us_where_no_program_is_on_the_path(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    server = entry(cli("mcp-config", "claude-code"))
    command = [server["command"], *server["args"][:4]]
    assert command == [sys.executable, "-P", "-m", "skillsearch", "mcp"]


def test_folders_are_made_absolute(cli, program, tmp_path):
    (tmp_path / "work" / "my skills").mkdir()
    assert cli("index", "my skills", "--index-dir", "an index", "--model", "hashing").exit_code == 0
    result = cli("mcp-config", "claude-code", "my skills", "--index-dir", "an index")
    assert "no index" not in result.stderr
    server = entry(result)
    work = tmp_path / "work"
    assert server["args"] == ["mcp", str(work / "my skills"), "--index-dir", str(work / "an index")]


def test_the_hosts_own_command_is_told_as_it_is_typed(cli, program, tmp_path):
    (tmp_path / "work" / "two  blanks").mkdir()
    result = cli("mcp-config", "claude-code", "two  blanks")
    folder = tmp_path / "work" / "two  blanks"
    assert result.stderr.splitlines()[-1] == (
        f"Or run: claude mcp add --scope user skillsearch -- '{program}' mcp '{folder}'"
    )


@pytest.mark.parametrize(
    "url", ["ftp://host/mcp", "http://", "http://h:99999/", "http://[::1", "http://h/ x"]
)
def test_a_server_is_named_by_its_url_and_what_is_none_is_a_wrong_usage(cli, url):
    running = "http://127.0.0.1:8765/mcp"
    server = entry(cli("mcp-config", "claude-code", "--http", running))
    assert server == {"type": "http", "url": running}
    result = cli("mcp-config", "vscode", "--http", url)
    assert result.exit_code == 2
    assert "http://127.0.0.1:8765/mcp" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["--http", "http://h/", "--index-dir", "i"],
        ["--http", "http://h/", "."],
        ["--hook", "."],
        ["--hook", "--http", "http://h/"],
        ["--trust", "vetted"],
        ["--write", "--remove"],
        ["--remove", "."],
        ["--remove", "--watch"],
        ["--remove", "--http", "http://h/"],
        ["--remove", "--index-dir", "i"],
        ["--include-unvetted"],
        ["--remove", "--hook", "--include-unvetted"],
    ],
)
def test_options_that_do_nothing_together_are_refused(cli, args):
    result = cli("mcp-config", "claude-code", *args)
    assert (result.exit_code, result.stdout) == (2, "")


def test_what_would_show_only_when_the_host_starts_the_server_is_told(cli, monkeypatch):
    Path("$HOME").mkdir()
    for args, message in (
        (("codex", "no-such-folder"), "no-such-folder"),
        (("gemini", "$HOME"), "gemini would expand"),
        (("emacs",), ", ".join(map(repr, HOSTS))),
    ):
        result = cli("mcp-config", *args)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = cli("mcp-config", "goose")
    assert result.exit_code == 0
    assert install_extra("mcp") in result.stderr


@pytest.mark.parametrize("host", HOOK_HOSTS)
def test_a_hook_runs_skillsearch_hook(cli, program, tmp_path, host):
    result = cli("mcp-config", host, "--hook", "--index-dir", "i")
    assert result.exit_code == 0
    parsed = tomllib.loads(result.stdout) if host == "codex" else json.loads(result.stdout)
    ((matcher,),) = parsed["hooks"].values()
    folder = tmp_path / "work" / "i"
    expected = f"'{program}' hook --client {host} --index-dir {folder}"
    assert matcher["hooks"][0]["command"] == expected


@pytest.mark.parametrize("host", sorted(set(HOSTS) - set(HOOK_HOSTS)))
def test_a_host_without_a_hook_is_told_what_else_to_do(cli, host):
    result = cli("mcp-config", host, "--hook")
    assert result.exit_code == 2
    assert f"skillsearch mcp-config {host}" in " ".join(result.stderr.split())
    assert "claude-code, codex, gemini" in " ".join(result.stderr.split())


def test_what_the_server_is_to_offer_is_passed_on(cli, tmp_path):
    result = cli(
        *("mcp-config", "gemini", tmp_path, "--toolset", "workspace", "--watch", "--allow-run"),
        *("--trust", "vetted"),
    )
    (server,) = json.loads(result.stdout)["mcpServers"].values()
    offered = ["--toolset", "workspace", "--watch", "--allow-run"]
    assert server["args"][-6:] == ["--trust", "vetted", *offered]


@pytest.mark.parametrize("option", [["--toolset", "chunks"], ["--watch"], ["--allow-run"]])
@pytest.mark.parametrize("kind", [["--hook"], ["--http", "http://127.0.0.1:8765/mcp"]])
def test_options_of_a_server_are_for_one_that_the_host_starts(cli, option, kind):
    """A running server has its own, and a hook is none."""
    result = cli("mcp-config", "claude-code", *option, *kind)
    assert result.exit_code == 2
    assert f"{option[0]} is for a server that the host starts itself" in result.stderr


@pytest.mark.parametrize("host", HOSTS)
def test_a_server_is_written_and_removed(cli, program, home, host):
    shown = cli("mcp-config", host)
    printed = shown.stdout
    assert "This belongs in " in shown.stderr
    assert ", merged with what is there; --write does that.\n" in shown.stderr
    written = cli("mcp-config", host, "--write")
    assert (written.exit_code, written.stdout) == (0, "")
    file = host_file(host)
    assert file.is_relative_to(home)
    assert file.read_text() == printed
    assert f"+++ {file}" in written.stderr
    assert f"Changed {file}" in written.stderr
    assert "Nothing to change" in cli("mcp-config", host, "--write").stderr
    removed = cli("mcp-config", host, "--remove")
    assert removed.stderr.endswith(f"Changed {file}\n")
    assert not list(file.parent.iterdir())
    assert "does not have it" in cli("mcp-config", host, "--remove").stderr


@pytest.mark.parametrize("host", HOOK_HOSTS)
def test_a_hook_is_written_and_removed(cli, program, host):
    cli("mcp-config", host, "--write")
    cli("mcp-config", host, "--hook", "--write", "--index-dir", "one")
    file = host_file(host, hook=True)
    cli("mcp-config", host, "--hook", "--write", "--index-dir", "two", "--include-unvetted")
    text = file.read_text()
    assert text.count(f"hook --client {host}") == 1
    assert text.rstrip("\n").count("/two --include-unvetted") == 1
    cli("mcp-config", host, "--hook", "--remove")
    assert not file.exists() or f"hook --client {host}" not in file.read_text()
    assert "skillsearch" in host_file(host).read_text()


def test_a_hook_of_all_skills_is_one_that_the_command_takes(cli, program):
    (group,) = json.loads(cli("mcp-config", "gemini", "--hook", "--include-unvetted").stdout)[
        "hooks"
    ]["BeforeAgent"]
    _, _, *arguments = shlex.split(group["hooks"][0]["command"])
    _, _, include_unvetted = hook.parse(arguments)
    assert include_unvetted is True


def test_a_projects_file_is_written_where_one_stands(cli, program, tmp_path):
    result = cli("mcp-config", "vscode", "--project", "--write")
    assert result.exit_code == 0
    file = tmp_path / "work" / ".vscode" / "mcp.json"
    entry = entry_of(file, "servers")
    assert (entry["command"], entry["args"]) == ("skillsearch", ["mcp"])
    assert not host_file("vscode").exists()


@pytest.mark.parametrize("write", [(), ("--write",)], ids=["print", "write"])
@pytest.mark.parametrize(
    ("options", "package"),
    [((), "'path/to/skillsearch[mcp]'"), (("--hook",), "'path/to/skillsearch'")],
    ids=["server", "hook"],
)
def test_a_projects_file_comes_with_what_others_must_install(cli, program, options, package, write):
    """A server starts with the extra alone, and the hook without it."""
    message = cli("mcp-config", "claude-code", "--project", *options, *write).stderr
    assert f"pipx install {package}\n" in message


def entry_of(file, table):
    return json.loads(file.read_text())[table]["skillsearch"]


def test_what_cannot_be_written_is_printed_to_paste(cli, program, home):
    file = host_file("gemini")
    file.parent.mkdir()
    file.write_text('{"mcpServers": []}')
    printed = cli("mcp-config", "gemini").stdout
    result = cli("mcp-config", "gemini", "--write")
    assert (result.exit_code, result.stdout) == (2, printed)
    assert '"mcpServers" as a list, where a table belongs; it was left as it is' in result.stderr
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_cannot_be_read_is_an_error(cli, program):
    file = host_file("cursor")
    file.parent.mkdir()
    file.touch(mode=0)
    result = cli("mcp-config", "cursor", "--write")
    assert result.exit_code == 1
    assert f"Permission denied: {file}" in result.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["mcp-config", "claude-cod"], "claude-code"),
        (["budget", "--host", "Codx"], "codex"),
        (["library", "move", "tea", "--switch", "opencod"], "opencode"),
        (["hook", "--client", "gemni"], "gemini"),
    ],
)
def test_a_host_that_is_misspelt_is_named(cli, words, meant):
    refused = cli(*words)
    assert refused.exit_code in (1, 2)
    assert f"Did you mean '{meant}" in refused.stderr
