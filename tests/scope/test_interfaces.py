"""One rule of scope for every interface: a request sees the user's skills and its project's."""

import json
import os
import re
import subprocess
import sys
from contextlib import chdir
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import skillsearch
from skillsearch.agents import default_tools
from skillsearch.daemon.answers import Answers
from skillsearch.daemon.client import search_question
from skillsearch.errors import SelectionError, SkillNotFoundError
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.scope import from_folders
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.config import load_settings
from skillsearch.settings.environ import variables

USER, BLOG, SHOP = "fill-form", "publish-post", "refund-order"
"""The skills of the user and of the two projects."""
REQUESTS = {
    USER: "fill in a PDF form",
    BLOG: "publish a blog post to the site",
    SHOP: "refund an order of the web shop",
}
PROMPTS = {"prompt", "hook", "daemon"}
"""Interfaces to a prompt, to which only those skills are let that the user vouches for."""
WAIT_SECONDS = 120


def names_in(text):
    return re.findall(r"<name>\s*(.*?)\s*</name>", text)


def by_show(cli, request, folder):
    return [name for name in REQUESTS if cli("show", name).exit_code == 0]


def by_budget(cli, by_list, request, folder):
    count = json.loads(cli("budget", "--json").stdout)["skills"]
    return by_list() if count == 2 else [f"{count} skills"]


def by_hook(cli, request, folder):
    """Ask by an event that names the folder; the hook runs elsewhere."""
    event = {"hook_event_name": "UserPromptSubmit", "prompt": request, "cwd": str(folder)}
    with chdir("/"):
        text = cli("hook", stdin=json.dumps(event), obj=float(WAIT_SECONDS)).stdout
    output = json.loads(text)["hookSpecificOutput"]["additionalContext"] if text else ""
    return names_in(output)


def by_daemon(request, folder):
    question = {"prompt": request, "n": 3, "folder": str(folder), "index_dir": None}
    ours = {key: value for key, value in variables().items() if key != "SKILLSEARCH_DAEMON"}
    question |= {"variables": ours, "include_unvetted": False, "states": []}
    return names_in("".join(Answers().overview(question)["offers"].values()))


def by_daemons_search(request, folder):
    settings = load_settings()
    options = replace(SearchOptions.of(settings), reader="off", face="terminal")
    question = search_question(request, settings.index_dir, options, refresh=True)
    result = Answers().search(question)["result"]
    return [hit["name"] for hit in (*result["hits"], *result["perhaps"])]


def by_package(request, folder):
    default_tools._open.cache_clear()
    return [hit["name"] for hit in skillsearch.search_skills(request)]


def by_library(request, folder):
    """Ask a library from elsewhere, with the folder as an argument."""
    with chdir("/"):
        library = SkillLibrary.open(load_settings().index_dir)
        return [hit.name for hit in library.search(request, folder=folder).shown]


def by_index(request, folder):
    """Ask an index in the same way, once it knows of the project."""
    by_library(request, folder)
    index = SkillIndex.open(load_settings().index_dir)
    return [hit.name for hit in index.search(request, folder=folder).shown]


def by_page(request, folder):
    """Ask the page in a browser that was opened there."""
    pages = pytest.importorskip("skillsearch.ui.pages").Pages(load_settings())
    return [hit.name for hit in pages.search(request, read=False)["result"].shown]


def by_choice(request, folder):
    """Choose the project on a page that was opened elsewhere."""
    opened_here = pytest.importorskip("skillsearch.ui.pages").Pages(load_settings())
    opened_here.search("")
    with chdir("/"):
        pages = type(opened_here)(load_settings())
    return [hit.name for hit in pages.search(request, str(folder), read=False)["result"].shown]


@pytest.fixture
def interfaces(cli, by_query, by_list, by_prompt):
    """Return what lists the skills that each interface shows for a request from a folder.

    One world serves all of a test: none writes what another one reads. The folder that is asked
    from, and whether its skills are vetted, are decided by the index, alike for all; only those to
    a prompt ask who vouches.
    """
    return {
        "query": by_query,
        "list": by_list,
        "show": partial(by_show, cli),
        "prompt": by_prompt,
        "budget": partial(by_budget, cli, by_list),
        "hook": partial(by_hook, cli),
        "daemon": by_daemon,
        "daemon's search": by_daemons_search,
        "package": by_package,
        "library": by_library,
        "index": by_index,
        "page": by_page,
        "choice on a page": by_choice,
    }


@pytest.fixture
def seen_by(interfaces):
    """Return, by interface, which skills are shown in a folder for any of the requests.

    The hook starts a process for each request, so it is asked once, for both projects'.
    """

    def skills(names, folder):
        requests = {"hook": [f"{REQUESTS[BLOG]}, {REQUESTS[SHOP]}"]}
        with chdir(folder):
            return {
                name: {
                    skill
                    for request in requests.get(name, REQUESTS.values())
                    for skill in interfaces[name](request, folder)
                }
                for name in names
            }

    return skills


def test_every_interface_sees_the_user_s_and_its_own_and_never_the_neighbour_s(
    indexed, blog, shop, cli, ask_from, seen_by, interfaces
):
    ask_from(shop, blog)
    expected = {name: {USER} if name in PROMPTS else {USER, BLOG} for name in interfaces}
    assert seen_by(interfaces, blog) == expected | {"hook": set()}
    assert seen_by(["query"], shop) == {"query": {USER, SHOP}}
    for name in ("shop", "blog"):
        with chdir(indexed / name):
            assert cli("index", "--trust", f"{indexed / name}=vetted").exit_code == 0
    vetted = {name: {USER, BLOG} for name in (*PROMPTS, "query")}
    assert seen_by(vetted, blog) == vetted | {"hook": {BLOG}}


