"""What hosts and models send for arguments, and the one thing that it can mean."""

import json
from importlib import import_module
from pkgutil import iter_modules

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from skillsearch.agents import toolsets
from skillsearch.agents.arguments import checked, parsed
from skillsearch.agents.default_tools import (
    ListSkillsArgs,
    LoadSkillArgs,
    ReadSkillFileArgs,
    SearchSkillsArgs,
)
from skillsearch.agents.run_tools import RunArgs, RunSkillScriptArgs
from skillsearch.agents.tool import ToolArguments
from skillsearch.agents.toolsets.workspace import SelectDocsArgs

CALLS = [
    (SearchSkillsArgs, {"query": "steep tea", "n": 7, "threshold": 0.5}),
    (LoadSkillArgs, {"name": "tea", "chunk": "oolong"}),
    (ReadSkillFileArgs, {"name": "tea", "path": "a/b.md", "offset": 8, "limit": 100}),
    (ListSkillsArgs, {"cursor": "a:b", "n": 2}),
    (SelectDocsArgs, {"skill": "tea", "docs": ["a.md"], "include_all_docs": True, "mode": "add"}),
    (RunSkillScriptArgs, {"name": "tea", "command": "ls", "output_files": ["o/*"], "timeout": 9}),
    (
        RunArgs,
        {
            "skill": "tea",
            "command": "ls",
            "env": {"A": "x", "B": "7"},
            "inputs": [{"from": "host:///x", "pin": True}],
            "outputs": {"globs": ["out/*"], "inline": True, "MaxFiles": 3},
        },
    ),
]
HOSTS_ADD = st.dictionaries(
    st.sampled_from(["toolCallId", "sessionId", "action", "random_string", "explanation", "_meta"]),
    st.none() | st.integers() | st.text() | st.just({"a": []}),
)


def liberties(value):
    """Return the ways in which hosts and models write a value."""
    ways = [value]
    if isinstance(value, bool):
        ways += [str(value), str(value).lower(), f" {str(value).lower()} "]
    elif isinstance(value, int | float):
        ways += [str(value), float(value), f"{float(value)}", f" {value} ", [value], [str(value)]]
    elif isinstance(value, str):
        ways += [[value], *([int(value)] if value.isdigit() else [])]
    elif isinstance(value, list):
        ways += [json.dumps(value), value[0], json.dumps(value[0])]
    elif isinstance(value, dict):
        ways += [json.dumps(value), [value], {**value, "B": 7} if "B" in value else value]
    return st.sampled_from(ways)


@given(st.data())
def test_what_can_mean_one_thing_means_it(data):
    model, arguments = data.draw(st.sampled_from(CALLS))
    required = {name for name, field in model.model_fields.items() if field.is_required()}
    plain, sent = dict(arguments), {}
    for name, value in arguments.items():
        sent[name] = data.draw(liberties(value))
        if name not in required and data.draw(st.booleans()):
            del plain[name]
            sent[name] = data.draw(st.sampled_from([None, "null", "None", ""]))
            if isinstance(value, str):  # which may be called null
                sent[name] = None
    sent |= data.draw(HOSTS_ADD)
    form = data.draw(
        st.sampled_from([dict, json.dumps, lambda arguments: json.dumps(json.dumps(arguments))])
    )
    assert checked(model, form(sent)) == model.model_validate(plain)


@pytest.mark.parametrize("name", ["skillName", "Skill-Name", "SKILL_NAME", "skill name"])
def test_a_name_in_another_spelling_is_that_argument(name):
    class Args(ToolArguments):
        skill_name: str
        note: str = ""

    assert checked(Args, {name: "tea"}) == Args(skill_name="tea")
    assert checked(Args, {name: "tea", "skill_name": "pot"}) == Args(skill_name="pot")


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        ({"query": "tea", "treshold": 0.9}, "treshold"),
        ({"query": "tea", "n": "many"}, "n"),
        ({"query": "tea", "n": "0"}, "n"),
        ({"query": "tea", "n": "5.5"}, "n"),
        ({"query": "tea", "n": [1, 2]}, "n"),
        ({"query": ["green", "tea"]}, "query"),
        ({"query": None}, "query"),
        ({"query": True}, "query"),
        ({}, "query"),
    ],
)
def test_what_can_mean_two_things_or_none_is_refused(sent, named):
    with pytest.raises(ValidationError) as caught:
        checked(SearchSkillsArgs, sent)
    assert [problem["loc"][0] for problem in caught.value.errors()] == [named]


def test_a_default_is_not_taken_for_null_where_null_has_a_meaning():
    class Args(ToolArguments):
        most: int | None = Field(5, ge=1)

    assert checked(Args, {"most": None}).most is None
    assert checked(Args, {"most": ""}).most == 5


def test_what_the_caller_gave_stays_as_it_was():
    arguments = {"skill": "tea", "command": "ls", "outputs": {"globs": "out/*", "inline": None}}
    before = json.dumps(arguments)
    checked(RunArgs, arguments)
    assert json.dumps(arguments) == before


def test_text_of_text_is_read_no_further():
    """Two layers are a host's habit, more are nonsense."""
    assert parsed(json.dumps(json.dumps({"a": 1}))) == {"a": 1}
    with pytest.raises(ValueError, match="not an object but str"):
        parsed(json.dumps(json.dumps(json.dumps({"a": 1}))))


def families_of(arguments):
    yield arguments
    for narrower in arguments.__subclasses__():
        yield from families_of(narrower)


def test_every_argument_of_a_tool_is_described():
    """A model that fills it in sees nothing else of it."""
    for toolset in iter_modules(toolsets.__path__, f"{toolsets.__name__}."):
        import_module(toolset.name)
    silent = {
        f"{arguments.__name__}.{name}"
        for arguments in families_of(ToolArguments)
        if arguments.__module__.startswith("skillsearch")
        for name, row in arguments.model_json_schema().get("properties", {}).items()
        if not row.get("description")
    }
    assert silent == set()
