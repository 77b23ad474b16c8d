"""Cases in the values of eval files: known by shape, judged by what stands in and above them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.skills.eval_files import EvalQuery, eval_queries

KNOWN = frozenset({"brew-coffee", "steep-tea", "squeeze-lemons", "周报"})


def cases(values, skill="brew-coffee"):
    return list(eval_queries(values, skill, KNOWN))


def judged(values):
    """Tell the cases in short: (text, skills) of those for the skills, then of the others."""
    return tuple(
        [(case.text, *case.skills) for case in cases(values) if case.is_wanted is is_wanted]
        for is_wanted in (True, False)
    )


@pytest.mark.parametrize("key", ["query", "prompt", "question", "input", "user_request"])
def test_a_record_without_a_judgment_is_a_task_of_its_skill(key):
    values = {"skill_name": "brew-coffee", "evals": [{"id": 1, key: " grind it "}]}
    assert cases(values) == [EvalQuery("grind it", "task", True, ("brew-coffee",))]


@pytest.mark.parametrize(
    "flag", ["should_trigger", "shouldTrigger", "should_activate", "expect_activation"]
)
def test_a_flag_says_whether_the_skill_is_right(flag):
    queries = cases([{"query": "make espresso", flag: True}, {"prompt": "make tea", flag: False}])
    assert queries == [
        EvalQuery("make espresso", "trigger", True, ("brew-coffee",)),
        EvalQuery("make tea", "trigger", False, ("brew-coffee",)),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"expected_skill": "steep-tea"},
        {"expected_skill": "Steep-Tea"},
        {"expected_skills": ["steep-tea"]},
        {"expected_owner": "steep-tea", "class": "boundary"},
        {"expect": "steep-tea", "route": "not brew-coffee"},
        {"expected": {"route": "steep-tea"}, "kind": "negative"},
        {"should_trigger": "drinks:steep-tea"},
        {"expected_skill": "steep-tea/SKILL.md", "skill": "brew-coffee"},
    ],
)
def test_a_query_is_for_the_skill_that_it_names(fields):
    assert judged([{"prompt": "make tea", **fields}]) == ([("make tea", "steep-tea")], [])


def test_several_skills_may_be_right_and_have_any_name():
    values = {"query": "a hot drink", "expected_skills": ["steep-tea", "brew-coffee", "steep-tea"]}
    assert judged([values]) == ([("a hot drink", "steep-tea", "brew-coffee")], [])
    assert judged([{"query": "写周报", "expected_skill": "周报"}]) == ([("写周报", "周报")], [])
    (case,) = cases([{"query": "a"}], skill="$A/b:c ")
    assert case.skills == ("$a/b:c ",)


@pytest.mark.parametrize("nobody", [None, "none", [], {"route": None}])
def test_a_query_for_no_skill_is_not_for_this_one(nobody):
    assert judged([{"prompt": "hello", "expected": nobody}]) == ([], [("hello", "brew-coffee")])


def test_an_expected_output_names_no_skill():
    """A sentence is what the agent is to say, so the query is a task."""
    (case,) = cases([{"prompt": "grind", "expected": "A medium grind."}])
    assert (case.kind, case.is_wanted) == ("task", True)


def test_a_false_flag_is_about_the_skill_that_the_record_names():
    """Some files hold the cases of several skills, each with the one that is tested."""
    values = [{"prompt": "hi", "expected_skill": "steep-tea", "should_activate": False}]
    assert judged(values) == ([], [("hi", "steep-tea")])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({"type": "positive"}, ([("x y", "brew-coffee")], [])),
        ({"type": "should_not_trigger"}, ([], [("x y", "brew-coffee")])),
        ({"prompt_type": "anti_trigger"}, ([], [("x y", "brew-coffee")])),
        ({"category": "non-trigger"}, ([], [("x y", "brew-coffee")])),
        ({"category": "latte-art"}, ([("x y", "brew-coffee")], [])),
        ({"expect": "skip"}, ([], [("x y", "brew-coffee")])),
        ({"expect": "activate"}, ([("x y", "brew-coffee")], [])),
    ],
)
def test_a_word_can_be_the_judgment(kind, expected):
    assert judged([{"prompt": "x y", **kind}]) == expected


@pytest.mark.parametrize("kind", ["trigger", "edge_case", "boundary"])
def test_a_case_about_triggering_that_does_not_say_which_way_is_open(kind):
    """Its prose may say it, which nobody can rely on."""
    values = [{"kind": kind, "prompt": "make tea", "assertions": ["steep-tea is selected"]}]
    assert [case.is_wanted for case in cases(values)] == [None]


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("should_trigger", "should_not_trigger"),
        ("shouldTrigger", "shouldNotTrigger"),
        ("should_activate", "should_not_activate"),
        ("positive", "negative"),
    ],
)
def test_lists_of_texts_are_judged_by_what_stands_above_them(yes, no):
    values = {"notes": ["no query"], yes: ["a", {"text": "b", "why": "c"}], no: ["d", " "]}
    assert judged(values) == ([("a", "brew-coffee"), ("b", "brew-coffee")], [("d", "brew-coffee")])
    assert {case.kind for case in cases(values)} == {"trigger"}


def test_a_table_by_skill_is_for_the_skills_in_it():
    values = {
        "skills": {
            "steep-tea": {"should": ["make tea"], "should_not": ["make beer"]},
            "fly-kites": {"should": ["fly a kite"]},
        },
        "squeeze-lemons": {"positive": ["make lemonade"]},
    }
    assert judged(values) == (
        [("make tea", "steep-tea"), ("fly a kite",), ("make lemonade", "squeeze-lemons")],
        [("make beer", "steep-tea")],
    )


def test_the_skill_of_a_record_wins_over_that_of_the_file():
    values = {
        "skill_name": "brew-coffee-old",
        "cases": [
            {"query": "a", "should_trigger": True},
            {"query": "b", "should_trigger": True, "skill": "steep-tea"},
            {"query": "c", "should_trigger": True, "skill": "gone"},
        ],
    }
    assert judged(values) == ([("a", "brew-coffee"), ("b", "steep-tea"), ("c",)], [])


def test_common_words_are_queries_only_where_something_judges_them():
    """Later turns and results are none, nor is what is nested beyond reason."""
    assert judged([{"text": "must mention beans"}]) == ([], [])
    values = [{"text": "beans?", "expect_trigger": True}]
    assert judged(values) == ([("beans?", "brew-coffee")], [])
    assert judged({"turns": [{"prompt": "yes"}], "results": [{"query": "x"}]}) == ([], [])
    values = [{"query": "a"}]
    for _ in range(30):
        values = [values]
    assert judged(values) == ([], [])


KEYS = st.sampled_from(
    ["query", "text", "should_trigger", "expect", "expected_skill", "skills", "type", "negative"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.sampled_from(sorted(KNOWN)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_every_case_has_a_text_and_known_skills(values):
    for case in cases(values):
        assert case.text == case.text.strip() != ""
        assert set(case.skills) <= KNOWN
        assert len(set(case.skills)) == len(case.skills)
        assert case.kind == "trigger" or case.is_wanted
