"""Tests of usage as evidence: what it does to answers, and that without it nothing changes."""

import json

import pytest

from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.evidence import MOST_USAGE
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.usage.events import Event, packed
from skillsearch.usage.log import UsageLog
from skillsearch.usage.support import PRIOR, Usage

REQUEST = "something hot in the afternoon"
WEIGHT = default_calibration().alone["usage"]
ONE_LOAD = pytest.approx(WEIGHT / (1 + PRIOR) ** 2, abs=0.01)


@pytest.fixture
def index(drinks_index):
    """Open the index of drinks."""
    return SkillIndex.open(drinks_index)


@pytest.fixture
def confidence(index):
    """Return what each piece of evidence adds for each skill, after loads for the same request."""

    def ask(*skills):
        vector = packed(index.analyse(REQUEST).vector)
        loads = [Event("loaded", 0, "", vector=vector, skill=f"drinks:{skill}") for skill in skills]
        index.usage = Usage.of(loads, len(vector), 0)
        hits = index.search(REQUEST, 3, 0.0, explain=True)
        return {hit.name: hit.explain.log_odds for hit in hits}

    return ask


def test_loads_add_to_the_log_odds_of_their_skill_alone(confidence):
    before, after = confidence(), confidence("steep-tea")
    assert {name: parts["usage"] for name, parts in before.items()} == dict.fromkeys(before, 0)
    added = {name: parts["usage"] for name, parts in after.items()}
    assert added == {name: ONE_LOAD if name == "steep-tea" else 0 for name in added}
    for name, parts in after.items():
        assert {**parts, "usage": 0} == before[name]


def test_what_loads_add_is_limited(confidence):
    assert confidence(*["steep-tea"] * 100)["steep-tea"]["usage"] == pytest.approx(
        WEIGHT * MOST_USAGE**2
    )
    assert confidence("steep-tea")["steep-tea"]["usage"] < 0.25 * WEIGHT * MOST_USAGE**2


def test_one_mistake_does_not_win_against_loads_that_agree(confidence):
    added = confidence("steep-tea", "steep-tea", "steep-tea", "brew-coffee")
    assert added["steep-tea"]["usage"] > 2 * added["brew-coffee"]["usage"] > 0


def test_a_load_of_a_copy_speaks_for_its_family(cli, drinks, make_skill, index_dir):
    tea = (drinks / "steep-tea" / "SKILL.md").read_text("utf-8")
    make_skill(drinks / "copies", "steep-tea").write_text(tea, "utf-8")
    assert cli("index", drinks, "--index-dir", index_dir, "--model", "hashing").exit_code == 0
    index = SkillIndex.open(index_dir)
    vector = packed(index.analyse(REQUEST).vector)
    for document in (copy for copy in index.documents() if copy.name == "steep-tea"):
        load = Event("loaded", 0, "", vector=vector, skill=document.doc_id)
        index.usage = Usage.of([load], len(vector), 0)
        hits = {hit.name: hit for hit in index.search(REQUEST, 5, 0.0, explain=True)}
        assert hits["steep-tea"].explain.log_odds["usage"] == ONE_LOAD


def test_a_load_of_a_skill_that_is_gone_changes_nothing(confidence):
    assert confidence("gone") == confidence()


def test_without_loads_answers_are_the_same_byte_for_byte(cli, drinks_index, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(drinks_index))

    def answers():
        said = json.loads(cli("query", "steep green tea", "--explain", "--json").stdout)
        prompt = cli("prompt", "steep green tea", "--json").stdout
        return json.dumps({**said, "seconds": 0}), prompt

    off = answers()
    monkeypatch.setenv("SKILLSEARCH_USAGE", "hashes")
    assert answers() == off
    assert answers() == off
    assert {event.kind for event in UsageLog.own().events()} == {"asked"}
    cli("show", "steep-tea")
    assert answers() != off
    monkeypatch.setenv("SKILLSEARCH_USAGE", "off")
    assert answers() == off


@pytest.fixture(scope="module")
def crowd_index(tmp_path_factory, write_skill):
    """Index once a skill for cakes behind a hundred that have the words of the request for it."""
    root = tmp_path_factory.mktemp("crowd") / "crowd"
    for number in range(100):
        description = f"Makes something hot in the afternoon, tea number {number}."
        write_skill(root, f"tea-{number}", description=description)
    write_skill(root, "bake-cakes", description="Bakes sponge with lemon icing.")
    return SkillIndex.from_roots(root, index_dir=root.with_name("index")).folder


@pytest.fixture
def crowd(crowd_index):
    """Open the index of the crowd, which knows of no usage."""
    return SkillIndex.open(crowd_index)


def learn(index, kind, request=REQUEST, skill="crowd:bake-cakes"):
    """Let an index learn that a request led to a skill, or is pinned to it."""
    vector = packed(index.analyse(request).vector)
    index.usage = Usage.of([Event(kind, 0, "", vector=vector, skill=skill)], len(vector), 0)


def position(index, request=REQUEST):
    """Return how the skill for cakes stands for a request."""
    return index.position(request, index.find("bake-cakes"), SearchOptions())


def test_a_load_brings_in_its_skill_and_leaves_the_others_as_they_were(crowd):
    """Neither its words nor its meaning do."""
    before = crowd.search(REQUEST, 5, 0.0).shown
    assert (position(crowd).nominators, position(crowd).is_judged) == ((), False)
    learn(crowd, "loaded")
    after = position(crowd)
    assert (after.nominators, after.is_judged) == (("usage",), True)
    assert after.hit.explain.log_odds["usage"] == ONE_LOAD
    assert crowd.search(REQUEST, 5, 0.0).shown == before


def test_a_pinned_request_finds_its_skill_first_and_a_request_like_it_does_not(crowd):
    learn(crowd, "pin")
    assert next(iter(crowd.search(REQUEST, 5))).name == "bake-cakes"
    assert crowd.search(f"{REQUEST}!", 5).state == "fits"
    assert (position(crowd).nominators, position(crowd).hit.rank) == (("name", "usage"), 1)
    other = "something warm to drink"
    assert "name" not in position(crowd, other).nominators
    assert "bake-cakes" not in {hit.name for hit in crowd.search(other, 5)}


def test_a_pin_to_a_skill_that_is_gone_changes_nothing(crowd):
    before = crowd.search(REQUEST, 5, 0.0).shown
    learn(crowd, "pin", skill="crowd:gone")
    assert crowd.search(REQUEST, 5, 0.0).shown == before


def test_a_skill_that_usage_brings_in_stands_where_its_score_puts_it(crowd):
    """Among hits that do not fit as well, and no score above it is cut down."""
    other = "polish my old brass lamp"
    scores = {hit.name: hit.score for hit in crowd.search(other, 10, 0.0)}
    learn(crowd, "loaded", other)
    hits = crowd.search(other, 10, 0.0, explain=True)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert {hit.name: hit.score for hit in hits if hit.name in scores} == {
        name: score for name, score in scores.items() if name in {hit.name for hit in hits}
    }
