"""Tests of the configurations of hosts: read back as the host reads them."""

import json
import shlex
import string
import tomllib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import ConfigError
from skillsearch.hosts.entries import HOOK_HOSTS, HOSTS, add_command, hook_entry, server_entry

COMMAND = ["/opt/skill search/bin/skillsearch", "mcp", "/home/jo/my skills", "--index-dir", "/i"]
URL = "http://127.0.0.1:8765/mcp"
HOSTILE = [
    "two  blanks",
    "tab\tand\nline",
    "quote\"s and 'apostrophes'",
    "back\\slash \\u0041 \\",
    "주간-보고 café 👍 \U0001f9d1\u200d\U0001f52c",
    "# no comment: [no] {list}, *no &anchor, %no !tag, - no, yes, 1.0, ~",
    "\x1b[31m \x7f \x85 \u2028 \ufeff \ufffe \u202e",
    "",
]
plain = st.text(st.characters(codec="utf-8", exclude_characters="$\0"), max_size=40).filter(
    lambda text: "{env:" not in text and "{file:" not in text
)


def read(host, text):
    if host == "codex":
        return tomllib.loads(text)
    return yaml.safe_load(text) if host == "goose" else json.loads(text)


def command_of(host, text):
    parsed = read(host, text)
    if host == "opencode":
        return parsed["mcp"]["skillsearch"]["command"]
    if host == "goose":
        entry = parsed["extensions"]["skillsearch"]
        return [entry["cmd"], *entry["args"]]
    entry = parsed[HOSTS[host]["servers"]]["skillsearch"]
    return [entry["command"], *entry["args"]]


@pytest.mark.parametrize("host", HOSTS)
def test_any_character_of_a_path_comes_through(host):
    for command in (COMMAND, [f"/bin/{HOSTILE[0]}", *HOSTILE]):
        assert command_of(host, server_entry(host, command).text) == command


@given(plain, plain)
def test_any_text_comes_through(first, second):
    for host in HOSTS:
        assert command_of(host, server_entry(host, [first, second]).text) == [first, second]


@pytest.mark.parametrize("host", HOSTS)
def test_the_text_is_ascii_and_ends_its_last_line(host):
    """No encoding of a terminal or a file can spoil it, and nothing in it hides."""
    text = server_entry(host, ["/bin/주간", "\u202e"]).text
    assert set(text) <= set(string.printable) - set("\t\r\x0b\x0c")
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


STARTED = {"command": "/s", "args": ["mcp"]}
EXTENSION = {"name": "skillsearch", "enabled": True, "timeout": 300}


@pytest.mark.parametrize(
    ("host", "key", "started", "reached"),
    [
        ("claude-code", "mcpServers", {"type": "stdio", **STARTED}, {"type": "http", "url": URL}),
        ("codex", "mcp_servers", STARTED, {"url": URL}),
        ("gemini", "mcpServers", STARTED, {"httpUrl": URL}),
        ("vscode", "servers", {"type": "stdio", **STARTED}, {"type": "http", "url": URL}),
        (
            "opencode",
            "mcp",
            {"type": "local", "command": ["/s", "mcp"], "enabled": True},
            {"type": "remote", "url": URL, "enabled": True},
        ),
        ("cursor", "mcpServers", {"type": "stdio", **STARTED}, {"url": URL}),
        ("windsurf", "mcpServers", STARTED, {"serverUrl": URL}),
        ("zed", "context_servers", STARTED, {"url": URL}),
        (
            "goose",
            "extensions",
            {**EXTENSION, "type": "stdio", "cmd": "/s", "args": ["mcp"]},
            {**EXTENSION, "type": "streamable_http", "uri": URL},
        ),
    ],
)
def test_each_host_reads_its_own_form(host, key, started, reached):
    for server, entry in ((["/s", "mcp"], started), (URL, reached)):
        assert read(host, server_entry(host, server).text) == {key: {"skillsearch": entry}}


@pytest.mark.parametrize("host", HOOK_HOSTS)
def test_a_hook_runs_the_command_as_given(host):
    command = [*COMMAND, "it's", 'a "b"', "back\\slash", "*", "주간"]
    parsed = read(host, hook_entry(host, command).text)
    ((event, (matcher,)),) = parsed["hooks"].items()
    assert event == ("BeforeAgent" if host == "gemini" else "UserPromptSubmit")
    (hook,) = matcher["hooks"]
    assert hook["type"] == "command"
    assert shlex.split(hook["command"]) == command
    assert hook["timeout"] == (10_000 if host == "gemini" else 10)


@pytest.mark.parametrize(
    ("host", "server", "line"),
    [
        ("claude-code", COMMAND, "claude mcp add --scope user skillsearch -- {}"),
        ("codex", COMMAND, "codex mcp add skillsearch -- {}"),
        ("gemini", ["/a b/s", "mcp"], "gemini mcp add --scope user skillsearch '/a b/s' -- mcp"),
        ("claude-code", URL, "claude mcp add --scope user --transport http skillsearch {}"),
        ("codex", URL, "codex mcp add skillsearch --url {}"),
        ("gemini", URL, "gemini mcp add --scope user --transport http skillsearch {}"),
    ],
)
def test_a_host_can_add_a_server_by_itself(host, server, line):
    words = server if isinstance(server, str) else shlex.join(server)
    assert add_command(host, server) == line.format(words)


def test_vscode_adds_a_server_from_json():
    *words, entry = shlex.split(add_command("vscode", ["/a b/s", "mcp"]))
    assert words == ["code", "--add-mcp"]
    assert json.loads(entry) == {
        "name": "skillsearch",
        "type": "stdio",
        "command": "/a b/s",
        "args": ["mcp"],
    }


@pytest.mark.parametrize(
    ("host", "argument"),
    [
        ("claude-code", "/s/${HOME}"),
        ("gemini", "/s/$HOME"),
        ("gemini", "/s/${HOME}"),
        ("vscode", "/s/${workspaceFolder}"),
        ("opencode", "/s/{env:HOME}"),
        ("opencode", "/s/{file:x}"),
        ("cursor", "/s/${env:HOME}"),
        ("windsurf", "/s/${env:HOME}"),
    ],
)
def test_what_the_host_would_replace_is_refused(host, argument):
    """No host has a way to write it as it is."""
    with pytest.raises(ConfigError, match="would expand") as caught:
        server_entry(host, ["/s", argument])
    assert argument in str(caught.value)


def test_a_hook_is_checked_as_a_server_is():
    with pytest.raises(ConfigError, match="would expand"):
        hook_entry("gemini", ["/s/$x"])


@pytest.mark.parametrize("host", HOSTS)
def test_a_path_that_is_not_utf8_is_refused(host):
    """None of the formats can hold it; the message can be shown."""
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        server_entry(host, ["/s", "caf\udce9"])
    str(caught.value).encode()
