"""One rule of freshness for every door: what changes on disk, and when each answer knows of it."""

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
from skillsearch.index.freshness import MAX_AGE, MAX_REFRESHED_FILES, PAUSE, Freshness, LookTimer
from skillsearch.index.indexing.options import IndexOptions, SegmentLimits
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.config import load_settings
from skillsearch.settings.environ import variables

FRESHNESS = "skillsearch.index.freshness"
WAIT_SECONDS = 120
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HASHING = {"model": "hashing"}
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Disk:
    """Two roots below a folder, and an index of both."""

    def __init__(self, base, make_skill):
        self.base, self.make_skill = base, make_skill
        self.drinks, self.tools = base / "drinks", base / "tools"
        self.index_dir = base.parent / "index"
        self.write(self.drinks, "steep-tea", "Steep green tea at the right temperature.", "80 C")
        self.write(self.drinks, "brew-coffee", "Brew filter coffee with a scale.", "Bloom first")
        self.write(self.drinks / "hot", "boil-cocoa", "Boil cocoa powder with milk.", "Stir well")
        self.write(self.tools, "sharpen-knife", "Sharpen a kitchen knife.", "Use a stone")
        self.write(self.tools, "polish-shoes", "Polish leather shoes with wax.", "Brush them")
        self.roots = (self.drinks, self.tools)

    def write(self, folder, name, description, body):
        self.make_skill(folder, name, description, body=f"{body}\n")

    def index(self):
        SkillIndex.from_roots(self.roots, index_dir=self.index_dir, model="hashing")


@pytest.fixture
def disk(tmp_path, make_skill, monkeypatch):
    """Make the roots and their index, which the settings name."""
    made = Disk(tmp_path / "base", make_skill)
    made.index()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(made.index_dir))
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    return made


@pytest.fixture
def clock(monkeypatch):
    """Stop the clock by which looks at the disk age; it goes on when it is told to."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(f"{FRESHNESS}.monotonic", lambda: Clock.now)
    return Clock


class Door:
    """A way to ask: `find` returns the names that fit a request, `load` what a skill says."""

    is_other_process = loads = False

    def find(self, query):
        raise NotImplementedError

    def load(self, name):
        raise NotImplementedError


class CommandLine(Door):
    """``query`` and ``show``."""

    loads = True

    def __init__(self, disk, request):
        self._cli = request.getfixturevalue("cli")

    def find(self, query):
        hits = json.loads(self._cli("query", query, "--json").stdout)["hits"]
        return [hit["name"] for hit in hits]

    def load(self, name):
        result = self._cli("show", name, "--body")
        return result.stdout or result.stderr


class Hook(Door):
    """The hook of a host, without the daemon."""

    def __init__(self, disk, request):
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


class Daemon(Door):
    """What the daemon answers to the hook."""

    def __init__(self, disk, request):
        self._answers, self._disk = Answers(), disk

    def find(self, query):
        arguments = {"prompt": query, "n": 3, "folder": str(self._disk.base), "index_dir": None}
        arguments |= {"variables": variables(), "include_unvetted": False, "states": []}
        offers = self._answers.overview(arguments)["offers"]
        return re.findall(r"<name>\s*(.*?)\s*</name>", "".join(offers.values()))


class Ui(Door):
    """The pages in a browser, at each key."""

    loads = True

    def __init__(self, disk, request):
        pages = pytest.importorskip("skillsearch.ui.pages")
        self._pages = pages.Pages(load_settings())

    def find(self, query):
        return [hit.name for hit in self._pages.search(query, read=False)["result"]]

    def load(self, name):
        try:
            return self._pages.skill(name)["body"]
        except SkillSearchError as exc:
            return str(exc)


class Library(Door):
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


class Package(Door):
    """`search_skills` and `call` of the package."""

    loads = True

    def __init__(self, disk, request):
        default_tools._open.cache_clear()

    def find(self, query):
        return [hit["name"] for hit in skillsearch.search_skills(query)]

    def load(self, name):
        answer = default_tools.call("load_skill", {"name": name})
        return answer["result"]["body"] if "result" in answer else answer["error"]["message"]


class Environments(Door):
    """The first document's environment."""

    loads = True

    def __init__(self, disk, request):
        self._environment = Environment("kitchen", disk.base, **HASHING)

    def find(self, query):
        return [skill["name"] for skill in self._environment.search_skills(query)]

    def load(self, name):
        answer = self._environment.toolset().call("skill", {"skill": name})["result"]
        return answer.get("output") or answer["error"]


