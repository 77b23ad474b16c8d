"""Tests of which hosts look into which folders of skills."""

import json
import os
from pathlib import Path

import pytest

from skillsearch.hosts.listings import Listings


@pytest.fixture
def tea(home, make_skill):
    """Make a skill where Claude Code looks for those of the user, and return its folder."""
    return Path(os.path.realpath(make_skill(home / ".claude" / "skills", "steep-tea").parent))


def test_a_switch_turns_off_one_skill_of_one_host(home, tea):
    settings = home / ".claude" / "settings.json"
    settings.write_text(json.dumps({"skillOverrides": {"steep-tea": "off", "other": "on"}}))
    listings = Listings()
    assert listings.is_off("claude-code", "steep-tea")
    assert not listings.is_off("claude-code", "other")
    assert not listings.is_off("opencode", "steep-tea")
    assert "claude-code" in listings.readers(tea)
    assert "claude-code" not in listings.hosts_of(tea, "steep-tea")


def test_folders_of_a_project_are_looked_into_if_it_is_named(tmp_path, make_skill):
    (tmp_path / "work" / ".git").mkdir(parents=True)
    folder = make_skill(tmp_path / "work" / ".claude" / "skills", "steep-tea").parent
    assert Listings().readers(folder) == ()
    assert "claude-code" in Listings(tmp_path / "work" / "src").readers(folder)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_hosts_look_into_plugins_that_are_enabled(home, make_skill, is_enabled):
    version = home / "kit" / "1.0"
    folder = Path(os.path.realpath(make_skill(version / "skills", "kit-tea").parent))
    base = home / ".claude"
    (base / "plugins").mkdir(parents=True)
    entry = {"scope": "user", "installPath": str(version), "version": "1.0"}
    record = {"version": 2, "plugins": {"kit@market": [entry]}}
    (base / "plugins" / "installed_plugins.json").write_text(json.dumps(record))
    enabled = {"enabledPlugins": {"kit@market": is_enabled}}
    (base / "settings.json").write_text(json.dumps(enabled))
    listings = Listings()
    assert listings.readers(folder) == ()
    assert listings.readers(folder, with_plugins=True) == (("claude-code",) if is_enabled else ())
