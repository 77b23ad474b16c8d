"""Tests of ``skillsearch budget``."""

import json
import sys

import pytest
import tokenizers

from skillsearch.budget.hosts import HOSTS
from skillsearch.cli.hosts.budget import HOSTS as OPTION_HOSTS
from skillsearch.embedders.embedder import TOKENIZER

LINES = (
    "- brew-coffee: Brew filter coffee with a scale. Use for espresso and roasting questions.",
    "- squeeze-lemons: Squeeze lemons for lemonade.",
    "- steep-tea: Steep green tea at the right temperature.",
)
BODIES = (
    "# Coffee\n\n## Grind\n\nGrind the beans just before you brew.",
    "# Body",
    "# Tea\n\nUse 80 C.",
)


@pytest.fixture
def tokens():
    """Count the tokens of a text with the tokenizer itself."""
    tokenizer = tokenizers.Tokenizer.from_file(str(TOKENIZER))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


@pytest.fixture
def budget(cli, drinks):
    """Run the command on the three drinks and return its JSON."""

    def run(*args):
        result = cli("budget", drinks, "--json", *args)
        assert (result.exit_code, result.stderr) == (0, "")
        return json.loads(result.stdout)

    return run


def test_json_has_the_tokens_of_each_level(budget, tokens, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_N", "2")
    record = budget()
    levels = record["levels"]
    assert record["search"]["n"] == 2
    total = levels["overview"]["total"]["tokens"]
    assert record["search"]["listing"]["tokens"] == round(total * 2 / 3)
    assert levels["overview"]["total"] == {
        "characters": sum(map(len, LINES)),
        "tokens": sum(map(tokens, LINES)),
    }
    assert levels["bodies"]["total"] == {
        "characters": sum(map(len, BODIES)),
        "tokens": sum(map(tokens, BODIES)),
    }
    assert levels["all"]["total"] == levels["bodies"]["total"]
    assert (levels["all"]["share"], levels["all"]["largest_skill"]) == (1.0, "brew-coffee")
    assert levels["bodies"]["median"]["tokens"] == tokens(BODIES[2])


def test_without_roots_the_index_is_measured(indexed, cli, drinks):
    from_index = json.loads(indexed("budget", "--json").stdout)
    assert from_index == json.loads(cli("budget", drinks, "--json").stdout)


@pytest.mark.parametrize(
    "args",
    [
        ["ROOT", "--index-dir", "elsewhere"],
        ["missing"],
        ["ROOT", "--context", "-1"],
        ["ROOT", "--host", "nobody"],
    ],
)
def test_wrong_usage_exits_with_2(cli, drinks, args):
    result = cli("budget", *(drinks if arg == "ROOT" else arg for arg in args))
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("context", "said"),
    [("3000", "Of 3 skills, Claude Code would {}."), ("200000", "No host cuts 3 skills.")],
)
def test_the_first_line_says_what_would_be_cut(cli, drinks, context, said):
    command = ("budget", drinks, "--context", context, "--host", "claude-code")
    counts = json.loads(cli(*command, "--json").stdout)["hosts"][0]["counts"]
    fates = {
        "shortened": "shorten {}",
        "name_only": "show {} by name alone",
        "omitted": "leave {} out",
    }
    parts = [words.format(counts[fate]) for fate, words in fates.items() if counts[fate]]
    assert cli(*command).stderr.splitlines()[0] == said.format(" and ".join(parts))


def test_rows_for_programs_name_their_table_first(cli, drinks):
    result = cli("budget", drinks, "--context", "3000", "--host", "claude-code")
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[:2] for row in rows] == [
        ["level", "overview"],
        ["level", "bodies"],
        ["level", "all"],
        ["level", "search: 5 hits"],
        ["level", "search: one body"],
        ["claim", "metadata"],
        ["claim", "start"],
        ["claim", "on demand"],
        ["claim", "relevant"],
        ["claim", "format"],
        ["host", "claude-code"],
        ["cut", "claude-code"],
    ]
    assert rows[2][4] == "1.0000"
    assert rows[10] == ["host", "claude-code", "120", "characters", "190", *"10200"]
    assert rows[11] == ["cut", "claude-code", "name only", "squeeze-lemons", "steep-tea"]
    assert "tokens are counted by the packaged tokenizer" in result.stderr
    assert "assuming that claude-code fills its listing by order of the roots" in result.stderr


