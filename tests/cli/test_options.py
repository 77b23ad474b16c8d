"""Tests of how commands take their options."""

import inspect

import click
import pytest
from click.testing import CliRunner

from skillsearch.cli import options
from skillsearch.cli.app import app
from skillsearch.cli.commands import COMMANDS
from skillsearch.settings.table import SETTINGS


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
    settings = {each.name for each in command.params if isinstance(each, options.SettingOption)}
    assert settings <= options.Flags.__annotations__.keys()
    assert options.Flags.__annotations__.keys() <= set(SETTINGS)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_path_is_refused_and_not_taken_for_the_working_folder(name):
    """It is what a shell makes of a variable that is not set."""
    command = app.get_command(click.Context(app), name)
    for parameter in command.params:
        if isinstance(parameter.type, click.Path):
            with pytest.raises(click.BadParameter, match="it is empty; name a path"):
                parameter.type.convert("", parameter, click.Context(command))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_names_the_bounds_that_a_number_has_and_no_others(name):
    command = app.get_command(click.Context(app), name)
    assert "None" not in command.get_help(click.Context(command))


def test_only_the_options_that_were_used_override_settings(home, tmp_path):
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
