"""No answer grows with what skills say or how many there are; what is left out can be had."""

import json
import re
from functools import partial

import pytest

from skillsearch import SkillIndex
from skillsearch.execution.executors import select_executor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.workspaces.workspace import Workspaces
from skillsearch.mcp_server.session_tools import TOOLSETS

MOST = 260_000
MOST_OF_ALL = 1_300_000  # of what the protocol or a document wants whole
TWINS, SECTIONS = 1_400, 3_000
SECTION = '<chunk id="section-{}" description="{}">x</chunk>\n'
OFFSET = re.compile(r"offset=(\d+)\)")
FILL = (
    "for i in $(seq 120); do head -c 50000 /dev/zero | tr '\\0' x > out/$i.txt; done;"
    " seq 1000000; seq 1000000 >&2"
)
ALL = {"query": "do twin things with huge skills", "n": 1_000, "threshold": 0.0}
FIND = {"query": ALL["query"], "n": 1_000}
NOBODY = "n" * 250
CALLS = {
    "default": [
        ("search_skills", ALL),
        ("load_skill", {"name": "huge"}),
        ("load_skill", {"name": "sections"}),
        ("load_skill", {"name": "sections", "chunk": "long"}),
        ("load_skill", {"name": "sections", "chunk": "none"}),
        ("load_skill", {"name": "twin"}),
        ("load_skill", {"name": NOBODY}),
        ("read_skill_file", {"name": "huge", "path": "SKILL.md"}),
        ("read_skill_file", {"name": "huge", "path": "references"}),
        ("list_skills", {"n": 1_000}),
        ("run_skill_script", {"name": "small", "command": FILL, "output_files": ["out/*"]}),
    ],
    "manager": [
        ("search_skills", FIND),
        ("load_skill", {"skill_name": "huge"}),
        ("load_skill", {"skill_name": "twin"}),
        ("load_skill", {"skill_name": NOBODY}),
        ("load_skill_asset", {"skill_name": "huge", "relative_path": "references/big.md"}),
        ("load_skill_asset", {"skill_name": "huge", "relative_path": "references"}),
        ("list_skill_assets", {"skill_name": "huge"}),
        ("get_skill_script_path", {"skill_name": "huge", "script_name": "none.py"}),
    ],
    "environment": [
        ("search_skills", ALL),
        ("skill", {"skill": "huge"}),
        ("skill", {"skill": "twin"}),
        ("skill", {"skill": NOBODY}),
    ],
    "chunks": [
        ("load_skill_chunk", {"skill_name": "sections", "chunk_id": "long"}),
        ("load_skill_chunk", {"skill_name": "sections", "chunk_id": "none"}),
        ("load_skill_chunk", {"skill_name": "twin", "chunk_id": "none"}),
    ],
    "workspace": [
        ("search_skills", ALL),
        ("skill_load", {"skill": "huge", "docs": [f"d{number}" for number in range(200)]}),
        ("skill_load", {"skill": "twin"}),
        ("skill_list_docs", {"skill": "huge"}),
        *(
            (
                "skill_select_docs",
                {
                    "skill": "huge",
                    "mode": "add",
                    "docs": [f"{NOBODY}{part}{each}" for each in range(200)],
                },
            )
            for part in range(3)
        ),
        ("skill_run", {"skill": "huge", "command": "true"}),
        ("skill_load", {"skill": "small"}),
        ("skill_run", {"skill": "small", "command": FILL, "output_files": ["out/*"]}),
    ],
    "context": [
        ("list_skills", {}),
        ("search_skills", {"query": ALL["query"], "limit": 1_000}),
        ("get_skill", {"name": "huge"}),
        ("get_skill", {"name": "twin"}),
    ],
}
"""Calls of each tool of each toolset."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, write_skill):
    """Make skills with more of everything than an answer should have."""
    root = tmp_path_factory.mktemp("hostile")
    body = "word " * 150_000
    huge = write_skill(root, "huge", "Huge. " * 10_000, body=body).parent
    for number in range(2_500):
        path = huge / "references" / f"{'d' * 60}-{number:04}.md"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    for number in range(100):
        (huge / f"top-{number}.md").touch()
    (huge / "references" / "big.md").write_text("x" * 3_000_000)
    sections = "".join(SECTION.format(number, "d" * 90) for number in range(SECTIONS))
    long = f'<chunk id="long" description="d">{"y" * 150_000}</chunk>\n'
    write_skill(root, "sections", "Do things by sections.", body=sections + long)
    write_skill(root, "small", "Small.")
    named = write_skill(root, "named", "Has a long name.")
    named.write_text(named.read_text().replace("name: named", f"name: {'n' * 50_000}"))
    for number in range(TWINS):
        twin = write_skill(root, f"twin-{number}", f"Does twin things {number}. " * 44)
        twin.write_text(twin.read_text().replace(f"name: twin-{number}", "name: twin"))
    return root


@pytest.fixture(scope="module")
def index_of_all(tmp_path_factory, hostile):
    """Index them once for all servers."""
    folder = tmp_path_factory.mktemp("index") / "index"
    SkillIndex.from_roots(hostile, index_dir=folder, model="hashing")
    return folder


@pytest.fixture
def serve(make_server, hostile, index_of_all):
    return partial(make_server, hostile, index_dir=index_of_all)


@pytest.fixture
def runner(tmp_path):
    runner = SkillRunner(select_executor("local"), workspaces=Workspaces(tmp_path / "workspaces"))
    yield runner
    runner.close()


def text_of(result):
    (content,) = result.content
    return content.text


def json_of(result):
    record = result.meta if result.structured_content is None else result.structured_content
    return json.dumps(record, ensure_ascii=False)


def is_bounded(result, most=MOST):
    return max(len(json_of(result)), len(text_of(result))) <= most


@pytest.mark.slow
@pytest.mark.parametrize("toolset", TOOLSETS)
def test_no_answer_of_a_tool_is_larger_than_its_bound(serve, talk, runner, toolset):
    server = serve(toolset=toolset, runner=runner if TOOLSETS[toolset].runs else None)

    async def say(client):
        there = {tool.name for tool in (await client.list_tools()).tools}
        sizes, pages = {}, {}
        for number, (name, arguments) in enumerate(CALLS[toolset]):
            result = await client.call_tool(name, arguments)
            sizes[number, name] = is_bounded(result) or (len(json_of(result)), text_of(result)[:99])
            said = OFFSET.search(text_of(result))
            if said:
                offset = int(said[1])
                again = await client.call_tool(name, {**arguments, "offset": offset})
                is_other = text_of(again) != text_of(result)
                pages[number, name] = is_bounded(again) and is_other and not again.is_error
        return there, sizes, pages

    there, sizes, pages = talk(server, say)
    assert there == {name for name, _ in CALLS[toolset]}
    assert {call: size for call, size in sizes.items() if size is not True} == {}
    assert all(pages.values())
    assert bool(pages) == (toolset != "default")


@pytest.mark.slow
def test_what_a_default_answer_leaves_out_can_be_had(serve, talk):
    async def say(client):
        async def call(tool, /, **arguments):
            return (await client.call_tool(tool, arguments)).structured_content

        loaded = await call("load_skill", name="sections")
        (line,) = loaded["left_out"]
        pages, offset = [], 0
        while offset is not None:
            page = await call("read_skill_file", name="sections", path="SKILL.md", offset=offset)
            pages.append(page["content"])
            offset = page["next_offset"]
        huge = await call("load_skill", name="huge")
        folder = await client.call_tool("read_skill_file", {"name": "huge", "path": "references"})
        page = await call("list_skills", n=1_000)
        listed = page["skills"]
        while page["next_cursor"]:
            page = await call("list_skills", n=1_000, cursor=page["next_cursor"])
            listed += page["skills"]
        last = await call("load_skill", name=listed[-2]["name"])
        return loaded, line, "".join(pages), huge, text_of(folder), listed, last

    loaded, line, text, huge, folder, listed, last = talk(serve(), say)
    hidden = f"{SECTIONS + 1 - len(loaded['chunks']):,} of {SECTIONS + 1:,} chunks"
    assert line == f"(not listed: {hidden}; read_skill_file pages through SKILL.md)"
    assert f'id="section-{SECTIONS - 1}"' in text
    cut, files = huge["left_out"]
    assert huge["body_truncated"]
    assert cut.endswith(" follow; read_skill_file pages through SKILL.md)")
    assert files.startswith("(not listed: files beyond 2,000; ")
    assert "a folder of references/big.md, " in folder
    assert len(listed) == TWINS + 4
    assert last["name"] == listed[-2]["name"]


@pytest.mark.slow
def test_what_the_other_interfaces_give_is_bounded_too(serve, talk):
    async def say(client):
        prompts = [
            await client.get_prompt("use_skill", {"name": "sections", "task": "t"}),
            await client.get_prompt("find_skill", {"task": ALL["query"]}),
        ]
        listed = await client.list_resources()
        index = await client.read_resource("skill://index.json")
        return [prompt.messages[0].content.text for prompt in prompts], listed, index

    prompts, listed, index = talk(serve(), say)
    assert max(map(len, prompts)) <= MOST
    assert len(listed.model_dump_json()) <= MOST
    text = index.contents[0].text
    assert len(text) <= MOST_OF_ALL
    record = json.loads(text)
    assert ("leftOut" in record) == (len(record["skills"]) < TWINS)

    async def prompt(client):
        return (await client.get_prompt("skills")).messages[0].content.text

    for toolset in ("chunks", "workspace", "context"):
        assert len(talk(serve(toolset=toolset), prompt)) <= MOST_OF_ALL
