"""Tests of the toolset for pydantic-ai, with the real package (extra `pydantic-ai`)."""

import asyncio

import pytest

from skillsearch.agents.default_tools import library_tools
from skillsearch.agents.tool import Tool, ToolArguments, Toolset
from skillsearch.library.skill_library import SkillLibrary

pytest.importorskip("pydantic_ai.toolsets", exc_type=ImportError)
pytestmark = pytest.mark.integrations


class NoArgs(ToolArguments):
    """Nothing."""


def run(toolset, *steps):
    """Run an agent whose model calls one tool a step; return definitions and answers by step.

    A step is a name and arguments, or a function from the answer before to these.
    """
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    from skillsearch.agents.integrations.pydantic_ai import as_toolset

    seen, answers = [], []

    def respond(messages, info):
        seen.append(info.function_tools)
        parts = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        answers.extend(part.content for part in parts)
        if len(answers) == len(steps):
            return ModelResponse(parts=[TextPart("done")])
        step = steps[len(answers)]
        name, arguments = step(answers[-1]) if callable(step) else step
        return ModelResponse(parts=[ToolCallPart(name, arguments)])

    agent = Agent(FunctionModel(respond), toolsets=[as_toolset(toolset, toolset_id="skills")])
    # `run_sync` leaves an open event loop behind, which another test would be blamed for.
    assert asyncio.run(agent.run("Make tea.")).output == "done"
    return seen, answers


@pytest.mark.parametrize("read_only", [True, False])
def test_a_host_can_tell_which_tools_change_something(read_only):
    toy = Tool("wipe", "Wipe the table.", NoArgs, lambda args: "done", read_only=read_only)
    (((definition,), _), answers) = run(Toolset([toy]), ("wipe", {}))
    assert definition.metadata == {"read_only": read_only}
    assert definition.sequential is not read_only
    assert answers == ["done"]


def test_an_agent_goes_from_a_search_to_a_skill_and_its_file(drinks, tmp_path):
    (drinks / "brew-coffee" / "notes.md").write_text("Rinse the filter.")
    library = SkillLibrary.from_roots(drinks, index_dir=tmp_path / "index", model="hashing")
    toolset = Toolset(library_tools(library))
    _, (answer, loaded, file) = run(
        toolset,
        ("search_skills", {"query": "brew filter coffee", "threshold": 0.0}),
        lambda answer: ("load_skill", {"name": answer["skills"][0]["name"]}),
        lambda skill: ("read_skill_file", {"name": skill["name"], "path": skill["files"][0]}),
    )
    assert answer["skills"][0]["name"] == loaded["name"] == "brew-coffee"
    assert loaded["body"].startswith("# Coffee")
    assert file["content"] == "Rinse the filter."


def test_the_model_is_shown_our_definitions(drinks, tmp_path):
    library = SkillLibrary.from_roots(drinks, index_dir=tmp_path / "index", model="hashing")
    toolset = Toolset(library_tools(library))
    (definitions,), _ = run(toolset)
    assert [
        {"name": d.name, "description": d.description, "input_schema": d.parameters_json_schema}
        for d in definitions
    ] == toolset.specs("anthropic")


@pytest.mark.parametrize(
    "arguments", [{"query": True, "treshold": 2}, '{"query": true, "treshold": 2}']
)
def test_a_bad_argument_is_an_answer_not_an_exception(arguments):
    toolset = Toolset(library_tools(SkillLibrary.from_roots([])))
    _, (answer,) = run(toolset, ("search_skills", arguments))
    assert answer["error"]["code"] == "invalid-arguments"
    assert len(answer["error"]["problems"]) == 2


def test_tools_are_asked_for_at_every_step():
    """A tool that appears during a run can be called in it."""
    names = ["first"]

    def make():
        def add(args):
            names[1:] = ["second"]
            return names[-1]

        return [Tool(name, "Add a tool.", NoArgs, add) for name in names]

    seen, answers = run(Toolset(make), ("first", {}), ("second", {}))
    assert [[tool.name for tool in tools] for tools in seen[:2]] == [["first"], ["first", "second"]]
    assert answers == ["second", "second"]
