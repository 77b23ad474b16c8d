"""One rule of scope for every door: a question sees the user's skills and those of its project."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import skillsearch
from skillsearch.agents import default_tools
from skillsearch.daemon.answers import Answers
from skillsearch.daemon.client import search_question
from skillsearch.errors import SelectionError, SkillNotFoundError, SkillSearchError
from skillsearch.hosts.table import folder_of, hosts
from skillsearch.index.freshness import Freshness
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.scope import Viewpoint, folders_of, from_folders, is_in_scope
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.config import load_settings
from skillsearch.settings.environ import variables
from skillsearch.types.skills import Root

FRESHNESS = "skillsearch.index.freshness"
SKILLS = {
    "user": ("fill-form", "Fill in PDF forms and save them. Use for forms."),
    "blog": ("publish-post", "Publish a blog post to the site. Use when a post is ready."),
    "shop": ("refund-order", "Refund an order of the web shop. Use when a customer wants it."),
}
REQUESTS = {
    "user": "fill in a PDF form",
    "blog": "publish a blog post to the site",
    "shop": "refund an order of the web shop",
}
WAIT_SECONDS = 120


@pytest.fixture
def world(tmp_path, home, make_skill, monkeypatch):
    """Make a user with a skill, and two projects beside each other with a skill each."""
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    monkeypatch.setenv("SKILLSEARCH_DAEMON", "off")
    make_skill(home / ".claude" / "skills", *SKILLS["user"])
    for name in ("blog", "shop"):
        (home / "work" / name / ".git").mkdir(parents=True)
        make_skill(home / "work" / name / ".claude" / "skills", *SKILLS[name])
    monkeypatch.chdir(home)
    return home / "work"


@pytest.fixture
def indexed(world, cli):
    """Index the user's skills alone, as from the home folder."""
    assert cli("index").exit_code == 0
    return world


def names_in(text):
    return re.findall(r"<name>\s*(.*?)\s*</name>", text)


def by_query(cli, folder, request):
    found = json.loads(cli("query", request, "--json").stdout)
    return [hit["name"] for hit in (*found["hits"], *found["perhaps"])]


def by_list(cli, folder, request):
    return [skill["name"] for skill in json.loads(cli("list", "--json").stdout)["skills"]]


def by_show(cli, folder, request):
    return [name for name, _ in SKILLS.values() if cli("show", name).exit_code == 0]


def by_prompt(cli, folder, request):
    return json.loads(cli("prompt", request, "--json").stdout)["skills"]


def by_budget(cli, folder, request):
    count = json.loads(cli("budget", "--json").stdout)["skills"]
    return by_list(cli, folder, request) if count == 2 else [f"{count} skills"]


def by_hook(cli, folder, request):
    """Ask by an event that names the folder; the hook runs elsewhere."""
    event = {"hook_event_name": "UserPromptSubmit", "prompt": request, "cwd": str(folder)}
    with chdir("/"):
        text = cli("hook", stdin=json.dumps(event), obj=float(WAIT_SECONDS)).stdout
    output = json.loads(text)["hookSpecificOutput"]["additionalContext"] if text else ""
    return names_in(output)


def by_daemon(cli, folder, request):
    asked = {"prompt": request, "n": 3, "folder": str(folder), "index_dir": None}
    given = {key: value for key, value in variables().items() if key != "SKILLSEARCH_DAEMON"}
    asked |= {"variables": given, "include_unvetted": False, "states": []}
    return names_in("".join(Answers().overview(asked)["offers"].values()))


def by_daemons_search(cli, folder, request):
    settings = load_settings()
    options = replace(SearchOptions.of(settings), reader="off", face="terminal")
    found = Answers().search(search_question(request, settings.index_dir, options, refresh=True))
    return [hit["name"] for hit in (*found["result"]["hits"], *found["result"]["perhaps"])]


def by_package(cli, folder, request):
    default_tools._open.cache_clear()
    return [hit["name"] for hit in skillsearch.search_skills(request)]


def by_library(cli, folder, request):
    """Ask a library from elsewhere, with the folder as an argument."""
    with chdir("/"):
        library = SkillLibrary.open(load_settings().index_dir)
        return [hit.name for hit in library.search(request, folder=folder).shown]


def by_index(cli, folder, request):
    """Ask an index in the same way, once it knows of the project."""
    by_library(cli, folder, request)
    index = SkillIndex.open(load_settings().index_dir)
    return [hit.name for hit in index.search(request, folder=folder).shown]


def by_page(cli, folder, request):
    """Ask the page in a browser that was opened there."""
    pages = pytest.importorskip("skillsearch.ui.pages").Pages(load_settings())
    return [hit.name for hit in pages.search(request, read=False)["result"].shown]


def by_choice(cli, folder, request):
    """Choose the project on a page that was opened elsewhere."""
    made = pytest.importorskip("skillsearch.ui.pages").Pages(load_settings())
    made.search("")
    with chdir("/"):
        pages = type(made)(load_settings())
    return [hit.name for hit in pages.search(request, str(folder), read=False)["result"].shown]


