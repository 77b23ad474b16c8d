"""Tests of what usage says for a skill: its bounds, as properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.usage.events import Event, packed
from skillsearch.usage.support import DAY, HALF_LIFE_DAYS, NO_USAGE, PIN_WEIGHT, PRIOR, Usage

TODAY = 20_000
AXES = np.eye(4, dtype=np.float32)
LOADS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 400)), max_size=12
)


def load(skill, vector=AXES[0], days=0, kind="loaded"):
    """Make a load of some days ago."""
    return Event(kind, (TODAY - days) * DAY, "", vector=packed(vector), skill=skill)


def at(cosine):
    """Return a unit vector that has a cosine to the first axis."""
    return (cosine * AXES[0] + np.sqrt(1 - cosine**2) * AXES[1]).astype(np.float32)


@given(LOADS)
def test_shares_are_below_1_together(rows):
    events = [load(skill, AXES[axis], days) for axis, skill, days in rows]
    support = Usage.of(events, 4, TODAY).support(AXES[0])
    assert all(0 < share < 1 for share in support.values())
    assert sum(support.values()) < 1
    assert support.keys() == {skill for axis, skill, _ in rows if axis == 0}


@given(LOADS, st.sampled_from("abc"))
def test_one_more_load_speaks_for_its_skill_and_for_no_other(rows, skill):
    events = [load(each, AXES[axis], days) for axis, each, days in rows]
    before = Usage.of(events, 4, TODAY).support(AXES[0])
    after = Usage.of([*events, load(skill)], 4, TODAY).support(AXES[0])
    assert after[skill] > before.get(skill, 0)
    assert all(after[other] <= before[other] for other in before if other != skill)
    assert after[skill] - before.get(skill, 0) <= 1 / (1 + PRIOR)  # the most of one mistake


@pytest.mark.parametrize(("agreeing", "share"), [(1, 1 / 3), (3, 3 / 5), (8, 4 / 5)])
def test_loads_that_agree_say_more_and_one_other_says_little(agreeing, share):
    events = [load("right")] * agreeing
    assert Usage.of(events, 4, TODAY).support(AXES[0])["right"] == pytest.approx(share)
    mixed = Usage.of([*events, load("wrong")], 4, TODAY).support(AXES[0])
    assert mixed["wrong"] == pytest.approx(1 / (agreeing + 1 + PRIOR))
    assert mixed["right"] >= mixed["wrong"]


@pytest.mark.parametrize(
    ("cosine", "weight"), [(1.0, 1.0), (0.9, 0.8), (0.75, 0.5), (0.5, 0), (-1, 0)]
)
def test_the_more_alike_a_request_is_the_more_it_says(cosine, weight):
    support = Usage.of([load("a", at(cosine))], 4, TODAY).support(AXES[0])
    assert support.get("a", 0) == pytest.approx(weight / (weight + PRIOR), abs=0.02)


def test_a_load_counts_half_after_a_half_life_and_a_pin_always():
    old = load("a", days=int(HALF_LIFE_DAYS))
    assert Usage.of([old], 4, TODAY).support(AXES[0])["a"] == pytest.approx(0.5 / (0.5 + PRIOR))
    pin = load("a", days=4000, kind="pin")
    share = PIN_WEIGHT / (PIN_WEIGHT + PRIOR)
    assert Usage.of([pin], 4, TODAY).support(AXES[0])["a"] == pytest.approx(share)
    later = load("a", days=-9)  # a clock that was wrong
    assert Usage.of([later], 4, TODAY).support(AXES[0])["a"] == pytest.approx(1 / (1 + PRIOR))


def test_what_has_no_vector_or_one_of_another_size_says_nothing():
    events = [Event("loaded", 0, "", skill="a"), load("a", np.ones(5, np.float32))]
    assert not len(Usage.of(events, 4, TODAY))
    assert NO_USAGE.support(AXES[0]) == {}
    assert Usage.of([load("a")], 4, TODAY).support(np.ones(5, np.float32)) == {}
    assert Usage.of([load("a")], 4, TODAY).support(np.zeros(4, np.float32)) == {}


def test_another_model_may_need_requests_that_are_more_alike():
    strict = Usage.of([load("a", at(0.85))], 4, TODAY, alike=0.9)
    assert strict.support(AXES[0]) == {}
    assert strict.support(at(0.85))["a"] == pytest.approx(1 / (1 + PRIOR), abs=0.01)
