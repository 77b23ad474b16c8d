"""A description is proposed only if it helps on other requests, at no cost of a rival."""

from dataclasses import replace
from pathlib import Path

import pytest

from skillsearch.index.indexing.trial import Trial
from skillsearch.reports.proposal_trials import (
    LEAST_REQUESTS,
    MOST_REQUESTS,
    Effect,
    Figures,
    Improver,
    mined_requests,
    own_requests,
    split,
)
from skillsearch.reports.proposals import KINDS, Proposal

MADE_FROM = ["brew sencha in a kettle", "brew gyokuro leaves"]
MEASURED = ["which kettle to brew sencha", "brew gyokuro for how long"]


@pytest.fixture
def improver(index, tmp_path):
    """Take the skill about tea, whose rivals are found by a request each."""
    trial, document = Trial.begin(index.opened, tmp_path / "trial"), index.find("steep-tea")
    data = Path(document.path).read_bytes()
    return Improver(trial, document, data, lambda rival: [f"{rival.name} please"], "off")


def test_words_of_requests_help_with_other_requests_and_rivals_keep_theirs(improver):
    result = improver.improve(MADE_FROM, MEASURED)
    assert result.is_proposed
    assert result.is_split
    assert result.own.after.is_better(result.own.before)
    assert result.own.after.first == len(MEASURED)
    assert result.description.startswith(result.before)
    assert all(word in result.description for word in ("sencha", "gyokuro"))
    assert result.rivals
    assert not any(effect.after.is_worse(effect.before) for effect in result.rivals)
    (again,) = improver.attempts([Proposal((), result.description)], MEASURED)
    assert again.after == result.own.after
    assert "made from 2 requests, measured on 2 others" in result.summary
    assert "first for 0 → 2" in result.own.summary


def test_the_same_skill_and_requests_give_the_same_proposal(improver, index, tmp_path):
    again = Trial.begin(index.opened, tmp_path / "again")
    other = replace(improver, trial=again)
    assert other.improve(MADE_FROM, MEASURED) == improver.improve(MADE_FROM, MEASURED)


def test_what_would_cost_a_rival_its_request_is_not_proposed(improver):
    """The rival is the first hit for what it is asked now, and would not be any more."""
    request = "brew gyokuro in a kettle for sencha"
    held = {"brew-coffee": [request]}
    strict = replace(improver, requests_of=lambda document: held.get(document.name, []))
    result = strict.improve(MADE_FROM, MEASURED)
    rival = next(rival for rival in result.rivals if rival.name == "brew-coffee")
    assert rival.before.first == 1
    assert (result.is_proposed, result.description) == (False, result.before)
    assert result.costly > 0
    assert "at the cost of a rival" in result.summary
    assert rival.after == rival.before


def test_only_a_rival_of_the_same_subject_is_named_in_a_not_for(
    drinks, index, make_skill, tmp_path
):
    """What is far away stands above by chance, and a reader of "not for" would wonder."""
    make_skill(drinks, "paint-walls", "Paint a wall of plaster with a roller.")
    make_skill(drinks, "steep-herbs", "Steep herbs and green tea leaves with mint in a pot.")
    index.refresh()
    trial, document = Trial.begin(index.opened, tmp_path / "trial"), index.find("steep-tea")
    data = Path(document.path).read_bytes()
    improver = Improver(trial, document, data, lambda _rival: [], "off")
    none = Figures(0, 0, 0, 0)
    far, near = (
        Effect(name, index.find(name).doc_id, taken, none, none)
        for name, taken in (("paint-walls", 2), ("steep-herbs", 1))
    )
    assert improver.material(MADE_FROM, [far]).rival is None
    assert improver.material(MADE_FROM, [replace(near, taken=0)]).rival is None
    assert improver.material(MADE_FROM, [far, near]).rival.name == "steep-herbs"
    made = improver.material(MADE_FROM, [far, near]).made((), with_exclusion=True)
    assert "Not for mint" in made.description
    assert "use steep-herbs" in made.description


def test_a_request_that_costs_a_rival_is_left_out(improver):
    """All kinds of proposals cost it, as long as they are made of all requests."""
    milk, made_from = "warm milk for guests", [*MADE_FROM, "warm milk for guests"]
    held = {"brew-coffee": [f"filter {milk}"]}
    strict = replace(improver, requests_of=lambda document: held.get(document.name, []))
    result = strict.improve(made_from, MEASURED)
    rival = next(rival for rival in result.rivals if rival.name == "brew-coffee")
    documents = improver.trial.opened.corpus.documents
    document = documents[documents.number_of(rival.doc_id)]
    material = strict.material(made_from)
    made = filter(None, (material.made(kinds) for kinds in KINDS))
    for attempt in strict.attempts(made, MEASURED):
        after, _ = strict.measure(attempt.searched, document, held["brew-coffee"])
        assert after.is_worse(rival.before)
    assert result.is_proposed
    assert "milk" not in result.description
    assert rival.after == rival.before


def test_a_description_that_is_found_for_everything_is_fine(improver):
    result = improver.improve(["steep green tea"], ["steep-tea"])
    assert not result.is_proposed
    assert "is fine" in result.summary


def test_requests_are_split_so_that_every_second_one_measures():
    texts = ["a b", "c  d", "e", "a b", "f", "g\u200bh"]
    assert split(texts) == (["a b", "e", "gh"], ["c d", "f"], True)
    few = ["a", "b", "c"][: LEAST_REQUESTS - 1]
    assert split(few) == (few, few, False)
    many = [str(number) for number in range(500)]
    assert sum(map(len, split(many)[:2])) == MOST_REQUESTS


def test_figures_are_better_only_if_none_falls():
    before = Figures(4, 2, 3, 1)
    assert Figures(4, 3, 3, 1).is_better(before)
    assert not Figures(4, 3, 2, 1).is_better(before)
    assert not before.is_better(before)
    assert Figures(4, 4, 4, 0).is_worse(before)


def test_a_skill_without_examples_is_asked_what_its_body_lists(index):
    body = "# Tea\n\n## When to use\n\n- brew a pot for guests\n- tea\n"
    assert mined_requests(body) == ["brew a pot for guests"]
    assert own_requests(index, index.find("steep-tea")) == []