DOORS = {
    door.__name__: door
    for door in (
        *(by_query, by_list, by_show, by_prompt, by_budget, by_hook, by_daemon, by_daemons_search),
        *(by_package, by_library, by_index, by_page, by_choice),
    )
}
PROMPTS = {"by_prompt", "by_hook", "by_daemon"}
"""Doors to a prompt, to which only those skills are let that the user vouches for."""


# One world serves all doors of a test: no door writes what another one reads. The folder that is
# asked from, and whether its skills are vetted, are decided by the index, alike for all doors; only
# those to a prompt ask who vouches.


def seen_by(doors, cli, folder):
    """Return, by door, whose skills are found for any of the requests.

    The hook starts a process for each request, so it is asked once, for both projects'.
    """
    whose = {name: user for user, (name, _) in SKILLS.items()}
    requests = {"by_hook": [f"{REQUESTS['blog']}, {REQUESTS['shop']}"]}
    with chdir(folder):
        return {
            name: {
                whose[found]
                for request in requests.get(name, REQUESTS.values())
                for found in DOORS[name](cli, folder, request)
            }
            for name in doors
        }


def ask_from(cli, *folders):
    """Ask anything from some folders, so that the index knows their projects."""
    for folder in folders:
        with chdir(folder):
            assert cli("query", "anything").exit_code == 0


def test_every_door_sees_the_user_s_and_its_own_and_never_the_neighbour_s(indexed, cli):
    ask_from(cli, indexed / "shop", indexed / "blog")
    expected = {door: {"user"} if door in PROMPTS else {"user", "blog"} for door in DOORS}
    assert seen_by(DOORS, cli, indexed / "blog") == expected | {"by_hook": set()}
    assert seen_by(["by_query"], cli, indexed / "shop") == {"by_query": {"user", "shop"}}
    for name in ("shop", "blog"):
        with chdir(indexed / name):
            assert cli("index", "--trust", f"{indexed / name}=vetted").exit_code == 0
    vetted = {door: {"user", "blog"} for door in (*PROMPTS, "by_query")}
    assert seen_by(vetted, cli, indexed / "blog") == vetted | {"by_hook": {"blog"}}


def test_outside_of_projects_the_user_s_are_seen_alone(indexed, cli, tmp_path):
    ask_from(cli, indexed / "blog")
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    doors = DOORS.keys() - {"by_budget", "by_hook"}  # one skill is counted; as by_prompt
    assert seen_by(doors, cli, nowhere) == {door: {"user"} for door in doors}
    roots = [root.path.parents[1].name for root in SkillIndex.open().opened.settings.roots]
    assert roots == [indexed.parent.name, "blog"]


def test_all_projects_are_seen_by_those_who_ask_for_all(indexed, cli):
    ask_from(cli, indexed / "blog", indexed / "shop")
    with chdir(indexed / "blog"):
        assert len(by_list(cli, None, "")) == 2
        assert "1 skill of other projects" in cli("list").stderr
        assert cli("list", "--all-projects").stdout.count("\n") == 3
        assert cli("show", SKILLS["shop"][0], "--all-projects").exit_code == 0
        refused = cli("show", SKILLS["shop"][0])
        assert refused.exit_code == 1
        assert f"is a skill of the project {indexed / 'shop'}" in refused.stderr
        (indexed / "blog" / "skillsearch.toml").write_text("all_projects = true\n")
        assert "all_projects is not for a project file" in cli("list").stderr


def test_who_asks_for_all_projects_sees_the_one_they_stand_in_too(indexed, cli, monkeypatch):
    ask_from(cli, indexed / "shop")
    monkeypatch.setenv("SKILLSEARCH_ALL_PROJECTS", "1")
    monkeypatch.chdir(indexed / "blog")
    for door in ("by_query", "by_package", "by_page"):
        assert SKILLS["blog"][0] in DOORS[door](cli, indexed / "blog", REQUESTS["blog"])
    assert cli("index", "--trust", f"{indexed / 'blog'}=vetted").exit_code == 0
    for door in ("by_prompt", "by_daemon"):
        assert SKILLS["blog"][0] in DOORS[door](cli, indexed / "blog", REQUESTS["blog"])


@pytest.fixture
def served(start_mcp):
    """Return, for each view, the names that a server finds for each request.

    A client of the older protocol says that it works in the folders of one view after the other.
    """
    pytest.importorskip("mcp")

    def run(folder, *views):
        roots = []

        def list_roots():
            uris = [root if isinstance(root, str) else root.as_uri() for root in roots]
            return {"roots": [{"uri": uri} for uri in uris]}

        def find(request):
            call = {"name": "search_skills", "arguments": {"query": request}}
            content = ask("tools/call", call)["structuredContent"]
            return [skill["name"] for skill in (*content["skills"], *content["perhaps"])]

        send, ask = start_mcp(folder, roots_list=list_roots)
        hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "test", "version": "1"}}
        capable = {"roots": {"listChanged": True}} if views else {}
        ask("initialize", {**hello, "capabilities": capable})
        send(method="notifications/initialized", params={})
        seen = []
        for view in views or [()]:
            roots[:] = view
            if seen:
                send(method="notifications/roots/list_changed", params={})
            seen.append({whose: find(request) for whose, request in REQUESTS.items()})
        return seen

    return run


