"""Each interface knows of each change on disk: what changes, and when an answer knows of it."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import skillsearch
from skillsearch.agents import default_tools
from skillsearch.agents.toolsets import context
from skillsearch.agents.toolsets.environments import Environment
from skillsearch.agents.toolsets.skills_manager import SkillsManager
from skillsearch.daemon.answers import Answers
from skillsearch.errors import SkillSearchError
from skillsearch.index.freshness import MAX_AGE
from skillsearch.index.roots.request import IndexRequest
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.config import load_settings
from skillsearch.settings.environ import variables

WAIT_SECONDS = 120
HASHING = {"model": "hashing"}
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Interface:
    """A way to ask: `find` returns the names that fit a request, `load` what a skill says."""

    is_other_process = loads = False

    def find(self, query):
        raise NotImplementedError

    def load(self, name):
        raise NotImplementedError

    def says(self, name, text):
        """Return whether a skill says a text, as far as this loads skills."""
        return not self.loads or text in self.load(name)


class CommandLine(Interface):
    """``query`` and ``show``."""

    loads = True

    def __init__(self, kitchen, request):
        self._cli = request.getfixturevalue("cli")

    def find(self, query):
        hits = json.loads(self._cli("query", query, "--json").stdout)["hits"]
        return [hit["name"] for hit in hits]

    def load(self, name):
        result = self._cli("show", name, "--body")
        return result.stdout or result.stderr


class Hook(Interface):
    """The hook of a host, without the daemon."""

    def __init__(self, kitchen, request):
        request.getfixturevalue("monkeypatch").setenv("SKILLSEARCH_DAEMON", "off")
        self._cli = request.getfixturevalue("cli")

    def find(self, query):
        event = {"hook_event_name": "UserPromptSubmit", "prompt": query, "cwd": "/"}
        return re.findall(r"<name>\s*(.*?)\s*</name>", self._text(event))

    def _text(self, event):
        result = self._cli("hook", stdin=json.dumps(event), obj=float(WAIT_SECONDS))
        if not result.stdout:
            return ""
        return json.loads(result.stdout)["hookSpecificOutput"]["additionalContext"]


class Daemon(Interface):
    """What the daemon answers to the hook."""

    def __init__(self, kitchen, request):
        self._answers, self._kitchen = Answers(), kitchen

    def find(self, query):
        arguments = {"prompt": query, "n": 3, "folder": str(self._kitchen.base), "index_dir": None}
        arguments |= {"variables": variables(), "include_unvetted": False, "states": []}
        offers = self._answers.overview(arguments)["offers"]
        return re.findall(r"<name>\s*(.*?)\s*</name>", "".join(offers.values()))


class Ui(Interface):
    """The pages in a browser, at each key."""

    loads = True

    def __init__(self, kitchen, request):
        pages = pytest.importorskip("skillsearch.ui.pages")
        self._pages = pages.Pages(load_settings())

    def find(self, query):
        return [hit.name for hit in self._pages.search(query, read=False)["result"]]

    def load(self, name):
        try:
            return self._pages.skill(name)["body"]
        except SkillSearchError as exc:
            return str(exc)


class Library(Interface):
    """A `SkillLibrary`."""

    loads = True

    def __init__(self, library):
        self.library = library

    def find(self, query):
        return [hit.name for hit in self.library.search(query)]

    def load(self, name):
        try:
            loaded = self.library.load(name)
        except SkillSearchError as exc:
            return str(exc)
        assert not loaded.stale
        return loaded.skill.body


class Package(Interface):
    """`search_skills` and `call` of the package."""

    loads = True

    def __init__(self, kitchen, request):
        default_tools._open.cache_clear()

    def find(self, query):
        return [hit["name"] for hit in skillsearch.search_skills(query)]

    def load(self, name):
        answer = default_tools.call("load_skill", {"name": name})
        return answer["result"]["body"] if "result" in answer else answer["error"]["message"]


class Environments(Interface):
    """The first document's environment."""

    loads = True

    def __init__(self, kitchen, request):
        self._environment = Environment("kitchen", kitchen.base, **HASHING)

    def find(self, query):
        return [skill["name"] for skill in self._environment.search_skills(query)]

    def load(self, name):
        answer = self._environment.toolset().call("skill", {"skill": name})["result"]
        return answer.get("output") or answer["error"]


