"""Tests of the tools for LangChain, with the real package (extra `langchain`)."""

import asyncio
import json

import pytest
from pydantic import Field

from skillsearch.agents.default_tools import library_tools
from skillsearch.agents.tool import Tool, ToolArguments, Toolset
from skillsearch.library.skill_library import SkillLibrary

pytest.importorskip("langchain_core.tools", exc_type=ImportError)
pytestmark = pytest.mark.integrations


class CountArgs(ToolArguments):
    """The arguments of a toy tool."""

    word: str = Field(description="A word.")
    times: int = 1


@pytest.fixture
def tools():
    from skillsearch.agents.integrations.langchain import as_tools

    toy = Tool("repeat", "Repeat a wörd.", CountArgs, lambda args: [args.word] * args.times)
    return as_tools(Toolset([toy]))


def called(tool, **arguments):
    """Call a tool as an agent does; return the content of its message, read as JSON."""
    request = {"type": "tool_call", "name": tool.name, "id": "1", "args": arguments}
    return json.loads(tool.invoke(request).content)


def test_the_model_is_shown_our_definition(tools):
    from langchain_core.utils.function_calling import convert_to_openai_tool

    toy = Tool("repeat", "Repeat a wörd.", CountArgs, lambda args: None)
    assert [convert_to_openai_tool(tool) for tool in tools] == Toolset([toy]).specs("openai")


def test_a_call_gives_the_result_as_json_text(tools):
    (tool,) = tools
    assert tool.invoke({"word": "tee", "times": 2}) == '["tee", "tee"]'
    assert asyncio.run(tool.ainvoke({"word": "grün"})) == '["grün"]'


def test_a_bad_argument_is_content_not_an_exception(tools):
    (tool,) = tools
    error = called(tool, word="tee", times="many", toolset=1, tool_name=2)["error"]
    assert error["code"] == "invalid-arguments"
    assert len(error["problems"]) == 1  # what a host adds is left out


@pytest.mark.parametrize("read_only", [True, False])
def test_a_host_can_tell_which_tools_change_something(read_only):
    from skillsearch.agents.integrations.langchain import as_tools

    toy = Tool("repeat", "Repeat a word.", CountArgs, lambda args: None, read_only=read_only)
    (tool,) = as_tools(Toolset([toy]))
    assert tool.metadata == {"read_only": read_only}


def test_an_agent_goes_from_a_search_to_a_skill_and_its_file(drinks, tmp_path):
    from skillsearch.agents.integrations.langchain import as_tools

    (drinks / "brew-coffee" / "notes.md").write_text("Rinse the filter.")
    library = SkillLibrary.from_roots(drinks, index_dir=tmp_path / "index", model="hashing")
    tools = {tool.name: tool for tool in as_tools(Toolset(library_tools(library)))}
    answer = called(tools["search_skills"], query="brew filter coffee", threshold=0.0)
    name = answer["skills"][0]["name"]
    (file,) = called(tools["load_skill"], name=name)["files"]
    assert called(tools["read_skill_file"], name=name, path=file)["content"] == "Rinse the filter."
    assert called(tools["load_skill"], name="x")["error"]["code"] == "skill-not-found"
