"""Tests of what the server says of skills that nobody has vouched for."""

import pytest

QUERY = "steep green tea at the right temperature"


def call(tool, /, **arguments):
    """Return what calls a tool."""

    async def say(client):
        return await client.call_tool(tool, arguments)

    return say


@pytest.fixture
def ask(make_server, talk, drinks, variables, monkeypatch):
    """Call a tool of a server over drinks that were found in a project."""
    monkeypatch.setenv("SKILLSEARCH_TRUST", "project")
    server = make_server(drinks)

    def run(tool, /, **arguments):
        result = talk(server, call(tool, **arguments))
        return result.content[0].text, result.structured_content

    return run


def test_a_search_tells_trust_before_what_a_skill_says(ask):
    text, record = ask("search_skills", query=QUERY)
    (hit,) = record["skills"]
    assert hit["trust"] == "project"
    assert "origin" not in hit
    assert text == f"steep-tea ({hit['score']:.2f}) [project]: {hit['description']}"


def test_a_list_tells_trust(ask):
    text, record = ask("list_skills")
    assert text.splitlines()[2] == "steep-tea [project]: Steep green tea at the right temperature."
    assert {skill["trust"] for skill in record["skills"]} == {"project"}


def test_a_body_begins_with_a_warning(ask):
    text, record = ask("load_skill", name="steep-tea")
    first, second = text.splitlines()[:2]
    assert first == "From a project root: nobody has vouched for it."
    assert second == '<skill_content name="steep-tea">'
    assert record["trust"] == "project"
