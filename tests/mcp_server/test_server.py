"""Tests of what the server answers, with the official client in this process."""

import asyncio
import threading

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import MCPError

from skillsearch.agents.default_tools import library_tools
from skillsearch.agents.tool import Toolset
from skillsearch.errors import ConfigError
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.calls import ERROR_KEY, Patience, Teller
from skillsearch.mcp_server.server import SkillServer
from skillsearch.mcp_server.session_tools import TOOLSETS, SessionTools
from skillsearch.types.indexing import IndexProgress

MODES = ["auto", "legacy"]
SEED_TOOLS = {
    "default": {"search_skills", "load_skill", "read_skill_file", "list_skills"},
    "manager": {
        "load_skill",
        "search_skills",
        "load_skill_asset",
        "get_skill_script_path",
        "list_skill_assets",
    },
    "environment": {"skill"},
    "chunks": {"load_skill_chunk"},
    "workspace": {"skill_load", "skill_select_docs", "skill_list_docs"},
    "context": {"list_skills", "search_skills", "get_skill"},
}
QUERY = "steep green tea at the right temperature"


def call(tool, /, **arguments):
    return lambda client: client.call_tool(tool, arguments)


def definitions(client):
    return client.list_tools()


def text_of(result):
    (content,) = result.content
    return content.text


@pytest.fixture
def oracle(drinks, make_server):
    """Return what the tools answer where no protocol is between."""
    library = SkillLibrary.from_roots(drinks, model="hashing")
    return Toolset(library_tools(library))


@pytest.mark.parametrize("mode", MODES)
def test_a_search_has_the_hits_as_structured_content(make_server, talk, drinks, oracle, mode):
    result = talk(make_server(drinks), call("search_skills", query=QUERY), mode)
    expected = oracle.call("search_skills", {"query": QUERY})["result"]
    assert result.structured_content == expected
    assert expected["skills"][0]["name"] == "steep-tea"
    assert not result.is_error


@pytest.mark.parametrize(
    ("name", "arguments", "code", "said"),
    [
        ("load_skill", {"name": "steep-te"}, "skill-not-found", "nearest: steep-tea"),
        ("load_skill", {}, "invalid-arguments", "problems: name: Field required"),
        ("search_skills", {"query": "é" * 2049}, "invalid-arguments", "longer than 4,096 bytes"),
        ("brew", {}, "unknown-tool", "nearest: "),
    ],
)
def test_an_error_says_what_was_wrong_and_what_to_do(
    make_server, talk, drinks, name, arguments, code, said
):
    result = talk(make_server(drinks), call(name, **arguments))
    error = result.meta[ERROR_KEY]
    assert result.is_error
    assert result.structured_content is None
    assert error["code"] == code
    assert text_of(result).startswith(f"{error['message']} {error['next_step']}")
    assert said in text_of(result)


def test_an_index_that_is_made_later_is_found(make_server, talk, drinks, index_dir, cli):
    server = make_server(index_dir=index_dir)

    def count():
        return talk(server, call("list_skills")).structured_content

    assert count() is None
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    assert count()["total"] == 3
    (drinks / "steep-tea" / "SKILL.md").unlink()
    cli("index", "--index-dir", index_dir)
    assert count()["total"] == 2


def test_what_the_settings_say_of_skills_holds_for_a_server(make_server, talk, drinks, monkeypatch):
    """Nobody has vouched for what is found; tea is left out of a search, a list and a load."""
    monkeypatch.setenv("SKILLSEARCH_TRUST", "project")
    monkeypatch.setenv("SKILLSEARCH_EXCLUDE", "STEEP_*")
    server = make_server(drinks)
    answer = talk(server, call("search_skills", query="brew filter coffee", threshold=0.0))
    skills = answer.structured_content["skills"]
    assert (skills[0]["name"], skills[0]["trust"]) == ("brew-coffee", "project")
    assert "steep-tea" not in [skill["name"] for skill in skills]
    assert "origin" not in skills[0]
    assert text_of(answer).startswith(f"brew-coffee ({skills[0]['score']:.2f}) [project]: ")
    listed = talk(server, call("list_skills")).structured_content
    assert [skill["name"] for skill in listed["skills"]] == ["brew-coffee", "squeeze-lemons"]
    assert listed["total"] == 2
    for name in ("steep-tea", "Steep Tea", "drinks:steep-tea"):
        text = text_of(talk(server, call("load_skill", name=name)))
        assert "is left out by the settings of skillsearch: change include, exclude, tags" in text
    assert "left out" not in text_of(talk(server, call("load_skill", name="no-such-skill")))