class Context(Interface):
    """The third document's manager, in a tool context."""

    loads = True

    def __init__(self, kitchen, request):
        loader = context.SkillsLoader(kitchen.drinks, global_root=kitchen.tools, **HASHING)
        self._manager = context.SkillsManager(loader)
        self._tools = context.toolset(
            context.ToolContext(workspace_root=kitchen.base, skills_manager=self._manager)
        )

    def find(self, query):
        return [skill.name for skill in self._manager.search_skills(query)]

    def load(self, name):
        answer = self._tools.call("get_skill", {"name": name})["result"]
        return answer.get("output") or answer["error"]


class Manager(Interface):
    """The fourth document's manager, over a saved index."""

    loads = True

    def __init__(self, kitchen, request):
        self._manager = SkillsManager(library=SkillLibrary.open(kitchen.index_dir))

    def find(self, query):
        return [skill["name"] for skill in self._manager.search_skills(query)]

    def load(self, name):
        return self._manager.get_skill_content(name)


class Mcp(Interface):
    """A server in another process; what it says of the disk comes last in the text."""

    is_other_process = loads = True

    def __init__(self, ask):
        self._ask = ask
        ask("initialize", HELLO)

    def _call(self, tool, **arguments):
        return self._ask("tools/call", {"name": tool, "arguments": arguments})

    def find(self, query):
        answer = self._call("search_skills", query=query)
        if answer.get("isError"):  # the first index is being made
            return []
        return [skill["name"] for skill in answer["structuredContent"]["skills"]]

    def load(self, name):
        answer = self._call("load_skill", name=name)
        if answer.get("isError"):
            return answer["content"][0]["text"]
        assert answer["structuredContent"]["stale"] is False
        return answer["structuredContent"]["body"]


def by_stdio(kitchen, request, *args):
    """Return an interface to a server that a host starts."""
    pytest.importorskip("mcp")
    _, ask = request.getfixturevalue("start_mcp")(kitchen.base.parent, *args)
    return Mcp(ask)


