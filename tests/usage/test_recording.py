"""Tests of what each interface records and learns; nothing is kept unless it is asked for."""

import json
import os
import shutil
import threading
from contextlib import contextmanager, nullcontext

import pytest

from skillsearch.agents.default_tools import LibraryTools, search_skills
from skillsearch.agents.default_tools import call as call_tool
from skillsearch.agents.tool import Toolset
from skillsearch.agents.toolsets.chunks import LoadSkillChunkTool, SkillManager
from skillsearch.agents.toolsets.environments import Environment
from skillsearch.agents.toolsets.server_environment import ServerEnvironment
from skillsearch.agents.toolsets.workspace import WorkspaceToolset
from skillsearch.daemon import client, offering
from skillsearch.daemon.answers import Answers
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.served_library import ServedLibrary
from skillsearch.mcp_server.session_tools import SessionTools
from skillsearch.settings.config import load_settings
from skillsearch.settings.environ import variables
from skillsearch.settings.user_folders import data_dir
from skillsearch.ui.pages import Pages
from skillsearch.usage.log import UsageLog
from skillsearch.usage.recording import log_of

prompt_toolkit = pytest.importorskip("prompt_toolkit")
picker = pytest.importorskip("skillsearch.cli.interactive.picker")
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
def question(tmp_path):
    """Make what the hook asks the daemon."""

    def make(prompt, states):
        arguments = {"prompt": prompt, "n": 3, "folder": str(tmp_path / "work"), "states": states}
        return arguments | {"variables": variables(), "index_dir": None, "include_unvetted": False}

    return make


@pytest.fixture
def overview(question):
    """Answer the hook as the daemon does."""
    return lambda prompt=REQUEST, states=STATES: Answers().overview(question(prompt, states))


@contextmanager
def keyboard():
    """Have the picker read the keys that are sent to it, instead of a terminal."""
    screen = prompt_toolkit.output.DummyOutput()
    with prompt_toolkit.input.create_pipe_input() as keys, pytest.MonkeyPatch.context() as patch:
        patch.setattr(picker, "terminal", lambda: nullcontext((keys, screen)))
        yield keys


def served(style):
    """Return the tools of a style that a server offers over the configured index."""
    return SessionTools(style, ServedLibrary((), load_settings())).of("").toolset


def by_query(cli, overview, serve):
    """Ask on the command line, and look at the skill."""
    cli("query", REQUEST)
    cli("show", "steep-tea", "--body")


def by_daemon(cli, overview, serve):
    """Ask the daemon on the command line."""
    if client.ask("status", seconds=120) is None:
        serve()
    before = client.ask("status", seconds=120)["answered"]
    assert cli("query", REQUEST).exit_code == 0
    assert client.ask("status", seconds=120)["answered"] == before + 1
    cli("show", "steep-tea")


def by_prompt(cli, overview, serve):
    """Ask for a prompt, then for one with the skill."""
    cli("prompt", REQUEST)
    cli("prompt", "--load", "steep-tea")


def by_hook(cli, overview, serve):
    """Ask as a host does, and look at the skill in the same folder."""
    assert overview()["offers"]
    cli("show", "steep-tea")


def by_agent(cli, overview, serve):
    """Ask the tools of the configured index."""
    assert search_skills(REQUEST)
    call_tool("load_skill", {"name": "steep-tea"})


def by_mcp(cli, overview, serve):
    """Ask the tools that a server offers over a library."""
    tools = served("default")
    assert tools.call("search_skills", {"query": REQUEST})["result"]["skills"] is not None
    assert "result" in tools.call("load_skill", {"name": "steep-tea"})


def by_find(cli, overview, serve):
    """Type a request on the terminal, and take the skill that is chosen."""
    with keyboard() as keys:
        keys.send_text(f"{REQUEST}\r")
        assert cli("find").stdout.endswith("steep-tea\n")


def by_page(cli, overview, serve):
    """Submit a request in the browser, and open a skill of the answer."""
    pages = Pages(load_settings())
    pages.search(REQUEST, refresh=True, submitted=True)
    pages.skill("drinks:steep-tea", answers=True)


def by_manager(cli, overview, serve):
    """Ask the tools of a manager that a server offers."""
    tools = served("manager")
    assert tools.call("search_skills", {"query": REQUEST})["result"]
    assert "Use 80 C" in tools.call("load_skill", {"skill_name": "steep-tea"})["result"]


def by_context(cli, overview, serve):
    """Ask the tools of a context that a server offers."""
    tools = served("context")
    assert tools.call("search_skills", {"query": REQUEST})["result"]["success"]
    assert tools.call("get_skill", {"name": "steep-tea"})["result"]["success"]


def by_workspace(cli, overview, serve):
    """Have two requests to a model describe the skills for a request, and load one."""
    workspace = WorkspaceToolset(ServedLibrary((), load_settings()).get(), executor=None)
    assert workspace.system_prompt(REQUEST) == workspace.system_prompt(REQUEST)
    assert "result" in workspace.toolset().call("skill_load", {"skill": "steep-tea"})


