"""An index that follows hosts: what they enable comes, what they or the user disable goes."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from pathlib import Path

import pytest

from skillsearch.errors import SkillSearchError
from skillsearch.hosts.table import folder_of, hosts
from skillsearch.index.freshness import Freshness
from skillsearch.index.skill_index import SkillIndex

USER, BLOG = "fill-form", "publish-post"
"""The skills of the user and of one of the two projects."""
TO_FILL, TO_PUBLISH = "fill in a PDF form", "publish a blog post to the site"


@pytest.fixture
def large_folder(indexed, home, make_skill, monkeypatch):
    """Make a folder of a host with more skills than a request waits for."""
    monkeypatch.setattr("skillsearch.index.freshness.MAX_FOUND_SKILLS", 1)
    folder = home / ".codex" / "skills"
    for number in range(2):
        make_skill(folder, f"more-{number}", "One of two skills.")
    return folder


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


def test_every_skill_of_every_host_is_found_n_of_n(
    blog, cli, home, make_skill, by_query, by_list, by_prompt
):
    wanted = {USER, BLOG}
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
        assert set(by_list()) == wanted
        assert len(wanted) >= 40
        request = "Do the thing that is numbered 7."
        assert "skill-7" in by_query(request)
        assert cli("index", "--trust", f"{blog}=vetted").exit_code == 0
        assert "skill-7" in by_prompt(request)
        said = cli("doctor").stdout
    assert re.search("disabled: 2 skills in 2 folders of hosts: (on@m, off@m|off@m, on@m)", said)


def test_what_a_host_disables_goes_and_what_it_enables_comes(
    indexed, cli, home, make_skill, by_query
):
    folder = home / ".claude" / "plugins" / "cache" / "m" / "kit" / "1.0.0"
    make_skill(folder / "skills", "turn-plugin", "Turn the pages of a score for a pianist.")
    record = {"version": 2, "plugins": {"kit@m": [{"scope": "user", "installPath": str(folder)}]}}
    registry = home / ".claude" / "plugins" / "installed_plugins.json"
    registry.write_text(json.dumps(record))
    settings = home / ".claude" / "settings.json"
    request = "turn the pages of a score for a pianist"
    assert by_query(request)[:1] == ["turn-plugin"]
    index = SkillIndex.open()
    assert index.find("kit:turn-plugin").root == str(folder / "skills")
    settings.write_text(json.dumps({"enabledPlugins": {"kit@m": False}}))
    assert "turn-plugin" not in by_query(request)
    assert "disabled: 1 skill in 1 folder of hosts: kit@m" in cli("doctor").stdout
    make_skill(home / ".codex" / "skills", "tune-piano", "Tune a grand piano by ear.")
    assert by_query("tune a grand piano by ear")[:1] == ["tune-piano"]


def test_a_plugin_of_two_projects_is_seen_from_both_and_from_nowhere_else(
    blog, shop, cli, home, make_skill, by_list, by_prompt
):
    make_skill(registered(home, "kit", blog=blog, shop=shop), "turn-page", "Turn the pages.")
    for folder in (blog, shop):
        enable(folder, kit=True)
    order = (shop, blog)
    for folder in (*order, *order):
        with chdir(folder):
            assert "turn-page" in by_list()
    assert "turn-page" not in by_list()
    generation = SkillIndex.open().generation
    with chdir(order[0]):
        assert "turn-page" in by_list()
        assert SkillIndex.open().generation == generation
        enable(order[0], kit=False)
        assert "turn-page" not in by_list()
    with chdir(order[1]):
        assert "turn-page" in by_list()
        assert "turn-page" not in by_prompt("turn the pages")
        assert cli("index", "--trust", f"{order[1]}=vetted").exit_code == 0
        assert "turn-page" in by_prompt("turn the pages")


def test_a_plugin_of_the_user_is_not_seen_from_a_project_that_disables_it(
    blog, shop, cli, home, make_skill, by_list, by_prompt
):
    make_skill(registered(home, "kit"), "turn-page", "Turn the pages.")
    enable(blog, kit=False)
    for folder, is_seen in ((home, True), (blog, False), (shop, True), (home, True), (blog, False)):
        with chdir(folder):
            assert ("turn-page" in by_list()) is is_seen
    with chdir(blog):
        assert "turn-page" not in by_prompt("turn the pages")
        assert "disabled: " in cli("index").stderr
        (blog / ".claude" / "settings.json").unlink()
        assert "turn-page" in by_list()


def test_an_index_that_follows_hosts_becomes_empty_and_fills_again(
    world, cli, home, make_skill, by_list, by_prompt
):
    (home / ".claude" / "skills").rename(home / "away")
    make_skill(registered(home, "kit"), "turn-page", "Turn the pages of a score.")
    request = "turn the pages of a score"
    assert cli("index").exit_code == 0
    for is_enabled in (True, False, True):
        enable(home, kit=is_enabled)
        result = cli("query", request)
        assert "warning" not in result.stderr
        assert ("turn-page" in result.stdout) is is_enabled
        assert ("turn-page" in by_prompt(request)) is is_enabled
        assert by_list() == ["turn-page"] * is_enabled
        assert ("disabled: " in cli("index").stderr) is not is_enabled
    with chdir(world / "blog"):
        assert cli("doctor").exit_code == 0


def test_the_first_index_in_a_repository_with_roots_of_its_own_follows_hosts(world, cli, by_list):
    """A project adds roots; it does not decide that those of the user are not looked for."""
    file = world / "blog" / "skillsearch.toml"
    file.write_text('roots = ["more"]\n')
    (world / "blog" / ".claude" / "skills").rename(world / "blog" / "more")
    with chdir(world / "blog"):
        assert cli("index").exit_code == 0
        assert set(by_list()) == {USER, BLOG}
    assert by_list() == [USER]


def test_an_index_in_a_folder_of_its_own_takes_up_nothing(world, cli, tmp_path, make_skill):
    make_skill(tmp_path / "mine", "mine", "A skill in a folder of the user.")
    option = ("--index-dir", str(tmp_path / "index"))
    assert cli("index", str(tmp_path / "mine"), *option).exit_code == 0
    with chdir(world / "blog"):
        skills = json.loads(cli("list", "--json", *option).stdout)["skills"]
    assert [skill["name"] for skill in skills] == ["mine"]


def test_index_says_of_each_folder_what_became_of_it(world, cli, home):
    folder = home / ".claude" / "skills"
    (folder / USER).rename(home / "away")
    assert f"new: {folder} (0 skills; " in cli("index").stderr
    (home / "away").rename(folder / USER)
    own = world / "blog" / ".claude" / "skills"
    with chdir(world / "blog"):
        first = cli("index").stderr
        folders = json.loads(cli("index", "--json").stdout)["folders"]
    assert f"new: {own} (1 skill; " in first
    assert {folder["state"] for folder in folders} == {"indexed"}
    assert {folder["project"] for folder in folders} == {"", str(world / "blog")}


def test_what_the_user_takes_out_stays_out(indexed, cli, home, make_skill, by_query):
    folder = home / ".claude" / "skills"
    make_skill(home / ".codex" / "skills", "tune-piano", "Tune a grand piano by ear.")
    by_query("anything")
    assert cli("index", "--remove", str(folder)).exit_code == 0
    assert USER not in by_query(TO_FILL)
    assert "left out" in cli("index").stderr
    assert USER not in by_query(TO_FILL)
    assert cli("index", str(folder)).exit_code == 0
    assert USER in by_query(TO_FILL)


def test_what_was_taken_out_stays_out_of_an_index_that_is_empty(
    indexed, cli, home, make_skill, by_list
):
    make_skill(registered(home, "kit"), "turn-page", "Turn the pages of a score.")
    assert set(by_list()) == {USER, "turn-page"}
    assert cli("index", "--remove", str(home / ".claude" / "skills")).exit_code == 0
    enable(home, kit=False)
    assert by_list() == []
    assert "left out: " in cli("index").stderr
    assert by_list() == []


def test_a_folder_of_a_project_that_was_named_stays_out_once_it_is_taken_out(blog, cli, by_query):
    """The next question in the project would take it up by itself."""
    folder = blog / ".claude" / "skills"
    assert cli("index", str(folder)).exit_code == 0
    assert cli("index", "--remove", str(folder)).exit_code == 0
    with chdir(blog):
        assert BLOG not in by_query(TO_PUBLISH)
        assert cli("index", str(folder)).exit_code == 0
        assert BLOG in by_query(TO_PUBLISH)


def test_a_folder_of_more_skills_than_a_request_waits_for_says_how(
    blog, cli, by_query, by_list, large_folder
):
    with chdir(blog):
        result = json.loads(cli("query", TO_PUBLISH, "--json").stdout)
        assert BLOG in [hit["name"] for hit in (*result["hits"], *result["perhaps"])]
        note = result["notes"][-1]
        assert f"the skills of {large_folder} are not indexed" in note
        assert note.endswith("run `skillsearch index`")
        assert USER in by_query(TO_FILL)
        assert cli("index").exit_code == 0
        assert "more-1" in by_list()
        assert "notes" not in json.loads(cli("query", TO_PUBLISH, "--json").stdout)


def test_what_stays_open_indexes_a_large_folder_in_the_background(blog, large_folder):
    with ThreadPoolExecutor(1) as executor:
        freshness = Freshness(SkillIndex.open(), executor)
        assert "are being indexed" in freshness.look(0, [str(blog)])
        names = {document.name for document in freshness.index.documents()}
        assert names == {USER, BLOG}
    assert freshness.look(0, [str(blog)]) == ""
    assert len(freshness.index) == 4


def test_a_look_from_a_new_folder_is_never_put_off(indexed, home, make_skill):
    freshness = Freshness(SkillIndex.open())
    looks = []
    for number, folder in enumerate(("/a", "/a", "/b", "/b", "/a")):
        make_skill(home / ".claude" / "skills", f"new-{number}")
        before = len(freshness.index)
        freshness.look(max_age=3600, folders=[folder])
        looks.append(len(freshness.index) - before)
    assert looks == [1, 0, 2, 0, 2]


def test_a_damaged_registry_or_index_of_hosts_never_ends_an_answer(indexed, home, by_query):
    (home / ".claude" / "settings.json").write_text("{")
    try:
        assert USER in by_query(TO_FILL)
    except SkillSearchError as exc:
        pytest.fail(str(exc))
