"""Tests of ``skillsearch mcp``: what it refuses before it serves."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillsearch.errors import ConfigError
from skillsearch.mcp_server.token_file import mcp_token
from skillsearch.settings.environ import install_extra


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--allow-remote"], "--http"),
        (["--token-file", "token"], "--http"),
        (["--toolset", "nothing"], "'nothing' is not one of"),
        (["--http", "8765"], "HOST:PORT"),
        (["--http", "0.0.0.0:0"], "--allow-remote"),
        (["--http", "0.0.0.0:0", "--allow-remote"], "SKILLSEARCH_MCP_TOKEN"),
        (["--http", "127.0.0.1:0", "--token-file", "missing"], "missing cannot be read"),
        (["--toolset", "environment", "a", "b"], "not of 2"),
        (["--trust", "vetted"], "skillsearch index --trust ROOT=vetted"),
    ],
)
def test_wrong_usage_is_told_and_nothing_is_served(cli, args, said):
    pytest.importorskip("mcp")
    result = cli("mcp", *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_who_starts_the_server_on_a_terminal_is_told_what_it_waits_for(on_terminal, environment):
    pytest.importorskip("mcp")
    code, sent = on_terminal("mcp", typed=b"\x04", env=environment)
    assert (code, "Waiting for a client on stdin" in sent) == (0, True)
    assert "skillsearch mcp-config HOST" in " ".join(sent.split())


@pytest.mark.parametrize(
    ("missing", "args", "extra"), [("mcp", [], "mcp"), ("watchfiles", ["--watch"], "watch")]
)
def test_a_missing_library_is_told_with_what_brings_it(cli, monkeypatch, missing, args, extra):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else find(name)
    )
    monkeypatch.setitem(sys.modules, missing, None)
    result = cli("mcp", *args)
    assert result.exit_code == 1
    assert install_extra(extra) in result.stderr


def test_a_token_is_read_without_the_blanks_around_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_MCP_TOKEN", " variable ")
    (tmp_path / "token").write_text("  file\n")
    (tmp_path / "token").chmod(0o600)
    assert mcp_token(tmp_path / "token") == "file"
    assert mcp_token() == "variable"
    monkeypatch.delenv("SKILLSEARCH_MCP_TOKEN")
    assert mcp_token() == ""


def test_a_token_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"none cannot be read: No such file or directory; corr"):
        mcp_token(tmp_path / "none")


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_a_file_without_a_token_is_refused(tmp_path, content):
    (tmp_path / "token").write_bytes(content)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigError, match="token file"):
        mcp_token(tmp_path / "token")


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o777])
def test_a_token_that_others_can_read_or_write_is_refused(tmp_path, mode):
    file = tmp_path / "my token"
    file.write_text("correct-horse-battery-staple")
    file.chmod(mode)
    with pytest.raises(ConfigError, match=f"mode {mode:04o}") as error:
        mcp_token(file)
    subprocess.run(str(error.value).partition("run: ")[2], shell=True, check=True)
    assert mcp_token(file) == "correct-horse-battery-staple"


@pytest.mark.skipif(os.name != "posix", reason="there are no such pipes")
def test_a_token_may_come_from_a_pipe():
    reading, writing = os.pipe()
    os.write(writing, b"correct-horse-battery-staple")
    os.close(writing)
    assert mcp_token(Path(f"/dev/fd/{reading}")) == "correct-horse-battery-staple"
    os.close(reading)