def by_http(kitchen, request, *args):
    """Return an interface to a server that clients reach over a port."""
    pytest.importorskip("mcp")
    import httpx2

    ours = {"SKILLSEARCH_MODEL": "hashing", "SKILLSEARCH_READER": "off"}
    ours |= {"PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
    command = [sys.executable, "-m", "skillsearch", "mcp", *map(str, args), "--http", "127.0.0.1:0"]
    process = subprocess.Popen(
        command, cwd=kitchen.base.parent, env={**os.environ, **ours}, stderr=subprocess.PIPE
    )
    for end in (process.stderr.close, process.wait, process.kill):  # the last one first
        request.addfinalizer(end)
    url = re.search(r"http\S+", process.stderr.readline().decode())[0]
    client = httpx2.Client(headers=HEADERS, timeout=WAIT_SECONDS)
    request.addfinalizer(client.close)
    session = {}

    def ask(method, params):
        record = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = client.post(url, json=record, headers=session)
        if key := answer.headers.get("mcp-session-id"):
            session["mcp-session-id"] = key
        text = answer.text
        record = json.loads(text.rpartition("data: ")[2] if "data: " in text else text)
        return record["result"]

    return Mcp(ask)


INTERFACES = {
    "query": CommandLine,
    "hook": Hook,
    "daemon": Daemon,
    "ui": Ui,
    "open": lambda kitchen, request: Library(SkillLibrary.open(kitchen.index_dir)),
    "from_roots": lambda kitchen, request: Library(
        SkillLibrary.from_roots(kitchen.roots, **HASHING)
    ),
    "search_skills": Package,
    "environment": Environments,
    "context": Context,
    "manager": Manager,
    "mcp": lambda kitchen, request: by_stdio(kitchen, request, "--index-dir", kitchen.index_dir),
    "mcp-http": lambda kitchen, request: by_http(
        kitchen, request, "--index-dir", kitchen.index_dir
    ),
    "mcp-roots": lambda kitchen, request: by_stdio(kitchen, request, *kitchen.roots),
}
MARKS = dict.fromkeys(("hook", "mcp", "mcp-roots"), pytest.mark.slow)
MARKS["mcp-http"] = pytest.mark.night  # another way to the same server


@pytest.fixture(params=[pytest.param(key, marks=MARKS.get(key, ())) for key in INTERFACES])
def interface(request, kitchen, clock):
    """Open an interface, and search it once, so that what it keeps is there."""
    opened = INTERFACES[request.param](kitchen, request)
    opened.key = request.param
    soon(
        clock,
        opened,
        lambda: opened.find("steep green tea at the right temperature") == ["steep-tea"],
    )
    return opened


def soon(clock, interface, is_so):
    """Check that something is so a second later; another process is asked until it is."""
    clock.now += MAX_AGE
    deadline = time.monotonic() + WAIT_SECONDS
    while interface.is_other_process and not is_so() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert is_so()


def added(kitchen, interface):
    kitchen.mull_wine()
    return lambda: interface.find("mull red wine with cinnamon") == ["mull-wine"]


def edited(kitchen, interface):
    kitchen.write(kitchen.drinks, "steep-tea", "Whisk matcha powder into a foam.", "70 C")
    query, name = "whisk matcha powder into a foam", "steep-tea"
    return lambda: interface.find(query) == [name] and interface.says(name, "70 C")


def moved(kitchen, interface):
    (kitchen.tools / "polish-shoes").rename(kitchen.drinks / "polish-shoes")
    query, name = "polish leather shoes with wax", "polish-shoes"
    return lambda: interface.says(name, "Brush them") and interface.find(query) == [name]


def deleted(kitchen, interface):
    """It is no longer offered, and said to be gone or unknown, never broken."""
    shutil.rmtree(kitchen.drinks / "brew-coffee")

    def is_so():
        answer = interface.load("brew-coffee") if interface.loads else "gone"
        assert "broken" not in answer
        assert "cannot be read" not in answer
        is_gone = re.search("gone|No skill is named|not found|未找到", answer, re.IGNORECASE)
        return is_gone and "brew-coffee" not in interface.find("brew filter coffee with a scale")

    return is_so


def folder_renamed(kitchen, interface):
    (kitchen.drinks / "hot").rename(kitchen.drinks / "warm")
    query, name = "boil cocoa powder with milk", "boil-cocoa"
    return lambda: interface.says(name, "Stir well") and interface.find(query) == [name]


def root_gone(kitchen, interface):
    kitchen.tools.rename(kitchen.away if interface.key != "environment" else kitchen.index_dir)
    kitchen.write(kitchen.drinks, "squeeze-lemons", "Squeeze lemons for lemonade.", "Roll them")
    return lambda: interface.find("squeeze lemons for lemonade") == ["squeeze-lemons"]


CHANGES = (added, edited, moved, deleted, folder_renamed, root_gone)
OF_A_LIBRARY = ("ui", "search_skills", "context", "manager", "from_roots")
"""Interfaces of a library: it is asked for each kind of change as ``open``, these for some."""


def test_every_interface_knows_of_every_change_a_second_later(kitchen, interface, clock):
    if interface.key == "environment":
        shutil.rmtree(kitchen.index_dir)
    for change in (edited, deleted, root_gone) if interface.key in OF_A_LIBRARY else CHANGES:
        soon(clock, interface, change(kitchen, interface))
    away = kitchen.index_dir if interface.key == "environment" else kitchen.away
    away.rename(kitchen.tools)
    kitchen.write(kitchen.tools, "sew-button", "Sew a button on a shirt.", "Thread it")
    soon(clock, interface, lambda: interface.find("sew a button on a shirt") == ["sew-button"])
    if interface.loads:
        assert "Use a stone" in interface.load("sharpen-knife")
    held = IndexRequest.load(kitchen.index_dir)
    assert interface.key == "environment" or held.roots == kitchen.roots


@pytest.fixture
def stats(monkeypatch):
    """Count the stats of a snapshot's folders and files."""
    seen, look = [], os.stat

    def count(path, *args, **options):
        if str(path).endswith(("SKILL.md", "hot")):  # roots are asked if they exist
            seen.append(path)
        return look(path, *args, **options)

    monkeypatch.setattr("skillsearch.index.indexing.snapshot.os.stat", count)
    return seen


@pytest.mark.parametrize("kind", ["open", "from_roots"])
def test_all_that_is_asked_within_a_second_shares_one_look(kitchen, clock, stats, kind):
    library = INTERFACES[kind](kitchen, None).library
    library.search("tea")
    clock.now += MAX_AGE
    stats.clear()
    library.search("steep green tea at the right temperature")
    library.list()
    assert not library.load("steep-tea").stale
    watched = [path for path in map(str, stats) if "steep-tea" not in path]  # that was loaded
    assert len(watched) == len(set(watched))
    assert {Path(path).parent.name for path in watched if path.endswith(".md")} == {
        *("brew-coffee", "boil-cocoa", "sharpen-knife", "polish-shoes")
    }
    stats.clear()
    clock.now += MAX_AGE / 2
    library.search("tea")
    assert stats == []


@pytest.fixture(params=["open", "from_roots", "ui"])
def between(request, kitchen, clock):
    """Open an interface that loads, and look; the clock stands still from then on."""
    opened = INTERFACES[request.param](kitchen, request)
    assert opened.find("steep green tea at the right temperature") == ["steep-tea"]
    return opened


def test_what_was_deleted_since_the_last_look_is_said_to_be_gone(kitchen, between):
    shutil.rmtree(kitchen.drinks / "brew-coffee")
    gone = "is gone: its SKILL.md was deleted or moved|No skill"
    assert re.search(gone, between.load("brew-coffee"))
    assert "is gone" not in between.load("brew-whisky")


def test_what_moved_came_or_was_edited_since_the_last_look_is_loaded(kitchen, between):
    """An unknown name is a reason to look; what was edited is not stale."""
    kitchen.write(kitchen.drinks, "steep-tea", "Whisk matcha powder into a foam.", "70 C")
    assert "70 C" in between.load("steep-tea")
    (kitchen.tools / "polish-shoes").rename(kitchen.drinks / "polish-shoes")
    (kitchen.drinks / "hot").rename(kitchen.drinks / "warm")
    if not isinstance(between, Ui):  # a page has the address of a skill
        assert "Brush them" in between.load("polish-shoes")
        assert "Stir well" in between.load("boil-cocoa")
    kitchen.mull_wine()
    assert "Do not boil" in between.load("mull-wine")


@pytest.mark.parametrize("key", ["open", "search_skills"])
def test_much_is_searched_without_an_executor_too(kitchen, request, clock, key):
    interface = INTERFACES[key](kitchen, request)
    interface.is_other_process = True  # asked until it knows
    interface.find("tea")
    kitchen.mix_many()
    soon(clock, interface, lambda: "mix-7" in interface.find("mix cocktail number 7"))


@pytest.mark.parametrize("kind", ["library", pytest.param("mcp", marks=pytest.mark.slow)])
def test_folders_are_served_beside_all_that_their_index_holds(
    kitchen, clock, request, build, kind, tmp_path
):
    own, others = kitchen.base / "own", tmp_path / "others"
    kitchen.write(own, "fold-paper", "Fold a paper crane.", "Crease it")
    if kind == "mcp":
        interface = by_stdio(kitchen, request, own, "--index-dir", kitchen.index_dir)
    else:
        library = SkillLibrary.from_roots(own, index_dir=kitchen.index_dir, **HASHING)
        interface = Library(library)
    soon(clock, interface, lambda: interface.find("fold a paper crane") == ["fold-paper"])
    assert interface.find("steep green tea at the right temperature") == ["steep-tea"]
    kitchen.write(others, "mull-wine", "Mull red wine with cinnamon.", "Do not boil")
    assert request.getfixturevalue("cli")("index", others).exit_code == 0
    soon(clock, interface, lambda: interface.find("mull red wine with cinnamon") == ["mull-wine"])
    kitchen.write(own, "sew-button", "Sew a button on a shirt.", "Thread it")
    soon(clock, interface, lambda: interface.find("sew a button on a shirt") == ["sew-button"])
    assert "Do not boil" in interface.load("mull-wine")
    assert IndexRequest.load(kitchen.index_dir).named == (*kitchen.roots, own, others)
    if kind == "library":
        generation = library._source.index().generation
        assert build(*kitchen.roots, own, others, index_dir="anew").generation == generation
