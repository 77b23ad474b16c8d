"""Choosing skills on the command line: options, settings, variables, profiles; in any interface."""

import json

import pytest

from skillsearch.daemon.answers import Answers
from skillsearch.index.roots.scope import without_scope
from skillsearch.settings.config import load_settings
from skillsearch.settings.environ import variables
from skillsearch.settings.user_folders import user_file

TEA = "steep green tea at the right temperature"


@pytest.fixture
def work(cli, tmp_path, make_skill, drinks, monkeypatch):
    """Index drinks and the skills of a colleague, one of the same name, and return the folder."""
    for name, value in {"MODEL": "hashing", "DAEMON": "off", "THRESHOLD": "0"}.items():
        monkeypatch.setenv(f"SKILLSEARCH_{name}", value)
    make_skill(tmp_path / "theirs", "steep-tea", "Steep black tea for three minutes.", tags=["hot"])
    make_skill(tmp_path / "theirs", "mix-tea", "Mix green tea with juice.", tags=["cold", "Party"])
    assert cli("index", drinks, tmp_path / "theirs").exit_code == 0
    return tmp_path / "work"


@pytest.fixture
def names(cli, work):
    """Run a query and return the third column: the names of the hits."""

    def run(*args, command=("query", TEA)):
        result = cli(*command, *args)
        assert result.exit_code == 0, result.stderr
        column = 0 if command[0] == "list" else 2
        return [line.split("\t")[column] for line in result.stdout.splitlines()]

    return run


