"""Tests of how a host's file is edited: our entry alone changes, every other byte stays."""

import json
import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import EditError
from skillsearch.hosts.edit import edit
from skillsearch.hosts.entries import HOOK_HOSTS, HOSTS, hook_entry, server_entry
from skillsearch.skills.frontmatter import load_yaml

SERVER = ["/opt/a b/skillsearch", "mcp", "--index-dir", "/i"]
SERVERS = {host: server_entry(host, SERVER) for host in HOSTS}
HOOKS = {
    host: hook_entry(host, ["/opt/a b/skillsearch", "hook", "--client", host])
    for host in HOOK_HOSTS
}
ENTRIES = [*SERVERS.values(), *HOOKS.values()]
NOTE = re.compile(r"// note|/\* a, \{b\} \*/")
CODEX = (
    'model = "m"  # [mcp_servers.skillsearch]\n',
    "note = '''\n[mcp_servers.skillsearch]\nx = 1\n'''\n",
    "list = [\n  [1, 2],  # pairs\n  [3],\n]\n",
    "[tui]\n# a comment\n\ntheme = 'dark'\n",
    "[mcp_servers]\n# mine\n",
    '[mcp_servers.docs]\ncommand = "x"\n[mcp_servers.docs.env]\nA = "[b]"\n',
    '[mcp_servers."skillsearch2"]\nurl = "u"\n\n\n',
    "[[hooks.UserPromptSubmit]]\n# theirs\n[[hooks.UserPromptSubmit.hooks]]\ncommand = 'a'\n",
    "[[hooks.Stop]]\n\n[[hooks.Stop.hooks]]\ncommand = 'b'\n\n",
    "[last]\n# the end\n",
)
GOOSE = (
    "GOOSE_MODEL: m  # extensions:\n",
    "# a comment\n\n",
    "text: |\n  extensions:\n    skillsearch: 1\n\n",
    "list:\n- a\n- b: 1\n",
    "skillsearch: mine\n",
)
EXTENSIONS = (
    "  developer:\n    enabled: true\n    # note\n    timeout: 300\n",
    "  # a comment\n\n",
    "  text:\n    said: |\n      skillsearch:\n        # here\n",
    '  "quoted": {a: [1, 2]}\n',
)


def gone(entry):
    return entry._replace(value=None)


def called(entry):
    return "-".join(map(str, (entry.host, *entry.path)))


def read(entry, data):
    """Parse a file with a parser of its form, told nothing of what wrote it."""
    text = data.decode().removeprefix("\ufeff")
    if entry.form == "toml":
        return tomllib.loads(text)
    if entry.form == "yaml":
        return load_yaml(text)[0]
    strings = r'"(?:[^"\\]|\\.)*"'
    plain = re.sub(rf"({strings})|//[^\n]*|/\*.*?\*/", r"\1", text, flags=re.S)
    plain = re.sub(rf"({strings})|,(\s*[]}}])", r"\1\2", plain, flags=re.S)
    return json.loads(plain or "{}")


def is_held(entry, data):
    for step in entry.path[:-1]:
        data = data[step]
    return data.count(entry.value) == 1 if entry.is_hook else data[entry.path[-1]] == entry.value


def pruned(data, entry):
    """Return data without tables that are empty on the way to an entry."""
    for depth in range(len(entry.path) - 1, 0, -1):
        node = data
        for step in entry.path[: depth - 1]:
            node = node.get(step, {})
        if node.get(entry.path[depth - 1]) in ({}, [], None):
            node.pop(entry.path[depth - 1], None)
    return data


def is_full(entry, data):
    """Return whether what is on the way to an entry holds something, or is not there."""
    for step in entry.path[:-1]:
        if not data:
            return False
        data = data.get(step, {"": ""})
    return bool(data)


