"""What answers say at the default threshold, worked out by hand."""

from dataclasses import replace

import pytest

from skillsearch.evaluation.assess import assess
from skillsearch.evaluation.reporting.report import report_dict
from skillsearch.evaluation.reporting.tables import states
from skillsearch.evaluation.states import DEPTH, assess_states
from skillsearch.evaluation.types import (
    Collection,
    JudgedDocument,
    JudgedQuery,
    StateShares,
    SystemAnswers,
)
from skillsearch.index.search.options import SearchOptions

ANSWERS = {
    "kept": (("x", 0.9), ("a", 0.5)),  # a score at the threshold fits
    "wrong": (("x", 0.8), ("a", 0.4)),  # another fits, the right one is near it and may
    "perhaps": (("x", 0.3), ("a", 0.1)),  # a score at the lower bound may fit
    "hidden": (("x", 0.4), ("a", 0.05)),
    "silent": (("a", 0.09),),
    "unranked": (("x", 0.01),),
    "refused": (),
    "deep": (*((f"d{n}", 0.4) for n in range(5)), ("a", 0.3)),  # the sixth that may fit
}
QRELS = {query: {"a": 1} for query in ANSWERS}
SYSTEM = SystemAnswers(
    "hybrid",
    "",
    ANSWERS,
    {
        "twin": {"1": (("x", 0.5),), "2": (("x", 0.49),), "3": (("x", 0.1),), "4": ()},
        "foreign": {"f": (("x", 0.0999),)},
    },
    threshold=0.5,
    has_states=True,
    is_calibrated=True,
)
KINDS = {"kept": "short", "wrong": "short", "silent": "task", "deep": ""}


@pytest.fixture(autouse=True)
def bounds(monkeypatch):
    monkeypatch.setattr("skillsearch.evaluation.states.BOUNDS", {"list": 0.1, "page": 0.05})


def measured(system=SYSTEM, qrels=QRELS, kinds=KINDS):
    """Measure the states; the precision is somebody else's."""
    return assess_states(system, qrels, kinds, precision=0.25)


def test_each_answer_counts_for_one_state():
    """Of eight answers one is kept and one false; three say perhaps and three none.

    Six rankings hold the right skill among the first ten; three of these answers name it.
    """
    said = measured()
    assert (said.threshold, said.lower_bound) == (0.5, 0.1)
    assert said.precision == 0.25
    assert said.answerable == StateShares(1 / 8, false=1 / 8, perhaps=3 / 8, none=3 / 8)
    assert said.shown == pytest.approx(3 / 6)
    assert said.kinds == {"short": 1 / 2, "task": 0.0}
    assert said.unanswerable == {
        "twin": StateShares(recall=0.0, false=1 / 4, perhaps=2 / 4, none=1 / 4),
        "foreign": StateShares(recall=0.0, false=0.0, perhaps=0.0, none=1.0),
    }
    assert said.length == (2 + 2 + 2 + 1 + 0 + 0 + 0 + 5) / 8


def test_another_face_shows_as_much_as_its_bound_lets_it():
    page = measured().faces["page"]
    assert set(measured().faces) == {"page"}
    assert page.lower_bound == 0.05
    assert page.answerable == StateShares(recall=1 / 8, false=1 / 8, perhaps=4 / 8, none=2 / 8)
    assert page.shown == pytest.approx(5 / 6)
    assert page.length == (2 + 2 + 2 + 2 + 1 + 0 + 0 + 5) / 8
    assert page.unanswerable["foreign"].none == 0.0


def test_an_answer_is_as_long_as_that_of_a_search():
    """By default; beside what fits, what may is half as likely as the best at least.

    A right skill beyond the first ten could not be shown.
    """
    assert SearchOptions().n == DEPTH
    fits = tuple((f"d{n}", 0.9) for n in range(DEPTH))
    above = tuple((f"d{n}", 0.01) for n in range(10))
    for ranking, state, shown in (
        ((*fits, ("a", 0.8)), "false", 0.0),
        ((*fits, ("a", 0.45)), "false", 0.0),
        ((*fits[1:], ("a", 0.45)), "false", 1.0),
        ((*fits[1:], ("a", 0.44)), "false", 0.0),
        ((*fits[1:], ("a", 0.8)), "recall", 1.0),
        ((*above[1:], ("a", 0.01)), "none", 0.0),
        ((*above, ("a", 0.01)), "none", None),
    ):
        said = measured(replace(SYSTEM, answers={"q": ranking}), {"q": {"a": 1}}, {})
        assert (getattr(said.answerable, state), said.shown) == (1.0, shown)


