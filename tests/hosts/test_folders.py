"""Tests of where hosts look for skills, over the whole table and with what hosts write."""

import json
import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.hosts import folders, plugins
from skillsearch.hosts.folders import project_folders, project_of, user_folders
from skillsearch.hosts.table import folder_of, hosts, with_key

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "blog"
    (folder / ".git").mkdir(parents=True)
    return folder


def write(path, record):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(record if isinstance(record, str) else json.dumps(record))


def of_user():
    return {str(folder.path) for folder in user_folders() if folder.is_enabled}


def test_every_folder_of_the_table_is_seen_and_named_with_its_hosts(home):
    """Those outside of the home folder cannot be made here."""
    made = set()
    for row in hosts().values():
        for template in row["skills"]:
            path = Path(folder_of(template))
            if path.is_relative_to(home):
                path.mkdir(parents=True, exist_ok=True)
                made.add(path)
    folders = {folder.path: folder for folder in user_folders()}
    assert folders.keys() == made
    assert len(made) >= 25
    for path, folder in folders.items():
        readers = {
            name for name, row in hosts().items() if str(path) in map(folder_of, row["skills"])
        }
        assert set(folder.hosts) == readers
        assert folder.project is None


def test_every_folder_of_a_project_is_seen_from_it(home, project):
    names = {name for row in hosts().values() for name in row["project"]}
    for name in names:
        (project / name).mkdir(parents=True)
    (project / "src" / "deep").mkdir(parents=True)
    for folder in (project, project / "src" / "deep"):
        skill_folders = project_folders(folder)
        assert {skills.path for skills in skill_folders} == {project / name for name in names}
        assert {skills.project for skills in skill_folders} == {project}
    assert project_folders(project.parent) == ()


def test_a_variable_of_a_host_moves_its_folder(home, monkeypatch, tmp_path):
    for name, template in (("CODEX_HOME", "{CODEX_HOME:~/.codex}/skills"), ("HERMES_HOME", None)):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
        if template:
            assert folder_of(template) == str(tmp_path / "elsewhere" / "skills")
    (tmp_path / "elsewhere" / "skills").mkdir(parents=True)
    assert of_user() == {str(tmp_path / "elsewhere" / "skills")}


def test_a_nested_folder_belongs_to_its_own_subtree(home, project):
    web = project / "packages" / "web"
    for folder in (project, web):
        (folder / ".claude" / "skills").mkdir(parents=True)
    assert [skills.project for skills in project_folders(web)] == [web, project]
    assert [skills.project for skills in project_folders(project)] == [project]


def test_the_project_ends_at_git_and_without_it_where_hosts_look(home, tmp_path):
    """A repository within another is a project by itself."""
    outer = tmp_path / "outer"
    (outer / ".agents" / "skills").mkdir(parents=True)
    inner = outer / "vendor" / "inner"
    inner.mkdir(parents=True)
    assert project_of(inner) == outer
    (inner / ".git").write_text("gitdir: ../../.git/modules/inner\n")
    assert project_of(inner) == inner
    assert project_folders(inner) == ()


def test_the_home_folder_is_no_project_even_as_a_repository(home):
    (home / ".git").mkdir()
    (home / ".claude" / "skills").mkdir(parents=True)
    below = home / "notes"
    below.mkdir()
    assert project_of(home) is None
    assert project_of(below) is None
    assert project_folders(below) == ()
    assert of_user() == {str(home / ".claude" / "skills")}


def test_what_others_can_write_is_no_project_of_a_folder_below(home, tmp_path):
    shared = tmp_path / "shared"
    (shared / ".claude" / "skills").mkdir(parents=True)
    mine = shared / "mine"
    mine.mkdir()
    assert project_of(mine) == shared
    shared.chmod(0o1777)
    assert project_of(mine) is None
    assert project_of(shared) == shared


