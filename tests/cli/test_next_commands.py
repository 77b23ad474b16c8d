"""Tests of the commands that messages name: they mean the index that the user named."""

import re
import shlex

import pytest

from skillsearch.index import next_steps

COMMAND = re.compile(r"skillsearch [a-z]+(?:'[^']*'|\.\w|[^'`\n.;,()])*")
"""Up to the end of the sentence or clause; words may have dots, quoted ones anything."""


@pytest.fixture
def elsewhere(cli, drinks, tmp_path):
    """Make an index that only --index-dir names, of skills that nobody has vouched for."""
    folder = tmp_path / "named here"
    words = ("index", drinks, "--index-dir", folder, "--model", "hashing", "--trust", "project")
    assert cli(*words).exit_code == 0
    return folder


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["query", "who won the world cup", "--threshold", "1"], ["list"]),
        (["query", "steep-tee", "--threshold", "1"], ["list", "show"]),
        (["prompt", "steep green tea"], ["query", "index"]),
        (["why", "steep-tea"], ["index", "enrich"]),
        (["why", "nothing"], ["index"]),
        (["improve", "squeeze-lemons"], ["enrich"]),
        (["enrich", "--pending"], ["index"]),
        (["enrich", "--forget", "nothing"], ["enrich"]),
    ],
)
def test_a_command_that_is_named_means_the_same_index(cli, elsewhere, monkeypatch, words, named):
    read = []
    monkeypatch.setattr(next_steps, "load_settings", lambda: read.append(1))
    done = cli(*words, "--index-dir", elsewhere)
    commands = COMMAND.findall(f"{done.stdout}\n{done.stderr}")
    assert {line.split()[1] for line in commands} == set(named), commands
    assert all(f"--index-dir {shlex.quote(str(elsewhere))}" in line for line in commands), commands
    assert read == []
