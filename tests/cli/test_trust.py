"""Tests of trust on the command line: who gives it, what shows it, and what is offered."""

import json
import shutil

import pytest

from skillsearch.index.skill_index import SkillIndex

TEA = "Steep green tea at the right temperature."
QUERY = "steep green tea at the right temperature"


@pytest.fixture
def here(index_dir, monkeypatch):
    """Have all commands use one index, without a model and without a daemon."""
    variables = {"INDEX_DIR": index_dir, "MODEL": "hashing", "DAEMON": "off", "THRESHOLD": 0.05}
    for name, value in variables.items():
        monkeypatch.setenv(f"SKILLSEARCH_{name}", str(value))


@pytest.fixture
def work(tmp_path, cli, here):
    return tmp_path / "work"


@pytest.fixture
def pack(tmp_path, make_skill):
    make_skill(tmp_path / "packed", "oolong", f"{TEA} In a gaiwan.", body="# Gaiwan\n")
    return shutil.make_archive(str(tmp_path / "pack"), "zip", tmp_path / "packed")


@pytest.fixture
def index(cli, index_dir, here):
    """Index with some arguments, and return the trust of each root by its alias."""

    def run(*args):
        result = cli("index", *args)
        assert result.exit_code == 0, result.stderr
        roots = SkillIndex.open(index_dir).opened.settings.roots
        return {root.alias: root.trust for root in roots}

    return run


@pytest.fixture
def both(index, drinks, pack):
    return index(drinks, pack)


@pytest.mark.parametrize("folder", [".claude/skills", ".agents/skills"])
def test_the_usual_places_of_a_project_are_vouched_for_by_nobody(
    index, work, home, make_skill, folder
):
    make_skill(work / folder)
    make_skill(home / ".claude" / "skills", "mine")
    assert sorted(index().values()) == ["project", "vetted"]
    shutil.rmtree(work / folder)
    (work / folder).symlink_to(home / ".claude" / "skills")
    assert index("--replace") == {"skills": "vetted"}


def test_who_names_a_root_vouches_for_it(index, work, make_skill, monkeypatch):
    make_skill(work / "a")
    make_skill(work / "b", "other")
    (work / "skillsearch.toml").write_text('roots = ["a", "b"]\n')
    assert index() == {"a": "project", "b": "project"}
    assert index("a") == {"a": "vetted", "b": "project"}
    assert index() == {"a": "vetted", "b": "project"}
    monkeypatch.setenv("SKILLSEARCH_ROOTS", "b")
    assert index() == {"a": "vetted", "b": "vetted"}


def test_the_file_of_the_user_names_and_vouches(index, work, home, drinks, pack):
    own = home / "config" / "skillsearch" / "skillsearch.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'roots = ["{drinks}", "{pack}"]\n')
    assert index() == {"drinks": "vetted", "pack": "fetched"}
    own.write_text(f'roots = ["{drinks}", "{pack}"]\ntrust = ["{pack}=vetted"]\n')
    assert index() == {"drinks": "vetted", "pack": "vetted"}


def test_a_trust_stays_until_another_is_given(index, work, drinks, pack, make_skill):
    make_skill(work / "more", "more")
    assert index(drinks, "--trust", "project") == {"drinks": "project"}
    assert index(drinks) == {"drinks": "project"}
    assert index(pack, "--trust", f"{pack}=vetted") == {"pack": "vetted", "drinks": "project"}
    assert index("more", "--trust", "fetched") == {
        "pack": "vetted",
        "drinks": "project",
        "more": "fetched",
    }
    assert index("--replace", drinks, pack) == {"pack": "vetted", "drinks": "project"}
    assert index("--trust", "vetted") == {"pack": "vetted", "drinks": "vetted"}


def test_a_changed_trust_embeds_nothing(both, cli, pack):
    report = json.loads(cli("index", "--trust", f"{pack}=vetted", "--json").stdout)
    assert report["embedded"] == 0
    assert dict(zip(report["roots"], report["trust"], strict=True))[pack] == "vetted"


@pytest.mark.parametrize(
    ("trust", "message"),
    [
        ("trusted", "--trust trusted must be LEVEL or ROOT=LEVEL"),
        ("nowhere=vetted", "is not a root of this index. Its roots: "),
    ],
)
def test_a_wrong_trust_is_wrong_usage(both, cli, trust, message):
    result = cli("index", "--trust", trust)
    assert result.exit_code == 2
    assert message in result.stderr