def test_outside_of_projects_the_user_s_are_seen_alone(
    indexed, blog, tmp_path, ask_from, seen_by, interfaces
):
    ask_from(blog)
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    names = interfaces.keys() - {"budget", "hook"}  # one skill is counted; as prompt
    assert seen_by(names, nowhere) == {name: {USER} for name in names}
    roots = [root.path.parents[1].name for root in SkillIndex.open().opened.settings.roots]
    assert roots == [indexed.parent.name, "blog"]


def test_all_projects_are_seen_by_those_who_ask_for_all(blog, shop, cli, by_list, ask_from):
    ask_from(blog, shop)
    with chdir(blog):
        assert len(by_list()) == 2
        assert "1 skill of other projects" in cli("list").stderr
        assert cli("list", "--all-projects").stdout.count("\n") == 3
        assert cli("show", SHOP, "--all-projects").exit_code == 0
        refused = cli("show", SHOP)
        assert refused.exit_code == 1
        assert f"is a skill of the project {shop}" in refused.stderr
        (blog / "skillsearch.toml").write_text("all_projects = true\n")
        assert "all_projects is not for a project file" in cli("list").stderr


def test_who_asks_for_all_projects_sees_the_one_they_stand_in_too(
    blog, shop, cli, interfaces, ask_from, monkeypatch
):
    ask_from(shop)
    monkeypatch.setenv("SKILLSEARCH_ALL_PROJECTS", "1")
    monkeypatch.chdir(blog)
    for name in ("query", "package", "page"):
        assert BLOG in interfaces[name](REQUESTS[BLOG], blog)
    assert cli("index", "--trust", f"{blog}=vetted").exit_code == 0
    for name in ("prompt", "daemon"):
        assert BLOG in interfaces[name](REQUESTS[BLOG], blog)


def test_a_page_offers_each_folder_to_search_from_once(blog, shop, ask_from, monkeypatch):
    ask_from(shop)
    monkeypatch.chdir(blog)
    pages = pytest.importorskip("skillsearch.ui.pages").Pages(load_settings())
    pages.search("")
    labels = [label for _, label in pages.search("")["projects"]]
    assert labels == [f"from {blog}", f"from {shop}", "all projects"]


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
            seen.append({skill: find(request) for skill, request in REQUESTS.items()})
        return seen

    return run


def test_a_client_sees_the_skills_of_all_projects_that_it_works_in_and_else_the_user_s(
    blog, shop, served
):
    remote = "vscode-remote://ssh-remote%2Bbox/w"
    both, none = served(blog, [blog, shop], [remote])
    assert {skill: hits[0] for skill, hits in both.items()} == {skill: skill for skill in REQUESTS}
    assert {name for hits in none.values() for name in hits} == {USER}


def test_a_server_makes_the_first_index_of_its_user(world, served):
    """As for a colleague who takes over the file of a project; it follows hosts from then on."""
    (hits_of,) = served(world / "blog")
    assert (hits_of[USER][0], hits_of[BLOG][0]) == (USER, BLOG)
    assert all(SHOP not in hits for hits in hits_of.values())
    assert IndexRequest.load(SkillIndex.open().folder).follows == "hosts"


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
    script = Path(__file__).parents[2] / "scripts" / "hosts_tour.py"
    ours = {**os.environ, "PATH": "/usr/bin:/bin", "SKILLSEARCH_MODEL": "hashing"}
    ours |= {"PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
    command = [sys.executable, str(script), *hosts]
    done = subprocess.run(command, env=ours, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\tfound\t") == 4 * len(hosts)
    assert done.stdout.count("\tnot found\t") == 2 * len(hosts)


def test_the_same_name_of_the_user_and_of_projects_is_found_and_told_apart(
    blog, shop, cli, home, make_skill, by_prompt
):
    texts = {home: "Deploy what I wrote at home.", blog: "Deploy the blog, by rsync."}
    texts[shop] = "Deploy the shop, after its tests."
    for number, (folder, text) in enumerate(texts.items()):
        body = " ".join(f"word{number}{position}" for position in range(40))
        make_skill(folder / ".claude" / "skills", "deploy", text, body=body)
    with chdir(blog):
        assert "name-of-project" in cli("index", "--trust", f"{blog}=vetted").stderr
        assert "The name 'deploy' means" in cli("doctor").stdout
        result = json.loads(cli("query", "deploy", "--json").stdout)
        hits = [hit for hit in (*result["hits"], *result["perhaps"]) if hit["name"] == "deploy"]
        handles = [hit.get("handle", hit["name"]) for hit in hits]
        assert len(handles) == 2
        assert "deploy" in handles
        assert set(handles) <= set(by_prompt("deploy"))
        bodies = {json.loads(cli("show", handle, "--json").stdout)["path"] for handle in handles}
        assert len(bodies) == 2
    seen = from_folders((), [blog, shop])
    library = SkillLibrary.open(load_settings().index_dir, selection=seen)
    handles = [
        library.handle(hit) for hit in library.search("deploy").shown if hit.name == "deploy"
    ]
    assert len(handles) == 3
    assert {library.get(handle).description for handle in handles} == set(texts.values())


def test_whoever_loads_a_skill_of_a_neighbour_is_told_that_it_may_be_of_another_project(indexed):
    library = SkillLibrary.open(load_settings().index_dir)
    for name in ("shop", "blog"):
        library.selection = from_folders((), [indexed / name])
        library.search("anything")
    with pytest.raises(SelectionError, match=r"may be of another project.*all_projects") as caught:
        library.load(SHOP)
    assert isinstance(caught.value.__cause__, SkillNotFoundError)
    library.selection = (*library.selection, ("exclude", (BLOG,)))
    with pytest.raises(SelectionError, match="left out by the settings"):
        library.load(BLOG)