def check_round_trip(entry, before):
    written = edit(before, entry)
    assert is_held(entry, read(entry, written))
    assert edit(written, entry) == written
    removed = edit(written, gone(entry))
    assert repr(pruned(read(entry, removed), entry)) == repr(pruned(read(entry, before), entry))
    return written, removed


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=12)
values = st.recursive(
    st.one_of(st.integers(-99, 99), st.booleans(), words),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
comments = st.sampled_from(["", "// note\n", "/* a, {b} */", '// "mcpServers": {\n', "/* \n */"])
blanks = st.sampled_from(["", " ", "\n", "\n    "])
breaks = st.sampled_from(["\n", "\r\n"])


@st.composite
def jsonc(draw, value):
    def gap():
        return draw(blanks) + draw(comments)

    def write(node):
        if isinstance(node, dict):
            parts = [f"{gap()}{json.dumps(k)}{gap()}:{gap()}{write(v)}" for k, v in node.items()]
        elif isinstance(node, list):
            parts = [f"{gap()}{write(v)}" for v in node]
        else:
            return json.dumps(node, ensure_ascii=draw(st.booleans()))
        last = "," if parts and draw(st.booleans()) else ""
        inside = f"{gap()},".join(parts) + gap() + last + gap()
        return f"{{{inside}}}" if isinstance(node, dict) else f"[{inside}]"

    return gap() + write(value) + gap()


@st.composite
def json_files(draw, entry):
    value = draw(st.dictionaries(names, values, max_size=3))
    if draw(st.booleans()):
        others = draw(st.dictionaries(names, values, max_size=2))
        group = st.fixed_dictionaries({"hooks": st.lists(values, max_size=1)})
        hooks = {entry.path[1]: draw(st.lists(group, max_size=2)), **others}
        value[entry.path[0]] = hooks if entry.is_hook else others
    value = dict(draw(st.permutations(list(value.items()))))
    return encoded(draw, draw(jsonc(value)))


@st.composite
def toml_files(draw):
    chosen = draw(st.lists(st.sampled_from(range(3, len(CODEX))), unique=True))
    first = draw(st.lists(st.sampled_from(range(3)), unique=True))
    return encoded(draw, "".join(CODEX[at] for at in [*first, *chosen]))


@st.composite
def yaml_files(draw):
    inside = draw(st.lists(st.sampled_from(EXTENSIONS), unique=True))
    key = draw(st.sampled_from(["extensions:\n", "extensions:  # all\n", "extensions:   \n"]))
    empty = draw(st.sampled_from([key, "extensions: {}\n", "extensions: { } # none\n", ""]))
    table = key + "".join(inside) if inside else empty
    pieces = draw(st.lists(st.sampled_from(GOOSE), unique=True))
    return encoded(draw, "".join(draw(st.permutations([*pieces, table]))))


def encoded(draw, text):
    """Give a file its line ends, its byte order mark, and maybe no end of its last line."""
    text = text.removesuffix("\n") if draw(st.booleans()) else text
    return (draw(st.sampled_from(["", "\ufeff"])) + text.replace("\n", draw(breaks))).encode()


@pytest.mark.parametrize(
    "entry", [SERVERS["claude-code"], SERVERS["zed"], HOOKS["gemini"]], ids=called
)
@given(data=st.data())
@pytest.mark.slow
def test_json_comes_and_goes(entry, data):
    """Every comment stays, and every byte unless a table was empty."""
    before = data.draw(json_files(entry))
    written, removed = check_round_trip(entry, before)
    notes = [NOTE.findall(text.decode()) for text in (before, written, removed)]
    assert notes[0] == notes[1] == notes[2]
    if is_full(entry, read(entry, before)):
        assert removed == before


@pytest.mark.parametrize("entry", [SERVERS["codex"], HOOKS["codex"]], ids=called)
@given(before=toml_files())
def test_toml_comes_and_goes(entry, before):
    """Whatever looks like our header in a text or a comment; the last line may get its end."""
    written, removed = check_round_trip(entry, before)
    assert written.startswith(before)
    assert removed in (before, before + b"\n", before + b"\r\n")


@given(before=yaml_files())
def test_yaml_comes_and_goes(before):
    entry = SERVERS["goose"]
    _, removed = check_round_trip(entry, before)
    if is_full(entry, read(entry, before)):
        assert removed in (before, before + b"\n", before + b"\r\n")


@pytest.mark.parametrize("entry", ENTRIES, ids=called)
def test_an_older_entry_is_replaced(entry):
    older = {"hooks": [{**entry.value["hooks"][0], "timeout": 1}]} if entry.is_hook else {"old": 1}
    before = edit(b"", entry._replace(value=older))
    assert read(entry, edit(before, entry)) == read(entry, edit(b"", entry))


@pytest.mark.parametrize("entry", ENTRIES, ids=called)
def test_a_new_file_is_what_is_printed(entry):
    written = edit(b"", entry)
    assert written.decode() == entry.text
    assert read(entry, edit(written, gone(entry))) == {}
    assert edit(b"", gone(entry)) == b""


def test_a_hook_is_known_by_its_command():
    command = "skillsearch hook --client {} --index-dir /old"
    hooks = [{"command": command.format(name)} for name in ("gemini", "claude-code")]
    hooks += [{"command": "skillsearch-hook --client claude-code"}, {"command": "x '"}, 5]
    before = json.dumps({"hooks": {"UserPromptSubmit": [{"matcher": "*", "hooks": hooks}, {}]}})
    after = edit(before.encode(), hook_entry("claude-code", None))
    group, other = json.loads(after)["hooks"]["UserPromptSubmit"]
    assert group == {"matcher": "*", "hooks": [hooks[0], *hooks[2:]]}
    assert other == {}


@pytest.mark.parametrize(
    ("host", "text", "reason"),
    [
        ("gemini", "{", "not valid JSON"),
        ("gemini", "[1]", "not valid JSON"),
        ("gemini", "{'a': 1}", "not valid JSON"),
        ("gemini", '{"a": 1, "a": 2}', "'a' stands twice"),
        ("gemini", '{"mcpServers": {"x": {"b": 1, "b": 1}}}', "'b' stands twice"),
        ("gemini", '{"mcpServers": []}', '"mcpServers" as a list'),
        ("gemini", '{"mcpServers": null}', "cannot be edited"),
        ("gemini", '{"mcpServers": "x"}', '"mcpServers" as a str'),
        ("gemini", r'{"mcp\u0053ervers": {}}', "cannot be edited"),
        ("gemini", "[" * 100_000, "nested too deeply"),
        ("codex", "a = ", "not valid TOML"),
        ("codex", "[a]\n[a]\n", "not valid TOML"),
        ("codex", "mcp_servers = []", '"mcp_servers" as a list'),
        ("codex", "mcp_servers = {a = {b = 1}}", "cannot be edited"),
        ("goose", "a: b: c", "not valid YAML"),
        ("goose", "- a", "not valid YAML"),
        ("goose", "a: 1\na: 2", "'a' stands twice"),
        ("goose", "extensions: []", '"extensions" as a list'),
        ("goose", "extensions: {a: {b: 1}}", "cannot be edited"),
        ("goose", "extensions: &x\n  a: 1\nb: *x", "not valid YAML"),
        ("goose", "a: 1\n---\nb: 1", "not valid YAML"),
    ],
)
def test_what_cannot_be_edited_is_refused(host, text, reason):
    with pytest.raises(EditError) as caught:
        edit(text.encode(), SERVERS[host])
    assert reason in str(caught.value).replace("The key", "the key")


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers.skillsearch.url = "x"\n',
        "mcp_servers = {skillsearch = {}}\n",
        "[mcp_servers]\nskillsearch = {a = 1}\n",
        '[mcp_servers.skillsearch]\nurl = "x"\n# mine\n[mcp_servers.skillsearch.env]\nA = "b"\n',
    ],
)
def test_an_entry_in_any_form_is_replaced_and_removed(text):
    entry, before = SERVERS["codex"], f"a = 1\n{text}[b]\n".encode()
    assert is_held(entry, read(entry, edit(before, entry)))
    assert pruned(read(entry, edit(before, gone(entry))), entry) == {"a": 1, "b": {}}


