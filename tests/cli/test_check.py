"""Tests of ``status``, ``doctor``, ``validate``, ``completion`` and of the program's own help."""

import json

import click
import pytest
from click.testing import CliRunner

import skillsearch
from skillsearch.cli.app import COMMANDS, EXIT_CODES, app
from skillsearch.errors import (
    CacheError,
    ConfigError,
    EvaluationError,
    IndexNotFoundError,
    QueryError,
    RootError,
    UnreadableError,
)
from skillsearch.hosts.table import hosts, readers_of_fields


def test_status_proves_that_index_and_disk_are_the_same(indexed, index_dir, drinks):
    result = indexed("status", "--json")
    record = json.loads(result.stdout)
    assert (result.exit_code, record["is_current"], record["indexed"]) == (0, True, 3)
    assert (record["model"], record["fields"], record["skipped"]) == ("hashing", "full", 0)
    assert record["index_dir"] == str(index_dir)
    everybodys = {"projects": [], "hidden_from": []}
    root = {"alias": "drinks", "path": str(drinks), "trust": "vetted", "origin": ""}
    assert record["roots"] == [root | everybodys]
    assert record["size_bytes"] == sum(
        path.stat().st_size for path in index_dir.rglob("*") if path.is_file()
    )
    assert record["differences"] == {"added": [], "changed": [], "removed": [], "missing_roots": []}


def test_status_names_every_difference_and_exits_with_1(indexed, drinks, make_skill):
    """A file rewritten in place with its old times is found by its hash."""
    added = make_skill(drinks, "mix-cocktails", "Mix.")
    (drinks / "squeeze-lemons" / "SKILL.md").unlink()
    changed = make_skill(drinks, "steep-tea", "Steep black tea.")
    result = indexed("status", "--json")
    record = json.loads(result.stdout)
    assert (result.exit_code, record["is_current"]) == (1, False)
    assert record["differences"] == {
        "added": [str(added)],
        "changed": [str(changed)],
        "removed": [str(drinks / "squeeze-lemons" / "SKILL.md")],
        "missing_roots": [],
    }
    plain = indexed("status")
    assert f"added\t{added}" in plain.stdout
    assert "(1 added, 1 changed, 1 removed); run: skillsearch index" in plain.stderr


def test_status_tells_a_gone_root(indexed, drinks):
    drinks.rename(drinks.with_name("elsewhere"))
    result = indexed("status")
    assert result.exit_code == 1
    assert f"missing root\t{drinks}" in result.stdout


def test_doctor_finds_all_well_and_exits_with_1_on_a_damaged_index(indexed, index_dir):
    well = indexed("doctor", "--json")
    record = json.loads(well.stdout)
    assert (well.exit_code, record["error"]) == (0, 0)
    (model,) = [check for check in record["checks"] if check["name"] == "model"]
    assert model["verdict"] == "ok"
    assert record["ok"] + record["warning"] == len(record["checks"])
    next(index_dir.glob("generations/*/manifest.json")).write_text("{}")
    result = indexed("doctor")
    assert result.exit_code == 1
    assert "error\tindex\tmanifest.json of the index in" in result.stdout
    assert "skillsearch index --verify" in result.stdout
    assert indexed("doctor").exit_code == 1


def test_doctor_survives_a_broken_project_file(cli, tmp_path):
    """The very command to find a bad setting must not stop at it."""
    (tmp_path / "skillsearch.toml").write_text("threshold = 7\n")
    result = cli("doctor")
    assert result.exit_code == 1
    assert "error\tsettings\t" in result.stdout
    assert "threshold = 7 must be a number from 0 to 1" in result.stdout


def test_validate_takes_skills_and_folders_that_are_there(cli, drinks):
    paths = [drinks / "steep-tea", drinks / "steep-tea" / "SKILL.md", drinks]
    counts = [json.loads(cli("validate", path, "--json").stdout)["checked"] for path in paths]
    assert counts == [1, 1, 3]
    assert cli("validate", *paths).exit_code == 0
    assert cli("validate").exit_code == 2
    result = cli("validate", drinks / "gone")
    assert result.exit_code == 2
    assert "does not exist" in " ".join(result.stderr.split())
    (drinks.parent / "none").mkdir()
    result = cli("validate", drinks.parent / "none")
    assert result.exit_code == 3
    assert "skill-md-missing" in result.stdout


