"""Tests of what a session loads, selects, forgets and says of itself."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from skillsearch.agents.session import SkillSession, utc_now
from skillsearch.execution.types import ArtifactRef

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def session():
    return SkillSession(clock=lambda: NOON)


def test_a_load_writes_the_keys_of_the_seed(session):
    delta = session.load("demo", docs=["USAGE.md", "docs/更多.md"])
    assert delta == {
        "temp:skill:loaded:demo": "1",
        "temp:skill:docs:demo": '["USAGE.md","docs/更多.md"]',
        "temp:skill:loaded_order:": '["demo"]',
        "temp:skill:lifetime:demo": "turn",
        "temp:skill:since:demo": "2026-03-01T12:00:00+00:00",
    }
    assert session.state == delta


def test_the_time_of_a_load_is_told_in_utc():
    zone = timezone(timedelta(hours=9))
    session = SkillSession(clock=lambda: datetime(2026, 3, 1, 21, 0, tzinfo=zone))
    session.load("demo")
    assert session.state["temp:skill:since:demo"] == "2026-03-01T12:00:00+00:00"
    assert session.loaded()[0].since == NOON


def test_the_clock_is_that_of_the_machine_by_default():
    session = SkillSession()
    before = utc_now()
    session.load("demo")
    assert before <= session.loaded()[0].since <= utc_now()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lifetime": "forever"}, "lifetime is 'forever'; use one of: turn, once, session."),
        ({"max_loaded": 0}, "max_loaded is 0; use 1 or more, or None for no limit."),
    ],
)
def test_settings_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SkillSession(**options)


ARTIFACTS = "temp:skill:artifacts"


def test_what_a_call_saved_is_recorded_as_in_the_seed(session):
    delta = session.record_artifacts([ArtifactRef("图/a.txt", 0), ArtifactRef("b", 12)], "call-1")
    assert delta == session.state
    assert delta == {
        ARTIFACTS: '{"tool_call_id":"call-1","artifacts":['
        '{"name":"图/a.txt","version":0,"ref":"artifact://图/a.txt@0"},'
        '{"name":"b","version":12,"ref":"artifact://b@12"}]}'
    }


def test_the_record_of_artifacts_is_that_of_the_last_call():
    session = SkillSession(agent="cook")
    session.record_artifacts([ArtifactRef("a", 0)], "1")
    other = SkillSession(session.state, agent="baker")
    assert list(other.record_artifacts([ArtifactRef("b", 0)], "2")) == [ARTIFACTS]
    assert session.record_artifacts([ArtifactRef("b", 0)], "2") == {}
    assert session.state == {
        ARTIFACTS: '{"tool_call_id":"2","artifacts":'
        '[{"name":"b","version":0,"ref":"artifact://b@0"}]}'
    }


def test_the_record_of_artifacts_stays_when_skills_go(session):
    """It tells of the disk; a host that empties it gets a new one with the next call."""
    session.load("demo")
    session.record_artifacts([ArtifactRef("a", 0)])
    session.begin_turn()
    session.end_request()
    assert list(session.state) == [ARTIFACTS]
    assert SkillSession(session.state, agent="cook").loaded() == ()