class Context(Door):
    """The third document's manager, in a tool context."""

    loads = True

    def __init__(self, disk, request):
        loader = context.SkillsLoader(disk.drinks, global_root=disk.tools, **HASHING)
        self._manager = context.SkillsManager(loader)
        self._tools = context.toolset(
            context.ToolContext(workspace_root=disk.base, skills_manager=self._manager)
        )

    def find(self, query):
        return [skill.name for skill in self._manager.search_skills(query)]

    def load(self, name):
        answer = self._tools.call("get_skill", {"name": name})["result"]
        return answer.get("output") or answer["error"]


class Manager(Door):
    """The fourth document's manager, over a saved index."""

    loads = True

    def __init__(self, disk, request):
        self._manager = SkillsManager(library=SkillLibrary.open(disk.index_dir))

    def find(self, query):
        return [skill["name"] for skill in self._manager.search_skills(query)]

    def load(self, name):
        return self._manager.get_skill_content(name)


class Mcp(Door):
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


def by_stdio(disk, request, *args):
    """Return a door to a server that a host starts."""
    pytest.importorskip("mcp")
    _, ask = request.getfixturevalue("start_mcp")(disk.base.parent, *args)
    return Mcp(ask)


def by_http(disk, request, *args):
    """Return a door to a server that clients reach over a port."""
    pytest.importorskip("mcp")
    import httpx2

    ours = {"SKILLSEARCH_MODEL": "hashing", "SKILLSEARCH_READER": "off"}
    ours |= {"PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
    command = [sys.executable, "-m", "skillsearch", "mcp", *map(str, args), "--http", "127.0.0.1:0"]
    process = subprocess.Popen(
        command, cwd=disk.base.parent, env={**os.environ, **ours}, stderr=subprocess.PIPE
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


DOORS = {
    "query": CommandLine,
    "hook": Hook,
    "daemon": Daemon,
    "ui": Ui,
    "open": lambda disk, request: Library(SkillLibrary.open(disk.index_dir)),
    "from_roots": lambda disk, request: Library(SkillLibrary.from_roots(disk.roots, **HASHING)),
    "search_skills": Package,
    "environment": Environments,
    "context": Context,
    "manager": Manager,
    "mcp": lambda disk, request: by_stdio(disk, request, "--index-dir", disk.index_dir),
    "mcp-http": lambda disk, request: by_http(disk, request, "--index-dir", disk.index_dir),
    "mcp-roots": lambda disk, request: by_stdio(disk, request, *disk.roots),
}
MARKS = dict.fromkeys(("hook", "mcp", "mcp-roots"), pytest.mark.slow)
MARKS["mcp-http"] = pytest.mark.night  # another way to the same server


@pytest.fixture(params=[pytest.param(key, marks=MARKS.get(key, ())) for key in DOORS])
def door(request, disk, clock):
    """Open a door, and search it once, so that what it keeps is there."""
    made = DOORS[request.param](disk, request)
    made.key = request.param
    soon(
        clock, made, lambda: made.find("steep green tea at the right temperature") == ["steep-tea"]
    )
    return made


def soon(clock, door, is_so):
    """Check that something is so a second later; another process is asked until it is."""
    clock.now += MAX_AGE
    deadline = time.monotonic() + WAIT_SECONDS
    while door.is_other_process and not is_so() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert is_so()


def added(disk, door):
    disk.write(disk.drinks, "mull-wine", "Mull red wine with cinnamon.", "Do not boil")
    return lambda: door.find("mull red wine with cinnamon") == ["mull-wine"]


def edited(disk, door):
    disk.write(disk.drinks, "steep-tea", "Whisk matcha powder into a foam.", "70 C")

    def is_so():
        is_found = door.find("whisk matcha powder into a foam") == ["steep-tea"]
        return is_found and (not door.loads or "70 C" in door.load("steep-tea"))

    return is_so


def moved(disk, door):
    (disk.tools / "polish-shoes").rename(disk.drinks / "polish-shoes")

    def is_so():
        is_loaded = not door.loads or "Brush them" in door.load("polish-shoes")
        return is_loaded and door.find("polish leather shoes with wax") == ["polish-shoes"]

    return is_so


def deleted(disk, door):
    """It is no longer offered, and said to be gone or unknown, never broken."""
    shutil.rmtree(disk.drinks / "brew-coffee")

    def is_so():
        said = door.load("brew-coffee") if door.loads else "gone"
        assert "broken" not in said
        assert "cannot be read" not in said
        is_known = re.search("gone|No skill is named|not found|未找到", said, re.IGNORECASE)
        return is_known and "brew-coffee" not in door.find("brew filter coffee with a scale")

    return is_so


def folder_renamed(disk, door):
    (disk.drinks / "hot").rename(disk.drinks / "warm")

    def is_so():
        is_loaded = not door.loads or "Stir well" in door.load("boil-cocoa")
        return is_loaded and door.find("boil cocoa powder with milk") == ["boil-cocoa"]

    return is_so


def root_gone(disk, door):
    disk.tools.rename(disk.tools.with_name("away") if door.key != "environment" else disk.index_dir)
    disk.write(disk.drinks, "squeeze-lemons", "Squeeze lemons for lemonade.", "Roll them")
    return lambda: door.find("squeeze lemons for lemonade") == ["squeeze-lemons"]


CHANGES = (added, edited, moved, deleted, folder_renamed, root_gone)
OF_A_LIBRARY = ("ui", "search_skills", "context", "manager", "from_roots")
"""Doors of a library: it is asked for each kind of change as ``open``, these for some."""


def test_every_door_knows_of_every_change_a_second_later(disk, door, clock):
    if door.key == "environment":
        shutil.rmtree(disk.index_dir)
    for change in (edited, deleted, root_gone) if door.key in OF_A_LIBRARY else CHANGES:
        soon(clock, door, change(disk, door))
    away = disk.index_dir if door.key == "environment" else disk.tools.with_name("away")
    away.rename(disk.tools)
    disk.write(disk.tools, "sew-button", "Sew a button on a shirt.", "Thread it")
    soon(clock, door, lambda: door.find("sew a button on a shirt") == ["sew-button"])
    if door.loads:
        assert "Use a stone" in door.load("sharpen-knife")
    held = IndexRequest.load(disk.index_dir)
    assert door.key == "environment" or held.roots == disk.roots


@pytest.fixture
def stats(monkeypatch):
    """Count the stats of a snapshot's folders and files."""
    seen, look = [], os.stat

    def count(path, *args, **options):
        if str(path).endswith(("SKILL.md", "hot")):  # roots are asked if they exist
            seen.append(path)
        return look(path, *args, **options)

    monkeypatch.setattr("skillsearch.index.indexing.reading.os.stat", count)
    return seen


@pytest.mark.parametrize("kind", ["open", "from_roots"])
def test_all_that_is_asked_within_a_second_shares_one_look(disk, clock, stats, kind):
    library = DOORS[kind](disk, None).library
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
def between(request, disk, clock):
    """Open a door that loads, and look; the clock stands still from then on."""
    made = DOORS[request.param](disk, request)
    assert made.find("steep green tea at the right temperature") == ["steep-tea"]
    return made


def test_what_was_deleted_since_the_last_look_is_said_to_be_gone(disk, between):
    shutil.rmtree(disk.drinks / "brew-coffee")
    gone = "is gone: its SKILL.md was deleted or moved|No skill"
    assert re.search(gone, between.load("brew-coffee"))
    assert "is gone" not in between.load("brew-whisky")


def test_what_moved_came_or_was_edited_since_the_last_look_is_loaded(disk, between):
    """An unknown name is a reason to look; what was edited is not stale."""
    disk.write(disk.drinks, "steep-tea", "Whisk matcha powder into a foam.", "70 C")
    assert "70 C" in between.load("steep-tea")
    (disk.tools / "polish-shoes").rename(disk.drinks / "polish-shoes")
    (disk.drinks / "hot").rename(disk.drinks / "warm")
    if not isinstance(between, Ui):  # a page has the address of a skill
        assert "Brush them" in between.load("polish-shoes")
        assert "Stir well" in between.load("boil-cocoa")
    disk.write(disk.drinks, "mull-wine", "Mull red wine with cinnamon.", "Do not boil")
    assert "Do not boil" in between.load("mull-wine")


def test_a_skill_of_a_root_that_is_gone_is_said_to_wait_for_it(disk, clock):
    library = SkillLibrary.open(disk.index_dir)
    disk.tools.rename(disk.tools.with_name("away"))
    for _ in range(2):
        with pytest.raises(SkillSearchError, match="its folder 'tools' is gone") as caught:
            library.load("sharpen-knife")
        assert str(disk.base) not in str(caught.value)
        clock.now += MAX_AGE
    disk.tools.with_name("away").rename(disk.tools)
    assert "Use a stone" in library.load("sharpen-knife").skill.body


def write_many(disk):
    """Write one more skill than are indexed at once."""
    for number in range(MAX_REFRESHED_FILES + 1):
        disk.write(disk.drinks, f"mix-{number}", f"Mix cocktail number {number}.", "Shake")


def test_much_is_indexed_by_the_executor_and_told_once(disk, clock, make_later):
    later = make_later()
    library = SkillLibrary.open(disk.index_dir, executor=later)
    write_many(disk)
    for note in ("much has changed (33 added, 0 changed, 0 removed) and is being indexed", ""):
        hits = library.search("mix cocktail number 7")
        assert "mix-7" not in [hit.name for hit in hits]
        assert library.take_note().partition(";")[0] == note
        clock.now += MAX_AGE
    assert len(later.waiting) == 1
    assert library.is_indexing
    later.work()
    assert library.search("mix cocktail number 7")[0].name == "mix-7"
    assert (library.is_indexing, library.take_note()) == (False, "")


def test_little_is_indexed_at_once_although_there_is_an_executor(disk, clock, make_later):
    for kind in ("open", "roots"):
        later = make_later()
        if kind == "open":
            library = SkillLibrary.open(disk.index_dir, executor=later)
        else:
            library = SkillLibrary.from_roots(disk.roots, executor=later, **HASHING)
            with pytest.raises(SkillSearchError):
                library.search("tea")
            later.work()
        library.search("tea")
        clock.now += MAX_AGE
        disk.write(disk.drinks, f"mull-{kind}", f"Mull wine for {kind} parties.", "Do not boil")
        assert library.search(f"mull wine for {kind} parties")[0].name == f"mull-{kind}"
        assert later.waiting == []


def test_without_an_executor_the_message_says_what_to_run(disk, clock):
    freshness = Freshness(SkillIndex.open(disk.index_dir))
    write_many(disk)
    for _ in range(2):
        said = freshness.look()
        assert said.startswith("warning: much has changed (33 added, 0 changed, 0 removed)")
        assert "To fix: run `skillsearch index" in said
        clock.now += MAX_AGE
    SkillIndex.open(disk.index_dir).refresh()
    assert freshness.look() == ""
    assert len(freshness.index) == 5 + 33


def test_a_large_index_is_looked_at_by_the_executor(disk, clock, monkeypatch, make_later):
    monkeypatch.setattr(f"{FRESHNESS}.MAX_CHECKED_SKILLS", 3)
    later = make_later()
    library = SkillLibrary.open(disk.index_dir, executor=later)
    library.search("tea")
    later.work()
    disk.write(disk.drinks, "mull-wine", "Mull red wine with cinnamon.", "Do not boil")
    for seconds, looks in ((MAX_AGE / 2, 0), (MAX_AGE, 1)):
        clock.now += seconds
        hits = library.search("mull red wine with cinnamon")
        assert "mull-wine" not in [hit.name for hit in hits]
        assert len(later.waiting) == looks
    later.work()
    assert library.search("mull red wine with cinnamon")[0].name == "mull-wine"


@pytest.mark.parametrize("cost", [0.0, 0.001, 0.06, 0.5, 40.0])
def test_a_look_is_followed_by_a_pause_that_its_cost_decides(clock, monkeypatch, cost):
    monkeypatch.setattr(f"{FRESHNESS}.thread_time", iter([7.0, 7.0 + cost]).__next__)
    timer = LookTimer()
    assert timer.is_due(MAX_AGE)
    assert timer.is_current(lambda: True)
    pause = max(MAX_AGE, PAUSE * cost)
    clock.now += pause * 0.99
    assert not timer.is_due(MAX_AGE)
    clock.now += pause * 0.02
    assert timer.is_due(MAX_AGE)
    assert timer.is_due(0)


def test_a_look_in_vain_counts_and_what_is_indexed_does_not(disk, clock, monkeypatch, make_later):
    """Where a root of a large index is gone, each look compares everything."""
    monkeypatch.setattr(f"{FRESHNESS}.MAX_CHECKED_SKILLS", 3)
    monkeypatch.setattr(f"{FRESHNESS}.thread_time", iter(range(0, 1000, 5)).__next__)
    later = make_later()
    freshness = Freshness(SkillIndex.open(disk.index_dir), later)
    disk.write(disk.drinks, "mull-wine", "Mull red wine with cinnamon.", "Do not boil")
    disk.tools.rename(disk.tools.with_name("away"))
    for pause in (MAX_AGE, 5 * PAUSE):
        assert "tools is gone" in freshness.look()
        later.work()
        clock.now += pause * 0.99
        assert "tools is gone" in freshness.look()
        assert not later.waiting
        clock.now += pause * 0.02
    freshness.look()
    assert later.waiting
    assert len(freshness.index) == 6


@pytest.mark.parametrize("key", ["open", "search_skills"])
def test_much_is_searched_without_an_executor_too(disk, request, clock, key):
    door = DOORS[key](disk, request)
    door.is_other_process = True  # asked until it knows
    door.find("tea")
    write_many(disk)
    soon(clock, door, lambda: "mix-7" in door.find("mix cocktail number 7"))


def test_a_folder_that_is_gone_is_told_once_until_it_is_back(disk, clock):
    library = SkillLibrary.open(disk.index_dir)
    for _ in range(2):
        disk.tools.rename(disk.tools.with_name("away"))
        clock.now += MAX_AGE
        library.list()
        note = f"the folder {disk.tools} is gone; searching the index as it was"
        assert [library.take_note(), library.take_note()] == [note, ""]
        disk.tools.with_name("away").rename(disk.tools)
        clock.now += MAX_AGE
        library.list()
        assert library.take_note() == ""


def test_json_says_what_stderr_says(disk, cli):
    disk.write(disk.drinks, "mull-wine", "Mull red wine with cinnamon.", "Do not boil")
    disk.tools.rename(disk.tools.with_name("away"))
    result = cli("query", "mull red wine with cinnamon", "--json")
    record = json.loads(result.stdout)
    assert record["hits"][0]["name"] == "mull-wine"
    assert "\n".join(record["notes"]) + "\n" == result.stderr
    assert result.stderr.startswith(
        "index refreshed: 1 added, 0 changed, 0 removed\nwarning: the folder "
    )


def test_a_server_says_in_its_answer_which_root_is_gone(disk, clock, make_server, talk):
    async def say(client):
        query = {"query": "steep green tea at the right temperature"}
        await client.call_tool("search_skills", query)
        disk.tools.rename(disk.tools.with_name("away"))
        clock.now += MAX_AGE
        return [await client.call_tool("search_skills", query) for _ in range(2)]

    answer, again = talk(make_server(index_dir=disk.index_dir), say)
    problem = "the folder tools is gone; searching the index as it was"
    assert answer.structured_content["problem"] == problem
    assert answer.content[0].text.endswith(f"\n[{problem}]")
    assert "problem" not in again.structured_content


def test_a_setting_leaves_the_disk_alone_everywhere(disk, clock, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_REFRESH", "false")
    default_tools._open.cache_clear()
    disk.write(disk.drinks, "mull-wine", "Mull red wine with cinnamon.", "Do not boil")
    clock.now += MAX_AGE
    assert skillsearch.search_skills("mull red wine with cinnamon") == []
    disk.index()
    hits = skillsearch.search_skills("mull red wine with cinnamon")
    assert [hit["name"] for hit in hits] == ["mull-wine"]


def test_what_another_process_wrote_is_searched_with_the_model_that_is_loaded(disk):
    library = SkillLibrary.open(disk.index_dir)
    library.search("tea")
    index = library._source.index()
    embedder = index._embedder.loaded
    disk.write(disk.drinks, "mull-wine", "Mull red wine with cinnamon.", "Do not boil")
    disk.index()
    assert library.search("mull red wine with cinnamon")[0].name == "mull-wine"
    assert library._source.index() is index
    assert index._embedder.loaded is embedder is not None


@pytest.mark.parametrize("kind", ["library", pytest.param("mcp", marks=pytest.mark.slow)])
def test_folders_are_served_beside_all_that_their_index_holds(disk, clock, request, kind, tmp_path):
    own, others = disk.base / "own", tmp_path / "others"
    disk.write(own, "fold-paper", "Fold a paper crane.", "Crease it")
    if kind == "mcp":
        door = by_stdio(disk, request, own, "--index-dir", disk.index_dir)
    else:
        library = SkillLibrary.from_roots(own, index_dir=disk.index_dir, **HASHING)
        door = Library(library)
    soon(clock, door, lambda: door.find("fold a paper crane") == ["fold-paper"])
    assert door.find("steep green tea at the right temperature") == ["steep-tea"]
    disk.write(others, "mull-wine", "Mull red wine with cinnamon.", "Do not boil")
    assert request.getfixturevalue("cli")("index", others).exit_code == 0
    soon(clock, door, lambda: door.find("mull red wine with cinnamon") == ["mull-wine"])
    disk.write(own, "sew-button", "Sew a button on a shirt.", "Thread it")
    soon(clock, door, lambda: door.find("sew a button on a shirt") == ["sew-button"])
    assert "Do not boil" in door.load("mull-wine")
    assert IndexRequest.load(disk.index_dir).named == (*disk.roots, own, others)
    if kind == "library":
        generation = library._source.index().generation
        anew = SkillIndex.from_roots(
            (*disk.roots, own, others), index_dir=tmp_path / "anew", **HASHING
        )
        assert anew.generation == generation


@pytest.mark.parametrize("back", ["as it was", "changed"])
def test_an_index_keeps_what_it_knows_of_a_root_that_is_gone(disk, back):
    away = disk.tools.with_name("away")
    disk.tools.rename(away)
    disk.write(disk.drinks, "mull-wine", "Mull red wine with cinnamon.", "Do not boil")
    index = SkillIndex.open(disk.index_dir)
    index.refresh(keep_missing=True)
    assert {document.name for document in index.documents()} >= {"mull-wine", "sharpen-knife"}
    assert [root.path for root in index.opened.settings.roots] == [*disk.roots]
    away.rename(disk.tools)
    if back == "changed":
        disk.write(disk.tools, "sew-button", "Sew a button on a shirt.", "Thread it")
        shutil.rmtree(disk.tools / "polish-shoes")
    index.refresh(keep_missing=True)
    other = disk.index_dir.with_name("other")
    anew = SkillIndex.from_roots(disk.roots, index_dir=other, **HASHING)
    assert index.generation == anew.generation


def test_what_would_lose_a_root_that_is_gone_is_refused(disk):
    """Another model reads all skills anew; the index stays as it is."""
    request = IndexRequest.load(disk.index_dir)
    disk.tools.rename(disk.tools.with_name("away"))
    index = SkillIndex.open(disk.index_dir)
    part = max(index.opened.folder.glob("*"), key=lambda path: path.stat().st_size)
    part.unlink()
    with pytest.raises(SkillSearchError, match="Nothing was changed"):
        index.refresh(keep_missing=True)
    assert IndexRequest.load(disk.index_dir) == request


def test_folders_that_are_served_do_not_make_an_index_forget_one(disk, clock):
    """A library of folders drops a root that is gone, and the saved index has it again later."""
    away = disk.tools.with_name("away")
    disk.tools.rename(away)
    library = SkillLibrary.from_roots(disk.roots, index_dir=disk.index_dir, **HASHING)
    library.search("tea")
    assert IndexRequest.load(disk.index_dir).roots == disk.roots
    away.rename(disk.tools)
    index = SkillIndex.open(disk.index_dir)
    assert Freshness(index).look() == "index refreshed: a folder is back"
    assert index.search("sharpen a kitchen knife")[0].name == "sharpen-knife"


@pytest.fixture
def garden(disk, tmp_path):
    """Write another root, whose skills have chunks and bring examples."""
    root = tmp_path / "garden"
    chunks = "<chunk id=soil description=Soil>Loosen it.</chunk>\n<chunk id=sun>South.</chunk>"
    disk.write(root, "plant-beans", "Plant beans in spring.", chunks)
    disk.write(root, "prune-roses", "Prune roses after frost.", "Cut above a bud")
    evals = root / "prune-roses" / "evals" / "evals.json"
    evals.parent.mkdir()
    evals.write_text(json.dumps([{"query": "my rose bush is overgrown"}]))
    return root


def take_up(disk, root, **options):
    """Index one more root as a question that waits for it does."""
    index = SkillIndex.open(disk.index_dir)
    change = RootChange((str(root),), "add", load_settings())
    return index, index.apply(change, IndexOptions(metadata_first=True, **options))


def generation_of(disk, *roots):
    folder = disk.base.parent / "fresh"
    shutil.rmtree(folder, ignore_errors=True)
    return SkillIndex.from_roots(roots, index_dir=folder, model="hashing").generation


def test_a_new_root_has_its_metadata_embedded_first_and_the_rest_by_the_next_run(disk, garden):
    index, report = take_up(disk, garden)
    assert (report.embedded, index.opened.settings.pending) == (2, (str(garden),))
    hits = index.search("my rose bush is overgrown", threshold=0)
    assert hits[0].name == "prune-roses"
    assert index.search("plant beans in soil, loosen it", threshold=0)[0].chunk == "soil"
    disk.write(garden, "water-ferns", "Water ferns.", "<chunk id=pot>Soak it.</chunk>")
    disk.write(disk.drinks, "mull-wine", "Mull wine.", "<chunk id=heat>Do not boil.</chunk>")
    _, report = take_up(disk, garden)
    assert report.embedded == 3  # the metadata of both, and the chunk of the root that is not new
    finished = index.refresh()
    assert (finished.embedded, finished.indexed) == (4, len(index))
    assert index.opened.settings.pending == ()
    assert index.generation == generation_of(disk, *disk.roots, garden)
    assert index.refresh().generation == index.generation


@pytest.mark.parametrize("how", ["question", "executor", "delta"])
def test_what_waits_is_embedded_by_the_next_question_or_the_executor(
    disk, garden, clock, how, make_later
):
    limits = SegmentLimits(least_documents=1 if how == "delta" else 1_000)
    index, _ = take_up(disk, garden, limits=limits)
    later = make_later()
    freshness = Freshness(index, later if how == "executor" else None)
    assert freshness.look() == ""
    if how == "executor":
        assert index.opened.settings.pending
        later.work()
        clock.now += MAX_AGE
        assert freshness.look() == ""
    assert index.opened.settings.pending == ()
    assert later.waiting == []
    assert SkillIndex.open(disk.index_dir).generation == index.generation
    assert index.generation == generation_of(disk, *disk.roots, garden)


def test_what_waits_in_a_root_that_is_gone_goes_on_waiting(disk, garden, clock):
    index, _ = take_up(disk, garden)
    garden.rename(garden.with_name("away"))
    freshness = Freshness(index)
    for _ in range(2):
        assert "is gone" in freshness.look()
        clock.now += MAX_AGE
    index.refresh(keep_missing=True)
    assert index.opened.settings.pending == (str(garden),)
    garden.with_name("away").rename(garden)
    index.refresh()
    assert index.generation == generation_of(disk, *disk.roots, garden)
