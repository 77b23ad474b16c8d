"""The Skills extension and the resources, asked by the official client in this process."""

import base64
import hashlib
import json
from typing import Any

import jsonschema
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import MCPError
from pydantic import ConfigDict

from skillsearch.mcp_server.skill_resources import IDENTIFIER, INDEX_URI, next_cursor, read_cursor

TEA = "skill://root/steep-tea"
CUP = "skill://root/cups/warm-cup"
FILES = {
    "scripts/steep.bat": b"echo 80\r\nexit\r\n",
    "references/marked.md": b"\xef\xbb\xbf# Marked\r\n",
    "references/latin.txt": b"caf\xe9",
    "references/nul.txt": b"a\0b",
    "references/lines.txt": "a\u2028b\x85c\rd\x0c".encode(),
    "assets/pot.png": b"\x89PNG\r\n\x1a\n\x00\xff",
    "assets/empty.json": b"",
    "assets/odd name #1.yaml": b"a: 1\n",
    "LICENSE": b"Free.\n",
}
ENVELOPE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
ENTRY_SCHEMA = {  # our own reading of "Skill Entries" in the specification
    "type": "object",
    "required": ["uri", "frontmatter", "resources"],
    "additionalProperties": False,
    "properties": {
        "uri": {"type": "string", "pattern": "^skill://[a-z0-9-]+(/[^/?# ]+)*/SKILL\\.md$"},
        "frontmatter": {
            "type": "object",
            "required": ["name", "description"],
            "properties": {"name": {"type": "string"}, "description": {"type": "string"}},
        },
        "resources": {
            "type": "array",
            "minItems": 1,
            "maxItems": 512,
            "items": {
                "type": "object",
                "required": ["uri", "digest", "size"],
                "additionalProperties": False,
                "properties": {
                    "uri": {"type": "string"},
                    "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
                    "size": {"type": "integer", "minimum": 0},
                },
            },
        },
    },
}


class AnyParams(types.RequestParams):
    """Parameters of any form."""

    model_config = ConfigDict(extra="allow")


class AnyRequest(types.Request[AnyParams, str]):
    """A request of any method."""

    method: str
    params: AnyParams


class AnyResult(types.Result):
    """A result of any form."""

    model_config = ConfigDict(extra="allow")


async def send(client, method, **params):
    """Send a request, and return the result as it came, without what the SDK adds to all."""
    request = AnyRequest(method=method, params=AnyParams(**params))
    result = await client.session.send_request(request, AnyResult)
    record: dict[str, Any] = result.model_dump(by_alias=True)
    record.pop("_meta", None)
    return record


async def error_of(client, method, **params):
    with pytest.raises(MCPError) as caught:
        await send(client, method, **params)
    return caught.value.error


async def pages(client, method, key, **params):
    pages = []
    while True:
        result = await send(client, method, **params)
        pages.append(result[key])
        if "nextCursor" not in result:
            return pages
        params["cursor"] = result["nextCursor"]


def data_of(contents):
    if isinstance(contents, types.TextResourceContents):
        return contents.text.encode()
    return base64.b64decode(contents.blob, validate=True)


@pytest.fixture
def root(tmp_path, make_skill):
    """Write a skill with files of all kinds, one in a folder, and one that is not published."""
    root = tmp_path / "root"
    folder = make_skill(root, "steep-tea", "Steep tea.", since="2026", nothing=None).parent
    for name, data in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    make_skill(root / "cups", "warm-cup", "Warm the cup.")
    make_skill(root, "for-people", "Hidden.", **{"disable-model-invocation": True})
    return root


@pytest.fixture
def server(make_server, root):
    return make_server(root)


@pytest.fixture
def ask(server, talk):
    def send_request(method, mode="auto", **params):
        return talk(server, lambda client: send(client, method, **params), mode)

    return send_request


@pytest.fixture
def refusal(server, talk):
    def send_refused(method, **params):
        return talk(server, lambda client: error_of(client, method, **params))

    return send_refused


@pytest.fixture
def read(server, talk):
    def read_contents(uri, mode="auto"):
        (contents,) = talk(server, lambda client: client.read_resource(uri), mode).contents
        return contents

    return read_contents


HIDDEN = (
    "\x1b\xad\u200b\u200d\u200e\u202e\u2066\ufeff\ufe0f\ufe00\U000e0041\U000e0100\U000e01ef\u3164"
)


