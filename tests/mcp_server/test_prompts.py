"""Tests of the prompts that people choose, and of the completion of skills' names."""

import json
import re
import shlex
from pathlib import Path

import pytest
from mcp import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

import skillsearch
from skillsearch.library.example_review import instructions
from skillsearch.mcp_server import server

TASK = "steep green tea at the right temperature"
USE = PromptReference(name="use_skill")
FILES = ResourceTemplateReference(uri="skill://{+path}")


@pytest.fixture
def ask(make_server, talk, drinks):
    def ask(name, mode="auto", /, **arguments):
        async def say(client):
            (message,) = (await client.get_prompt(name, arguments)).messages
            assert message.role == "user"
            return message.content.text

        return talk(make_server(drinks), say, mode)

    return ask


@pytest.fixture
def complete(make_server, talk, drinks):
    """Complete an argument over some skills; return the values, and whether there are more."""

    def complete(ref, name, value, root=drinks):
        async def say(client):
            completion = (await client.complete(ref, {"name": name, "value": value})).completion
            return completion.values, completion.has_more

        return talk(make_server(root), say)

    return complete


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_there_are_two_prompts(make_server, talk, drinks, mode):
    async def say(client):
        assert client.server_capabilities.completions is not None
        return (await client.list_prompts()).prompts

    prompts = talk(make_server(drinks), say, mode)
    assert {
        prompt.title: (prompt.name, {word.name: bool(word.required) for word in prompt.arguments})
        for prompt in prompts
    } == {
        "Find a skill for a task": ("find_skill", {"task": True}),
        "Use a skill": ("use_skill", {"name": True, "task": False}),
    }


def test_over_stdio_a_person_can_have_an_agent_write_example_requests(
    program, open_wire, cli, drinks, index_dir, wait_for
):
    with program(drinks, "--index-dir", index_dir) as process:
        wire = open_wire(process)
        offered = wire.ask("prompts/list")["result"]["prompts"]
        assert "enrich_skills" in [prompt["name"] for prompt in offered]
        result = wire.ask("prompts/get", {"name": "enrich_skills"})["result"]
        (message,) = result["messages"]
        # The prompt is there before the index, which the command below needs, is on the disk.
        wait_for((index_dir / "CURRENT").is_file)
    (pending,) = re.findall(r"^1\. `(.+ enrich .*--pending)`", message["content"]["text"], re.M)
    argv = shlex.split(pending)
    assert argv[argv.index("--index-dir") + 1] == str(index_dir)
    done = cli(*argv[argv.index("enrich") :], "--json")
    assert {skill["name"] for skill in json.loads(done.stdout)["skills"]} == {
        "brew-coffee",
        "squeeze-lemons",
        "steep-tea",
    }


def test_the_agent_reads_the_same_as_from_the_plugin():
    folder = Path(skillsearch.__file__).parent / "plugin" / "skills" / "enrich-skills"
    body = (folder / "SKILL.md").read_text("utf-8").partition("\n---\n")[2].strip()
    assert instructions(["skillsearch"]) == body
    text = instructions(["/opt/my tools/skillsearch"], ["--index-dir", "/my index"])
    assert "`skillsearch " not in text
    assert "`'/opt/my tools/skillsearch' enrich --index-dir '/my index' --pending`" in text


def test_a_task_comes_with_the_skills_that_fit(ask, make_server, talk, drinks):
    async def say(client):
        (content,) = (await client.call_tool("search_skills", {"query": TASK})).content
        return content.text

    text = ask("find_skill", task=TASK)
    assert text.startswith(f"{TASK}\n\n")
    assert f"\n{talk(make_server(drinks), say)}\n" in text
    assert "load_skill" in text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_skill_is_given_to_follow(ask, mode):
    text = ask("use_skill", mode, name="Steep-Tea")
    assert text.startswith('Follow this skill.\n\n<skill_content name="steep-tea">')
    assert "Use 80 C." in text
    assert ask("use_skill", name="steep-tea", task="For two.") == f"{text}\n\nThe task: For two."


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("use_skill", {"name": "steep-te"}, "nearest: steep-tea"),
        ("use_skill", {"task": "x"}, "takes name, task; missing or unknown: name"),
        ("use_skill", {"name": "steep-tea", "skill": "x"}, "missing or unknown: skill"),
        ("find_skill", {}, "missing or unknown: task"),
        ("find_skill", {"task": "é" * 2049}, "longer than 4,096 bytes"),
        ("skills", {}, "ask for 'find_skill' or 'use_skill'"),
    ],
)
def test_what_a_prompt_cannot_do_is_an_error_that_says_what_can(
    make_server, talk, drinks, name, arguments, said
):
    async def say(client):
        with pytest.raises(MCPError, match=said):
            await client.get_prompt(name, arguments)

    talk(make_server(drinks), say)


@pytest.mark.parametrize(
    ("toolset", "names"),
    [
        ("manager", None),
        ("environment", None),
        ("workspace", ["skills"]),
        ("context", ["skills"]),
        ("chunks", ["skills"]),
    ],
)
def test_other_toolsets_have_their_own_prompt_or_none(make_server, talk, drinks, toolset, names):
    async def say(client):
        if client.server_capabilities.prompts is None:
            return None
        return [prompt.name for prompt in (await client.list_prompts()).prompts]

    assert talk(make_server(drinks, toolset=toolset), say) == names


@pytest.mark.parametrize(
    ("value", "values"),
    [
        ("", ["brew-coffee", "squeeze-lemons", "steep-tea"]),
        ("TEA", ["steep-tea"]),
        ("s", ["squeeze-lemons", "steep-tea"]),
        ("nothing", []),
    ],
)
def test_names_of_skills_are_completed(complete, value, values):
    assert complete(USE, "name", value) == (values, False)


def test_of_many_names_the_first_are_told(complete, make_skill, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "MAX_COMPLETIONS", 2)
    for name in ("a-tea", "tea", "tea-time"):
        make_skill(tmp_path / "teas", name)
    assert complete(USE, "name", "tea", tmp_path / "teas") == (["tea", "tea-time"], True)
    paths = ["teas/a-tea/SKILL.md", "teas/tea-time/SKILL.md"]
    assert complete(FILES, "path", "teas/", tmp_path / "teas") == (paths, True)
    assert complete(FILES, "path", "teas/a", tmp_path / "teas") == (paths[:1], False)


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        (USE, "skill"),
        (PromptReference(name="nothing"), "name"),
        (ResourceTemplateReference(uri="file:///{path}"), "path"),
    ],
)
def test_what_is_not_there_cannot_be_completed(make_server, talk, drinks, ref, name):
    async def say(client):
        with pytest.raises(MCPError, match=f"no such argument to complete: .*: {name}"):
            await client.complete(ref, {"name": name, "value": "x"})

    talk(make_server(drinks), say)
