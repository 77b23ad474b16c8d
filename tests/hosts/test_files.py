"""Tests of how a host's file is found, and replaced so that nothing in it can be lost."""

import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap

import pytest

from skillsearch.errors import ConfigError, StorageError
from skillsearch.hosts import files
from skillsearch.hosts.entries import HOOK_HOSTS, HOSTS, hook_entry, server_entry
from skillsearch.hosts.files import FileChange, host_file

ENTRY = server_entry("gemini", ["/s", "mcp"])
OTHER = server_entry("gemini", ["/elsewhere", "mcp"])
GONE = ENTRY._replace(value=None)
OLD = b'{\n  // mine\n  "a": 1\n}\n'
VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME")
KILL = """
import os, signal, sys
from pathlib import Path
from skillsearch.hosts.entries import server_entry
from skillsearch.hosts.files import FileChange

change = FileChange.plan(Path(sys.argv[1]), [server_entry("gemini", ["/s", "mcp"])])
left = int(sys.argv[2])

def kill(event, arguments):
    global left
    if event == "open" or event.startswith("os."):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
change.write()
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "host" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(OLD)
    return path


@pytest.fixture(autouse=True)
def _no_folders(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def others(path):
    return sorted(file.name for file in path.parent.iterdir() if file.name != path.name)


def test_each_file_is_where_the_host_looks_for_it(home):
    assert {host: str(host_file(host).relative_to(home)) for host in HOSTS} == {
        "claude-code": ".claude.json",
        "codex": ".codex/config.toml",
        "gemini": ".gemini/settings.json",
        "vscode": ".config/Code/User/mcp.json",
        "opencode": ".config/opencode/opencode.json",
        "goose": ".config/goose/config.yaml",
        "cursor": ".cursor/mcp.json",
        "windsurf": ".codeium/windsurf/mcp_config.json",
        "zed": ".config/zed/settings.json",
    }
    hooks = [str(host_file(host, hook=True).relative_to(home)) for host in HOOK_HOSTS]
    assert hooks == [".claude/settings.json", ".codex/config.toml", ".gemini/settings.json"]


def test_macos_has_another_folder(home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    assert host_file("vscode") == home / "Library/Application Support/Code/User/mcp.json"
    assert host_file("zed") == home / ".config/zed/settings.json"


@pytest.mark.parametrize(
    ("variable", "host", "hook", "name"),
    [
        ("CLAUDE_CONFIG_DIR", "claude-code", False, ".claude.json"),
        ("CLAUDE_CONFIG_DIR", "claude-code", True, "settings.json"),
        ("CODEX_HOME", "codex", False, "config.toml"),
        ("GEMINI_CLI_HOME", "gemini", True, ".gemini/settings.json"),
        ("XDG_CONFIG_HOME", "zed", False, "zed/settings.json"),
    ],
)
def test_the_hosts_own_variable_counts(tmp_path, home, monkeypatch, variable, host, hook, name):
    default = host_file(host, hook=hook)
    monkeypatch.setenv(variable, "")
    assert host_file(host, hook=hook) == default
    monkeypatch.setenv(variable, str(tmp_path))
    assert host_file(host, hook=hook) == tmp_path / name


def test_the_file_that_opencode_has_is_meant(home):
    twin = home / ".config/opencode/opencode.jsonc"
    twin.parent.mkdir(parents=True)
    twin.touch()
    assert host_file("opencode") == twin


@pytest.mark.parametrize("host", ["goose", "windsurf"])
def test_a_host_without_a_file_in_projects_says_so(host):
    with pytest.raises(ConfigError, match=f"{host} has no file in a project"):
        host_file(host, project=True)


def test_a_file_and_its_folders_are_made_for_their_user_alone(tmp_path):
    """Hosts keep secrets there, and a umask may leave them to everybody."""
    path = tmp_path / "a" / "b" / "settings.json"
    before = os.umask(0)
    try:
        assert FileChange.plan(path, [ENTRY]).write() is None
    finally:
        os.umask(before)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in path.parents[:2]] == [0o700, 0o700]
    assert path.read_text() == ENTRY.text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert others(path) == []


def test_what_was_there_stays_beside_it_with_its_mode(config):
    config.chmod(0o640)
    copy = FileChange.plan(config, [ENTRY]).write()
    assert copy.read_bytes() == OLD
    assert [stat.S_IMODE(path.stat().st_mode) for path in (config, copy)] == [0o640, 0o640]
    assert others(config) == ["settings.json.skillsearch.bak"]


@pytest.mark.parametrize("before", [None, b"", b"{}", b"{ }\n", OLD])
@pytest.mark.parametrize("entries", [[ENTRY], [OTHER, ENTRY]], ids=["once", "twice"])
def test_what_is_undone_leaves_what_was_there_before(tmp_path, before, entries):
    path = tmp_path / "settings.json"
    if before is not None:
        path.write_bytes(before)
    for entry in entries:
        FileChange.plan(path, [entry]).write()
    assert FileChange.plan(path, [GONE]).write() is None
    files_after = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    was_bare = before is not None and before.strip() in (b"", b"{}", b"{ }")
    if was_bare and len(entries) > 1:  # the copy is of our first entry, and so tells nothing
        assert files_after == {}
    else:
        assert files_after == ({} if before is None else {path.name: before})


def test_an_entry_of_ours_that_stays_keeps_the_copy(config):
    hook = hook_entry("gemini", ["/s/skillsearch", "hook", "--client", "gemini"])
    FileChange.plan(config, [ENTRY, hook]).write()
    FileChange.plan(config, [GONE]).write()
    assert others(config) == ["settings.json.skillsearch.bak"]
    FileChange.plan(config, [hook._replace(value=None)]).write()
    assert (config.read_bytes(), others(config)) == (OLD, [])


def test_several_entries_are_one_change(config):
    other = ENTRY._replace(path=("mcpServers", "other"))
    FileChange.plan(config, [ENTRY, other]).write()
    assert others(config) == ["settings.json.skillsearch.bak"]
    assert not FileChange.plan(config, [other, ENTRY]).is_needed


def test_a_link_stays_a_link(config, tmp_path):
    """Files of dot files often lie elsewhere; the copy lies beside the file itself."""
    link = tmp_path / "link.json"
    link.symlink_to(config)
    copy = FileChange.plan(link, [ENTRY]).write()
    assert link.is_symlink()
    assert b'"skillsearch"' in config.read_bytes()
    assert copy.parent == config.parent


def test_a_link_to_nothing_gets_its_file(tmp_path):
    link, target = tmp_path / "link.json", tmp_path / "dots" / "settings.json"
    link.symlink_to(target)
    FileChange.plan(link, [ENTRY]).write()
    assert target.read_text() == ENTRY.text
    assert link.is_symlink()


def test_a_projects_file_is_not_written_through_a_link_out_of_it(config, tmp_path):
    """A checkout could name any file of its user."""
    project = tmp_path / "project"
    project.mkdir()
    (project / ".mcp.json").symlink_to(config)
    with pytest.raises(ConfigError, match="link out of the project"):
        FileChange.plan(project / ".mcp.json", [ENTRY], project)
    (project / ".vscode").symlink_to(config.parent)
    with pytest.raises(ConfigError, match="link out of the project"):
        FileChange.plan(project / ".vscode" / "mcp.json", [ENTRY], project)


@pytest.mark.parametrize("is_new", [False, True])
def test_what_another_program_writes_meanwhile_is_not_overwritten(config, is_new):
    """Hosts write to their files at any time."""
    if is_new:
        config.unlink()
    change = FileChange.plan(config, [ENTRY])
    config.write_bytes(b"{}")
    with pytest.raises(ConfigError, match="changed by another program meanwhile"):
        change.write()
    assert config.read_bytes() == b"{}"
    assert others(config) == ([] if is_new else ["settings.json.skillsearch.bak"])


def test_a_full_disk_is_told_with_the_file_that_stays_as_it_is(config, monkeypatch):
    """A command took it for the end of its output."""
    change = FileChange.plan(config, [ENTRY])

    def fail(_handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(
        StorageError, match=r"settings\.json cannot be written: No space left on dev"
    ):
        change.write()
    assert config.read_bytes() == OLD


@pytest.mark.parametrize("kind", ["folder", "pipe", "huge"])
def test_what_is_no_file_of_settings_is_left_alone(tmp_path, kind):
    path = tmp_path / "settings.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(1 << 32)
    with pytest.raises(ConfigError, match="not a settings file"):
        FileChange.plan(path, [ENTRY])


def test_a_file_is_not_edited_to_be_larger_than_what_is_read(config, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", len(OLD) + 20)
    with pytest.raises(ConfigError, match="would have more than"):
        FileChange.plan(config, [ENTRY])


def test_a_read_only_file_is_left_alone(config):
    """Somebody meant it; and a file that needs no change is none of our business."""
    config.chmod(0o444)
    assert not FileChange.plan(config, [GONE]).is_needed
    with pytest.raises(ConfigError, match="read-only"):
        FileChange.plan(config, [ENTRY])


def test_a_link_to_itself_is_an_error(tmp_path):
    path = tmp_path / "settings.json"
    path.symlink_to(path)
    with pytest.raises((OSError, ConfigError)):
        FileChange.plan(path, [ENTRY])


def test_a_broken_file_is_left_alone(config):
    config.write_bytes(b"{")
    with pytest.raises(ConfigError, match=r"settings.json is not valid JSON.*left as it is"):
        FileChange.plan(config, [ENTRY])


def test_the_diff_shows_what_changes_and_hides_nothing(config):
    config.write_text('{\n  "a": "\u202e' + "x" * 1000 + '"\n}\n')
    lines = FileChange.plan(config, [ENTRY]).diff().splitlines()
    assert '+    "skillsearch": {' in lines
    assert max(map(len, lines)) <= 300
    assert "\u202e" not in "".join(lines)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals as on POSIX")
def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(config):
    for step in range(1, 60):
        for path in config.parent.iterdir():
            path.unlink()
        config.write_bytes(OLD)
        wanted = FileChange.plan(config, [ENTRY]).after
        command = [sys.executable, "-c", textwrap.dedent(KILL), str(config), str(step)]
        code = subprocess.run(command, check=False).returncode
        assert config.read_bytes() in (OLD, wanted)
        change = FileChange.plan(config, [ENTRY])
        assert not change.is_needed or change.write().read_bytes() == OLD
        assert config.read_bytes() == wanted
        assert set(others(config)) <= {"settings.json.skillsearch.bak"}
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert code == 0
    assert step > 5
