"""Tests of the hook in the shadow (`hook_mode`): it decides and keeps that, and offers nothing."""

import json

import pytest

from skillsearch.daemon.answers import Answers
from skillsearch.settings.environ import variables
from skillsearch.usage.log import UsageLog

EVENT = {"hook_event_name": "UserPromptSubmit", "prompt": "steep green tea", "session_id": "s"}


@pytest.fixture
def ask(cli, drinks_index, monkeypatch, tmp_path):
    """Answer a prompt, by the daemon's answers or without it."""
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(drinks_index))

    def by_daemon():
        arguments = {"prompt": EVENT["prompt"], "n": 3, "folder": str(tmp_path), "index_dir": None}
        arguments |= {"variables": variables(), "include_unvetted": False, "states": ["fits"]}
        answer = Answers().overview(arguments)
        return "".join(answer["offers"].values())

    def alone():
        monkeypatch.setenv("SKILLSEARCH_DAEMON", "off")
        result = cli("hook", stdin=json.dumps(EVENT | {"cwd": str(tmp_path)}), obj=120.0)
        assert result.exit_code == 0
        return result.stdout

    return {"daemon": by_daemon, "alone": alone}


@pytest.mark.parametrize("way", ["daemon", "alone"])
def test_the_hook_offers_nothing_in_the_shadow(ask, monkeypatch, way):
    assert "steep-tea" in ask[way]()
    monkeypatch.setenv("SKILLSEARCH_HOOK_MODE", "shadow")
    monkeypatch.setenv("SKILLSEARCH_USAGE", "hashes")
    assert ask[way]() == ""
    (event,) = UsageLog.own().events()
    assert (event.interface, event.is_shadow) == ("hook", True)
    assert event.offered[0].skill == "drinks:steep-tea"