def test_hits_show_where_they_come_from(both, cli, pack):
    hits = json.loads(cli("query", QUERY, "--json").stdout)["hits"]
    assert [(hit["name"], hit["trust"], hit.get("origin")) for hit in hits] == [
        ("steep-tea", "vetted", None),
        ("oolong", "fetched", pack),
    ]
    first, second = cli("query", QUERY).stdout.splitlines()
    assert "[" not in first
    assert second.endswith(f"\t[fetched: {pack}]")


def test_lists_show_the_trust_of_roots(both, cli, pack):
    assert "oolong\tpack [fetched]\t" in cli("list").stdout
    listed = {skill["name"]: skill for skill in json.loads(cli("list", "--json").stdout)["skills"]}
    assert (listed["oolong"]["trust"], listed["oolong"]["origin"]) == ("fetched", pack)
    roots = json.loads(cli("status", "--json").stdout)["roots"]
    assert [(root["alias"], root["trust"], root["origin"]) for root in roots] == [
        ("drinks", "vetted", ""),
        ("pack", "fetched", pack),
    ]
    assert f"(alias pack, from {pack}, fetched)" in cli("status").stdout
    assert f"{pack} [fetched]" in cli("index").stdout


def test_a_body_comes_with_a_warning(both, cli, pack):
    warning = f"From a fetched root ({pack}): nobody has vouched for it."
    shown = cli("show", "oolong", "--body")
    assert (shown.stdout, shown.stderr) == ("# Gaiwan\n", f"{warning}\n")
    assert cli("show", "oolong", "--file", "SKILL.md").stderr == f"{warning}\n"
    assert f"trust\tfetched\norigin\t{pack}\n" in cli("show", "oolong").stdout
    assert cli("show", "steep-tea", "--body").stderr == ""
    assert cli("prompt", "--load", "oolong").stdout.startswith(f"{warning}\n<skill_content")


def test_a_prompt_offers_vetted_skills_and_counts_the_others(both, cli, pack):
    result = cli("prompt", QUERY)
    assert "steep-tea" in result.stdout
    assert "oolong" not in result.stdout
    assert result.stderr == (
        "1 skill of an unvetted root fits too; vouch for a root with "
        "`skillsearch index --trust ROOT=vetted`, or add --include-unvetted.\n"
    )
    record = json.loads(cli("prompt", QUERY, "--json").stdout)
    assert (record["skills"], record["unvetted"]) == (["steep-tea"], 1)
    everything = cli("prompt", QUERY, "--include-unvetted")
    assert f"<source>\n[fetched: {pack}]\n</source>" in everything.stdout
    assert everything.stderr == ""
    for more, expected in (([], (3, 1)), (["--include-unvetted"], (4, 0))):
        record = json.loads(cli("prompt", "--all", *more, "--json").stdout)
        assert (len(record["skills"]), record["unvetted"]) == expected


@pytest.mark.parametrize("daemon", ["auto", "off"])
@pytest.mark.slow
def test_a_hook_offers_vetted_skills_and_leaves_the_rest_to_the_user(
    both, cli, runtime, monkeypatch, daemon
):
    monkeypatch.setenv("SKILLSEARCH_DAEMON", daemon)

    def ask(*args, prompt=QUERY):
        event = json.dumps({"prompt": prompt})
        return cli("hook", "--client", "text", *args, stdin=event, obj=120.0).stdout

    text = ask()
    assert "steep-tea" in text
    assert "oolong" not in text
    assert text.splitlines()[-1] == (
        "1 skill fits too but is left out: nobody has vouched for where it comes from. "
        "Only the user may, with `skillsearch index --trust ROOT=vetted`."
    )
    assert "oolong" in ask("--include-unvetted")
    assert "left out" not in ask("--include-unvetted")
    assert ask(prompt="who won the world cup") == ""


def test_a_host_is_given_the_trust_of_its_roots(cli, work, make_skill):
    make_skill(work / "mine")
    options = ("mine", "--trust", "mine=project", "--trust", "fetched")
    args = json.loads(cli("mcp-config", "claude-code", *options).stdout)["mcpServers"]
    arguments = args["skillsearch"]["args"][-4:]
    assert arguments == ["--trust", f"{work / 'mine'}=project", "--trust", "fetched"]
    assert cli("mcp-config", "claude-code", "--trust", "vetted").exit_code == 2
