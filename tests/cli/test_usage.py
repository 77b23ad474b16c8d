"""Tests of the command ``usage``."""

import json
from pathlib import Path

import pytest

from skillsearch.settings.config import load_settings
from skillsearch.settings.user_folders import data_dir, user_file
from skillsearch.usage.log import UsageLog

REQUEST = "steep green tea"


@pytest.fixture
def used(cli, drinks_index, monkeypatch):
    """Run commands on an index of drinks, of which usage is kept with words."""
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(drinks_index))
    monkeypatch.setenv("SKILLSEARCH_USAGE", "text")
    for request in (REQUEST, "who won the world cup"):
        cli("query", request)
    cli("query", REQUEST)
    cli("show", "steep-tea")
    return cli


def test_it_says_what_is_kept_and_where(used):
    result = used("usage")
    file = data_dir() / "usage" / "events.jsonl"
    assert f"{file}: {file.stat().st_size:,} bytes" in result.stderr
    assert "3 requests, 1 load, 0 pins; 4 of these with words" in result.stderr
    assert "never loaded\t2\tbrew-coffee, squeeze-lemons" in result.stdout
    assert "gap\t1\tnearest: " in result.stdout
    assert "who won the world cup" in result.stdout


def test_json_has_all_of_it(used):
    record = json.loads(used("usage", "--json").stdout)
    assert (record["usage"], record["requests"], record["loads"]) == ("text", 3, 1)
    assert record["bytes"] == (data_dir() / "usage" / "events.jsonl").stat().st_size
    assert record["gaps"][0]["texts"] == ["who won the world cup"]
    assert record["never_loaded"] == ["brew-coffee", "squeeze-lemons"]
    old = json.loads(used("usage", "--days", "1", "--json").stdout)
    assert (old["requests"], old["days"]) == (3, 1)


def test_gaps_of_the_model_before_do_not_stop_the_report(used, drinks):
    """Requests count still; their vectors say nothing of an index of another model."""
    used("index", "--model", "onnx", "--replace", drinks)
    assert json.loads(used("usage", "--json").stdout)["requests"] == 3


def test_usage_is_turned_on_where_it_says(indexed):
    advice = indexed("usage").stderr.partition("To turn it on: ")[2].partition(", or ")[0]
    line, _, file = advice.partition(" in ")
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(f"{line}\n", "utf-8")
    assert "Kept of a request: a keyed hash" in indexed("usage").stderr


def test_without_usage_it_says_so_and_makes_nothing(indexed):
    result = indexed("usage")
    assert "Usage is off: new requests are not kept." in result.stderr
    assert result.stdout == ""
    assert indexed("usage", "--forget", "--yes").exit_code == 0
    refused = indexed("usage", "--pin", REQUEST, "steep-tea")
    assert (refused.exit_code, "nothing can be pinned" in refused.stderr) == (2, True)
    assert indexed("usage", "--unpin", REQUEST, "steep-tea").exit_code == 0
    assert not data_dir().exists()


def test_what_is_forgotten_has_to_be_agreed_to(used):
    before = UsageLog.own().events()
    assert "To do it: --yes" in used("usage", "--forget").stderr
    assert UsageLog.own().events() == before
    done = json.loads(used("usage", "--forget", "steep-tea", "--yes", "--json").stdout)
    assert (done["forgotten"], done["done"]) == (3, True)
    assert b"steep-tea" not in UsageLog.own().file.read_bytes()
    unknown = used("usage", "--forget", "nobody", "--yes")
    assert (unknown.exit_code, "Nothing is kept of 'nobody'" in unknown.stderr) == (2, True)
    used("usage", "--forget", "all", "--yes")
    assert {path.name for path in (data_dir() / "usage").iterdir()} == {"lock"}


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_no_skill_and_forgets_nothing(used, name):
    """Such as a variable of a script that is not set: requests are about no skill."""
    before = UsageLog.own().events()
    refused = used("usage", "--forget", name, "--yes")
    assert (refused.exit_code, "Nothing is kept of" in refused.stderr) == (2, True)
    UsageLog.own().forget([name])
    assert UsageLog.own().events() == before


@pytest.mark.parametrize("request_text", ["", " ", "x" * 100_000])
def test_what_cannot_be_searched_for_cannot_be_pinned(used, request_text):
    before = UsageLog.own().events()
    assert used("usage", "--pin", request_text, "steep-tea").exit_code == 2
    assert UsageLog.own().events() == before


def test_a_pin_speaks_for_its_skill_until_it_is_taken_back(used):
    request = "green tea with lemons"

    def score():
        said = used("query", request, "--threshold", 0, "--explain", "--json")
        hits = json.loads(said.stdout)
        shown = {hit["name"]: hit for hit in hits["hits"] + hits["perhaps"]}
        return shown.get("squeeze-lemons", {}).get("explain", {}).get("log_odds", {})

    before = score()
    assert not before.get("usage")
    assert used("usage", "--pin", request, "squeeze-lemons").exit_code == 0
    assert score()["usage"] > 1
    taken = used("usage", "--unpin", request, "squeeze-lemons", "--json")
    assert json.loads(taken.stdout)["unpinned"] == 1
    assert score() == before


def test_what_does_not_go_together_is_refused(used):
    assert used("usage", "--forget", "all", "--days", "3").exit_code == 2
    assert used("usage", "--pin", REQUEST, "nobody").exit_code == 1


@pytest.mark.parametrize(("said", "choice"), [("y\ny\n", "hashes"), ("y\n\n", "off")])
def test_setup_asks_once_on_a_terminal(cli, home, make_skill, monkeypatch, said, choice):
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    make_skill(home / ".agents" / "skills", "tea-timer")
    user_file().parent.mkdir(parents=True)
    user_file().write_text("n = 4\n[profiles.web]\nn = 3\n", "utf-8-sig")
    assert "learn from use" not in cli("setup").stderr
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    result = cli("setup", stdin=said)
    assert result.stderr.count("learn from use") == 1
    assert load_settings().usage == choice
    assert load_settings().n == 4
    make_skill(home / ".agents" / "skills", "pour-tea")
    (home / ".codex").mkdir()
    assert "learn from use" not in cli("setup", stdin="y\ny\n").stderr
    assert user_file().read_text("utf-8").count("usage") == 1
