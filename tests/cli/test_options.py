"""Tests of how options are declared."""

import click
import pytest

from skillsearch.cli import app


@pytest.mark.parametrize(
    ("names", "flags", "name", "metavar"),
    [
        ("--split", ["--split"], "split", None),
        ("-i --stdin takes_stdin", ["-i", "--stdin"], "takes_stdin", None),
        ("--work DIR", ["--work"], "work", "DIR"),
        ("--min minimum MEASURE=VALUE", ["--min"], "minimum", "MEASURE=VALUE"),
        ("--batch FILE|-", ["--batch"], "batch", "FILE|-"),
    ],
)
def test_one_text_names_an_option_and_its_value(names, flags, name, metavar):
    """Options are written as the help shows them."""
    made = click.command()(app.option(names, "Some help.")(lambda **_: None)).params[0]
    assert (made.opts, made.name, made.metavar, made.help) == (flags, name, metavar, "Some help.")


def test_a_command_gets_its_settings_apart_and_returns_its_exit_code(runner_of, tmp_path):
    """Those that were not given are left to the files and variables."""
    result, asked = runner_of("--index-dir", str(tmp_path), "--json")
    assert result.exit_code == 7
    assert asked.flags == {"index_dir": tmp_path, "n": None}
    assert (asked.as_json, asked.settings.index_dir) == (True, tmp_path)


@pytest.fixture
def runner_of(home):
    """Run a command of two settings and a flag; return the result and what it was asked."""
    from click.testing import CliRunner

    seen = []

    @app.command("some")
    @app.index_dir
    @app.n
    @app.as_json
    def some(asked):
        """Return what no other command does."""
        seen.append(asked)
        return 7

    return lambda *args: (CliRunner().invoke(some, args), seen[-1])
