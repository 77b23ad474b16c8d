"""Tests of a toolset: its definitions, and the edge that nothing raises past."""

import json
import logging
import threading
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from skillsearch.agents.arguments import MAX_ARGUMENTS_CHARS
from skillsearch.agents.tool import Tool, ToolArguments, Toolset
from skillsearch.errors import IndexNotFoundError
from skillsearch.text.safe_text import all_visible, visible

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
PARAMETERS = {
    "type": "object",
    "properties": {
        "cups": {"type": "integer", "minimum": 1, "maximum": 99, "description": "How many."},
        "kind": {"type": "string", "default": "green"},
    },
    "required": ["cups"],
    "additionalProperties": False,
}


class BrewArgs(ToolArguments):
    """Words for programmers, not for models."""

    cups: int = Field(ge=1, le=99, description="How many.")
    kind: str = "green"


class NoArgs(ToolArguments):
    """Nothing."""


def brew(args):
    return {"brewed": [args.kind] * args.cups}


def tool(function=brew, arguments=BrewArgs, name="brew_tea"):
    return Tool(name, "Brew tea.", arguments, function)


def raising(error):
    def fail(args):
        raise error

    return Toolset([tool(fail, NoArgs)])


def error_of(answer):
    """Return the error of an answer, which is one line of JSON-able words with a next step."""
    error = answer["error"]
    assert set(answer) == {"error"}
    assert error["code"]
    assert error["next_step"]
    assert "\n" not in error["message"]
    json.dumps(error, allow_nan=False, ensure_ascii=False).encode()
    return error


@pytest.mark.parametrize("arguments", [None, " \n", {}])
def test_no_arguments_can_be_said_in_many_ways(arguments):
    toolset = Toolset([tool(lambda args: "pong", NoArgs, "ping")])
    assert toolset.call("ping", arguments) == {"result": "pong"}


def test_openai_and_anthropic_get_their_own_forms():
    toolset = Toolset([tool()])
    assert toolset.specs() == toolset.specs("openai")
    assert toolset.specs("openai") == [
        {
            "type": "function",
            "function": {"name": "brew_tea", "description": "Brew tea.", "parameters": PARAMETERS},
        }
    ]
    assert toolset.specs("anthropic") == [
        {"name": "brew_tea", "description": "Brew tea.", "input_schema": PARAMETERS}
    ]


def test_tools_made_on_request_are_those_of_now():
    names = ["black"]

    def make():
        kinds = Enum("Kind", {name: name for name in names}, type=str)
        arguments = type("Args", (ToolArguments,), {"__annotations__": {"kind": kinds}})
        return [Tool("brew", f"Kinds: {', '.join(names)}", arguments, lambda args: args.kind.value)]

    toolset = Toolset(make)
    assert toolset.call("brew", {"kind": "green"})["error"]["code"] == "invalid-arguments"
    names.append("green")
    (spec,) = toolset.specs("anthropic")
    assert spec["description"] == "Kinds: black, green"
    assert spec["input_schema"]["properties"]["kind"]["enum"] == ["black", "green"]
    assert toolset.call("brew", {"kind": "green"}) == {"result": "green"}


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ValueError, match="a different name"):
        Toolset([tool(), tool()]).tools()


@pytest.mark.parametrize("name", ["", "brüh", "a.b", "x" * 65, "brew\n"])
def test_a_name_that_vendors_refuse_is_no_name(name):
    with pytest.raises(ValueError, match="use 1 to 64"):
        tool(name=name)


@pytest.mark.parametrize("name", ["brewTea", None, 3, ["brew_tea"], "\ud800\x1b[2J" + "x" * 10_000])
def test_a_name_of_any_kind_is_answered_with_the_nearest(name):
    error = error_of(Toolset([tool(), tool(name="list_teas")]).call(name, {}))
    assert error["code"] == "unknown-tool"
    assert error["nearest"][0] == "brew_tea"
    assert len(error["message"]) < 120


