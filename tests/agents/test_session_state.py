"""Tests of states that come from elsewhere: JSON, older hosts, and whoever means harm."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillsearch.agents.session import KINDS, DocSelection, SkillSession, state_key

AGENTS = st.sampled_from(["", "cook", "a/b"])
TIMES = ["2026-03-01", "2026-03-01T12:00:00+09:00", "0001-01-01T00:00:00+14:00"]
ARRAYS = ["[]", '["x"]', '["x",1,null,"x"]', "{}", "null", "[", "NaN", "[" * 100_000]
OTHERS = ["1", "", "0", "*", "turn", "once", "session", None, 1, b"1", ["x"], {}]
VALUES = st.sampled_from([*TIMES, *ARRAYS, *OTHERS])
KEYS = st.one_of(
    st.builds(state_key, st.sampled_from(KINDS), AGENTS, st.sampled_from(["x", "y/z", ""])),
    st.builds(state_key, st.just("loaded_order"), AGENTS),
    st.sampled_from(["host", "temp:skill:artifacts", "temp:skill:loaded_by_agent:%zz/x", 7, None]),
)


def names(session):
    return [entry.name for entry in session.loaded()]


def test_a_state_survives_json_whole():
    session = SkillSession({"host": "ours"}, agent="cook", lifetime="session")
    session.load("周报\ud800", docs=["x.md\udfff"])
    session.activate_chunk("周报\ud800", "setup")
    SkillSession(session.state, agent="other").load("b")
    text = session.to_json()
    assert text.isascii()  # so that it can be stored whatever a skill is called
    again = SkillSession.from_json(text, agent="cook", lifetime="turn")
    assert again.state == session.state
    assert again.loaded() == session.loaded()
    assert again.begin_turn() == {}
    others = [SkillSession(owner.state, agent="other").loaded() for owner in (again, session)]
    assert others[0] == others[1] != ()


@pytest.mark.parametrize("text", ["[]", "{", "NaN", '{"a":' * 100_000, '{"a": \ud800}'])
def test_a_text_that_is_no_json_object_is_an_empty_state(text):
    session = SkillSession.from_json(text)
    assert session.state == {}
    assert session.load("a")["temp:skill:loaded:a"] == "1"


def test_members_that_are_no_texts_are_left_out():
    text = '{"a": 1, "b": null, "c": ["x"], "d": {}, "host": "x", "temp:skill:loaded:a": true}'
    assert SkillSession.from_json(text).state == {"host": "x"}


@given(st.text())
def test_no_text_breaks_the_reading_of_json(text):
    state = SkillSession.from_json(text).state
    assert all(isinstance(value, str) for value in state.values())


@pytest.mark.parametrize("value", ["", "true", None, 1])
def test_only_a_one_means_loaded(value):
    session = SkillSession({"temp:skill:loaded:a": value})
    assert session.loaded() == ()
    assert not session.is_loaded("a")
    assert session.load("a")["temp:skill:loaded:a"] == "1"
    assert names(session) == ["a"]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("", ()),
        ('{"x.md": 1}', ()),
        ('["x.md"', ()),
        ("[" * 100_000, ()),
        ("9" * 10_000, ()),
        (["x.md"], ()),
        (None, ()),
        ('["x.md", 1, null, ["y"], "z.md", "x.md"]', ("x.md", "z.md")),
    ],
)
def test_a_selection_is_read_as_far_as_it_can_be(value, names):
    session = SkillSession({"temp:skill:docs:a": value, "temp:skill:chunks:a": value})
    assert session.selection("a") == DocSelection(names)
    assert session.active_chunks("a") == names
    assert session.select_docs("a", ["n.md"], mode="add").names == (*names, "n.md")


@pytest.mark.parametrize(
    ("value", "since"),
    [
        ("2026-03-01T21:00:00+09:00", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01T12:00:00", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("yesterday", None),
        ("0001-01-01T00:00:00+14:00", None),
        (1772366400, None),
        (None, None),
    ],
)
def test_a_time_that_cannot_be_read_is_unknown(value, since):
    session = SkillSession({"temp:skill:loaded:a": "1", "temp:skill:since:a": value})
    assert session.loaded()[0].since == since


@pytest.mark.parametrize("value", ["", "forever", "TURN", None, 1])
def test_a_lifetime_that_cannot_be_read_is_that_of_the_reader(value):
    for lifetime, loaded in (("turn", []), ("session", ["a"])):
        state = {"temp:skill:loaded:a": "1", "temp:skill:lifetime:a": value}
        session = SkillSession(state, lifetime=lifetime)
        session.begin_turn()
        assert names(session) == loaded


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ('["c","a","b"]', ["c", "a", "b"]),
        ('["c","gone","a","c"]', ["c", "a", "b"]),
        ('["c",7]', ["c", "a", "b"]),
        ("c,a,b", ["a", "b", "c"]),
        (None, ["a", "b", "c"]),
    ],
)
def test_an_order_is_read_as_far_as_it_can_be(order, expected):
    state = {f"temp:skill:loaded:{name}": "1" for name in "bca"}
    state["temp:skill:loaded_order:"] = order
    assert names(SkillSession(state)) == expected


def test_what_the_host_keeps_beside_is_left_alone():
    host = {
        "host": "x",
        "temp:skill:artifacts": "{}",
        "temp:skill:eaten:a": "1",
        "temp:skill:loaded_by_agent:/a": "1",
        "temp:skill:loaded_by_agent:%63ook/a": "1",
        "count": 3,
        7: None,
    }
    session = SkillSession(dict(host), agent="cook", max_loaded=1)
    for name in ("a", "b"):
        session.load(name)
    session.begin_turn()
    assert session.state == host


@given(st.dictionaries(KEYS, VALUES), AGENTS, st.sampled_from(["turn", "once", "session"]))
@example({"temp:skill:loaded:x": "1", "temp:skill:docs:x": "[" * 100_000}, "cook", "turn")
def test_no_state_breaks_a_session(state, agent, lifetime):
    ours = dict(state)
    session = SkillSession(ours, agent=agent, lifetime=lifetime, max_loaded=2)
    deltas = [
        session.opening,
        session.load("x"),
        session.select_docs("y/z", ["d"], mode="add").delta,
        session.activate_chunk("", "c"),
        session.load("new", include_all_docs=True),
        session.end_request(),
        session.begin_turn(),
        session.unload("x"),
    ]
    replayed = dict(state)
    for delta in deltas:
        replayed |= delta
    changed_keys = {key for delta in deltas for key in delta}
    assert {key for key in ours if ours[key] != state.get(key)} <= changed_keys
    assert {key: replayed[key] for key in ours} == ours
    assert all(replayed[key] is None for key in set(replayed) - set(ours))
    assert len(session.loaded()) <= 2
    assert json.loads(session.to_json()) == {
        key: value for key, value in ours.items() if isinstance(key, str) and isinstance(value, str)
    }


@pytest.mark.slow
def test_a_hundred_thousand_keys_are_only_many():
    state = {f"temp:skill:loaded_by_agent:cook/s{n:04}": "1" for n in range(10_000)}
    state |= {f"temp:skill:docs_by_agent:other/{n}": "[" for n in range(90_000)}
    session = SkillSession(state, agent="cook", max_loaded=3)
    assert names(session) == ["s9997", "s9998", "s9999"]
    assert len(session.opening.evicted) == 9_997
    assert session.load("s0000").evicted == ("s9997",)


def test_an_agent_adopts_what_an_older_host_wrote():
    state = {
        "temp:skill:loaded:b": "1",
        "temp:skill:loaded:a": "1",
        "temp:skill:docs:a": '["x.md"]',
        "temp:skill:docs:only": "*",
        "temp:skill:loaded_order:": '["b","a"]',
    }
    session = SkillSession(state, agent="cook")
    moved = {
        "temp:skill:loaded_by_agent:cook/b": "1",
        "temp:skill:loaded_by_agent:cook/a": "1",
        "temp:skill:docs_by_agent:cook/a": '["x.md"]',
        "temp:skill:docs_by_agent:cook/only": "*",
        "temp:skill:loaded_order_by_agent:cook": '["b","a"]',
    }
    gone = ["loaded:b", "loaded:a", "docs:a", "docs:only", "loaded_order:"]
    assert state == moved
    assert session.opening == moved | {f"temp:skill:{key}": None for key in gone}
    assert names(session) == ["b", "a"]
    assert SkillSession(session.state, agent="other").opening == {}


def test_what_an_agent_has_wins_over_what_it_adopts():
    state = {
        "temp:skill:loaded:a": "1",
        "temp:skill:loaded:z": "1",
        "temp:skill:docs:a": '["old.md"]',
        "temp:skill:docs:empty": "",
    }
    own = SkillSession(agent="cook")
    own.load("a", docs=["new.md"])
    session = SkillSession(own.state | state, agent="cook")
    assert session.selection("a").names == ("new.md",)
    assert names(session) == ["z", "a"]
    shared = {key: value for key, value in session.state.items() if "_by_agent:" not in key}
    assert shared == {"temp:skill:docs:empty": ""}


def test_adopted_skills_are_bound_like_all_others():
    state = {f"temp:skill:loaded:{name}": "1" for name in "abc"}
    session = SkillSession(state, agent="cook", max_loaded=1)
    assert session.opening.evicted == ("a", "b")
    assert session.opening["temp:skill:loaded:a"] is None
    assert session.opening["temp:skill:loaded_by_agent:cook/a"] is None
    assert state == {
        "temp:skill:loaded_by_agent:cook/c": "1",
        "temp:skill:loaded_order_by_agent:cook": '["c"]',
    }


def test_no_agent_adopts_from_a_session_without_one():
    bare = SkillSession()
    bare.load("a")
    bare.select_docs("b", ["x.md"])
    bare.activate_chunk("c", "setup")
    before = dict(bare.state)
    bare.state["temp:skill:loaded:old"] = "1"
    cook = SkillSession(bare.state, agent="cook")
    assert names(cook) == ["old"]
    assert {key: value for key, value in bare.state.items() if "_by_agent:" not in key} == before


@pytest.mark.parametrize("value", ["", None])
def test_a_record_that_the_host_emptied_keeps_nothing(value):
    """Some hosts empty a key where we say that it is gone."""
    state = {"temp:skill:lifetime:a": value, "temp:skill:loaded:a": "1"}
    assert names(SkillSession(state, agent="cook")) == ["a"]
