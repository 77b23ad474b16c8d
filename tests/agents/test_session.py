"""Tests of what a session loads, selects, forgets and says of itself."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from skillsearch.agents.session import DocSelection, LoadedEntry, SkillSession, utc_now
from skillsearch.execution.types import ArtifactRef

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def session():
    """A session without an agent, at noon."""
    return SkillSession(clock=lambda: NOON)


def names(session):
    """Return the names of the loaded skills, in order."""
    return [entry.name for entry in session.loaded()]


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


def test_a_load_for_an_agent_writes_the_keys_of_that_agent():
    session = SkillSession(agent="cook", lifetime="session", clock=lambda: NOON)
    assert session.load("demo", include_all_docs=True) == {
        "temp:skill:loaded_by_agent:cook/demo": "1",
        "temp:skill:docs_by_agent:cook/demo": "*",
        "temp:skill:loaded_order_by_agent:cook": '["demo"]',
        "temp:skill:lifetime_by_agent:cook/demo": "session",
        "temp:skill:since_by_agent:cook/demo": "2026-03-01T12:00:00+00:00",
    }


def test_what_is_loaded_is_told_in_full(session):
    session.load("b", docs=["x.md", "y.md", "x.md"])
    session.load("a", include_all_docs=True)
    session.activate_chunk("a", "setup")
    assert session.loaded() == (
        LoadedEntry("b", NOON, ("x.md", "y.md"), False, ()),
        LoadedEntry("a", NOON, (), True, ("setup",)),
    )
    assert [session.is_loaded(name) for name in "abc"] == [True, True, False]


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


def test_loading_again_keeps_time_documents_and_chunks():
    times = iter([NOON, NOON + timedelta(hours=1)])
    session = SkillSession(clock=lambda: next(times))
    session.load("a", docs=["x.md"])
    session.activate_chunk("a", "setup")
    session.load("b")
    assert session.load("a") == {"temp:skill:loaded_order:": '["b","a"]'}
    assert session.load("a", docs=[]) == {}
    assert session.loaded()[1] == LoadedEntry("a", NOON, ("x.md",), False, ("setup",))


def test_loading_again_with_documents_replaces_the_selection(session):
    session.load("a", include_all_docs=True)
    assert session.load("a", docs=["y.md"]) == {"temp:skill:docs:a": '["y.md"]'}
    assert session.load("a", docs=["z.md"], include_all_docs=True) == {"temp:skill:docs:a": "*"}


def test_unload_forgets_everything_about_a_skill(session):
    session.load("a", docs=["x.md"])
    session.activate_chunk("a", "setup")
    delta = session.unload("a")
    kinds = ("loaded", "docs", "chunks", "since", "lifetime")
    assert delta == {f"temp:skill:{kind}:a": None for kind in kinds} | {
        "temp:skill:loaded_order:": None
    }
    assert session.state == {}
    assert session.unload("a") == {}


@pytest.mark.parametrize(
    ("before", "docs", "include_all", "mode", "names", "all_docs", "said"),
    [
        (None, ["x", "x"], False, "replace", ("x",), False, "replace"),
        (None, None, False, "replace", (), False, "replace"),
        (None, None, True, "add", (), True, "add"),
        (["x", "y"], ["z", "x"], False, "add", ("x", "y", "z"), False, "add"),
        (["x", "y"], ["z", "x"], False, "replace", ("z", "x"), False, "replace"),
        (["x", "y"], ["z"], False, "clear", (), False, "clear"),
        (["x", "y"], ["z"], True, "replace", (), True, "replace"),
        (["x"], ["z"], False, "ADD ", ("x", "z"), False, "add"),
        (["x"], ["z"], False, "merge", ("z",), False, "replace"),
        ("*", ["z"], False, "add", (), True, "add"),
        ("*", ["z"], False, "replace", (), True, "replace"),
        ("*", ["z"], False, "clear", (), False, "clear"),
    ],
)
def test_a_selection_changes_by_its_mode(
    session, before, docs, include_all, mode, names, all_docs, said
):
    session.load("a", docs=None if before == "*" else before, include_all_docs=before == "*")
    selection = session.select_docs("a", docs, include_all, mode)
    assert selection == DocSelection(names, all_docs, said)
    assert session.selection("a") == DocSelection(names, all_docs)


def test_a_selection_does_not_load(session):
    session.select_docs("a", ["x.md"])
    assert session.loaded() == ()
    session.load("a")
    assert session.loaded()[0].docs == ("x.md",)


def test_chunks_are_kept_in_the_order_of_their_activation(session):
    assert session.active_chunks("a") == ()
    for chunk in ("setup", "errors", "setup"):
        session.activate_chunk("a", chunk)
    assert session.active_chunks("a") == ("setup", "errors")
    assert session.state["temp:skill:chunks:a"] == '["setup","errors"]'
    assert session.activate_chunk("a", "errors") == {}


@pytest.mark.parametrize(
    "touch",
    [
        lambda session: session.load("a"),
        lambda session: session.select_docs("a", ["x.md"]).delta,
        lambda session: session.activate_chunk("a", "setup"),
    ],
)
def test_each_use_of_a_skill_touches_it(session, touch):
    for name in "abc":
        session.load(name)
    assert touch(session)["temp:skill:loaded_order:"] == '["b","c","a"]'
    assert names(session) == ["b", "c", "a"]


def test_the_least_recently_touched_skill_makes_room():
    session = SkillSession(max_loaded=2, clock=lambda: NOON)
    session.load("a", docs=["x.md"])
    session.load("b")
    session.activate_chunk("a", "setup")
    delta = session.load("c")
    assert delta.evicted == ("b",)
    assert delta["temp:skill:loaded:b"] is None
    assert delta["temp:skill:loaded_order:"] == '["a","c"]'
    assert names(session) == ["a", "c"]
    assert not any(key.endswith(":b") for key in session.state)
    assert session.load("a").evicted == ()


def test_a_state_that_holds_too_many_is_cut_when_it_is_opened():
    state = SkillSession()
    for name in "cabd":
        state.load(name)
    session = SkillSession(state.state, max_loaded=2)
    assert session.opening.evicted == ("c", "a")
    assert session.opening["temp:skill:loaded:c"] is None
    assert names(session) == ["b", "d"]


@pytest.mark.parametrize(
    ("lifetime", "after_request", "after_turn"),
    [("turn", True, False), ("once", False, True), ("session", True, True)],
)
def test_a_skill_stays_as_long_as_its_lifetime_says(lifetime, after_request, after_turn):
    for event, stays in (("end_request", after_request), ("begin_turn", after_turn)):
        session = SkillSession(lifetime=lifetime)
        session.load("a", docs=["x.md"])
        session.select_docs("b", ["y.md"])
        session.activate_chunk("c", "setup")
        before = dict(session.state)
        delta = getattr(session, event)()
        assert session.state == (before if stays else {})
        assert delta == ({} if stays else dict.fromkeys(before))


def test_a_skill_keeps_the_lifetime_it_was_loaded_with():
    short = SkillSession(lifetime="turn")
    long = SkillSession(short.state, lifetime="session")
    short.load("a")
    long.load("b")
    long.select_docs("a", ["x.md"])
    long.begin_turn()
    assert names(short) == names(long) == ["b"]
    short.load("b")
    assert long.begin_turn()["temp:skill:loaded:b"] is None


def test_agents_do_not_see_each_other():
    coordinator = SkillSession()
    cook = coordinator.for_agent("cook")
    other = coordinator.for_agent("coo")
    coordinator.load("a")
    cook.load("k/a", docs=["x.md"])
    assert [names(session) for session in (coordinator, cook, other)] == [["a"], ["k/a"], []]
    assert other.selection("k/a") == DocSelection()
    assert names(coordinator.for_agent("cook")) == ["k/a"]
    cook.begin_turn()
    assert names(coordinator) == ["a"]


def test_a_session_for_another_agent_has_the_same_settings():
    session = SkillSession(lifetime="session", max_loaded=1, clock=lambda: NOON)
    cook = session.for_agent("cook")
    cook.load("a")
    assert cook.load("b").evicted == ("a",)
    assert cook.begin_turn() == {}
    assert cook.loaded()[0].since == NOON
    assert (cook.agent, cook.state) == ("cook", session.state)


def test_a_state_that_is_given_is_used_even_when_empty():
    state = {}
    SkillSession(state).load("a")
    assert state["temp:skill:loaded:a"] == "1"


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
    other = session.for_agent("baker")
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
