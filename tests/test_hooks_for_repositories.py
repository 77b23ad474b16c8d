"""Tests that what other repositories use of this one exists: hooks and the action."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from skillsearch.cli.app import app

CHECKOUT = Path(__file__).parents[1]
HOOKS = CHECKOUT / ".pre-commit-hooks.yaml"
ACTION = CHECKOUT / ".github" / "actions" / "skillsearch" / "action.yml"
pytestmark = pytest.mark.skipif(not HOOKS.exists(), reason="an installed copy has no hooks")
GOOD = "---\nname: good\ndescription: Times tea. Use for tea.\n---\n# Tea\n"
LOW = "R@5=0.2"


def options_of(name):
    command = app.get_command(click.Context(app), name)
    return {option for item in command.params for option in item.opts}


def test_the_action_uses_others_by_their_commit():
    """A tag can be moved to other code."""
    steps = yaml.safe_load(ACTION.read_text("utf-8"))["runs"]["steps"]
    used = [step["uses"].partition("@")[2] for step in steps if "uses" in step]
    assert used
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in used)


def test_hooks_run_commands_and_options_that_exist():
    hooks = {hook["id"]: hook for hook in yaml.safe_load(HOOKS.read_text("utf-8"))}
    assert hooks.keys() == {"skillsearch-validate", "skillsearch-eval-self"}
    for hook in hooks.values():
        program, command, *options = hook["entry"].split()
        assert (program, hook["language"]) == ("skillsearch", "python")
        assert set(options) <= options_of(command)
    page = (CHECKOUT / "skillsearch" / "cli" / "README.md").read_text("utf-8")
    assert all(name in page for name in hooks)


@pytest.fixture
def step():
    """Return the last step of the action, which runs the command; check the others."""
    action = yaml.safe_load(ACTION.read_text("utf-8"))
    assert action["inputs"].keys() == {"paths", "command", "min"}
    assert action["runs"]["using"] == "composite"
    *first, last = action["runs"]["steps"]
    used = [earlier["uses"].split("@")[0] for earlier in first if "uses" in earlier]
    assert used == ["actions/setup-python"]
    return last


@pytest.fixture
def act(step, tmp_path):
    """Run the last step with some inputs, in a folder with a good and a bad skill."""
    program = tmp_path / "temp" / "skillsearch" / "bin" / "skillsearch"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m skillsearch "$@"\n', "utf-8")
    program.chmod(0o755)
    for name, text in (("good", GOOD), ("bad one", "---\nname: Bad\n---\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(text, "utf-8")

    def run(paths, command="validate", minima=""):
        inputs = {"PATHS": paths, "COMMAND": command, "MINIMA": minima}
        assert inputs.keys() == step["env"].keys()
        inputs |= {"RUNNER_TEMP": str(tmp_path / "temp"), "PYTHONPATH": str(CHECKOUT)}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        env = {**os.environ, **inputs}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    return run


@pytest.mark.parametrize(
    ("paths", "code"), [("good\n", 0), ("good\nbad one", 3), ("--help", 2), ("$(exit 0)", 2)]
)
def test_the_action_checks_paths_one_a_line(paths, code, act):
    done = act(paths)
    assert done.returncode == code, done.stderr


def test_the_action_knows_two_commands(act):
    done = act(".", "index")
    assert (done.returncode, done.stdout) == (2, "")
    assert "index is neither validate nor eval" in done.stderr


@pytest.mark.slow
def test_the_action_fails_below_a_minimum(act, tmp_path, make_skill):
    assert {"--self", "--min"} <= options_of("eval")
    cases = [{"query": text, "should_trigger": True} for text in ("times tea", "zebra quantum")]
    (tmp_path / "good" / "evals").mkdir()
    (tmp_path / "good" / "evals" / "trigger-evals.json").write_text(json.dumps(cases), "utf-8")
    make_skill(tmp_path, "zebra", "About the quantum zebra.")
    for minima, code in (("", 0), (LOW, 0), (f"{LOW}\nSuccess@1=0.9", 1)):
        assert act("good\nzebra", "eval", minima).returncode == code, minima
