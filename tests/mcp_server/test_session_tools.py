"""Tests of what is kept of the sessions of a server."""

from skillsearch.mcp_server.session_tools import MAX_SESSIONS, SessionTools


def test_the_session_that_was_silent_longest_is_forgotten(serve_library, drinks):
    """A server that runs for weeks does not fill up."""
    tools = SessionTools("workspace", serve_library(drinks))
    first, second = tools.of("1"), tools.of("2")
    for number in range(MAX_SESSIONS - 2):
        tools.of(f"more {number}")
    assert tools.of("1") is first
    tools.of("one too many")
    assert tools.of("1") is first
    assert tools.of("2") is not second


def test_what_is_loaded_outlives_a_new_index(serve_library, cli, drinks, index_dir):
    """The session stays, its library is the new one."""
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
    assert after is not before
    assert "[Loaded] steep-tea" in after.prompt()
    assert "squeeze-lemons" not in after.prompt()