def test_a_link_out_of_the_project_is_none_of_its_folders(home, project, tmp_path):
    """One to a folder inside is, once; one to the user's is the user's."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (project / "skills").mkdir()
    (home / ".codex" / "skills").mkdir(parents=True)
    for name, target in (
        (".claude", secret),
        (".agents", project / "skills"),
        (".cursor", project / "skills"),
        (".roo", home / ".codex" / "skills"),
    ):
        (project / name).mkdir()
        (project / name / "skills").symlink_to(target)
    outside, inside = sorted(project_folders(project), key=lambda folder: folder.is_enabled)
    assert outside.path == project / ".claude" / "skills"
    assert outside.is_outside
    assert not outside.is_enabled
    assert inside.path == project / ".agents" / "skills"
    assert "cursor" in inside.hosts


def test_a_folder_that_is_gone_has_no_project_of_its_own(home, project):
    """It may have been deleted while a host runs there."""
    assert project_of(project / "gone" / "deep") == project
    assert project_folders(project.parent / "nowhere") == ()


# Plugins, in the files that the hosts write.


def claude_plugin(home, name, version="1.0.0", **manifest):
    folder = home / ".claude" / "plugins" / "cache" / "market" / name / version
    (folder / "skills").mkdir(parents=True)
    if manifest:
        write(folder / ".claude-plugin" / "plugin.json", manifest)
    return folder


def register(home, **entries):
    record = {f"{name}@market": entry for name, entry in entries.items()}
    write(
        home / ".claude" / "plugins" / "installed_plugins.json", {"version": 2, "plugins": record}
    )


def entry(folder, scope="user", **more):
    return [{"scope": scope, "installPath": str(folder), "version": folder.name, **more}]


def test_plugins_count_as_claude_code_enables_them(home):
    """Said by the user, else by the plugin; other versions of them and uninstalled ones do not."""
    old, new = claude_plugin(home, "on", "1.0.0"), claude_plugin(home, "on", "1.1.0")
    off, shy = claude_plugin(home, "off"), claude_plugin(home, "shy", defaultEnabled=False)
    usual, uninstalled = claude_plugin(home, "usual"), claude_plugin(home, "left")
    choices = {"on@market": True, "off@market": False}
    write(home / ".claude" / "settings.json", {"enabledPlugins": choices})
    register(home, on=entry(new), off=entry(off), shy=entry(shy), usual=entry(usual))
    assert of_user() == {str(new / "skills"), str(usual / "skills")}
    disabled = {str(folder.path): folder for folder in user_folders() if not folder.is_enabled}
    assert disabled.keys() == {str(folder / "skills") for folder in (old, off, shy, uninstalled)}
    assert disabled[str(old / "skills")].plugin == "on@market"
    assert disabled[str(old / "skills")].version == "1.0.0"


def test_the_first_form_of_the_registry_and_a_list_of_versions_count_too(home):
    folder = claude_plugin(home, "on")
    record = {"version": 1, "plugins": {"on@market": {"installPath": str(folder)}}}
    write(home / ".claude" / "plugins" / "installed_plugins.json", record)
    write(home / ".claude" / "settings.json", {"enabledPlugins": {"on@market": ["^1.0"]}})
    assert of_user() == {str(folder / "skills")}


def test_a_plugin_of_a_project_is_seen_from_there(home, project):
    """Installed for it, or enabled there alone; the last word is that of the local file."""
    mine, theirs = claude_plugin(home, "mine"), claude_plugin(home, "theirs")
    register(home, mine=entry(mine), theirs=entry(theirs, "project", projectPath=str(project)))
    write(home / ".claude" / "settings.json", {"enabledPlugins": {"mine@market": False}})
    assert of_user() == set()
    (folder,) = project_folders(project)
    assert (folder.path, folder.project) == (theirs / "skills", project)
    enabled = {"mine@market": True, "theirs@market": True}
    write(project / ".claude" / "settings.json", {"enabledPlugins": enabled})
    assert {folder.path.parent for folder in project_folders(project)} == {mine, theirs}
    write(project / ".claude" / "settings.local.json", {"enabledPlugins": {"theirs@market": False}})
    is_enabled = {folder.path.parent: folder.is_enabled for folder in project_folders(project)}
    assert is_enabled == {mine: True, theirs: False}
    assert of_user() == set()


def test_folders_that_a_manifest_names_stay_inside_of_the_plugin(home, tmp_path):
    """Those beside the usual one count; a plugin may be a skill itself."""
    folder = claude_plugin(
        home, "on", skills=["./more", "../../../..", str(tmp_path), "gone", 5, "."]
    )
    (folder / "more").mkdir()
    single = claude_plugin(home, "single")
    (single / "skills").rmdir()
    (single / "SKILL.md").touch()
    register(home, on=entry(folder), single=entry(single))
    assert of_user() == {str(folder / "skills"), str(folder / "more"), str(single)}


def test_codex_has_one_version_of_a_plugin_and_its_settings_enable_it(home):
    cache = home / ".codex" / "plugins" / "cache" / "market"
    for name, version in (("on", "1.2.0"), ("on", "1.10.0"), ("off", "1.0.0")):
        (cache / name / version / "skills").mkdir(parents=True)
    lines = ['[plugins."on@market"]', "enabled = true", '[plugins."off@market"]', "enabled = false"]
    write(home / ".codex" / "config.toml", "\n".join([*lines, '[plugins."../..@x"]']))
    assert of_user() == {str(cache / "on" / "1.10.0" / "skills")}
    disabled = {folder.path.parent for folder in user_folders() if not folder.is_enabled}
    assert disabled == {cache / "on" / "1.2.0", cache / "off" / "1.0.0"}


@pytest.mark.parametrize(
    ("rules", "of_the_user", "of_the_project"),
    [
        ([], True, False),
        (["!{home}/*"], False, True),
        (["!{home}/*", "{home}/*"], True, False),
        (["!{top}/*"], False, False),
        (["!{top}/*", "{project}/"], False, True),
        (["!{home}/"], False, True),
    ],
)
def test_extensions_of_gemini_follow_its_rules(home, project, rules, of_the_user, of_the_project):
    """The last that matches counts; of the project is what the user does not have everywhere."""
    folder = home / ".gemini" / "extensions" / "kit"
    (folder / "skills").mkdir(parents=True)
    write(folder / "gemini-extension.json", {"name": "kit", "version": "2.0.0"})
    top = os.path.commonpath([home, project])
    overrides = [rule.format(home=home, project=project, top=top) for rule in rules]
    write(folder.parent / "extension-enablement.json", {"kit": {"overrides": overrides}})
    assert bool(of_user()) is of_the_user
    assert bool(project_folders(project)) is of_the_project


@given(record=JSON | st.dictionaries(st.sampled_from(["plugins", "enabledPlugins", "kit"]), JSON))
def test_no_file_of_a_host_can_do_harm(tmp_path_factory, record):
    home = tmp_path_factory.mktemp("hostile", numbered=True)
    skills = home / ".claude" / "skills"
    skills.mkdir(parents=True)
    (home / ".gemini" / "extensions" / "kit").mkdir(parents=True)
    files = [
        ".claude/settings.json",
        ".claude/plugins/installed_plugins.json",
        ".codex/config.toml",
    ]
    files += [".gemini/extensions/extension-enablement.json"]
    for name in [*files, ".gemini/extensions/kit/gemini-extension.json"]:
        write(home / name, record)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
            patch.delenv(name, raising=False)
        assert {str(folder.path) for folder in user_folders() if not folder.plugin} == {str(skills)}
        assert project_folders(home / ".claude") == ()


@given(
    path=st.text(alphabet="/.\0ab~\udc80\ud800", max_size=12),
    name=st.text(alphabet="/.@\0a\ud800", max_size=8),
)
def test_no_path_in_a_registry_can_do_harm(tmp_path_factory, path, name):
    home = tmp_path_factory.mktemp("paths", numbered=True)
    plugin = {"installPath": path, "projectPath": path, "scope": "project", "version": path}
    record = {"version": 2, "plugins": {name: [plugin, {**plugin, "scope": "user"}]}}
    write(home / ".claude" / "plugins" / "installed_plugins.json", record)
    lines = f"[plugins.{json.dumps(name)}]\nenabled = true\n"
    write(home / ".codex" / "config.toml", lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        assert user_folders() == ()
        assert project_folders(home / ".claude") == ()


@pytest.mark.parametrize("kind", ["fifo", "folder", "huge", "binary", "nested"])
def test_no_file_of_a_host_can_block(home, kind, monkeypatch):
    path = home / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        monkeypatch.setattr(plugins, "MAX_BYTES", 1_000)
        data = {"huge": b" " * 2_000, "binary": b"\xff\0", "nested": b"[" * 900}[kind]
        path.write_bytes(data)
    folder = claude_plugin(home, "on")
    register(home, on=entry(folder))
    assert of_user() == {str(folder / "skills")}


def test_the_table_says_the_same_of_every_host():
    text = Path(folders.__file__).with_name("hosts.toml").read_text()
    assert tomllib.loads(text) == hosts()
    assert len(hosts()) >= 15
    for row in hosts().values():
        assert row["title"]
        assert all(isinstance(row[key], list) for key in ("skills", "project"))
        assert row.get("first", "user") in ("user", "project")
    assert {row["plugins"][0] for row in with_key("plugins").values()} == plugins.READERS.keys()