def test_validate_prints_place_severity_code_and_message(cli, drinks, make_skill):
    path = make_skill(drinks, "steep-tea", colour="green")
    result = cli("validate", drinks)
    assert result.exit_code == 3
    assert result.stdout == (
        f"{path}:4: error field-unknown The specification has no field 'colour'; "
        "nest it in 'metadata'.\n"
    )
    assert result.stderr == "skills checked: 3; errors: 1, warnings: 0, notes: 0\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_prints_the_script_of_the_shell(cli, shell):
    result = cli("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "_SKILLSEARCH_COMPLETE" in result.stdout


def test_completion_offers_the_names_of_skills(indexed, index_dir, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(index_dir))
    environment = {
        "_SKILLSEARCH_COMPLETE": "zsh_complete",
        "COMP_WORDS": "skillsearch show st",
        "COMP_CWORD": "2",
    }
    result = CliRunner().invoke(app, [], env=environment, prog_name="skillsearch")
    assert "steep-tea" in result.stdout
    assert "brew-coffee" not in result.stdout


def test_an_unknown_command_gets_a_suggestion(cli):
    result = cli("indx")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "There is no command 'indx'. Did you mean: index?" in result.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["help", "query"], "Did you mean: --help?"),
        (["version"], "Did you mean: --version?"),
        (["fill in a tax form"], "To find skills: skillsearch query TEXT"),
    ],
)
def test_what_is_no_command_gets_the_next_step(cli, words, hint):
    assert f"There is no command {words[0]!r}. {hint}" in cli(*words).stderr


def test_help_begins_with_the_command_that_needs_no_folder(cli):
    assert 'Begin with "skillsearch index",' in cli("--help").stdout


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_exit_codes_of_the_contract(cli, flag):
    """Scripts need them. Usage is 2, no usable index is 4, and the rest is 1."""
    text = cli(flag).stdout
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "130"):
        assert f"\n    {code}" in text
    assert {
        **dict.fromkeys((ConfigError, EvaluationError, QueryError, RootError), 2),
        **dict.fromkeys((CacheError, IndexNotFoundError, UnreadableError), 4),
    } == EXIT_CODES
    assert cli("--version").stdout == f"skillsearch, version {skillsearch.__version__}\n"


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_help_page_fits_a_terminal_and_says_no_more_than_is_so(cli, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    text = cli(*filter(None, [name]), "--help").stdout
    assert "None" not in text
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert [
        line for line in text.splitlines() if line.startswith("  ") and line.endswith("...")
    ] == []


@pytest.mark.parametrize("width", [40, 78, 200])
def test_the_list_of_commands_is_wrapped_and_not_cut(cli, width):
    text = "".join(cli("--help", terminal_width=width).stdout.split())
    for name in COMMANDS:
        said = app.get_command(click.Context(app), name).help.partition("\n\n")[0]
        assert name + "".join(said.split()) in text


@pytest.mark.parametrize("position", ["before", "behind"])
def test_verbose_tells_what_is_done(cli, position):
    command = ["query", "teapot", "--index-dir", "nowhere"]
    loud = cli(*(["-v", *command] if position == "before" else [*command, "-v"]))
    assert "info: no usable index in" in loud.stderr
    assert "teapot" not in loud.stderr
    assert "info:" not in cli(*command).stderr


def test_what_a_host_reads_is_a_note_for_it_and_for_any_host_but_not_by_the_specification(
    cli, tmp_path, make_skill
):

    def findings(*options):
        record = json.loads(cli("validate", str(skill), *options, "--json").stdout)
        return {
            row["message"].split("'")[1] if row["code"] == "field-unknown" else row["code"]: row
            for row in record["diagnostics"]
        }

    fields = readers_of_fields()
    head = "".join(f"{field}: x\n" for field in (*fields, "unheard-of"))
    skill = make_skill(tmp_path, "steep-tea", "Steep tea.")
    head += "metadata: {author: me}\n"
    skill.write_text(skill.read_text().replace("---\n", f"---\n{head}", 1))
    for host in hosts():
        own = hosts()[host].get("fields", ())
        expected = {field: "note" if field in own else "error" for field in fields}
        rest = {"unheard-of": "error", "yaml-flow-style": "note"}
        severities = {key: finding["severity"] for key, finding in findings("--for", host).items()}
        assert severities == expected | rest, host
    plain = findings()
    assert {key for key, row in plain.items() if row["severity"] == "error"} == {"unheard-of"}
    for field, readers in fields.items():
        assert ", ".join(readers) in plain[field]["message"]
    assert {finding["severity"] for finding in findings("--for", "spec").values()} == {"error"}


def test_validate_begins_with_how_many_skills_are_lost(cli, drinks):
    (drinks / "lost").mkdir()
    (drinks / "lost" / "SKILL.md").write_text("", encoding="utf-8")
    (drinks / "bare").mkdir()
    (drinks / "bare" / "SKILL.md").write_text("Steep tea.", encoding="utf-8")
    (drinks / "linked").mkdir()
    (drinks / "linked" / "SKILL.md").symlink_to("../bare/SKILL.md")
    result = cli("validate", drinks)
    assert result.stderr.startswith("lost: 1 skill; skills checked: 5; ")
    assert json.loads(cli("validate", drinks, "--json").stdout)["lost"] == 1
    (drinks / "lost" / "SKILL.md").unlink()
    assert cli("validate", drinks).stderr.startswith("skills checked: 4; ")
