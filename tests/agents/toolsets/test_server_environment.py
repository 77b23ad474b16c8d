"""Named environments: which is in use, how to switch, and that none leads out of its folder."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillsearch.agents.toolsets.server_environment import ServerEnvironment
from skillsearch.errors import ConfigError, EnvironmentNotFoundError, SkillSearchError
from skillsearch.settings import user_folders
from skillsearch.settings.values import is_environment_name

BASE = "Execute a skill."
HEAD = f"{BASE} Available skills:\n"


def write_skill(folder, environment, skill, description="Does it.", body="Do it."):
    path = Path(folder) / environment / "skills" / skill / "skill.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {skill.title()}\ndescription: {description}\n---\n{body}\n")
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make a folder with two environments, and work where no project is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    write_skill(tmp_path / "envs", "work", "invoice", "Writes invoices.", "Add VAT.")
    write_skill(tmp_path / "envs", "home", "recipe", "Finds recipes.", "Taste it.")
    return tmp_path / "envs"


def started(*args):
    server = ServerEnvironment(*args)
    server.load_from_config()
    return server


@pytest.fixture
def server(folder):
    return started(folder, "work")


def described(server):
    return server.toolset().specs()[0]["function"]["description"]


def ids(server):
    return [info.id for info in server.list_skills()]


def test_nothing_is_read_before_it_is_loaded(folder):
    assert ServerEnvironment(folder).name == "default"
    server = ServerEnvironment(folder, "work")
    assert (server.name, server.skills_loaded) == ("work", False)
    assert (ids(server), server.skills_loaded) == (["invoice"], True)
    assert ServerEnvironment(folder, "work").get_skills_directory() == folder / "work" / "skills"
    info = ServerEnvironment(folder, "work").get_skills_info_for_tool_description()
    assert info == "- Invoice: Writes invoices."


def test_a_started_server_lists_its_skills_and_loads_them(server, folder):
    assert (server.name, server.skills_loaded) == ("work", True)
    assert server.get_skills_directory() == folder / "work" / "skills"
    (spec,) = server.toolset().specs("anthropic")
    assert spec["description"] == f"{HEAD}- Invoice: Writes invoices."
    assert spec["input_schema"]["properties"]["skill"]["enum"] == ["invoice"]
    assert server.toolset().call("skill", {"skill": "invoice"}) == {
        "result": {"success": True, "output": "Add VAT."}
    }


def test_a_host_that_keeps_the_toolset_sees_every_change(server, folder):
    toolset = server.toolset()
    write_skill(folder, "work", "report")
    assert toolset.call("skill", {"skill": "report"})["result"]["success"]
    server.switch_environment("home")
    assert toolset.specs()[0]["function"]["description"] == f"{HEAD}- Recipe: Finds recipes."
    assert toolset.call("skill", {"skill": "recipe"})["result"]["output"] == "Taste it."
    error = toolset.call("skill", {"skill": "invoice"})["result"]["error"]
    assert error == "Skill not found: invoice. Available skills: recipe"


def test_all_environments_are_listed(server, folder, tmp_path):
    (folder / "empty").mkdir()
    (folder / ".git").mkdir()
    (folder / "file").write_text("")
    (folder / "out").symlink_to(tmp_path)
    (folder / "alias").symlink_to(folder / "home")
    assert server.list_environments() == ["alias", "empty", "home", "work"]
    assert ServerEnvironment(tmp_path / "none").list_environments() == []


def test_switching_uses_the_other_from_now_on(server, folder):
    server.switch_environment("home")
    server.reload()
    assert (server.name, ids(server)) == ("home", ["recipe"])
    assert server.get_skills_directory() == folder / "home" / "skills"


def test_switching_to_what_is_not_there_changes_nothing(server):
    with pytest.raises(EnvironmentNotFoundError) as caught:
        server.switch_environment("hme")
    assert str(caught.value) == (
        "No environment is named 'hme'. Did you mean: home? There are: home, work."
    )
    assert (caught.value.name, caught.value.nearest) == ("hme", ("home",))
    assert caught.value.available == ("home", "work")
    assert isinstance(caught.value, SkillSearchError)
    assert (server.name, ids(server)) == ("work", ["invoice"])
    server.reload()
    assert server.name == "work"


def test_where_there_is_none_the_error_says_how_to_make_one(tmp_path):
    server = ServerEnvironment(tmp_path)
    with pytest.raises(EnvironmentNotFoundError, match="There are: none; `skillsearch env list`"):
        server.switch_environment("work")


def test_an_error_is_no_endless_list(tmp_path):
    there = tuple(f"e{number:02}" for number in range(60))
    error = EnvironmentNotFoundError("x" * 9999, (), there)
    assert str(error).startswith(f"No environment is named '{'x' * 200}'. There are: e00, e01, ")
    assert str(error).endswith(" e48, e49 and 10 others.")
    assert str(EnvironmentNotFoundError("a", (), there[:50])).endswith(" e48, e49.")


def test_at_most_five_names_are_suggested(tmp_path):
    for number in range(9):
        (tmp_path / f"e{number}" / "skills").mkdir(parents=True)
    with pytest.raises(EnvironmentNotFoundError) as caught:
        ServerEnvironment(tmp_path, "e1").switch_environment("e")
    assert len(caught.value.nearest) == 5


def test_reloading_reads_the_settings_again(folder, monkeypatch, home):
    user = user_folders.user_file()
    user.parent.mkdir(parents=True)
    user.write_text(f"environments = {str(folder)!r}\nenvironment = 'work'\n")
    server = started()
    assert ids(server) == ["invoice"]
    user.write_text(f"environments = {str(folder)!r}\nenvironment = 'home'\nthreshold = 1.0\n")
    server.reload()
    assert (server.name, ids(server)) == ("home", ["recipe"])
    assert server.search_skills("find recipes") == []
    assert server.search_skills("find recipes", threshold=0)[0]["id"] == "recipe"


def test_environments_lie_beside_the_user_s_settings(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_skill(user_folders.user_file().parent / "environments", "default", "greet")
    server = started()
    assert (server.name, ids(server)) == ("default", ["greet"])


def test_without_a_name_the_only_one_is_used_or_else_the_default(tmp_path):
    def used():
        return started(tmp_path).name

    assert used() == "default"
    (tmp_path / "work").mkdir()
    assert used() == "work"
    (tmp_path / "home").mkdir()
    assert used() == "default"


def test_none_named_among_several_says_which_there_are(folder, caplog):
    server = ServerEnvironment(folder)
    message = "No environment is in use. There are: home, work. Choose one: "
    args = SimpleNamespace(skill="x", offset=0)
    assert server.list_tools()[0].function(args)["error"].startswith(message)
    assert [text for text in caplog.messages if text.startswith(message)]
    server.switch_environment("home")
    assert server.toolset().call("skill", {"skill": "recipe"})["result"]["output"] == "Taste it."
    caplog.clear()
    write_skill(folder, "default", "greet")
    assert ids(ServerEnvironment(folder)) == ["greet"]
    assert caplog.messages == []


def test_the_config_beside_the_folder_names_the_active_one(folder, monkeypatch):
    config_file = folder.parent / "config.jsonc"
    config_file.write_text('{ // mine\n "activeEnvironment": "home", /* and */ }')
    server = ServerEnvironment(folder)
    assert (ids(server), server.name) == (["recipe"], "home")
    config_file.write_text('{"activeEnvironment": "work"}')
    assert ids(server) == ["recipe"]
    server.reload()
    assert ids(server) == ["invoice"]
    assert ids(ServerEnvironment(folder, "home")) == ["recipe"]
    monkeypatch.setenv("SKILLSEARCH_ENVIRONMENT", "home")
    assert ids(ServerEnvironment(folder)) == ["recipe"]


def test_the_config_of_the_environment_in_use_is_the_host_s(server, folder):
    assert server.config == {}
    (folder / "home" / "config.jsonc").write_text('\ufeff{"mode": "fast", // for now\n}')
    server.switch_environment("home")
    assert server.config == {"mode": "fast"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "Failed to read "),
        (b"[]", "it holds no object"),
        (b"\xff", "Failed to read "),
        (b" " * ((1 << 20) + 1), "it has more than 1,048,576 bytes"),
        (b'{"activeEnvironment": "../outside"}', "names no folder: '../outside'"),
        (b'{"activeEnvironment": ["home"]}', "names no folder: "),
    ],
)
def test_a_config_that_cannot_be_used_stops_no_start(folder, caplog, data, message):
    for parent in (folder.parent, folder / "work"):
        (parent / "config.jsonc").write_bytes(data)
    server = started(folder, "work")
    assert ids(server) == ["invoice"]
    server = started(folder)
    assert (server.name, ids(server)) == ("default", [])
    assert message in caplog.text


def test_a_config_that_is_a_link_or_no_file_is_not_read(folder, tmp_path, caplog):
    (tmp_path / "secret").write_text('{"a": 1}')
    (folder / "work" / "config.jsonc").symlink_to(tmp_path / "secret")
    (folder / "home" / "config.jsonc").mkdir()
    os.mkfifo(tmp_path / "config.jsonc")
    for name in ("work", "home"):
        server = started(folder, name)
        assert (server.config, len(ids(server))) == ({}, 1)
    assert caplog.text.count("Failed to read") == 2


def test_a_broken_skill_stops_no_start(server, folder, caplog):
    write_skill(folder, "work", "broken").write_text("---\nname: [\n---\n")
    server.reload()
    assert ids(server) == ["invoice"]
    assert "broken" in caplog.text


def test_a_setting_that_cannot_be_used_leaves_all_as_it_was(server, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "high")
    for act in (server.reload, lambda: server.switch_environment("home"), server.list_environments):
        with pytest.raises(ConfigError, match=r"THRESHOLD.*must be a number from 0 to 1"):
            act()
    assert (server.name, ids(server)) == ("work", ["invoice"])
    assert described(server) == f"{HEAD}- Invoice: Writes invoices."


def test_a_name_that_leads_out_is_refused_by_the_settings(folder):
    with pytest.raises(ConfigError, match="must be the name of a folder"):
        ServerEnvironment(folder, "../outside").load_from_config()


@pytest.mark.parametrize("link", ["out", "out/skills"])
def test_a_link_out_of_the_folder_is_not_followed(folder, tmp_path, caplog, link):
    write_skill(tmp_path / "elsewhere", "x", "secret")
    (folder / link).parent.mkdir(exist_ok=True)
    (folder / link).symlink_to(tmp_path / "elsewhere" / "x" / ("skills" if "/" in link else ""))
    server = started(folder, "out")
    assert (described(server), server.list_skills()) == (BASE, [])
    assert caplog.messages == ["Failed to read skills directory: out leads out of its folder"]
    assert server.list_environments() == ["home", "work"]
    with pytest.raises(EnvironmentNotFoundError):
        server.switch_environment("out")


def test_an_environment_that_becomes_a_link_out_is_left_with_the_next_load(
    server, folder, tmp_path
):
    (folder / "work").rename(tmp_path / "work")
    (folder / "work").symlink_to(tmp_path / "work")
    server.reload()
    assert (described(server), server.list_skills()) == (BASE, [])


def test_the_folder_itself_may_be_a_link(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert ids(started(tmp_path / "link", "home")) == ["recipe"]


NAMES = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(["..", ".", "/", "\\", "work", "outside", "\0", "~", "C:", "%2e%2e", "\n"]),
        max_size=5,
    ).map("".join),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(name=NAMES)
@pytest.mark.slow
def test_no_name_leads_out_of_the_folder(folder, tmp_path, name):
    write_skill(tmp_path, "outside", "secret")
    server = ServerEnvironment(folder, "work")
    try:
        server.switch_environment(name)
    except EnvironmentNotFoundError:
        assert server.get_skills_directory() == folder / "work" / "skills"
    else:
        assert name in {"home", "work"}
    if is_environment_name(name):
        skills_folder = os.path.normpath(folder / name / "skills")
        assert Path(skills_folder).parent.parent == folder
        assert "secret" not in ids(started(folder, name))
    else:
        with pytest.raises(ConfigError):
            ServerEnvironment(folder, name).load_from_config()
