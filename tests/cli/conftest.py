"""Fixtures of the tests of the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import skillsearch
from skillsearch.cli.app import Commands, app
from skillsearch.cli.options import VerboseOption


@pytest.fixture
def environment(home):
    """Return the environment of a process that finds this package from any folder."""
    return {**os.environ, "PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}


@pytest.fixture
def terminal(monkeypatch):
    """Decide whether stdout of commands that run in this process is a terminal; no colours."""

    def set_terminal(is_terminal=True):
        stream = "click.testing._NamedTextIOWrapper"
        monkeypatch.setattr(
            f"{stream}.isatty", lambda self: is_terminal and self.name == "<stdout>", raising=False
        )
        monkeypatch.setenv("TTY_COMPATIBLE", "0")

    return set_terminal


@pytest.fixture
def on_terminal():
    """Run the program with a terminal for all its streams; return its end and what was sent."""

    def run(*args, typed=b"", **options):
        leader, follower = os.openpty()
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), follower)
        command = [sys.executable, "-m", "skillsearch", *map(str, args)]
        process = subprocess.Popen(command, **streams, **options)
        os.close(follower)
        os.write(leader, typed)
        sent = b""
        try:
            while part := os.read(leader, 65536):
                sent += part
        except OSError:
            pass  # Linux says so when the last writer closes the terminal.
        os.close(leader)
        return process.wait(timeout=120), sent.decode()

    return run


@pytest.fixture
def failing():
    """Run a command line whose commands raise an error."""

    def run(error, *args):
        def fail():
            raise error

        class Failing(Commands):
            def get_command(self, ctx, cmd_name):
                return click.Command(cmd_name, callback=fail, params=[VerboseOption()])

        group = Failing(callback=app.callback, params=app.params)
        return CliRunner().invoke(group, args)

    return run


@pytest.fixture
def index(cli, index_dir):
    """Run ``index --json`` with the hashing embedder and return its exit code and object."""

    def run(*args):
        result = cli("index", "--index-dir", index_dir, "--model", "hashing", "--json", *args)
        return result.exit_code, json.loads(result.stdout) if result.stdout else result.stderr

    return run