def test_listings_hide_nothing_and_files_have_the_bytes_of_their_digests(
    ask, read, root, make_skill
):
    text = HIDDEN.join("Steep tea.")
    path = make_skill(root, "odd-tea", text, text, **{f"by{HIDDEN}": [{f"{HIDDEN}a": text}]})
    (path.parent / "notes.md").write_text(text, encoding="utf-8")
    entry = next(e for e in ask("skills/list")["skills"] if "odd-tea" in e["uri"])
    assert entry["frontmatter"] == {
        "name": "odd-tea",
        "description": "Steep tea.",
        "by": [{"a": "Steep tea."}],
    }
    assert ask("skills/get", uri=entry["uri"])["skill"] == entry
    listed = ask("resources/list")["resources"]
    assert "Steep tea." in [each.get("description") for each in listed if "odd" in each["uri"]]
    index = json.loads(data_of(read(INDEX_URI)))
    assert "Steep tea." in [each["description"] for each in index["skills"]]
    refused = ask("tools/call", name="load_skill", arguments={"name": f"od{HIDDEN}d"})
    loaded = ask("tools/call", name="load_skill", arguments={"name": "odd-tea"})
    page = ask(
        "tools/call", name="read_skill_file", arguments={"name": "odd-tea", "path": "notes.md"}
    )
    assert page["structuredContent"]["content"] == "Steep tea."
    for answer in (entry, listed, index, refused, loaded, page):
        assert not set(HIDDEN) & set(str(json.dumps(answer, ensure_ascii=False, default=str)))
    for file in entry["resources"]:
        data = data_of(read(file["uri"]))
        assert file["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert HIDDEN.encode() in data or file["uri"].endswith("SKILL.md")


def test_the_extension_is_declared_with_directories(server, talk):
    async def say(client):
        return client.server_capabilities

    capabilities = talk(server, say)
    assert capabilities.extensions == {IDENTIFIER: {"directoryRead": True}}
    assert capabilities.resources is not None


def test_each_skill_is_listed_with_its_frontmatter_and_files(ask, root):
    result = ask("skills/list")
    assert {key: result[key] for key in ENVELOPE} == ENVELOPE
    assert result.keys() == {*ENVELOPE, "skills"}
    cup, tea = result["skills"]
    jsonschema.validate(cup, ENTRY_SCHEMA)
    jsonschema.validate(tea, ENTRY_SCHEMA)
    assert (cup["uri"], tea["uri"]) == (f"{CUP}/SKILL.md", f"{TEA}/SKILL.md")
    assert tea["frontmatter"] == {
        "name": "steep-tea",
        "description": "Steep tea.",
        "since": "2026",
        "nothing": None,
    }
    files = {"SKILL.md": (root / "steep-tea" / "SKILL.md").read_bytes(), **FILES}
    expected = {
        (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)) for data in files.values()
    }
    assert {(file["digest"], file["size"]) for file in tea["resources"]} == expected
    assert len(tea["resources"]) == len(files)


def test_every_file_has_the_bytes_that_the_list_promises(server, talk):
    async def say(client):
        listed = (await send(client, "skills/list"))["skills"]
        files = [file for skill in listed for file in skill["resources"]]
        return [(file, await client.read_resource(file["uri"])) for file in files]

    pairs = talk(server, say)
    assert len(pairs) == len(FILES) + 2
    for file, result in pairs:
        (contents,) = result.contents
        data = data_of(contents)
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert (contents.uri, digest, len(data)) == (file["uri"], file["digest"], file["size"])


MEDIA_TYPES = {
    "SKILL.md": ("text/markdown", True),
    "references/marked.md": ("text/markdown", True),
    "references/latin.txt": ("text/plain", False),
    "references/nul.txt": ("text/plain", False),
    "references/lines.txt": ("text/plain", True),
    "assets/pot.png": ("image/png", False),
    "assets/empty.json": ("application/json", True),
    "assets/odd%20name%20%231.yaml": ("application/yaml", True),
    "scripts/steep.bat": ("text/plain", True),
    "LICENSE": ("text/plain", True),
}


def test_a_file_is_text_only_where_that_keeps_its_bytes(server, talk):
    async def say(client):
        results = [await client.read_resource(f"{TEA}/{path}") for path in MEDIA_TYPES]
        return [result.contents[0] for result in results]

    served = [
        (contents.mime_type, isinstance(contents, types.TextResourceContents))
        for contents in talk(server, say)
    ]
    assert dict(zip(MEDIA_TYPES, served, strict=True)) == MEDIA_TYPES


def test_each_skill_md_is_a_listed_resource(server, talk):
    index, cup, tea = talk(server, lambda client: client.list_resources()).resources
    assert index.uri == INDEX_URI
    listed = [(r.uri, r.name, r.description, r.mime_type) for r in (cup, tea)]
    assert listed == [
        (f"{CUP}/SKILL.md", "warm-cup", "Warm the cup.", "text/markdown"),
        (f"{TEA}/SKILL.md", "steep-tea", "Steep tea.", "text/markdown"),
    ]


def test_files_have_a_template(server, talk):
    templates = talk(server, lambda client: client.list_resource_templates())
    (template,) = templates.resource_templates
    assert template.uri_template == "skill://{+path}"


