"""Tests of tools that leave something slow to do: by whom it is done, and what can go wrong."""

import threading

import pytest

from skillsearch.agents.tool import Deferred, Tool, ToolArguments, Toolset
from skillsearch.errors import QueryError

INTERNAL = "internal"


class NoArguments(ToolArguments):
    """A tool without arguments."""


@pytest.fixture
def toolset_of():
    """Make a toolset of one tool that defers, and another that answers at once."""

    def make(run=lambda: 20, finish=lambda value: value + 1):
        slow = Tool("slow", "Slow.", NoArguments, lambda _: Deferred(run, finish))
        quick = Tool("quick", "Quick.", NoArguments, lambda _: "done")
        return Toolset([slow, quick])

    return make


def test_a_call_does_the_slow_part_and_finishes(toolset_of):
    assert toolset_of().call("slow") == {"result": 21}


def test_what_begins_can_be_finished_elsewhere(toolset_of):
    toolset = toolset_of()
    work = toolset.begin("slow").outcome
    assert isinstance(work, Deferred)
    assert toolset.finish("slow", work, work.run) == {"result": 21}


def test_what_is_not_slow_is_answered_when_it_begins(toolset_of):
    toolset = toolset_of()
    assert toolset.begin("quick").outcome == {"result": "done"}
    assert toolset.begin("slow", "[1]").outcome["error"]["code"] == "invalid-arguments"


def test_other_calls_do_not_wait_for_the_slow_part(toolset_of):
    begun, release = threading.Event(), threading.Event()

    def run():
        begun.set()
        assert release.wait(120)

    toolset = toolset_of(run, lambda _: "late")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(toolset.call("slow")))
    thread.start()
    try:
        assert begun.wait(120)
        assert toolset.call("quick") == {"result": "done"}
        assert answers == []
    finally:
        release.set()
        thread.join(120)
    assert answers == [{"result": "late"}]


@pytest.mark.parametrize("part", ["run", "finish"])
@pytest.mark.parametrize(
    ("error", "code"), [(QueryError("no"), "query-invalid"), (ZeroDivisionError(), INTERNAL)]
)
def test_what_the_slow_part_raises_is_an_answer(toolset_of, part, error, code):
    def fail(*_):
        raise error

    assert toolset_of(**{part: fail}).call("slow")["error"]["code"] == code
