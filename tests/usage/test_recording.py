"""Tests of what each face keeps of its answers, and that nothing is kept unless it is asked for."""

import json
import os

import pytest

from skillsearch.agents.default_tools import LibraryTools, search_skills
from skillsearch.agents.default_tools import call as call_tool
from skillsearch.agents.tool import Toolset
from skillsearch.daemon import offering
from skillsearch.daemon.answers import Answers
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.environ import variables
from skillsearch.settings.user_folders import data_dir
from skillsearch.usage.log import UsageLog
from skillsearch.usage.recording import log_of

REQUEST = "steep green tea"
STATES = ["fits", "perhaps", "none"]


@pytest.fixture
def events():
    """Return the events of the user's own log."""
    return lambda: UsageLog.own().events()


@pytest.fixture
def on(monkeypatch, drinks_index):
    """Have usage kept of requests to the index of drinks."""
    monkeypatch.setenv("SKILLSEARCH_USAGE", "hashes")
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(drinks_index))


@pytest.fixture
def overview(tmp_path):
    """Answer the hook as the daemon does."""

    def ask(prompt=REQUEST, states=STATES):
        arguments = {"prompt": prompt, "n": 3, "folder": str(tmp_path / "work"), "states": states}
        arguments |= {"variables": variables(), "index_dir": None, "include_unvetted": False}
        return Answers().overview(arguments)

    return ask


def by_query(cli, overview, ask_daemon):
    """Ask on the command line, and look at the skill."""
    cli("query", REQUEST)
    cli("show", "steep-tea", "--body")


def by_daemon(cli, overview, ask_daemon):
    """Ask the daemon on the command line."""
    ask_daemon(Answers())
    assert cli("query", REQUEST).exit_code == 0
    cli("show", "steep-tea")


def by_prompt(cli, overview, ask_daemon):
    """Ask for a prompt, then for one with the skill."""
    cli("prompt", REQUEST)
    cli("prompt", "--load", "steep-tea")


def by_hook(cli, overview, ask_daemon):
    """Ask as a host does, and look at the skill in the same folder."""
    assert overview()["offers"]
    cli("show", "steep-tea")


def by_agent(cli, overview, ask_daemon):
    """Ask the tools of the configured index."""
    assert search_skills(REQUEST)
    call_tool("load_skill", {"name": "steep-tea"})


def by_mcp(cli, overview, ask_daemon):
    """Ask the tools that a server offers over a library."""
    from skillsearch.mcp_server.served_library import ServedLibrary
    from skillsearch.mcp_server.session_tools import SessionTools
    from skillsearch.settings.config import load_settings

    tools = SessionTools("default", ServedLibrary((), load_settings())).of("").toolset
    assert tools.call("search_skills", {"query": REQUEST})["result"]["skills"] is not None
    assert "result" in tools.call("load_skill", {"name": "steep-tea"})


FACES = {
    by_query: ("query", "show"),
    by_daemon: ("query", "show"),
    by_prompt: ("prompt", "prompt"),
    by_hook: ("hook", "show"),
    by_agent: ("agent", "agent"),
    by_mcp: ("mcp", "mcp"),
}


@pytest.fixture
def ask_daemon(monkeypatch):
    """Have commands ask these answers as if they were a daemon."""

    def serve(answers):
        from skillsearch.daemon import client

        def ask(method, question, *, seconds):
            assert method == "search"
            return json.loads(json.dumps(answers.search(question)))

        monkeypatch.setattr(client, "ask", ask)

    return serve


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_a_face_keeps_what_it_answers_and_loads(on, cli, overview, events, ask_daemon, face):
    face(cli, overview, ask_daemon)
    request, load = events()
    assert (request.kind, load.kind) == ("asked", "loaded")
    assert (request.face, load.face) == FACES[face]
    assert request.state in STATES
    assert request.offered[0].skill == load.skill == "drinks:steep-tea"
    assert (load.request_id, load.after) == (request.request_id, 1)
    assert request.project_id == load.project_id != ""
    assert len(request.vector) == len(load.vector) > 0
    assert request.text == ""


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_nothing_is_written_unless_usage_is_on(
    on, cli, overview, home, monkeypatch, ask_daemon, face
):
    monkeypatch.delenv("SKILLSEARCH_USAGE")
    before = {path for path in home.rglob("*") if "cache" not in path.parts}
    face(cli, overview, ask_daemon)
    assert {path for path in home.rglob("*") if "cache" not in path.parts} == before
    assert not data_dir().exists()


def test_without_words_no_four_of_them_are_in_any_file(on, cli, overview):
    request = "please steep my green tea at the right temperature today"
    words = request.split()
    cli("query", request)
    overview(request)
    cli("prompt", request)
    cli("show", "steep-tea")
    search_skills(request)
    files = [path for path in data_dir().rglob("*") if path.is_file()]
    assert len(files) == 3
    grams = {" ".join(words[at : at + 4]).encode() for at in range(len(words) - 3)}
    assert [path for path in files if any(gram in path.read_bytes() for gram in grams)] == []


def test_a_log_that_cannot_be_written_fails_no_answer(on, cli, overview):
    answered = cli("query", REQUEST)
    for path in (data_dir() / "usage").iterdir():
        path.unlink()
    (data_dir() / "usage").rmdir()
    (data_dir() / "usage").write_text("no folder")
    assert cli("query", REQUEST).stdout == answered.stdout
    assert overview()["offers"]
    assert cli("show", "steep-tea").exit_code == 0


def test_the_hook_keeps_a_prompt_once(on, cli, overview, events, monkeypatch):
    """One that leans on the turn before is kept with it, and that turn not again."""
    overview(states=[])
    assert events() == []
    overview("who won the world cup", states=["fits"])
    assert events() == []
    cli("prompt", REQUEST, "--json", "--hook-states", "fits,perhaps,none")
    cli("prompt", "who won the world cup", "--hook-states", "")
    assert [event.face for event in events()] == ["hook"]


def test_the_hook_says_what_of_a_prompt_is_kept(monkeypatch, tmp_path):
    requests = []
    nothing = {"offers": {}, "fits": 0, "unvetted": 0, "notes": []}
    monkeypatch.setattr(
        offering, "_overview", lambda question, *_: requests.append(question) or nothing
    )

    class Talk:
        offered = ()

        def last_turns(self):
            return "Steep green tea."

    request = {"prompt": "and now black", "states": ["fits"]}
    offering.offered_texts(request, Talk(), None, print)
    assert [each["states"] for each in requests] == [["fits"], STATES, []]


def test_a_library_of_a_developer_keeps_nothing(on, drinks, tmp_path):
    library = SkillLibrary.from_roots([drinks], index_dir=tmp_path / "own", model="hashing")
    tools = Toolset(LibraryTools(lambda: library, None).tools())
    assert "result" in tools.call("search_skills", {"query": REQUEST})
    assert not data_dir().exists()


def test_settings_name_the_log(monkeypatch):
    from skillsearch.settings.config import load_settings

    assert log_of(load_settings()) is None
    monkeypatch.setenv("SKILLSEARCH_USAGE", "hashes")
    assert os.fspath(log_of(load_settings()).folder) == str(data_dir() / "usage")
