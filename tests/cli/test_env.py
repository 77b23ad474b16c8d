"""The command ``env``: named environments, listed, shown and switched."""

import json

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from skillsearch.agents.toolsets.server_environment import ServerEnvironment
from skillsearch.cli.app import app


@pytest.fixture
def folder(tmp_path, make_skill, monkeypatch):
    """Two environments with a skill each, named by a variable."""
    folder = tmp_path / "own" / "environments"
    make_skill(folder / "work" / "skills", "write-invoice", "Write an invoice.")
    make_skill(folder / "home" / "skills", "cook-soup", "Cook a soup.")
    monkeypatch.setenv("SKILLSEARCH_ENVIRONMENTS", str(folder))
    return folder


def as_json(done):
    """Return what a command printed, once it is checked by its schema."""
    record = json.loads(done.stdout)
    Draft202012Validator(
        json.loads(CliRunner().invoke(app, ["env", "--json-schema"]).stdout)
    ).validate(record)
    return record


def test_environments_are_listed_and_the_one_in_use_is_marked(cli, folder, monkeypatch):
    done = cli("env", "list")
    assert (done.exit_code, done.stdout) == (0, "home\t\nwork\t\n")
    assert "No environment is in use. There are: home, work." in done.stderr
    monkeypatch.setenv("SKILLSEARCH_ENVIRONMENT", "home")
    assert cli("env", "list").stdout == "home\tin use\nwork\t\n"
    assert as_json(cli("env", "list", "--json")) == {
        "folder": str(folder),
        "active": "home",
        "environments": ["home", "work"],
    }


def test_the_skills_of_an_environment_are_shown(cli, folder):
    assert cli("env", "show", "work").stdout == "write-invoice\twrite-invoice\tWrite an invoice.\n"
    shown = as_json(cli("env", "show", "home", "--json"))
    assert (shown["active"], [skill["id"] for skill in shown["skills"]]) == ("home", ["cook-soup"])
    done = cli("env", "show")
    assert (done.exit_code, done.stdout) == (0, "")


def test_switching_is_kept_beside_the_folder_and_leaves_all_else_as_it_is(cli, folder):
    """The toolset reads it there; comments stay."""
    file = folder.parent / "config.jsonc"
    file.write_text('{\n  // mine\n  "mode": "fast",\n}\n')
    for name, skill in (("home", "cook-soup"), ("work", "write-invoice")):
        assert cli("env", "switch", name).exit_code == 0
        assert [info.id for info in ServerEnvironment().list_skills()] == [skill]
        assert cli("env", "show").stdout.startswith(skill)
        assert '  // mine\n  "mode": "fast",\n}' in file.read_text()
    before = file.read_bytes()
    assert as_json(cli("env", "switch", "work", "--json"))["active"] == "work"
    assert file.read_bytes() == before
    file.write_text("{,")
    done = cli("env", "switch", "home")
    assert (done.exit_code, file.read_text()) == (2, "{,")
    assert "is not valid JSON" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["switch", "hom"], "No environment is named 'hom'. Did you mean: home?"),
        (["show", "../own"], "No environment is named '../own'."),
        (["switch"], "switch needs the NAME."),
        (["list", "home"], "list takes no NAME; show does."),
    ],
)
def test_a_wrong_name_is_wrong_usage(cli, folder, args, said):
    done = cli("env", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (folder.parent / "config.jsonc").exists()


def test_what_comes_first_is_named_instead_of_switching_in_vain(cli, folder, monkeypatch):
    """A variable would win over what is written."""
    monkeypatch.setenv("SKILLSEARCH_ENVIRONMENT", "work")
    done = cli("env", "switch", "home")
    assert done.exit_code == 2
    assert "SKILLSEARCH_ENVIRONMENT sets the environment to 'work'" in done.stderr
    assert cli("env", "switch", "work").exit_code == 0


@pytest.mark.parametrize("action", ["list", "show"])
def test_without_environments_it_says_where_they_belong(cli, tmp_path, monkeypatch, action):
    monkeypatch.setenv("SKILLSEARCH_ENVIRONMENTS", str(tmp_path / "environments"))
    done = cli("env", action)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith(f"There is no environment in {tmp_path / 'environments'}.")
    assert "warning" not in done.stderr