def test_a_root_that_is_missing_is_an_error_until_it_is_there(
    make_server, talk, tmp_path, make_skill
):
    """Nobody is told that no skill fits where no skill could be looked at."""
    server = make_server(tmp_path / "late")
    result = talk(server, call("search_skills", query="tea"))
    assert result.meta[ERROR_KEY]["code"] == "root"
    assert str(tmp_path) not in text_of(result)
    make_skill(tmp_path / "late", "steep-tea", "Steep tea.")
    assert talk(server, call("list_skills")).structured_content["total"] == 1


def test_definitions_are_strict(make_server, talk, drinks):
    tools = talk(make_server(drinks), definitions).tools
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
    titles = ["Search skills", "Load skill", "Read skill file", "List skills"]
    assert [tool.title for tool in tools] == titles


def test_a_bad_cursor_of_the_tools_is_refused(make_server, talk, drinks):
    async def say(client):
        with pytest.raises(MCPError, match="one page"):
            await client.list_tools(cursor="2")

    talk(make_server(drinks), say)


@pytest.mark.parametrize("name", TOOLSETS)
def test_a_toolset_has_the_tools_of_its_document(make_server, talk, drinks, name):
    tools = talk(make_server(drinks, toolset=name), definitions).tools
    assert {tool.name for tool in tools} == SEED_TOOLS[name]


@pytest.mark.parametrize(
    ("toolset", "tool", "arguments", "said"),
    [
        ("manager", "load_skill", {"skill_name": "steep-tea"}, "Use 80 C."),
        ("environment", "skill", {"skill": "steep-tea"}, "Use 80 C."),
        ("workspace", "skill_load", {"skill": "steep-tea"}, "loaded: steep-tea"),
        ("context", "get_skill", {"name": "steep-tea"}, "Use 80 C."),
        ("context", "search_skills", {"query": QUERY}, "- steep-tea: "),
    ],
)
def test_the_tools_of_a_toolset_use_the_same_library(
    make_server, talk, drinks, toolset, tool, arguments, said
):
    result = talk(make_server(drinks, toolset=toolset), call(tool, **arguments))
    assert not result.is_error
    assert list(result.structured_content) == ["result"]
    assert said in text_of(result)


def test_what_a_session_loaded_stands_in_its_prompt(make_server, talk, drinks):
    """A host puts that into its system message."""

    async def say(client):
        await client.call_tool("skill_load", {"skill": "steep-tea"})
        (prompt,) = (await client.list_prompts()).prompts
        return (await client.get_prompt(prompt.name)).messages[0].content.text

    prompt = talk(make_server(drinks, toolset="workspace"), say)
    assert "[Loaded] steep-tea\n\n# Tea\n\nUse 80 C." in prompt


def test_a_toolset_without_a_library_says_so_when_it_is_listed(make_server, talk, index_dir):
    async def say(client):
        with pytest.raises(MCPError, match="skillsearch index FOLDER"):
            await client.list_tools()
        return await client.call_tool("skill_load", {"skill": "tea"})

    result = talk(make_server(index_dir=index_dir, toolset="workspace"), say)
    assert result.meta[ERROR_KEY]["code"] == "no-index"


def test_an_environment_has_one_folder(make_server, tmp_path):
    """Two would have two skills of one id."""
    with pytest.raises(ConfigError, match="not of 2"):
        make_server(tmp_path / "a", tmp_path / "b", toolset="environment")


@pytest.fixture
def patience():
    return Patience(most=0.2)


@pytest.fixture
def busy_indexing(make_server, drinks, patience):
    """Make a server whose index folder another writer holds until an event is set."""
    server = make_server(drinks, patience=patience)
    held, release = threading.Event(), threading.Event()

    def hold():
        with IndexFolder(server.served.index_dir).lock():
            held.set()
            release.wait(120)

    writer = threading.Thread(target=hold)
    writer.start()
    assert held.wait(120)
    yield server, release
    release.set()
    writer.join(120)