def settle(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


CHOICES = [
    ([], {"steep-tea", "mix-tea"}),
    (["--exclude", "STEEP*"], {"mix-tea"}),
    (["--exclude", "drinks:*"], {"theirs:steep-tea", "mix-tea"}),
    (["--include", "*-tea", "--exclude", "mix-tea"], {"steep-tea"}),
    (["--root", "../theirs", "--tag", "HOT"], {"theirs:steep-tea"}),
    (["--tag", "party", "--tag", "hot"], {"theirs:steep-tea", "mix-tea"}),
]


def test_options_choose_what_is_found(names, cli):
    paths = {}
    for args, expected in CHOICES:
        shown = set(names(*args, "-n", "20"))
        assert shown & {"steep-tea", "mix-tea", "theirs:steep-tea"} == expected, args
        hits = json.loads(cli("query", TEA, *args, "-n", "20", "--json").stdout)["hits"]
        listed = json.loads(cli("list", "--json", *args).stdout)["skills"]
        assert {hit["path"] for hit in hits} <= {skill["path"] for skill in listed}, args
        paths |= {hit.get("handle", hit["name"]): hit["path"] for hit in hits}
    assert {"steep-tea", "mix-tea", "theirs:steep-tea"} <= paths.keys()
    for name, path in paths.items():
        assert json.loads(cli("show", name, "--json").stdout)["path"] == path


NOTHING = [
    (["query", TEA, "--root", "nope"], "There is no root 'nope'; there are: drinks, theirs."),
    (["query", TEA, "--tag", "nope"], "Tags there are: Party, cold, hot."),
    (["query", TEA, "--include", "nope"], "No skill is selected by include: nope."),
    (["list", "--exclude", "*"], "No skill is selected by exclude: *."),
    (["prompt", TEA, "--exclude", "*"], "No skill is selected by exclude: *."),
    (["query", TEA, "--profile", "x"], "There is no profile 'x' ([profiles.x] in "),
    (["query", TEA, "--include", ""], "--include '' must be a list of words, none of them empty"),
    (["list", "--root", "drinks", "--root", ""], "--root drinks '' must be a list of words"),
    (["list", "--tag", ""], "--tag '' must be a list of words"),
]


def test_what_selects_nothing_is_an_error(cli, work):
    for args, message in NOTHING:
        result = cli(*args)
        assert (result.exit_code, result.stdout) == (2, ""), args
        assert message in result.stderr


def test_settings_of_all_sources_add_up(names, work, monkeypatch):
    """What the user excludes, no project, variable or flag brings back; it narrows its own."""
    assert "mix-tea" in names()
    settle(user_file(), 'exclude = ["steep-tea"]\n')
    assert "steep-tea" not in names()
    assert "mix-tea" in names()
    settle(work.parent / "skillsearch.toml", 'include = ["*tea*"]\nexclude = []\n')
    assert names("-n", "20") == ["mix-tea"]
    assert names(command=("list",)) == ["mix-tea"]
    monkeypatch.setenv("SKILLSEARCH_TAGS", "cold, hot")
    assert names("-n", "20") == ["mix-tea"]
    assert without_scope(load_settings().selection) == (
        ("exclude", ("steep-tea",)),
        ("include", ("*tea*",), str(work.parent)),
        ("tags", ("cold", "hot")),
    )


def test_a_profile_is_laid_over_the_files(names, cli, work, monkeypatch):
    own = '[profiles.guest]\nexclude = ["mix-*"]\nn = 1\n[profiles.cold]\ntags = ["cold"]\n'
    settle(user_file(), own)
    settle(work / "skillsearch.toml", '[profiles.cold]\nexclude = ["theirs:*"]\n')
    assert names("--profile", "guest") == ["steep-tea"]
    assert names("--profile", "cold") == ["mix-tea"]
    monkeypatch.setenv("SKILLSEARCH_PROFILE", "guest")
    assert names() == ["steep-tea"]
    assert names("--profile", "cold") == ["mix-tea"]
    assert len(names("--profile", "guest", "-n", "3")) > 1
    monkeypatch.delenv("SKILLSEARCH_PROFILE")
    settle(work.parent / "skillsearch.toml", 'profile = "guest"\n')
    (work / "skillsearch.toml").unlink()
    assert "mix-tea" not in names("-n", "20")
    assert "did you mean guest?" in cli("query", TEA, "--profile", "guset").stderr


OF_A_CHECKOUT = (
    "exclude = ['*']",
    "include = ['nothing']",
    "tags = ['nothing']",
    "in_roots = ['nothing', 'own']",
    "exclude = ['*tea*', 'drinks:*', 'theirs:*']",
    "threshold = 1.0",
    "n = 1",
    "profile = 'p'\n[profiles.p]\nexclude = ['*']\nthreshold = 1.0\nn = 1",
    "refresh = false",
    "reader = 'off'",
)


def test_a_checkout_hides_nothing_outside_of_it(names, work, monkeypatch):
    monkeypatch.delenv("SKILLSEARCH_THRESHOLD")
    settle(user_file(), "threshold = 0.0\n")
    five, listed = names("-n", "5"), names(command=("list",))
    for text in OF_A_CHECKOUT:
        settle(work / "skillsearch.toml", text)
        assert names() == five, text
        assert names(command=("list",)) == listed, text


def test_a_checkout_narrows_what_lies_in_it(names, cli, work, make_skill):
    make_skill(work / "own", "brew-tea", "Brew green tea.", tags=["hot"])
    make_skill(work / "own", "sell-tea", "Sell green tea.")
    assert cli("index", "own").exit_code == 0
    everything = set(names("-n", "20"))
    assert {"brew-tea", "sell-tea", "mix-tea"} <= everything
    for text, left in [
        ("exclude = ['sell-*', 'mix-*']", {"brew-tea"}),
        ("include = ['sell*']", {"sell-tea"}),
        ("tags = ['hot']", {"brew-tea"}),
        ("in_roots = ['drinks']", set()),
        ("in_roots = ['own']", {"brew-tea", "sell-tea"}),
    ]:
        settle(work / "skillsearch.toml", text)
        assert set(names("-n", "20")) == everything - {"brew-tea", "sell-tea"} | left


def test_an_index_of_the_project_says_what_its_file_decides(cli, work, monkeypatch, home):
    monkeypatch.delenv("SKILLSEARCH_THRESHOLD")
    settle(work / "skillsearch.toml", "index_dir = 'idx'\nthreshold = 1.0\n")
    assert cli("index", work.parent / "drinks").exit_code == 0
    own = home / "cache" / "skillsearch" / "default"
    limits = f"{work / 'skillsearch.toml'} decides index_dir, threshold; your own index: "
    limits += f"--index-dir {own}"
    assert f"note: {limits}\n" in cli("query", TEA).stderr
    assert f"note: {limits}" in json.loads(cli("query", TEA, "--json").stdout)["notes"]
    assert "note: " not in cli("query", TEA, "--index-dir", own, "--threshold", "0.1").stderr


def test_a_project_cannot_undo_the_users_profile(names, work):
    profiles = '[profiles.safe]\nexclude = ["steep-tea"]\n[profiles.all]\nexclude = []\n'
    settle(user_file(), f'profile = "safe"\n{profiles}')
    settle(work / "skillsearch.toml", 'profile = "all"\n')
    shown = names("-n", "20")
    assert "mix-tea" in shown
    assert "steep-tea" not in shown
    assert "steep-tea" in names("--profile", "all", "-n", "20")


def test_an_offer_leaves_out_what_the_settings_exclude(cli, work, index_dir):
    settle(user_file(), 'exclude = ["drinks:steep-tea"]\n')
    for args in ([TEA], ["--all"]):
        offered = json.loads(cli("prompt", *args, "--json", "-n", "20").stdout)["skills"]
        assert "theirs:steep-tea" in offered
        assert "mix-tea" in offered
        assert "steep-tea" not in offered
    refused = cli("prompt", "--load", "drinks:steep-tea")
    assert refused.exit_code == 2
    assert "is left out by the settings of skillsearch: change include, excl" in refused.stderr
    question = {"prompt": TEA, "n": 20, "folder": str(work), "index_dir": None}
    ours = {name: text for name, text in variables().items() if name != "SKILLSEARCH_DAEMON"}
    more = {"variables": ours, "include_unvetted": False, "states": []}
    answer = Answers().overview({**question, **more})
    text = "\n".join(answer["offers"].values())
    assert "theirs:steep-tea" in text
    assert "<name>\nsteep-tea\n" not in text


def test_the_daemon_gives_the_same_answer(cli, work, serve, monkeypatch):
    args = ("--exclude", "drinks:*", "--json")
    alone = [json.loads(cli("query", text, *args).stdout) for text in (TEA, "steeptea")]
    monkeypatch.delenv("SKILLSEARCH_DAEMON")
    serve()
    served = [json.loads(cli("query", text, *args).stdout) for text in (TEA, "steeptea")]
    near = json.loads(cli("query", "mixtea", "--exclude", "mix*", "--json").stdout)
    for report in (*alone, *served):
        del report["seconds"]
    assert served == alone
    assert "mix-tea" not in near.get("nearest", [])


def test_a_host_gets_the_same_options(cli, work):
    args = "--include a* --include b* --tag x --root theirs --profile p".split()
    settle(work / "skillsearch.toml", "index_dir = 'i'\n[profiles.p]\nn = 3\n")
    server = json.loads(cli("mcp-config", "claude-code", *args).stdout)["mcpServers"]["skillsearch"]
    assert server["args"][-len(args) :] == args


def test_names_in_a_batch_and_on_stderr_are_chosen_too(cli, work):
    lines = b'{"_id": "1", "text": "steep tea"}\n{"_id": "2", "text": "mix tea"}\n'
    result = cli("query", "--batch", "-", "--tag", "cold", stdin=lines)
    for line in result.stdout.splitlines():
        assert {hit["name"] for hit in json.loads(line)["hits"]} <= {"mix-tea"}


def test_a_toolset_that_cannot_select_refuses_to(cli, work):
    settle(user_file(), 'exclude = ["steep-tea"]\n')
    refused = cli("mcp", "--toolset", "environment")
    assert refused.exit_code == 2
    assert "cannot select skills" in refused.stderr
    remote = ("--backend", "milvus", "--uri", "http://127.0.0.1:1")
    assert cli("query", TEA, *remote).exit_code != 0
