"""Tests of the report of usage."""

import numpy as np
import pytest

from skillsearch.usage.events import Event, OfferedSkill, packed
from skillsearch.usage.log import Origin
from skillsearch.usage.report import Collision, Gap, PassedOver, Shadow, UsageReport

SKILLS = {"r:tea": "tea", "r:coffee": "coffee", "r:lemon": "lemon"}
AXES = np.eye(4, dtype=np.float32)


def asked(request, *skills, vector=AXES[0], state="fits", model="m", **more):
    """Make a request that was offered skills."""
    offered = tuple(OfferedSkill(f"r:{skill}", 0.9) for skill in skills)
    shown = Event("asked", 1, "", request_id=request, state=state, offered=offered, **more)
    return shown._replace(vector=packed(np.asarray(vector, np.float32)), model=model)


def loaded(skill, request=""):
    """Make a load that is due to a request."""
    return Event("loaded", 2, "", request_id=request, skill=f"r:{skill}")


@pytest.fixture
def report():
    """Report events; the skill nearest to a gap is the axis that its vector is along."""

    def make(*events):
        def nearest(vectors):
            return [f"near {row.argmax()}" for row in vectors]

        return UsageReport.of(events, SKILLS, nearest, Origin("", "/i", "m"), len(AXES))

    return make


def test_skills_are_never_offered_never_loaded_or_passed_over(report):
    said = report(*[asked(str(n), "tea", "gone") for n in range(3)], loaded("tea", "1"))
    assert said.never_offered == ("coffee", "lemon")
    assert said.never_loaded == ("coffee", "lemon")
    assert said.passed_over == (PassedOver("r:gone", 3),)
    assert (said.requests, said.loads, said.pins, said.with_text) == (3, 1, 0, 0)
    few = report(asked("1", "tea"), asked("2", "tea"))
    assert few.passed_over == ()


def test_two_collide_if_now_one_is_loaded_and_now_the_other(report):
    together = [asked(str(n), "tea", "coffee", "lemon") for n in range(4)]
    said = report(*together, loaded("tea", "0"), loaded("coffee", "1"), loaded("tea", "2"))
    assert said.collisions == (Collision(("coffee", "tea"), 4, (1, 2)),)
    assert report(*together, loaded("tea", "0"), loaded("tea", "1")).collisions == ()
    assert report(*together[:2], loaded("tea", "0"), loaded("coffee", "1")).collisions == ()


def test_requests_that_nothing_answered_are_grouped_by_likeness(report):
    alike = [1.0, 0.3, 0.0, 0.0]
    said = report(
        asked("a", state="none", text="boil an egg"),
        asked("a", state="none", text="boil an egg"),
        asked("b", state="none", vector=alike),
        asked("c", state="none", vector=AXES[2], text="fly a kite"),
        asked("d", "tea", state="perhaps", vector=AXES[2]),
    )
    assert said.gaps == (
        Gap(3, 2, "near 0", ("boil an egg",)),
        Gap(1, 1, "near 2", ("fly a kite",)),
    )


def test_a_request_that_is_pinned_or_finds_something_by_now_is_no_gap(report):
    missed = [asked("a", state="none"), asked("b", state="none", vector=AXES[1])]
    pinned = asked("a")._replace(kind="pin", state="", offered=(), skill="r:tea")
    assert [gap.nearest for gap in report(*missed, pinned).gaps] == ["near 1"]
    assert [gap.nearest for gap in report(*missed, asked("b", "tea")).gaps] == ["near 0"]
    again = [*missed, asked("b", "tea"), asked("b", state="none", vector=AXES[1])]
    assert {gap.nearest for gap in report(*again).gaps} == {"near 0", "near 1"}
    elsewhere = asked("b", "tea", project_id="p")
    assert len(report(*missed, elsewhere).gaps) == 2


def test_what_was_hidden_is_shown_with_what_was_loaded_instead(report):
    said = report(
        asked("1", "tea", is_shadow=True),
        asked("2", "tea", is_shadow=True),
        asked("3", "tea", is_shadow=True),
        loaded("coffee", "1"),
        loaded("coffee", "2"),
    )
    assert said.shadow == (Shadow(("tea",), "coffee", 2), Shadow(("tea",), "", 1))
    assert said.never_offered == ("coffee", "lemon", "tea")


def test_nothing_says_nothing(report):
    said = report()
    assert (said.gaps, said.collisions, said.shadow, said.passed_over) == ((), (), (), ())
    assert said.never_offered == ("coffee", "lemon", "tea")


def test_requests_of_another_model_are_left_out_of_gaps(report):
    mine = asked("b", state="none", vector=AXES[1])
    wider = asked("a", state="none", vector=np.ones(5), model="other")
    alike = asked("c", state="none", vector=AXES[1], model="other")
    damaged = asked("d", state="none", vector=np.ones(5))
    said = report(mine, wider, alike, damaged)
    assert [(gap.nearest, gap.times) for gap in said.gaps] == [("near 1", 1)]


def test_a_damaged_vector_is_a_gap_of_its_own(report):
    zeros = asked("a", state="none")._replace(vector=bytes(len(AXES)))
    assert [gap.requests for gap in report(zeros).gaps] == [1]