def test_a_search_before_the_first_index_says_how_far_it_is(busy_indexing, talk):
    server, _ = busy_indexing
    error = talk(server, call("search_skills", query=QUERY)).meta[ERROR_KEY]
    assert error["code"] == "indexing"
    assert "they are being read" in error["message"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("patience", [Patience(60, soon=0)])
def test_words_answer_while_the_first_index_is_made(busy_indexing, talk, mode):
    server, _ = busy_indexing

    async def say(client):
        answer = await client.call_tool("search_skills", {"query": QUERY, "n": 1})
        return answer, await client.call_tool("search_skills", {"query": "fly to the moon"})

    answer, missed = talk(server, say, mode)
    by_words = "meaning is still being indexed (0%)."
    note = f"Found by words alone: {by_words} If none fits, search again in a minute."
    record = answer.structured_content
    assert [hit["name"] for hit in (*record["skills"], *record["perhaps"])] == ["steep-tea"]
    assert record["note"] == note
    assert record["words_only"] == {"indexed": 0.0, "seconds_left": None}
    *_, hit, last = text_of(answer).splitlines()
    assert hit.startswith("steep-tea (")
    assert last == note
    note = f"Nothing was found by words alone, which is not final: {by_words} Search again in a"
    record = missed.structured_content
    assert (record["skills"], record["perhaps"]) == ([], [])
    assert text_of(missed) == record["note"] == f"{note} minute."
    assert not missed.is_error


@pytest.mark.parametrize("toolset", ["manager", "context"])
@pytest.mark.parametrize("patience", [Patience(60, soon=0)])
def test_other_toolsets_say_so_too(busy_indexing, talk, patience, toolset):
    server, _ = busy_indexing
    tools = SessionTools(toolset, server.served)
    server = SkillServer(server.thread, tools, patience=patience)
    result = talk(server, call("search_skills", query=QUERY))
    assert "steep-tea" in text_of(result).splitlines()[0]
    assert text_of(result).splitlines()[-1].startswith("Found by words alone: ")


@given(st.lists(st.tuples(*[st.integers(0, 9)] * 4)))
def test_a_client_is_never_told_less_than_before(steps):
    reports = []

    async def report(done, total, message):
        reports.append((done, total))

    async def tell():
        teller = Teller(report, seconds=0)
        for read, files, embedded, texts in steps:
            await teller.tell(IndexProgress(read, files, embedded, texts))

    asyncio.run(tell())
    numbers = [done for done, _ in reports]
    assert numbers == sorted(set(numbers))
    assert set(reports) <= {(read + done, files + texts) for read, files, done, texts in steps}
    assert max(numbers, default=0) == max((read + done for read, _, done, _ in steps), default=0)


def test_all_else_is_answered_while_skills_are_indexed(busy_indexing, talk):
    server, _ = busy_indexing

    async def say(client):
        import anyio

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "search_skills", {"query": QUERY})
            loaded = await client.call_tool("load_skill", {"name": "steep-tea"})
            listed = await client.call_tool("list_skills")
            resources = (await client.list_resources()).resources
        return loaded.is_error, listed.structured_content["total"], len(resources)

    assert talk(server, say) == (False, 3, 4)


@pytest.mark.parametrize("patience", [Patience(60, soon=60)])
def test_a_search_waits_for_a_first_index_that_is_soon_made(busy_indexing, talk):
    server, release = busy_indexing
    threading.Timer(1.5, release.set).start()  # words are there before that
    result = talk(server, call("search_skills", query=QUERY))
    assert result.structured_content["skills"][0]["name"] == "steep-tea"
    assert "words_only" not in result.structured_content


def test_a_call_that_takes_too_long_is_answered(make_server, talk, drinks):
    server = make_server(drinks, call_seconds=0.2)
    release = threading.Event()
    server.thread.submit(release.wait, 60)
    try:
        result = talk(server, call("list_skills"))
    finally:
        release.set()
    assert result.meta[ERROR_KEY]["code"] == "timeout"


def test_too_many_calls_at_once_are_refused(make_server, talk, drinks):
    server = make_server(drinks, max_waiting=2)
    release = threading.Event()
    server.thread.submit(release.wait, 60)

    async def say(client):
        import anyio

        codes = []

        async def list_skills():
            result = await client.call_tool("list_skills")
            codes.append(result.meta[ERROR_KEY]["code"] if result.is_error else "ok")
            release.set()

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(list_skills)
        return codes

    try:
        assert sorted(talk(server, say, "legacy")) == ["busy", "ok", "ok"]
    finally:
        release.set()


@pytest.mark.parametrize(("toolset", "tools"), [("default", False), ("workspace", True)])
def test_clients_that_listen_are_told_of_changes(make_server, talk, drinks, toolset, tools):
    server = make_server(drinks, toolset=toolset, tells_changes=True)

    async def say(client):
        import anyio

        changes = []
        async with client.listen(tools_list_changed=True, resources_list_changed=True) as events:
            await server.tell_changed()
            with anyio.move_on_after(0.5) as rest:
                rest.deadline += 120  # until all that is expected is here
                async for event in events:
                    changes.append(type(event).__name__)
                    if len(changes) == len(expected):
                        rest.deadline = anyio.current_time() + 0.5
        return changes

    expected = ["ToolsListChanged"] * tools + ["ResourcesListChanged"]
    assert talk(server, say) == expected