def test_a_client_sees_the_skills_of_all_projects_that_it_works_in_and_else_the_user_s(
    indexed, served
):
    remote = "vscode-remote://ssh-remote%2Bbox/w"
    both, none = served(indexed / "blog", [indexed / "blog", indexed / "shop"], [remote])
    assert {whose: found[0] for whose, found in both.items()} == {
        whose: name for whose, (name, _) in SKILLS.items()
    }
    assert {name for found in none.values() for name in found} == {SKILLS["user"][0]}


@pytest.mark.parametrize(
    "hosts",
    [
        pytest.param(["codex"], marks=pytest.mark.slow),
        pytest.param(["claude-code", "codex", "opencode"], marks=pytest.mark.night),
    ],
)
def test_the_tour_of_hosts_finds_nothing_wrong(hosts):
    """It starts the server as the files say that setup wrote; without the hosts' own programs."""
    pytest.importorskip("mcp")
    script = Path(__file__).parents[1] / "scripts" / "hosts_tour.py"
    ours = {**os.environ, "PATH": "/usr/bin:/bin", "SKILLSEARCH_MODEL": "hashing"}
    ours |= {"PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
    command = [sys.executable, str(script), *hosts]
    done = subprocess.run(command, env=ours, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\tfound\t") == 4 * len(hosts)
    assert done.stdout.count("\tnot found\t") == 2 * len(hosts)


def test_a_server_makes_the_first_index_of_its_user(world, served):
    """As for a colleague who takes over the file of a project; it follows hosts from then on."""
    (seen,) = served(world / "blog")
    assert seen["user"][0] == SKILLS["user"][0]
    assert seen["blog"][0] == SKILLS["blog"][0]
    assert all(SKILLS["shop"][0] not in found for found in seen.values())
    assert IndexRequest.load(SkillIndex.open().folder).follows == "hosts"


def test_a_folder_of_more_skills_than_a_question_waits_for_says_how(
    indexed, cli, home, make_skill, monkeypatch
):
    monkeypatch.setattr(f"{FRESHNESS}.MAX_FOUND_SKILLS", 1)
    large = home / ".codex" / "skills"
    for number in range(2):
        make_skill(large, f"more-{number}", "One of two skills.")
    with chdir(indexed / "blog"):
        result = json.loads(cli("query", REQUESTS["blog"], "--json").stdout)
        assert SKILLS["blog"][0] in [hit["name"] for hit in (*result["hits"], *result["perhaps"])]
        note = result["notes"][-1]
        assert f"the skills of {large} are not indexed" in note
        assert note.endswith("run `skillsearch index`")
        assert SKILLS["user"][0] in by_query(cli, None, REQUESTS["user"])
        assert cli("index").exit_code == 0
        assert "more-1" in by_list(cli, None, "")
        assert "notes" not in json.loads(cli("query", REQUESTS["blog"], "--json").stdout)


def test_what_stays_open_indexes_a_large_folder_in_the_background(
    indexed, home, make_skill, monkeypatch
):
    monkeypatch.setattr(f"{FRESHNESS}.MAX_FOUND_SKILLS", 1)
    for number in range(2):
        make_skill(home / ".codex" / "skills", f"more-{number}", "One of two skills.")
    with ThreadPoolExecutor(1) as executor:
        freshness = Freshness(SkillIndex.open(), executor)
        assert "are being indexed" in freshness.look(0, [str(indexed / "blog")])
        names = {document.name for document in freshness.index.documents()}
        assert names == {SKILLS["user"][0], SKILLS["blog"][0]}
    assert freshness.look(0, [str(indexed / "blog")]) == ""
    assert len(freshness.index) == 4


def test_a_project_stays_vouched_for_while_its_folders_are_gone(indexed, cli):
    blog, trust = indexed / "blog", f"{indexed / 'blog'}=vetted"
    with chdir(blog):
        assert cli("index", "--trust", trust).exit_code == 0
        (blog / ".claude").rename(blog / "away")
        assert SKILLS["blog"][0] not in by_query(cli, blog, REQUESTS["blog"])
        cli("index")
        (blog / "away").rename(blog / ".claude")
        assert SKILLS["blog"][0] in by_prompt(cli, blog, REQUESTS["blog"])


def test_what_is_said_of_a_repository_holds_for_its_parts_and_for_no_repository_within(
    indexed, cli, make_skill
):
    """Later words on the whole replace those on a part, by a folder of it or by its skills."""
    blog = indexed / "blog"
    part, inner = blog / "pkg", blog / "vendor" / "inner"
    make_skill(part / ".claude" / "skills", "of-part", "Wind the clock of the part.")
    make_skill(inner / ".claude" / "skills", "of-inner", "Wind the clock of the inner one.")
    (inner / ".git").mkdir()
    asked = "wind the clock"
    for folder in (inner, part):
        with chdir(folder):
            assert not {"of-part", "of-inner"} & set(by_prompt(cli, None, asked))
    with chdir(part):
        assert f"--trust {blog}=vetted" in cli("index", "--verify").stderr
        assert cli("index", "--trust", f"{blog}=vetted").exit_code == 0
        assert "of-part" in by_prompt(cli, None, asked)
    with chdir(inner):
        assert "of-inner" not in by_prompt(cli, None, asked)
    with chdir(part):
        for lower in (part, part / ".claude" / "skills"):
            assert cli("index", "--trust", f"{blog}=project").exit_code == 0
            assert "of-part" not in by_prompt(cli, None, asked)
            assert cli("index", "--trust", f"{lower}=vetted").exit_code == 0
            assert "of-part" in by_prompt(cli, None, asked)
        assert cli("index", "--trust", f"{blog}=project").exit_code == 0
        assert "of-part" not in by_prompt(cli, None, asked)


def test_what_a_host_disables_goes_and_what_it_enables_comes(indexed, cli, home, make_skill):
    folder = home / ".claude" / "plugins" / "cache" / "m" / "kit" / "1.0.0"
    make_skill(folder / "skills", "turn-plugin", "Turn the pages of a score for a pianist.")
    record = {"version": 2, "plugins": {"kit@m": [{"scope": "user", "installPath": str(folder)}]}}
    registry = home / ".claude" / "plugins" / "installed_plugins.json"
    registry.write_text(json.dumps(record))
    settings = home / ".claude" / "settings.json"
    asked = "turn the pages of a score for a pianist"
    assert by_query(cli, None, asked)[:1] == ["turn-plugin"]
    index = SkillIndex.open()
    assert index.find("kit:turn-plugin").root == str(folder / "skills")
    settings.write_text(json.dumps({"enabledPlugins": {"kit@m": False}}))
    assert "turn-plugin" not in by_query(cli, None, asked)
    assert "disabled: 1 skill in 1 folder of hosts: kit@m" in cli("doctor").stdout
    make_skill(home / ".codex" / "skills", "tune-piano", "Tune a grand piano by ear.")
    assert by_query(cli, None, "tune a grand piano by ear")[:1] == ["tune-piano"]


def test_every_skill_of_every_host_is_found_n_of_n(indexed, cli, home, make_skill):
    blog, wanted = indexed / "blog", {SKILLS["user"][0], SKILLS["blog"][0]}
    folders = {Path(folder_of(text)) for row in hosts().values() for text in row["skills"]}
    folders |= {blog / name for row in hosts().values() for name in row["project"]}
    for number, folder in enumerate(sorted(folders)):
        if folder.is_relative_to(home):
            make_skill(folder, f"skill-{number}", f"Do the thing that is numbered {number}.")
            wanted.add(f"skill-{number}")
    plugins = home / ".claude" / "plugins"
    said, entries = {}, {}
    for name, version, is_on in (("on", "2.0.0", True), ("on", "1.0.0", None), ("off", "1", False)):
        folder = plugins / "cache" / "m" / name / version
        make_skill(folder / "skills", f"of-{name}-{version[0]}", f"Do what {name} {version} does.")
        if is_on is not None:
            said[f"{name}@m"] = is_on
            entries[f"{name}@m"] = [{"scope": "user", "installPath": str(folder)}]
    wanted.add("of-on-2")
    (plugins / "installed_plugins.json").write_text(json.dumps({"version": 2, "plugins": entries}))
    (home / ".claude" / "settings.json").write_text(json.dumps({"enabledPlugins": said}))
    with chdir(blog):
        assert set(by_list(cli, blog, "")) == wanted
        assert len(wanted) >= 40
        asked = "Do the thing that is numbered 7."
        assert "skill-7" in by_query(cli, blog, asked)
        assert cli("index", "--trust", f"{blog}=vetted").exit_code == 0
        assert "skill-7" in by_prompt(cli, blog, asked)
        said = cli("doctor").stdout
    assert re.search("disabled: 2 skills in 2 folders of hosts: (on@m, off@m|off@m, on@m)", said)


def registered(home, name, **projects):
    """Install a plugin for the user, or for each project, and return its one skill's folder."""
    folder = home / ".claude" / "plugins" / "cache" / "m" / name / "1.0.0"
    entry = {"scope": "project" if projects else "user", "installPath": str(folder)}
    entries = [{**entry, "projectPath": str(path)} for path in projects.values()] or [entry]
    registry = home / ".claude" / "plugins" / "installed_plugins.json"
    registry.parent.mkdir(exist_ok=True)
    registry.write_text(json.dumps({"version": 2, "plugins": {f"{name}@m": entries}}))
    return folder / "skills"


def enable(folder, **plugins):
    enabled = {f"{name}@m": is_enabled for name, is_enabled in plugins.items()}
    (folder / ".claude" / "settings.json").write_text(json.dumps({"enabledPlugins": enabled}))


def test_a_plugin_of_two_projects_is_seen_from_both_and_from_nowhere_else(
    indexed, cli, home, make_skill
):
    blog, shop = indexed / "blog", indexed / "shop"
    make_skill(registered(home, "kit", blog=blog, shop=shop), "turn-page", "Turn the pages.")
    for folder in (blog, shop):
        enable(folder, kit=True)
    order = (shop, blog)
    for folder in (*order, *order):
        with chdir(folder):
            assert "turn-page" in by_list(cli, None, "")
    assert "turn-page" not in by_list(cli, None, "")
    generation = SkillIndex.open().generation
    with chdir(order[0]):
        assert "turn-page" in by_list(cli, None, "")
        assert SkillIndex.open().generation == generation
        enable(order[0], kit=False)
        assert "turn-page" not in by_list(cli, None, "")
    with chdir(order[1]):
        assert "turn-page" in by_list(cli, None, "")
        assert "turn-page" not in by_prompt(cli, None, "turn the pages")
        assert cli("index", "--trust", f"{order[1]}=vetted").exit_code == 0
        assert "turn-page" in by_prompt(cli, None, "turn the pages")


def test_a_plugin_of_the_user_is_not_seen_from_a_project_that_disables_it(
    indexed, cli, home, make_skill
):
    make_skill(registered(home, "kit"), "turn-page", "Turn the pages.")
    blog, shop = indexed / "blog", indexed / "shop"
    enable(blog, kit=False)
    for folder, is_seen in ((home, True), (blog, False), (shop, True), (home, True), (blog, False)):
        with chdir(folder):
            assert ("turn-page" in by_list(cli, None, "")) is is_seen
    with chdir(blog):
        assert "turn-page" not in by_prompt(cli, blog, "turn the pages")
        assert "disabled: " in cli("index").stderr
        (blog / ".claude" / "settings.json").unlink()
        assert "turn-page" in by_list(cli, None, "")


def test_an_index_that_follows_hosts_becomes_empty_and_fills_again(world, cli, home, make_skill):
    (home / ".claude" / "skills").rename(home / "away")
    make_skill(registered(home, "kit"), "turn-page", "Turn the pages of a score.")
    asked = "turn the pages of a score"
    assert cli("index").exit_code == 0
    for is_enabled in (True, False, True):
        enable(home, kit=is_enabled)
        found = cli("query", asked)
        assert "warning" not in found.stderr
        assert ("turn-page" in found.stdout) is is_enabled
        assert ("turn-page" in by_prompt(cli, None, asked)) is is_enabled
        assert by_list(cli, None, "") == ["turn-page"] * is_enabled
        assert ("disabled: " in cli("index").stderr) is not is_enabled
    with chdir(world / "blog"):
        assert cli("doctor").exit_code == 0


def test_the_first_index_in_a_repository_with_roots_of_its_own_follows_hosts(world, cli):
    """A project adds roots; it does not decide that those of the user are not looked for."""
    file = world / "blog" / "skillsearch.toml"
    file.write_text('roots = ["more"]\n')
    (world / "blog" / ".claude" / "skills").rename(world / "blog" / "more")
    with chdir(world / "blog"):
        said = cli("index")
        assert said.exit_code == 0
        assert set(by_list(cli, None, "")) == {SKILLS["user"][0], SKILLS["blog"][0]}
    assert by_list(cli, None, "") == [SKILLS["user"][0]]


def test_what_the_user_takes_out_stays_out(indexed, cli, home, make_skill):
    folder = home / ".claude" / "skills"
    make_skill(home / ".codex" / "skills", "tune-piano", "Tune a grand piano by ear.")
    by_query(cli, None, "anything")
    assert cli("index", "--remove", str(folder)).exit_code == 0
    assert SKILLS["user"][0] not in by_query(cli, None, REQUESTS["user"])
    assert "left out" in cli("index").stderr
    assert SKILLS["user"][0] not in by_query(cli, None, REQUESTS["user"])
    assert cli("index", str(folder)).exit_code == 0
    assert SKILLS["user"][0] in by_query(cli, None, REQUESTS["user"])


def test_what_was_taken_out_stays_out_of_an_index_that_is_empty(indexed, cli, home, make_skill):
    make_skill(registered(home, "kit"), "turn-page", "Turn the pages of a score.")
    assert set(by_list(cli, None, "")) == {SKILLS["user"][0], "turn-page"}
    assert cli("index", "--remove", str(home / ".claude" / "skills")).exit_code == 0
    enable(home, kit=False)
    assert by_list(cli, None, "") == []
    assert "left out: " in cli("index").stderr
    assert by_list(cli, None, "") == []


def test_a_folder_of_a_project_that_was_named_stays_out_once_it_is_taken_out(indexed, cli):
    """The next question in the project would take it up by itself."""
    folder = indexed / "blog" / ".claude" / "skills"
    assert cli("index", str(folder)).exit_code == 0
    assert cli("index", "--remove", str(folder)).exit_code == 0
    with chdir(indexed / "blog"):
        assert SKILLS["blog"][0] not in by_query(cli, None, REQUESTS["blog"])
        assert cli("index", str(folder)).exit_code == 0
        assert SKILLS["blog"][0] in by_query(cli, None, REQUESTS["blog"])


def test_the_same_name_means_the_user_s_and_the_project_s_has_a_handle(indexed, cli, make_skill):
    blog, shop = indexed / "blog", indexed / "shop"
    for folder, text in ((blog, "blog"), (shop, "shop")):
        make_skill(folder / ".claude" / "skills", "fill-form", f"Fill in the forms of the {text}.")
        make_skill(folder / ".claude" / "skills", "deploy", f"Deploy the {text} to its server.")
    for folder in (blog, shop):
        with chdir(folder):
            hits = json.loads(cli("query", "deploy to its server", "--json").stdout)
            found = {hit["name"]: hit["path"] for hit in (*hits["hits"], *hits["perhaps"])}
            assert found["deploy"].startswith(str(folder))
            shown = json.loads(cli("show", "fill-form", "--json").stdout)
            assert shown["trust"] == "vetted"
            skills = json.loads(cli("list", "--json").stdout)["skills"]
            skills = [one for one in skills if one["trust"] != "vetted"]
            (own,) = (one for one in skills if one["name"] == "fill-form")
            assert own["root"].startswith(str(folder))
            assert cli("show", own["doc_id"]).exit_code == 0


def test_the_same_name_of_the_user_and_of_projects_is_found_and_told_by_every_door(
    indexed, cli, home, make_skill
):
    texts = {home: "Deploy what I wrote at home.", indexed / "blog": "Deploy the blog, by rsync."}
    texts[indexed / "shop"] = "Deploy the shop, after its tests."
    for number, (folder, text) in enumerate(texts.items()):
        body = " ".join(f"word{number}{place}" for place in range(40))
        make_skill(folder / ".claude" / "skills", "deploy", text, body=body)
    with chdir(indexed / "blog"):
        assert "name-of-project" in cli("index", "--trust", f"{indexed / 'blog'}=vetted").stderr
        assert "The name 'deploy' means" in cli("doctor").stdout
        found = json.loads(cli("query", "deploy", "--json").stdout)
        hits = [hit for hit in (*found["hits"], *found["perhaps"]) if hit["name"] == "deploy"]
        handles = [hit.get("handle", hit["name"]) for hit in hits]
        assert len(handles) == 2
        assert "deploy" in handles
        shown = by_prompt(cli, None, "deploy")
        assert set(handles) <= set(shown)
        bodies = {json.loads(cli("show", handle, "--json").stdout)["path"] for handle in handles}
        assert len(bodies) == 2
    seen = from_folders((), [indexed / "blog", indexed / "shop"])
    library = SkillLibrary.open(load_settings().index_dir, selection=seen)
    found = [library.handle(hit) for hit in library.search("deploy").shown if hit.name == "deploy"]
    assert len(found) == 3
    assert {library.get(name).description for name in found} == set(texts.values())


def test_a_repository_within_a_project_has_its_own_skills_alone(indexed, cli, make_skill):
    blog = indexed / "blog"
    part, inner = blog / "part", blog / "vendor" / "inner"
    make_skill(part / ".claude" / "skills", "of-part", "A skill of a part.")
    make_skill(inner / ".claude" / "skills", "of-inner", "A skill of a submodule.")
    (inner / ".git").write_text("gitdir: ../../.git/modules/inner\n")
    user, own = SKILLS["user"][0], SKILLS["blog"][0]
    for folder, wanted in (
        (blog, {user, own}),
        (part, {user, own, "of-part"}),
        (inner, {user, "of-inner"}),
        (blog, {user, own}),
    ):
        with chdir(folder):
            assert set(by_list(cli, folder, "")) == wanted


def test_a_project_that_is_gone_leaves_the_index_without_a_word(indexed, cli):
    ask_from(cli, indexed / "blog")
    (indexed / "blog").rename(indexed / "journal")
    with chdir(indexed / "shop"):
        assert "gone" not in cli("query", REQUESTS["shop"]).stderr
    roots = [root.projects for root in SkillIndex.open().opened.settings.roots if root.projects]
    assert roots == [(str(indexed / "shop"),)]


def test_whoever_loads_a_skill_of_a_neighbour_is_told_that_it_may_be_of_another_project(indexed):
    library = SkillLibrary.open(load_settings().index_dir)
    for name in ("shop", "blog"):
        library.selection = from_folders((), [indexed / name])
        library.search("anything")
    with pytest.raises(SelectionError, match=r"may be of another project.*all_projects") as caught:
        library.load(SKILLS["shop"][0])
    assert isinstance(caught.value.__cause__, SkillNotFoundError)
    library.selection = (*library.selection, ("exclude", (SKILLS["blog"][0],)))
    with pytest.raises(SelectionError, match="left out by the settings"):
        library.load(SKILLS["blog"][0])


def test_the_root_of_another_project_is_named_as_that(indexed, cli):
    ask_from(cli, indexed / "shop", indexed / "blog")
    shop, own = (str(indexed / name / ".claude" / "skills") for name in ("shop", "blog"))
    with chdir(indexed / "blog"):
        for command in (("query", "anything"), ("list",)):
            said = cli(*command, "--root", shop).stderr
            assert f"Its project is {indexed / 'shop'}: go there, or ask with --all-proj" in said
            assert cli(*command, "--root", shop, "--all-projects").exit_code == 0
            assert cli(*command, "--root", shop, "--root", own).exit_code == 0
        assert "Change the options" in cli("list", "--root", own, "--tag", "none").stderr


def test_a_lost_request_makes_no_project_s_skill_everybody_s(indexed, cli):
    ask_from(cli, indexed / "blog")
    (SkillIndex.open().folder / "request.json").write_text("lost")
    with chdir(indexed / "shop"):
        cli("query", "anything")
        cli("index")
        assert set(by_list(cli, None, "")) == {SKILLS["user"][0], SKILLS["shop"][0]}


def test_paths_of_a_skill_bound_it_to_a_part_of_its_project(indexed, cli, make_skill):
    skills = indexed / "blog" / ".claude" / "skills"
    patterns = {"style": "src/styles/**/*.css", "any": "**/*.py"}
    patterns |= {"two": ["docs/*.md", "src/app.ts"]}
    for name, paths in patterns.items():
        make_skill(skills, name, f"Skill named {name}.", paths=paths)
    seen = {}
    for folder in ("", "src", "src/styles/dark", "docs", "tests"):
        place = indexed / "blog" / folder
        place.mkdir(parents=True, exist_ok=True)
        with chdir(place):
            seen[folder] = {name for name in by_list(cli, None, "") if name in patterns}
    assert seen == {
        "": {"style", "any", "two"},
        "src": {"style", "any", "two"},
        "src/styles/dark": {"style", "any"},
        "docs": {"any", "two"},
        "tests": {"any"},
    }


def test_roots_that_were_named_are_seen_from_everywhere_but_for_those_of_a_project(
    indexed, cli, make_skill, tmp_path
):
    mine = tmp_path / "mine"
    make_skill(mine, "mine", "A skill in a folder of the user.")
    place = indexed / "blog" / ".claude" / "skills"
    assert cli("index", str(mine), str(place)).exit_code == 0
    with chdir(indexed / "shop"):
        assert "mine" in by_list(cli, None, "")
        assert SKILLS["blog"][0] not in by_list(cli, None, "")
        assert cli("index", str(place), "--scope", "user").exit_code == 0
        assert SKILLS["blog"][0] in by_list(cli, None, "")
        assert cli("index", "--replace", str(place)).exit_code == 0
        assert SKILLS["shop"][0] not in by_list(cli, None, "")


def test_a_scope_that_would_say_nothing_is_refused(indexed, cli, make_skill, tmp_path):
    mine, before = str(tmp_path / "mine"), SkillIndex.open().generation
    make_skill(tmp_path / "mine", "mine", "A skill in a folder of the user.")
    for words, said in (
        ([mine, "--scope", "project"], "There is no project around"),
        (["--scope", "user"], "--scope says who sees the ROOTs"),
        (["--examples", "--scope", "user"], "--scope says who sees the ROOTs"),
        ([mine, "--remove", "--scope", "user"], "--scope says who sees the ROOTs"),
        ([mine, "--only", mine, "--scope", "user"], "--scope says who sees the ROOTs"),
    ):
        refused = cli("index", *words)
        assert refused.exit_code == 2
        assert said in refused.stderr
    assert SkillIndex.open().generation == before


def test_an_index_in_a_folder_of_its_own_takes_up_nothing(world, cli, tmp_path, make_skill):
    make_skill(tmp_path / "mine", "mine", "A skill in a folder of the user.")
    option = ("--index-dir", str(tmp_path / "index"))
    assert cli("index", str(tmp_path / "mine"), *option).exit_code == 0
    with chdir(world / "blog"):
        skills = json.loads(cli("list", "--json", *option).stdout)["skills"]
    assert [skill["name"] for skill in skills] == ["mine"]


def test_a_link_out_of_the_project_is_named_and_not_followed(indexed, cli, make_skill, tmp_path):
    make_skill(tmp_path / "ext", "of-ext", "A skill beside the project.")
    link = indexed / "blog" / ".agents" / "skills"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "ext")
    with chdir(indexed / "blog"):
        assert f"outside: {link} (a link out of the project; " in cli("index").stderr
        assert f"outside: 1 folder of hosts: {link}" in cli("doctor").stdout
        assert "of-ext" not in by_list(cli, None, "")
        assert cli("index", str(link)).exit_code == 0
        assert "outside" not in cli("index").stderr
        assert "of-ext" in by_list(cli, None, "")


def test_index_says_of_each_folder_what_became_of_it(world, cli, home):
    folder = home / ".claude" / "skills"
    (folder / SKILLS["user"][0]).rename(home / "away")
    assert f"new: {folder} (0 skills; " in cli("index").stderr
    (home / "away").rename(folder / SKILLS["user"][0])
    own = world / "blog" / ".claude" / "skills"
    with chdir(world / "blog"):
        first = cli("index").stderr
        again = json.loads(cli("index", "--json").stdout)["places"]
    assert f"new: {own} (1 skill; " in first
    assert {place["state"] for place in again} == {"indexed"}
    assert {place["project"] for place in again} == {"", str(world / "blog")}


@pytest.mark.parametrize(
    ("project", "folder", "top", "is_seen"),
    [
        ("", "/anywhere", "/", True),
        ("/w/blog", "/w/blog", "/", True),
        ("/w/blog", "/w/blog/src", "/", True),
        ("/w/blog", "/w", "/", False),
        ("/w/blog", "/w/blog2", "/", False),
        ("/w/blog", "/w/shop", "/", False),
        ("/", "/w", "/", True),
        ("/w", "/w/a/b", "/w/", True),
        ("/w/a", "/w/a/b", "/w/", True),
        ("/w", "/w/a/b", "/w/a/", False),
        ("", "/w/a/b", "/w/a/", True),
    ],
)
def test_a_root_is_seen_from_its_project_and_below(project, folder, top, is_seen):
    root = Root(Path("/r"), "r", projects=(project,) if project else ())
    assert is_in_scope(root, [Viewpoint(folder, top)]) is is_seen
    assert is_in_scope(root, [Viewpoint("/other", "/"), Viewpoint(folder, top)]) is is_seen


def test_a_selection_has_one_place_that_the_question_comes_from(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    selection = from_folders((("tags", ("a",)), ("scope", ("/x",))), [tmp_path / "link"])
    assert selection == (("tags", ("a",)), ("scope", (str(tmp_path / "real"),)))
    assert folders_of(selection) == (str(tmp_path / "real"),)
    assert folders_of((("tags", ("a",)),)) == ()


def test_what_is_left_out_shadows_nothing_and_changes_no_other_score(world, make_skill, tmp_path):
    """Against an index that never held the neighbour's skills, by names; the same statistics."""
    roots = [tmp_path / "one", tmp_path / "two", tmp_path / "three"]
    rng = np.random.default_rng(3)
    for root in roots:
        for number in rng.permutation(12)[:8]:
            make_skill(root, f"skill-{number}", f"Do the thing numbered {number} for {root.name}.")
    projects = {str(root): (str(tmp_path / f"p{number}"),) for number, root in enumerate(roots)}
    request = IndexRequest(tuple(roots), "hashing", True, follows="projects", projects=projects)
    index, _ = SkillIndex.build(request, tmp_path / "index")
    for number, root in enumerate(roots):
        alone = SkillIndex.from_roots(root, index_dir=tmp_path / f"alone-{number}", model="hashing")
        folder = tmp_path / f"p{number}"
        scope = from_folders((), [folder])
        wanted = sorted(document.path for document in alone.documents())
        assert sorted(document.path for document in index.documents(scope)) == wanted
        for document in alone.documents():
            assert index.find(document.name, scope).path == document.path
            found = index.search(document.description, 20, 0.0, folder=folder, reader="off")
            assert {hit.root for hit in found} == {str(root)}
            assert found[0].path == document.path


def test_a_look_from_a_new_folder_is_never_put_off(indexed, home, make_skill):
    freshness = Freshness(SkillIndex.open())
    looks = []
    for number, folder in enumerate(("/a", "/a", "/b", "/b", "/a")):
        make_skill(home / ".claude" / "skills", f"new-{number}")
        before = len(freshness.index)
        freshness.look(max_age=3600, folders=[folder])
        looks.append(len(freshness.index) - before)
    assert looks == [1, 0, 2, 0, 2]


def test_a_damaged_registry_or_index_of_hosts_never_ends_an_answer(indexed, cli, home):
    (home / ".claude" / "settings.json").write_text("{")
    try:
        assert SKILLS["user"][0] in by_query(cli, None, REQUESTS["user"])
    except SkillSearchError as exc:
        pytest.fail(str(exc))
