"""What a server does not offer: neither to a search, nor in a list, nor by name."""

import pytest

TEA = "steep green tea at the right temperature"


@pytest.fixture
def ask(make_server, talk, drinks, variables, monkeypatch):
    """Call a tool of a server over drinks whose settings leave out tea."""
    monkeypatch.setenv("SKILLSEARCH_EXCLUDE", "STEEP_*")
    server = make_server(drinks)

    def run(tool, /, **arguments):
        async def say(client):
            return await client.call_tool(tool, arguments)

        return talk(server, say)

    return run


def test_what_the_settings_exclude_is_offered_nowhere(ask):
    found = ask("search_skills", query=TEA, threshold=0.0).structured_content
    names = [skill["name"] for skill in (*found["skills"], *found["perhaps"])]
    assert names
    assert "steep-tea" not in names
    listed = ask("list_skills").structured_content
    assert "steep-tea" not in [skill["name"] for skill in listed["skills"]]
    assert listed["total"] == len(listed["skills"])


@pytest.mark.parametrize("name", ["steep-tea", "Steep Tea", "drinks:steep-tea"])
def test_loading_it_says_that_the_settings_leave_it_out(ask, name):
    refused = ask("load_skill", name=name)
    assert refused.is_error
    text = refused.content[0].text
    assert "is left out by the settings of skillsearch: change include, exclude, tags" in text
    assert "left out" not in ask("load_skill", name="no-such-skill").content[0].text


@pytest.mark.slow
def test_a_program_takes_the_options(program, open_wire, drinks):
    with program(drinks, "--include", "*tea*") as process:
        wire = open_wire(process)
        wire.greet()
        answer = wire.ask("tools/call", {"name": "list_skills", "arguments": {}}, 7)
    names = [one["name"] for one in answer["result"]["structuredContent"]["skills"]]
    assert names == ["steep-tea"]