@pytest.mark.parametrize("data", [b"\xff\xfe{\x00}\x00", b'{"a": "\xe9"}'])
def test_another_encoding_is_refused(data):
    with pytest.raises(EditError, match="utf-8"):
        edit(data, SERVERS["cursor"])


def test_a_table_that_gets_empty_stays_if_it_holds_a_comment():
    """The comment is the user's, and so is its place."""
    text = b'{\n  "mcpServers": {\n    // mine\n  },\n  "a": 1, // one\n}\n'
    assert edit(edit(text, SERVERS["cursor"]), gone(SERVERS["cursor"])) == text


def test_an_entry_in_the_last_place_takes_its_comma_along():
    """A host that knows no trailing commas could read nothing otherwise."""
    text = b'{"mcpServers": {"a": 1, // one\n  "skillsearch": {"x": [1,]}\n}}'
    assert edit(text, gone(SERVERS["gemini"])) == b'{"mcpServers": {"a": 1 // one\n}}'


def test_a_long_file_that_cannot_be_edited_is_refused_after_few_readings(monkeypatch):
    """Each line that names us could be the entry, and each try reads the whole file."""
    lines = "".join(f'[projects."/home/me/{n:04}/skillsearch"]\nx = 1\n' for n in range(1_500))
    servers = "{ docs = { command = 'x' }, skillsearch = { command = 'old' } }"
    text = f"mcp_servers = {servers}\n{lines}"
    readings, loads = [], tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: readings.append(len(text)) or loads(text))
    with pytest.raises(EditError, match="cannot be edited without risk"):
        edit(text.encode(), SERVERS["codex"])
    assert sum(readings) < 5_000_000  # characters