def test_every_problem_of_the_arguments_is_one_line():
    error = error_of(Toolset([tool()]).call("brew_tea", {"kind": True, "cup": "a\nb"}))
    assert error["code"] == "invalid-arguments"
    assert error["message"] == "brew_tea cannot use these arguments."
    assert error["problems"] == [
        "cups: Field required",
        "kind = 'True': Input should be a valid string",
        r"cup = 'a\nb': Extra inputs are not permitted",
    ]


def test_no_more_than_twenty_problems_are_told():
    arguments = {f"wrong{number}": number for number in range(1000)}
    assert len(error_of(Toolset([tool()]).call("brew_tea", arguments))["problems"]) == 20


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{", "not valid JSON"),
        ([1], "not an object but list"),
        (b"\xff", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"cups": ' + "9" * 5_000 + "}", "not valid JSON"),
        (" " + "x" * MAX_ARGUMENTS_CHARS, "more than"),
        ({"cups": 10**5_000}, "cups"),
        ({"cups": float("nan")}, "cups = 'nan'"),
        ({1: 2}, "1"),
    ],
)
def test_arguments_of_no_use_are_named(arguments, problem):
    error = error_of(Toolset([tool()]).call("brew_tea", arguments))
    assert error["code"] == "invalid-arguments"
    assert any(problem in line for line in error["problems"])


def test_a_deep_nest_is_named_without_its_value():
    nest = []
    for _ in range(100_000):
        nest = [nest]
    error = error_of(Toolset([tool()]).call("brew_tea", {"cups": nest}))
    assert error["problems"] == ["cups: Input should be a valid integer"]


@given(name=st.sampled_from(["brew_tea"]) | JSON, arguments=JSON | st.text())
def test_nothing_that_a_model_sends_raises(name, arguments):
    answer = Toolset([tool()]).call(name, arguments)
    if "error" in answer:
        assert error_of(answer)["code"] in {"unknown-tool", "invalid-arguments"}


@pytest.mark.parametrize("raised", [RuntimeError("secret"), KeyError("secret"), RecursionError()])
def test_an_unexpected_error_is_logged_and_told_without_its_words(raised, caplog):
    with caplog.at_level(logging.ERROR):
        error = error_of(raising(raised).call("brew_tea"))
    assert error["code"] == "internal"
    assert "secret" not in json.dumps(error)
    assert type(raised).__name__ in caplog.text
    assert caplog.records[0].exc_info


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_goes_through(raised):
    with pytest.raises(raised):
        raising(raised()).call("brew_tea")


@pytest.mark.parametrize("result", [float("nan"), {"a": float("inf")}, {1, 2}, b"x"])
def test_a_result_that_json_cannot_hold_is_our_fault(result):
    toolset = Toolset([tool(lambda args: result, NoArgs)])
    assert error_of(toolset.call("brew_tea"))["code"] == "internal"


@given(
    st.recursive(
        st.none() | st.integers() | st.text(st.characters()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
        max_leaves=8,
    )
)
def test_nothing_in_a_result_is_hidden(result):
    answer = Toolset([tool(lambda args: result, NoArgs)]).call("brew_tea")
    assert answer == {"result": all_visible(result)}
    written = json.dumps(answer, ensure_ascii=False)
    written.encode()
    assert visible(written) == written


def test_a_fault_in_making_the_tools_is_an_answer_too():
    def make():
        raise IndexNotFoundError("none")

    assert error_of(Toolset(make).call("brew_tea"))["code"] == "no-index"


def test_calls_wait_for_each_other():
    """Hosts that run tools in threads do not mix them up."""
    running, most = [], []

    def work(args):
        running.append(1)
        most.append(len(running))
        threading.Event().wait(0.01)
        running.pop()

    toolset = Toolset([tool(work, NoArgs)])
    threads = [threading.Thread(target=toolset.call, args=("brew_tea",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


def test_frameworks_get_the_bare_result_or_the_error():
    toolset = Toolset([Tool("echo", "Echo.", NoArgs, lambda args: ["done"])])
    assert toolset.result("echo") == ["done"]
    assert toolset.result("echo", {"name": 1, "self": 2}) == ["done"]
    assert toolset.result("nothing", {"name": 1})["error"]["code"] == "unknown-tool"