def test_the_index_has_all_skills(read):
    contents = read(INDEX_URI)
    assert contents.mime_type == "application/json"
    index = json.loads(contents.text)
    assert index.keys() == {"$schema", "skills"}
    assert [(skill["name"], skill["type"], skill["description"]) for skill in index["skills"]] == [
        ("warm-cup", "skill-md", "Warm the cup."),
        ("steep-tea", "skill-md", "Steep tea."),
    ]
    for skill in index["skills"]:
        data = data_of(read(skill["url"]))
        assert skill["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_a_directory_lists_its_files_and_directories(ask):
    result = ask("resources/directory/read", uri=TEA)
    assert {key: result[key] for key in ENVELOPE} == ENVELOPE
    license_, skill_md, assets, references, scripts = result["resources"]
    assert license_ == {"uri": f"{TEA}/LICENSE", "name": "LICENSE", "size": 6}
    assert (skill_md["name"], skill_md["mimeType"]) == ("SKILL.md", "text/markdown")
    for name, child in zip(
        ("assets", "references", "scripts"), (assets, references, scripts), strict=True
    ):
        assert child == {"uri": f"{TEA}/{name}", "name": name, "mimeType": "inode/directory"}
    inner = ask("resources/directory/read", uri=assets["uri"])["resources"]
    assert [child["name"] for child in inner] == ["empty.json", "odd name #1.yaml", "pot.png"]


NOWHERE = [
    "file:///etc/passwd",
    "skill://root/for-people/SKILL.md",
    f"{TEA}/../cups/warm-cup/SKILL.md",
    f"{TEA}/" + "a" * 70_000,
    f"{TEA}/\x1b[2J",
]
METHODS = ["skills/get", "resources/directory/read", "resources/read"]


@pytest.mark.parametrize("method", METHODS)
def test_what_is_not_served_is_an_invalid_parameter(server, talk, root, method):
    async def say(client):
        errors = [await error_of(client, method, uri=uri) for uri in (*NOWHERE, 7)]
        return [*errors, await error_of(client, method)]

    errors = talk(server, say)
    assert {error.code for error in errors} == {types.INVALID_PARAMS}
    for error in errors[: len(NOWHERE)]:
        assert error.message
        assert error.message.isprintable()
        assert len(error.message) < 1_500
        assert str(root.parent) not in f"{error.message} {error.data}"


@pytest.fixture
def many(make_server, make_skill, tmp_path):
    for number in range(205):
        make_skill(tmp_path / "many", f"skill-{number:03}", f"Skill {number}.")
    return make_server(tmp_path / "many")


def test_pages_of_a_hundred_hold_every_skill_once(many, talk):
    async def say(client):
        return (
            await pages(client, "skills/list", "skills"),
            await pages(client, "resources/list", "resources"),
            (await client.read_resource(INDEX_URI)).contents[0].text,
        )

    skills, resources, index = talk(many, say)
    expected = [f"skill://many/skill-{number:03}/SKILL.md" for number in range(205)]
    assert [len(page) for page in skills] == [100, 100, 5]
    assert [skill["uri"] for page in skills for skill in page] == expected
    assert [r["uri"] for page in resources for r in page] == [INDEX_URI, *expected]
    assert [skill["url"] for skill in json.loads(index)["skills"]] == expected


def test_a_large_directory_comes_in_pages(server, talk, root):
    folder = root / "cups" / "warm-cup" / "many"
    folder.mkdir()
    names = [f"{start}{number:03}" for start in ("a", "é", "Z ") for number in range(70)]
    for name in names:
        (folder / name).touch()

    arguments = {"method": "resources/directory/read", "key": "resources", "uri": f"{CUP}/many"}
    listed = talk(server, lambda client: pages(client, **arguments))
    assert [len(page) for page in listed] == [100, 100, 10]
    assert sorted(child["name"] for page in listed for child in page) == sorted(names)


CURSORS = ["x", "c2tpbGw6Ly8é", "c2tpbGw6Ly9h" * 2_000]


@pytest.mark.parametrize("method", ["skills/list", "resources/list", "resources/directory/read"])
def test_a_cursor_of_no_page_is_an_invalid_parameter(server, talk, method):
    uri = {"uri": TEA} if "directory" in method else {}

    async def say(client):
        return [await error_of(client, method, cursor=cursor, **uri) for cursor in CURSORS]

    for error in talk(server, say):
        assert error.code == types.INVALID_PARAMS
        assert "nextCursor of the page before" in error.message


def test_a_cursor_of_another_directory_is_refused(refusal):
    cursor = next_cursor(f"{CUP}/SKILL.md")["nextCursor"]
    error = refusal("resources/directory/read", uri=TEA, cursor=cursor)
    assert error.code == types.INVALID_PARAMS


@given(st.text(st.characters(exclude_categories=["Cs"])).map("skill://{}".format))
def test_a_cursor_brings_its_uri_back(uri):
    assert read_cursor(next_cursor(uri)["nextCursor"]) == uri


@given(st.text())
def test_any_text_is_a_cursor_or_refused(text):
    try:
        uri = read_cursor(text)
    except MCPError as error:
        code = error.error.code
    else:
        code = types.INVALID_PARAMS if uri.startswith("skill://") else 0
    assert code == types.INVALID_PARAMS


def test_clients_of_a_watched_library_may_keep_answers(make_server, talk, root):
    server = make_server(root, tells_changes=True)
    assert talk(server, lambda client: send(client, "skills/list"))["ttlMs"] > 0
