"""Tests of what is kept of the sessions of a server."""

import pytest

from skillsearch.execution.isolation.local import LocalExecutor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.workspaces.workspace import Workspaces
from skillsearch.mcp_server.session_tools import MAX_SESSIONS, TOOLSETS, SessionTools


def test_the_session_that_was_silent_longest_is_forgotten(serve_library, drinks):
    tools = SessionTools("workspace", serve_library(drinks))
    first, second = tools.of("1"), tools.of("2")
    for number in range(MAX_SESSIONS - 2):
        tools.of(f"more {number}")
    assert tools.of("1") is first
    tools.of("one too many")
    assert tools.of("1") is first
    assert tools.of("2") is not second


def test_what_is_loaded_outlives_a_new_index(serve_library, cli, drinks, index_dir):
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    served = serve_library(index_dir=index_dir)
    tools = SessionTools("workspace", served)
    before = tools.of("1")
    before.toolset.call("skill_load", {"skill": "steep-tea"})
    while served.get().is_indexing:  # files that are this new are looked at again
        served.refresh()
    (drinks / "squeeze-lemons" / "SKILL.md").unlink()
    cli("index", "--index-dir", index_dir)
    after = tools.of("1")
    assert after is before
    assert "[Loaded] steep-tea" in after.prompt()
    assert "squeeze-lemons" not in after.prompt()


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_all_tools_of_a_toolset_have_the_same_word_for_the_name_of_a_skill(
    serve_library, drinks, tmp_path, toolset
):
    """The documents that the toolsets follow have different ones."""
    word = {"default": "name", "context": "name", "workspace": "skill", "environment": "skill"}
    with SkillRunner(LocalExecutor(), workspaces=Workspaces(tmp_path / "runs")) as made:
        runner = made if TOOLSETS[toolset].runs else None
        offer = SessionTools(toolset, serve_library(drinks), runner).of("1")
        fields = {name for tool in offer.toolset.tools() for name in tool.arguments.model_fields}
    assert fields & {*word.values(), "skill_name", "skill_id"} == {word.get(toolset, "skill_name")}