def test_what_cannot_be_said_is_not_said():
    assert measured(replace(SYSTEM, threshold=None)) is None
    said = measured(replace(SYSTEM, unanswerable={"twin": {}}), {"q": {"a": 0}})
    nothing = StateShares(0.0, 0.0, 0.0, 0.0)
    assert (said.answerable, said.shown) == (nothing, None)
    assert said.unanswerable == {}
    assert measured(kinds=dict.fromkeys(QRELS, "task")).kinds == {}


def test_only_the_threshold_tells_without_a_lower_bound_below_it():
    """Nothing is perhaps: of a channel alone, or if one asked for a lower threshold."""
    raw = measured(replace(SYSTEM, has_states=False))
    assert raw.answerable == StateShares(recall=1 / 8, false=1 / 8, perhaps=0.0, none=6 / 8)
    assert raw.faces == {}
    own = measured(replace(SYSTEM, has_states=False, lower_bound=0.1))
    assert (own.lower_bound, own.faces) == (0.1, {})
    assert own.answerable == StateShares(recall=1 / 8, false=1 / 8, perhaps=3 / 8, none=3 / 8)
    low = measured(replace(SYSTEM, threshold=0.05, has_states=False))
    assert (low.threshold, low.lower_bound) == (0.05, 0.05)
    assert low.answerable == StateShares(recall=5 / 8, false=1 / 8, perhaps=0.0, none=2 / 8)


def make_report():
    kinds = {query: "short" if query in ("kept", "wrong") else "task" for query in ANSWERS}
    collection = Collection(
        "written",
        (JudgedDocument("a", "a", "a"),),
        tuple(JudgedQuery(query, query, kind) for query, kind in kinds.items()),
        QRELS,
    )
    return replace(assess(collection, [SYSTEM]), style={"twin": 0.64})


def test_json_has_the_share_of_each_state_and_kind():
    report = make_report()
    record = report_dict(report)
    auroc = report.systems[0].abstention.auroc
    # Of 32 pairs with 0.5, 0.49, 0.1 and no hit 2 + 2 + 5 + 7 are in order, and one is tied.
    assert auroc["twin"] == pytest.approx((2 + 2 + 5 + 7 + 0.5) / 32)
    assert record["states"] == {
        "hybrid": {
            "answerable": {
                **{"recall": 0.125, "false": 0.125, "perhaps": 0.375, "none": 0.375},
                **{"shown": 0.5, "kinds": {"short": 0.5, "task": 0.0}},
            },
            "twin": {
                **{"false": 0.25, "perhaps": 0.5, "none": 0.25},
                **{"auroc": 0.515625, "style": 0.64},
            },
            "foreign": {
                **{"false": 0.0, "perhaps": 0.0, "none": 1.0},
                **{"auroc": 0.625, "style": None},
            },
        }
    }
    assert record["style"] == {"twin": 0.64}
    # Of the three answered the first hits are x.
    default = record["abstention"]["hybrid"]["default"]
    assert default.pop("faces")["page"]["lower_bound"] == 0.05
    assert default == {"threshold": 0.5, "lower_bound": 0.1, "precision": 0.0}


def test_the_table_has_a_row_for_each_kind_of_query():
    (group,) = states(make_report()).groups
    assert group.title == "hybrid"
    assert group.rows == [
        ("answerable", "12.5", "12.5", "37.5", "37.5", "50.0"),
        ("of them short", "50.0", "", "", "", ""),
        ("of them task", "0.0", "", "", "", ""),
        ("twin", "", "25.0", "50.0", "25.0", ""),
        ("foreign", "", "0.0", "0.0", "100.0", ""),
    ]
