"""A command that asks, and is not told to go on, changes nothing and exits with 1."""

import shutil

import pytest

from skillsearch.cli.app import app
from skillsearch.cli.commands import COMMANDS

REQUESTS = "brew sencha in a kettle\nwhich kettle to brew sencha\nbrew gyokuro\ngyokuro leaves\n"
EXAMPLES = (
    '{"name": "steep-tea", "examples": ["sencha without a bitter taste", '
    '"how hot may the kettle be for those leaves", "I got a tin of gyokuro, how long?"]}\n'
)
KEPT = (
    '{"name": "brew-coffee", "examples": ["morning cup without bitterness", '
    '"how coarse should I grind for the cone", "my drink from the machine tastes burnt, why"]}\n'
)
ASKING = {
    "setup": [("setup",), ("setup", "--only", "hook")],
    "usage": [("usage", "--forget"), ("usage", "--forget", "steep-tea")],
    "library": [("library", "move", "steep-tea")],
    "improve": [("improve", "steep-tea", "--requests", "requests", "--reader", "off", "--write")],
    "enrich": [
        ("enrich", "--accept", "examples"),
        ("enrich", "--command", "true"),
        ("enrich", "--forget", "brew-coffee"),
    ],
    "update": [("update",)],
}
"""What each command asks about, by its name."""


@pytest.fixture
def home_of_all(cli, home, drinks, make_skill, monkeypatch):
    """Make a home in which each of these commands has something to ask about."""
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    monkeypatch.setenv("SKILLSEARCH_USAGE", "text")
    (home / ".codex").mkdir()
    shutil.move(drinks, home / ".agents" / "skills")
    for name, text in (("requests", REQUESTS), ("examples", EXAMPLES)):
        (home / name).write_text(text)
    make_skill(home / "more", "toast", "Toast bread on both sides.")
    pack(home)
    monkeypatch.chdir(home)
    for words in (
        ("index",),
        ("add", "more.zip"),
        ("query", "steep green tea"),
        ("show", "steep-tea"),
        ("enrich", "--accept", "-", "--yes"),
    ):
        done = cli(*words, stdin=KEPT)
        assert done.exit_code == 0, done.stderr
    make_skill(home / "more", "toast", "Toast bread on one side.")
    pack(home)
    return home


def pack(home):
    """Make the archive that is added."""
    shutil.make_archive(str(home / "more"), "zip", home / "more")


def files(home):
    """Return all files with what they hold, without locks and the cache."""
    paths = (path for path in home.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path: path.read_bytes() for path in paths if "cache" not in path.parts}


def test_each_command_that_asks_is_tried():
    commands = {name: app.get_command(None, name) for name in COMMANDS}
    options = {
        name: [p for p in command.params if p.expose_value] for name, command in commands.items()
    }
    asking = {name for name, own in options.items() if "yes" in (option.name for option in own)}
    assert asking == ASKING.keys()


@pytest.mark.parametrize("words", [words for rows in ASKING.values() for words in rows])
def test_what_nobody_agrees_to_is_not_done(cli, home_of_all, words):
    before = files(home_of_all)
    done = cli(*words)
    assert (done.exit_code, "--yes" in done.stderr) == (1, True), done.stderr
    assert cli(*words, "--json").exit_code == 1
    assert files(home_of_all) == before