def test_a_person_gets_tables(cli, tmp_path, make_skill, terminal, monkeypatch):
    for number in range(25):
        make_skill(tmp_path / "many", f"skill-{number:02}", "d" * 100)
    terminal()
    monkeypatch.setenv("COLUMNS", "120")
    text = cli("budget", tmp_path / "many", "--context", "10000").stdout
    assert "median tokens" in text
    assert "100 %" in text
    assert "and 4 more" in text
    cut = text.rpartition("fate")[2].partition("codex")[0]
    assert "skill-20" in cut
    assert "skill-21" not in cut


def test_a_person_sees_what_could_not_be_measured(cli, tmp_path, make_skill, terminal, monkeypatch):
    path = make_skill(tmp_path / "one", body="", **{"disable-model-invocation": True})
    terminal()
    monkeypatch.setenv("COLUMNS", "160")
    result = cli("budget", path.parents[1], "--host", "claude-code")
    assert "nothing to compare" in result.stdout
    assert " - " in result.stdout
    assert "assuming that" not in result.stderr


def test_unreadable_skills_are_named_and_counted(cli, drinks):
    (drinks / "bad").mkdir()
    (drinks / "bad" / "SKILL.md").write_text("# Empty")
    result = cli("budget", drinks, "--json")
    record = json.loads(result.stdout)
    assert (result.exit_code, record["skills"]) == (0, 3)
    assert [item["code"] for item in record["diagnostics"]] == ["frontmatter-missing"]
    assert f"{drinks / 'bad' / 'SKILL.md'}:1: error frontmatter-missing" in result.stderr
    assert result.stderr.endswith("not measured: skills or folders: 1, documents: 0\n")


def test_many_unreadable_skills_are_named_in_part(cli, drinks):
    for number in range(22):
        (drinks / f"bad{number}").mkdir()
        (drinks / f"bad{number}" / "SKILL.md").write_text("# Empty")
    lines = cli("budget", drinks).stderr.splitlines()
    assert sum("error frontmatter-missing" in line for line in lines) == 10
    assert lines[-2:] == [
        "errors: frontmatter-missing 12 (--json lists all)",
        "not measured: skills or folders: 22, documents: 0",
    ]


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_no_skills_are_no_error(cli, tmp_path, flags):
    (tmp_path / "none").mkdir()
    result = cli("budget", tmp_path / "none", *flags)
    assert result.exit_code == 0
    if flags:
        record = json.loads(result.stdout)
        assert (record["skills"], record["levels"]["all"]["share"]) == (0, None)
        assert {claim["holds"] for claim in record["claims"]} == {None}
    else:
        assert (result.stdout, result.stderr) == ("", "There are no skills to measure.\n")


def test_names_cannot_break_a_row(cli, tmp_path, make_skill):
    make_skill(tmp_path / "odd", "a").write_text(
        '---\nname: "x\\ty\\nz\\u001b[31m"\ndescription: D.\n---\nBody.\n'
    )
    result = cli("budget", tmp_path / "odd", "--context", "1", "--host", "claude-code")
    assert result.stdout.splitlines()[-1] == "cut\tclaude-code\tname only\tx y z [31m"
    assert "\x1b" not in result.stdout


def test_the_help_names_the_hosts_and_does_not_load_the_tokenizer(cli, monkeypatch):
    assert tuple(HOSTS) == OPTION_HOSTS
    monkeypatch.delitem(sys.modules, "skillsearch.embedders.embedder", raising=False)
    assert cli("budget", "--help").exit_code == 0
    assert "skillsearch.embedders.embedder" not in sys.modules
