"""Tests of how commands take their options."""

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import skillsearch
from skillsearch.cli import options
from skillsearch.cli.app import app
from skillsearch.cli.commands import COMMANDS
from skillsearch.settings import config

CHECKOUT = Path(skillsearch.__file__).parents[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_what_its_options_are_called(name):
    """Click passes them by name, which mypy does not see."""
    command = app.get_command(click.Context(app), name)
    passed = {parameter.name for parameter in command.params if parameter.expose_value}
    extra = {"words"} if name == "run" else set()
    assert set(inspect.signature(command.callback).parameters) == passed | extra


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_that_overrides_a_setting_has_its_name(name):
    command = app.get_command(click.Context(app), name)
    settings = {each.name for each in command.params if isinstance(each, options.Setting)}
    assert settings <= options.Flags.__annotations__.keys()
    assert options.Flags.__annotations__.keys() <= set(config.SETTINGS)


def test_only_the_options_that_were_used_override_settings(home, tmp_path):
    """The others are left to the variables and the files; 0 and a switch count as used."""
    seen = []

    @click.command("some")
    @options.index_dir
    @options.threshold
    @options.n
    @options.no_refresh
    @options.selecting
    def some():
        """Keep what is seen."""
        seen.append((options.read_flags(), options.read_settings()))

    args = ["--index-dir", str(tmp_path), "--threshold", "0", "--no-refresh"]
    assert CliRunner().invoke(some, args).exit_code == 0
    flags, settings = seen[-1]
    assert {key: value for key, value in flags.items() if value is not None} == {
        "index_dir": tmp_path,
        "threshold": 0.0,
        "refresh": False,
    }
    assert (settings.index_dir, settings.threshold, settings.refresh) == (tmp_path, 0.0, False)
    assert (settings.n, settings.sources["threshold"]) == (5, "flag")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("mypy", path=Path(sys.executable).parent), reason="no mypy")
def test_a_misspelt_option_does_not_pass_mypy(tmp_path):
    text = (
        "import click\n"
        "from skillsearch.cli import options\n\n\n"
        '@click.command("some")\n'
        '@click.option("--samples", is_flag=True)\n'
        "@options.threshold\n"
        "def some_command(samples: bool) -> None:\n"
        '    """Show some."""\n'
        "    without_samples = not samples\n"
        "    settings, flags = options.read_settings(), options.read_flags()\n"
        "    click.echo((without_samples, settings.threshold, flags['index_dir']))\n"
    )

    wrong = text.replace("not samples", "not smaples")
    wrong = wrong.replace("settings.threshold", "settings.treshold").replace("_dir']", "_dri']")
    files = [tmp_path / "right.py", tmp_path / "wrong.py"]
    for file, content in zip(files, (text, wrong), strict=True):
        file.write_text(content)
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", *map(str, files)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    *errors, summary = done.stdout.splitlines()
    assert "Found 3 errors in 1 file (checked 2 source files)" in summary, done
    for word in ("smaples", "treshold", "index_dri"):
        assert any("wrong.py" in line and word in line for line in errors)
