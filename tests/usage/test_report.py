"""Tests of the report of usage."""

import numpy as np
import pytest

from skillsearch.usage.events import Event, OfferedSkill, packed
from skillsearch.usage.log import Origin
from skillsearch.usage.report import Collision, Gap, PassedOver, Shadow, UsageReport

SKILLS = {"r:tea": "tea", "r:coffee": "coffee", "r:lemon": "lemon"}
AXES = np.eye(4, dtype=np.float32)


def request(request_id, *skills, vector=AXES[0], state="fits", model="m", **more):
    """Make a request that was offered skills."""
    offered = tuple(OfferedSkill(f"r:{skill}", 0.9) for skill in skills)
    shown = Event("asked", 1, "", request_id=request_id, state=state, offered=offered, **more)
    return shown._replace(vector=packed(np.asarray(vector, np.float32)), model=model)


def load(skill, request_id=""):
    """Make a load that is due to a request."""
    return Event("loaded", 2, "", request_id=request_id, skill=f"r:{skill}")


@pytest.fixture
def report():
    """Report events; the skill nearest to a gap is the axis that its vector is along."""

    def make(*events):
        def nearest(vectors):
            return [f"near {row.argmax()}" for row in vectors]

        return UsageReport.of(events, SKILLS, nearest, Origin("", "/i", "m"), len(AXES))

    return make


def test_skills_are_never_offered_never_loaded_or_passed_over(report):
    usage = report(*[request(str(n), "tea", "gone") for n in range(3)], load("tea", "1"))
    assert usage.never_offered == ("coffee", "lemon")
    assert usage.never_loaded == ("coffee", "lemon")
    assert usage.passed_over == (PassedOver("r:gone", 3),)
    assert (usage.requests, usage.loads, usage.pins, usage.with_text) == (3, 1, 0, 0)
    few = report(request("1", "tea"), request("2", "tea"))
    assert few.passed_over == ()


def test_two_collide_if_now_one_is_loaded_and_now_the_other(report):
    together = [request(str(n), "tea", "coffee", "lemon") for n in range(4)]
    usage = report(*together, load("tea", "0"), load("coffee", "1"), load("tea", "2"))
    assert usage.collisions == (Collision(("coffee", "tea"), 4, (1, 2)),)
    assert report(*together, load("tea", "0"), load("tea", "1")).collisions == ()
    assert report(*together[:2], load("tea", "0"), load("coffee", "1")).collisions == ()


def test_requests_that_nothing_answered_are_grouped_by_likeness(report):
    alike = [1.0, 0.3, 0.0, 0.0]
    usage = report(
        request("a", state="none", text="boil an egg"),
        request("a", state="none", text="boil an egg"),
        request("b", state="none", vector=alike),
        request("c", state="none", vector=AXES[2], text="fly a kite"),
        request("d", "tea", state="perhaps", vector=AXES[2]),
    )
    assert usage.gaps == (
        Gap(3, 2, "near 0", ("boil an egg",)),
        Gap(1, 1, "near 2", ("fly a kite",)),
    )


def test_a_request_that_is_pinned_or_finds_something_by_now_is_no_gap(report):
    missed = [request("a", state="none"), request("b", state="none", vector=AXES[1])]
    pinned = request("a")._replace(kind="pin", state="", offered=(), skill="r:tea")
    assert [gap.nearest for gap in report(*missed, pinned).gaps] == ["near 1"]
    assert [gap.nearest for gap in report(*missed, request("b", "tea")).gaps] == ["near 0"]
    again = [*missed, request("b", "tea"), request("b", state="none", vector=AXES[1])]
    assert {gap.nearest for gap in report(*again).gaps} == {"near 0", "near 1"}
    elsewhere = request("b", "tea", project_id="p")
    assert len(report(*missed, elsewhere).gaps) == 2


def test_what_was_hidden_is_shown_with_what_was_loaded_instead(report):
    usage = report(
        request("1", "tea", is_shadow=True),
        request("2", "tea", is_shadow=True),
        request("3", "tea", is_shadow=True),
        load("coffee", "1"),
        load("coffee", "2"),
    )
    assert usage.shadow == (Shadow(("tea",), "coffee", 2), Shadow(("tea",), "", 1))
    assert usage.never_offered == ("coffee", "lemon", "tea")


def test_without_events_every_skill_was_never_offered(report):
    usage = report()
    assert (usage.gaps, usage.collisions, usage.shadow, usage.passed_over) == ((), (), (), ())
    assert usage.never_offered == ("coffee", "lemon", "tea")


def test_requests_of_another_model_are_left_out_of_gaps(report):
    mine = request("b", state="none", vector=AXES[1])
    wider = request("a", state="none", vector=np.ones(5), model="other")
    alike = request("c", state="none", vector=AXES[1], model="other")
    damaged = request("d", state="none", vector=np.ones(5))
    usage = report(mine, wider, alike, damaged)
    assert [(gap.nearest, gap.times) for gap in usage.gaps] == [("near 1", 1)]


def test_a_damaged_vector_is_a_gap_of_its_own(report):
    zeros = request("a", state="none")._replace(vector=bytes(len(AXES)))
    assert [gap.requests for gap in report(zeros).gaps] == [1]
