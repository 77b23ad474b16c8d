"""What fits, what may fit, and how many hits have a say in it; what is left out, and refused."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillsearch.errors import QueryError
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.evidence import EVIDENCE
from skillsearch.index.search.features import FEATURES
from skillsearch.settings.values import MAX_QUERY_CHARS
from skillsearch.text import states
from skillsearch.types.answers import FACES, SYSTEMS, SearchResult

WORDS = ("water", "plants", "garden", "cut", "hedges", "tea", "forms", "zebra", "the", "balcony")
WATER = "water the plants in my garden"
LONG = "A body that is long enough to tell skills apart. " * 8


@pytest.fixture(scope="module")
def garden(add_skill, build_shared):
    def write(root):
        for number in range(10):
            about = " ".join(WORDS[number % 3 :][:3])
            about += f" with tool number {number}" * (1 + number // 2)
            add_skill(root / f"s{number:02}", f"tool-{number:02}", f"{about}.", f"B{number}.")

    return build_shared(write)


def scored(hits):
    return [(hit.doc_id, hit.rank, hit.score) for hit in hits]


@pytest.fixture
def cut_at(monkeypatch):
    def cut(index, threshold, bound):
        monkeypatch.setattr("skillsearch.index.search.options.BOUNDS", {"list": bound})
        return index.with_calibration(replace(default_calibration(), threshold=threshold))

    return cut


@pytest.mark.parametrize("fitting", [0, 1, 3, 5])
@pytest.mark.parametrize("more", [0, 1, 4, 7])
def test_what_does_not_fit_but_may_is_told_apart(garden, cut_at, fitting, more):
    every = scored(garden.search(WATER, 100, 0.0))
    scores = [score for _, _, score in every]
    assert len(scores) == 10
    ends = [1.0, *scores, 0.0]
    threshold, lower = (
        (ends[count] + ends[count + 1]) / 2 if count else 1.0
        for count in (fitting, min(fitting + more, 10))
    )
    index = cut_at(garden, threshold, min(lower, threshold))
    every = scored(index.search(WATER, 100, 0.0))
    fit = [row for row in every if row[2] >= threshold]
    near = states.NEAR * every[0][2] if fit else 0.0
    may = [row for row in every if max(lower, near) <= row[2] < threshold]
    result = index.search(WATER, 5)
    assert (scored(result), scored(result.perhaps)) == (fit[:5], may[: 5 - len(fit)])
    assert result.state == ("fits" if fit else "perhaps" if may else "none")
    assert (result.abstained, bool(result)) == (not fit, bool(fit))
    assert result.threshold == threshold


@pytest.mark.parametrize("face", FACES)
def test_below_a_threshold_that_was_given_nothing_is_shown(garden, face):
    every = scored(garden.search(WATER, 100, 0.0))
    for threshold in sorted({score for _, _, score in every}):
        result = garden.search(WATER, 100, threshold, face=face)
        assert scored(result) == [row for row in every if row[2] >= threshold]
        assert result.perhaps == ()


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
    st.integers(1, 12),
    st.sampled_from(FACES),
)
def test_every_face_shows_the_beginning_of_one_ranking(garden, query, n, face):
    every = scored(garden.search(query, 12, 0.0))
    threshold, scores = default_calibration().threshold, [score for _, _, score in every]
    fitting, shown = states.count_shown(scores, threshold, states.BOUNDS[face])
    result = garden.search(query, n, face=face)
    assert scored(result) == every[:fitting][:n]
    assert scored(result.shown) == every[:shown][:n]


def test_an_unknown_face_is_refused(garden):
    with pytest.raises(QueryError, match=r"face is 'tablet'; use one of: list, prompt, "):
        garden.search(WATER, face="tablet")


@pytest.mark.parametrize("system", [system for system in SYSTEMS if system != "hybrid"])
@pytest.mark.parametrize("threshold", [None, 0.5])
def test_only_hybrid_scores_tell_what_may_fit(garden, cut_at, system, threshold):
    result = cut_at(garden, 0.99, 0.01).search(WATER, 5, threshold, system=system)
    assert result.perhaps == ()
    assert all(hit.score >= (threshold or 0.0) for hit in result)


def test_what_may_fit_is_in_the_json(garden, cut_at):
    every = scored(garden.search(WATER, 100, 0.0))
    result = cut_at(garden, 1.0, every[1][2]).search(WATER)
    assert result.state == "perhaps"
    perhaps = [(hit["rank"], hit["score"]) for hit in result.to_dict()["perhaps"]]
    assert perhaps == [row[1:] for row in every if row[2] >= every[1][2]][:5]
    assert len(perhaps) > 1


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
    st.integers(1, 12),
    st.none() | st.floats(0, 1),
)
def test_no_hit_is_less_likely_than_one_behind_it(garden, query, n, threshold):
    result = garden.search(query, n, threshold)
    hits = [*result.hits, *result.perhaps]
    scores, ranks = [hit.score for hit in hits], [hit.rank for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert ranks[: len(result)] == list(range(1, len(result) + 1))
    assert ranks == sorted({*ranks})
    assert all(hit.score < result.threshold for hit in result.perhaps)
    assert len(hits) <= n


def test_skills_that_fit_equally_score_equally(tmp_path, add_skill, build):
    for name in ("d", "b", "c"):
        add_skill(tmp_path / "s" / name, f"tool-{name}", "Water the plants.", f"{name * 9}")
    add_skill(tmp_path / "s" / "tea", "tea-timer", "Time green tea.", "Two minutes.")
    result = build(tmp_path / "s").search("water plants", 3, 0.0, explain=True, reader="off")
    assert {hit.name for hit in result} == {"tool-b", "tool-c", "tool-d"}
    assert [hit.score for hit in result] == pytest.approx([result[0].score] * 3, rel=1e-6)
    owned = [hit.explain.own_score for hit in result]
    assert owned == pytest.approx([result[0].score] * 3, rel=1e-6)
    assert [hit.explain.log_odds["lead"] for hit in result] == pytest.approx([0] * 3, abs=1e-6)


def test_few_hits_asked_for_score_as_among_five(tmp_path, add_skill, build):
    for number in range(12):
        text = " ".join(["Water the plants", *(f"can{number}x{n}" for n in range(number))])
        body = "zebra" if number == 7 else f"Body {number}."
        add_skill(tmp_path / "s" / f"s{number:02}", f"tool-{number:02}", f"{text}.", body)
    calibration = replace(
        default_calibration(),
        weights=dict.fromkeys(FEATURES, 0.0) | {"cosine_metadata": 10.0},
        alone=dict.fromkeys(EVIDENCE, 0.0) | {"rarest_term": 5.0, "intercept": -1.0},
    )
    index = build(tmp_path / "s").with_calibration(calibration)
    query = "water the plants zebra"
    every = index.search(query, 5, 0.0, explain=True, reader="off")
    assert every[0].name == "tool-07"
    assert every[0].explain.contributions["cosine_metadata"] < min(
        hit.explain.contributions["cosine_metadata"] for hit in every[1:]
    )
    for n in (1, 2, 4):
        assert scored(index.search(query, n, 0.0, reader="off")) == scored(every)[:n]


HIDEABLE = {
    "water-plants": "Water the plants on the balcony.",
    "water-garden": "Water the garden and its plants.",
    "plant-trees": "Plant trees in the garden.",
    "cut-hedges": "Cut the hedges of a garden.",
    "pdf-forms": "Fill in PDF forms.",
    "tea-timer": "Time green tea.",
}


@pytest.fixture(scope="module")
def hiding(add_skill, build_shared):
    """Return an index of `HIDEABLE` in which some skills are hidden; tests only read it."""

    @cache
    def hiding(*hidden):
        def write(root):
            for name, description in HIDEABLE.items():
                flags = {"disable_model_invocation": "true"} if name in hidden else {}
                add_skill(root / name, name, description, f"About {name}.", **flags)

        return build_shared(write)

    return hiding


EXCLUDED = ["water-plants"], ["water-plants", "water-garden"], ["pdf-forms"], list(HIDEABLE)[:5]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("left_out", EXCLUDED)
def test_to_exclude_a_skill_is_to_search_as_if_it_were_hidden(hiding, system, left_out):
    ids = [f"skills:{name}" for name in left_out]
    options = {"n": 100, "threshold": 0.0, "system": system}
    result = hiding().search(WATER, exclude=ids, **options)
    hidden = hiding(*left_out).search(WATER, include_hidden=False, **options)
    assert scored(result) == scored(hidden)
    assert not set(ids) & {hit.doc_id for hit in result}


def test_hidden_skills_have_no_say_in_the_scores_of_others(hiding):
    before = default_calibration()
    index = hiding("water-garden").with_calibration(
        replace(before, alone={**before.alone, "lead": 1.0})
    )
    shown = index.search(WATER, threshold=0.0, include_hidden=False, explain=True)
    every = index.search(WATER, threshold=0.0, explain=True)
    assert every[0].name == "water-garden"
    assert shown[0].name == every[1].name
    assert every[1].explain.log_odds["lead"] < 0 < shown[0].explain.log_odds["lead"]


def test_what_cannot_be_excluded_excludes_nothing(shared_index):
    options = {"query": "fill in a PDF form", "threshold": 0.0}
    before = shared_index.search(**options).to_dict() | {"seconds": None}
    for exclude in ([], ["skills:none", "", "\ud800", "pdf-forms"], ("zzz",), {"skills:"}):
        result = shared_index.search(**options, exclude=exclude)
        assert result.to_dict() | {"seconds": None} == before


def test_a_copy_of_an_excluded_skill_takes_its_place(tmp_path, add_skill, build):
    """Who wants it out too asks `copies` for it."""
    for folder in ("a", "b"):
        add_skill(tmp_path / "s" / folder, "pdf-forms", "Fill in PDF forms.", LONG)
    add_skill(tmp_path / "s" / "c", "form-letters", "Write form letters.", "Dear reader.")
    index = build(tmp_path / "s")
    hits = index.search("fill in PDF forms", threshold=0.0, exclude=["s:a"])
    assert (hits[0].doc_id, hits[0].duplicates) == ("s:b", ())
    copies = index.copies(["s:a", "s:none"])
    assert copies == {"s:a", "s:b"}
    hits = index.search("fill in PDF forms", threshold=0.0, exclude=copies)
    assert [hit.doc_id for hit in hits] == ["s:c"]
    assert index.copies([]) == index.copies(["s:none", ""]) == frozenset()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": ""}, "empty"),
        ({"query": " \t\n\u3000"}, "empty"),
        ({"query": "a" * 1_000_000}, "1,000,000 characters"),
        ({"query": "a" * (MAX_QUERY_CHARS + 1)}, "65,536"),
        ({"n": 0}, "n is 0"),
        ({"n": -1}, "n is -1"),
        ({"n": True}, "n is True"),
        ({"n": 1001}, "n is 1001"),
        ({"n": 2.0}, "n is 2.0"),
        ({"n": "5"}, "n is '5'"),
        ({"threshold": math.nan}, "threshold is nan"),
        ({"threshold": math.inf}, "threshold is inf"),
        ({"threshold": -math.inf}, "threshold is -inf"),
        ({"threshold": -0.1}, "threshold is -0.1"),
        ({"threshold": 1.1}, "threshold is 1.1"),
        ({"threshold": 10**400}, "threshold is 1"),
        ({"system": "magic"}, "hybrid, bm25, dense, rrf"),
    ],
)
def test_what_cannot_be_searched_is_a_query_error(shared_index, arguments, message):
    with pytest.raises(QueryError, match=message) as caught:
        shared_index.search(**{"query": "tea", **arguments})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_n_may_be_a_whole_number_of_numpy(shared_index):
    assert len(shared_index.search("tea", np.int64(1), 0.0)) == 1


@given(
    query=st.text(max_size=40),
    n=st.integers(-2, 1100) | st.booleans() | st.floats(),
    threshold=st.none() | st.floats() | st.integers(-1, 2),
    system=st.sampled_from([*SYSTEMS, "", "HYBRID"]),
    explain=st.booleans(),
)
def test_any_arguments_give_a_result_or_a_query_error(
    shared_index, query, n, threshold, system, explain
):
    try:
        result = shared_index.search(query, n, threshold, system=system, explain=explain)
    except QueryError:
        return
    assert isinstance(result, SearchResult)
    assert len(result) <= n
    assert all(result.threshold <= hit.score <= 1 for hit in result)
    assert result.abstained == (not result.hits)


@pytest.mark.parametrize("query", ["tea " * 16_000, "茶" * MAX_QUERY_CHARS])
def test_the_longest_query_is_searched(shared_index, query):
    assert shared_index.search(query).state in {"fits", "perhaps", "none"}
