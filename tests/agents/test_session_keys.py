"""Tests of the keys that a session writes into a host's state."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillsearch.agents.session import KINDS, SkillKey, parse_key, state_key

TEXTS = st.one_of(
    st.text(alphabet="ab/:% 2F", max_size=8), st.text(st.characters(exclude_categories=[]))
)
RECORDS = st.builds(SkillKey, st.sampled_from(KINDS), TEXTS, TEXTS)

KEYS = [
    ("loaded", "", "demo", "temp:skill:loaded:demo"),
    ("docs", "", "demo", "temp:skill:docs:demo"),
    ("chunks", "cook", "demo", "temp:skill:chunks_by_agent:cook/demo"),
    ("lifetime", "cook", "demo", "temp:skill:lifetime_by_agent:cook/demo"),
    ("loaded", "team/cook", "demo", "temp:skill:loaded_by_agent:team%2Fcook/demo"),
    ("loaded", "a/b c:d@é&=+$~!", "x", "temp:skill:loaded_by_agent:a%2Fb%20c:d@%C3%A9&=+$~%21/x"),
    ("loaded", "chef é 100%", "demo", "temp:skill:loaded_by_agent:chef é 100%/demo"),
    ("loaded", "a%2Fb", "demo", "temp:skill:loaded_by_agent:a%252Fb/demo"),
    ("loaded", "cook", "team/demo: 周报", "temp:skill:loaded_by_agent:cook/team/demo: 周报"),
]


@pytest.mark.parametrize(("kind", "agent", "name", "key"), KEYS)
def test_a_record_has_the_key_that_the_seed_writes(kind, agent, name, key):
    """The keys are a contract with other hosts, letter by letter, and can be read back."""
    assert state_key(kind, agent, name) == key
    assert parse_key(key) == (kind, agent, name)


@pytest.mark.parametrize(
    ("agent", "key"),
    [
        ("", "temp:skill:loaded_order:"),
        ("cook", "temp:skill:loaded_order_by_agent:cook"),
        ("team/cook", "temp:skill:loaded_order_by_agent:team%2Fcook"),
    ],
)
def test_an_order_has_the_key_that_the_seed_writes(agent, key):
    """An order belongs to an agent, not to a skill, so it is not kept as a record."""
    assert state_key("loaded_order", agent) == key
    assert parse_key(key) is None


@given(RECORDS)
@example(SkillKey("docs", "a/b", "c"))
@example(SkillKey("docs", "a", "b/c"))
@example(SkillKey("docs", "a%2Fb", "c"))
@example(SkillKey("docs", "a%252Fb", "c"))
@example(SkillKey("docs", "%ff", "c"))
@example(SkillKey("docs", "", ""))
def test_every_record_can_be_read_back_from_its_key(record):
    """So no two records share a key, whatever agents and skills are called."""
    assert parse_key(state_key(*record)) == record


@pytest.mark.parametrize(
    "key",
    [
        *("host", "temp:skill:", "temp:skill:loaded", "temp:skill:eaten:demo"),
        *("temp:skill:artifacts", "TEMP:SKILL:LOADED:demo"),
        *("temp:skill:loaded_by_agent:cook", "temp:skill:loaded_by_agent:/demo"),
        "temp:skill:loaded_by_agent:%63ook/demo",
        "temp:skill:loaded_by_agent:a%2fb/demo",
        "temp:skill:loaded_by_agent:a%FF%2Fb/demo",
    ],
)
def test_a_key_that_is_never_written_is_nobodys(key):
    """A second spelling of a record would make two of one."""
    assert parse_key(key) is None


@given(st.text())
@example("loaded:x")
@example("docs_by_agent:a%2Fb/x")
def test_a_key_that_is_read_is_the_key_that_is_written(rest):
    key = f"temp:skill:{rest}"
    record = parse_key(key)
    assert record is None or state_key(*record) == key