INTERFACES = {
    by_query: ("query", "show"),
    by_daemon: ("query", "show"),
    by_prompt: ("prompt", "prompt"),
    by_hook: ("hook", "show"),
    by_agent: ("agent", "agent"),
    by_mcp: ("mcp", "mcp"),
    by_find: ("find", "find"),
    by_page: ("ui", "ui"),
    by_manager: ("mcp", "mcp"),
    by_context: ("mcp", "mcp"),
    by_workspace: ("mcp", "mcp"),
}


@pytest.mark.parametrize("ask", INTERFACES, ids=lambda ask: ask.__name__)
def test_an_interface_keeps_what_it_answers_and_loads(on, cli, overview, events, serve, ask):
    ask(cli, overview, serve)
    request, load = events()
    assert (request.kind, load.kind) == ("asked", "loaded")
    assert (request.interface, load.interface) == INTERFACES[ask]
    assert request.state in STATES
    assert request.offered[0].skill == load.skill == "drinks:steep-tea"
    assert (load.request_id, load.after) == (request.request_id, 1)
    assert request.project_id == load.project_id != ""
    assert len(request.vector) == len(load.vector) > 0
    files = [path for path in data_dir().rglob("*") if path.is_file()]
    assert [path for path in files if REQUEST.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("ask", INTERFACES, ids=lambda ask: ask.__name__)
def test_a_load_raises_the_score_of_its_skill_for_the_same_request(
    on, cli, overview, events, serve, ask
):
    ask(cli, overview, serve)
    ask(cli, overview, serve)
    before, after = (event.offered[0] for event in events() if event.kind == "asked")
    assert before.skill == after.skill == "drinks:steep-tea"
    assert after.score > before.score


@pytest.mark.parametrize("ask", INTERFACES, ids=lambda ask: ask.__name__)
def test_nothing_is_written_unless_usage_is_on(on, cli, overview, home, monkeypatch, serve, ask):
    monkeypatch.delenv("SKILLSEARCH_USAGE")
    before = {path for path in home.rglob("*") if "cache" not in path.parts}
    ask(cli, overview, serve)
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


@pytest.mark.parametrize("ask", INTERFACES, ids=lambda ask: ask.__name__)
def test_a_log_that_cannot_be_made_fails_no_interface(on, cli, overview, serve, ask):
    data_dir().mkdir(parents=True)
    (data_dir() / "usage").write_text("no folder")
    ask(cli, overview, serve)
    assert (data_dir() / "usage").read_text() == "no folder"


def test_the_hook_keeps_a_prompt_once(on, cli, overview, events, monkeypatch):
    overview(states=[])
    assert events() == []
    overview("who won the world cup", states=["fits"])
    assert events() == []
    cli("prompt", REQUEST, "--json", "--hook-states", "fits,perhaps,none")
    cli("prompt", "who won the world cup", "--hook-states", "")
    assert [event.interface for event in events()] == ["hook"]


def test_the_hook_keeps_a_prompt_with_the_turn_that_it_leans_on(
    on, serve, question, events, monkeypatch
):
    """Whatever the answer; not the prompt alone, which would have to fit, nor that turn again."""
    monkeypatch.setenv("SKILLSEARCH_USAGE", "text")
    serve()

    class Talk:
        offered = ()

        def last_turns(self):
            return "who won the world cup"

    arguments = question("and who lost it", ["fits"])
    offering.offered_texts(arguments, Talk(), offering.Clock(120), print)
    assert [event.text for event in events()] == ["and who lost it\nwho won the world cup"]


def test_a_library_of_a_developer_keeps_nothing(on, drinks, tmp_path):
    library = SkillLibrary.from_roots([drinks], index_dir=tmp_path / "own", model="hashing")
    tools = Toolset(LibraryTools(lambda: library, None).tools())
    assert "result" in tools.call("search_skills", {"query": REQUEST})
    assert not data_dir().exists()


@pytest.fixture
def environment(tmp_path, shared_drinks, monkeypatch):
    """Name a folder with an environment of the drinks, whose tool has no room for all."""
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    shutil.copytree(shared_drinks / "drinks", tmp_path / "all" / "work" / "skills")
    return tmp_path / "all"


def check_learned(events, interface):
    """Check that a load of a skill raised its score for the same request by an interface."""
    first, load, second = events
    assert [event.interface for event in events] == [interface] * 3
    assert first.offered[0].skill == load.skill == "skills:steep-tea"
    assert second.offered[0].score > first.offered[0].score


@pytest.mark.parametrize("usage", ["hashes", "off"])
def test_the_environment_of_the_settings_keeps_and_learns(environment, events, monkeypatch, usage):
    monkeypatch.setenv("SKILLSEARCH_USAGE", usage)
    tools = ServerEnvironment(environment, "work", description_chars=128).toolset()
    for _ in range(2):
        assert tools.call("search_skills", {"query": REQUEST})["result"]["skills"]
        assert "Use 80 C" in tools.call("skill", {"skill": "steep-tea"})["result"]["output"]
    if usage == "off":
        assert not data_dir().exists()
    else:
        check_learned(events(), "agent")


@pytest.mark.parametrize("is_named", [True, False])
def test_the_environment_of_a_server_keeps_and_learns(
    environment, events, make_skill, monkeypatch, is_named
):
    folder = environment / "work" / "skills"
    for number in range(9):
        make_skill(folder, f"other-{number}", f"Does {number} things. " + "It does more. " * 70)
    monkeypatch.setenv("SKILLSEARCH_USAGE", "hashes")
    monkeypatch.setenv("SKILLSEARCH_ENVIRONMENTS", str(environment))
    served = ServedLibrary([folder] if is_named else (), load_settings())
    tools = SessionTools("environment", served).of("").toolset
    for _ in range(2):
        tools.call("search_skills", {"query": "a cup of tea"})
        assert tools.call("skill", {"skill": "steep-tea"})["result"]["success"]
    check_learned(events(), "mcp")


def test_an_environment_of_a_developer_keeps_nothing(on, environment):
    made = Environment("work", environment / "work" / "skills", description_chars=128)
    tools = made.toolset()
    assert tools.call("search_skills", {"query": REQUEST})["result"]["skills"]
    assert tools.call("skill", {"skill": "steep-tea"})["result"]["success"]
    assert not data_dir().exists()


def test_a_chunk_that_is_loaded_is_a_load_of_its_skill(on, events, tmp_path, make_skill):
    body = 'Boil water.\n\n<chunk id="green" description="For green tea">\nUse 80 C.\n</chunk>\n'
    make_skill(tmp_path / "tea", "steep-tea", "Steep green tea.", body=body)
    make_skill(tmp_path / "tea", "serve-tea", "Serve green tea.")
    config = {"index_dir": tmp_path / "i", "model": "hashing"}
    SkillManager(library=SkillLibrary.from_roots(tmp_path / "tea", **config)).search("steep tea")
    assert not data_dir().exists()
    log = log_of(load_settings(), "agent")
    library = SkillLibrary.from_roots(tmp_path / "tea", usage=log, **config)
    manager = SkillManager(library=library)
    before = manager.search("steep tea")
    tool = LoadSkillChunkTool(manager)
    assert tool.execute({"skill_name": "steep-tea", "chunk_id": "green"}) == "Use 80 C."
    request, load = events()
    assert request.offered[0].skill == load.skill == "tea:steep-tea"
    assert manager.search("steep tea").shown[0].score > before.shown[0].score


def test_a_load_makes_no_index_and_waits_for_none(on, environment):
    tools = SessionTools("default", ServedLibrary([environment / "work"], load_settings()))
    assert "result" in tools.of("").toolset.call("load_skill", {"name": "steep-tea"})
    assert not data_dir().exists()


def test_leaving_the_picker_keeps_a_request_whose_answer_has_stood(
    on, cli, events, monkeypatch, wait_for
):
    def press(chooser, keys):
        keys.send_text(REQUEST)
        wait_for(lambda: chooser.standing)
        keys.send_text("\x1b")

    class Pressed(picker.Picker):
        def pick(self, text, keys, screen):
            threading.Thread(target=press, args=(self, keys)).start()
            return super().pick(text, keys, screen)

    monkeypatch.setattr(picker, "Picker", Pressed)
    monkeypatch.setattr(picker, "STANDING_SECONDS", 0)
    with keyboard():
        assert cli("find").exit_code == 130
    (request,) = events()
    assert (request.kind, request.interface) == ("asked", "find")
    assert request.offered[0].skill == "drinks:steep-tea"


def test_a_file_of_requests_keeps_and_learns_nothing(on, cli, events):
    def ask_batch():
        line = json.dumps({"_id": 1, "text": REQUEST})
        return {**json.loads(cli("query", "--batch", "-", stdin=line).stdout), "seconds": 0}

    before = ask_batch()
    assert not data_dir().exists()
    by_query(cli, None, None)
    assert len(events()) == 2
    assert ask_batch() == before
    assert len(events()) == 2


def test_an_index_is_the_same_however_its_folder_is_spelt(on, cli, drinks_index, events):
    link, above = drinks_index.with_name("link"), drinks_index.parent
    link.symlink_to(drinks_index.name)
    for folder in (drinks_index, above / ".." / above.name / drinks_index.name, link):
        cli("query", REQUEST, "--index-dir", folder)
    assert [len(events()), len({event.index_id for event in events()})] == [3, 1]


def test_settings_name_the_log(monkeypatch):
    assert log_of(load_settings(), "query") is None
    monkeypatch.setenv("SKILLSEARCH_USAGE", "hashes")
    assert os.fspath(log_of(load_settings(), "query").folder) == str(data_dir() / "usage")
