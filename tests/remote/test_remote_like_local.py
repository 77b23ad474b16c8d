"""An index in Milvus finds, names and refuses what a local one over the same skills does."""

import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillsearch.errors import SkillSearchError
from skillsearch.index.skill_index import SkillIndex

QUERIES = ("brew coffee", "water of 80 degrees", "knead dough", "print labels", "a", "übung 작업")
HOSTILE = (
    'quote"d',
    "back\\slash",
    'x"] or name_key > 0 or key in ["',
    "percent%20and%_like",
    "ümlaut ñandú",
    "작업 목록",
    "Straße",
    "rtl \u05e9\u05dc\u05d5\u05dd",
    "true",
    "name_key",
    "x" * 64,
)


def write_skill(folder, name, about, more=""):
    folder.mkdir(parents=True)
    text = f"---\nname: {name}\ndescription: {about}\n{more}---\n{about}\n"
    (folder / "SKILL.md").write_text(text)


@pytest.fixture(scope="module")
def index_twice(module_home, memory_server, index_on, tmp_path_factory):
    """Index roots in memory and on disk, once for all tests that only ask."""

    def make(*roots, with_body=True):
        remote, _ = index_on(memory_server(), *roots, with_body=with_body)
        options = {"model": "hashing", "with_body": with_body}
        index_dir = tmp_path_factory.mktemp("local")
        return remote, SkillIndex.from_roots(roots, index_dir=index_dir, **options)

    return make


@pytest.fixture(scope="module")
def shared(index_twice, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    for name, about in (("tea", "Steep tea."), ("Übung", "Практика."), ("작업 목록", "할 일.")):
        write_skill(folder / name, name, about)
    return index_twice(folder)


@pytest.fixture(scope="module")
def cooks(index_twice, kitchen):
    """Index the kitchen with bodies and without, by whether they are there."""
    return {with_body: index_twice(kitchen, with_body=with_body) for with_body in (True, False)}


@pytest.fixture(scope="module")
def crowded(index_twice, kitchen, tmp_path_factory):
    """Index the kitchen with a name that it has twice, and a café with names that it has too."""
    home, cafe = tmp_path_factory.mktemp("home") / "kitchen", tmp_path_factory.mktemp("x") / "cafe"
    shutil.copytree(kitchen, home)
    for name in ("one", "two"):
        write_skill(home / name, "twice", f"Do it {name}.")
    write_skill(cafe / "brew-coffee", "brew-coffee", "Brew espresso.", "version: '1.4'\n")
    write_skill(cafe / "me@home", "me@home", "Work from home.")
    return index_twice(home, cafe)


def outcome(call, *args, **options):
    """Return what a call gives, or the kind and the text of its error."""
    try:
        return call(*args, **options)
    except SkillSearchError as exc:
        return type(exc), str(exc)


def facts(result):
    """Return what a search tells, but for the time that it took."""
    hits = [
        (hit.doc_id, pytest.approx(hit.score, abs=1e-6), hit.chunk, hit.duplicates, hit.path)
        for hit in (*result, *result.perhaps)
    ]
    return result.query, result.threshold, result.state, hits


@pytest.mark.parametrize("with_body", [True, False])
@pytest.mark.parametrize("system", ["hybrid", "bm25", "dense", "rrf"])
def test_every_system_gives_the_same_hits(cooks, with_body, system):
    remote, local = cooks[with_body]
    for query in QUERIES:
        for threshold in (None, 0.0):
            options = {"system": system, "threshold": threshold, "explain": system == "hybrid"}
            ours, theirs = (index.search(query, **options) for index in (remote, local))
            assert facts(ours) == facts(theirs)


def test_a_hit_is_explained_alike(cooks):
    remote, local = cooks[True]
    (ours, *_), (theirs, *_) = (
        index.search("knead the sourdough", explain=True, threshold=0.0)
        for index in (remote, local)
    )
    assert ours.explain.matched_terms == theirs.explain.matched_terms
    assert ours.explain.section == theirs.explain.section
    assert ours.explain.features == pytest.approx(theirs.explain.features, abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"n": 1},
        {"n": 2, "exclude": ["kitchen:steep-tea"]},
        {"exclude": ["kitchen:brew-coffee", "nowhere:at-all"], "threshold": 0.0},
        {"n": 3, "threshold": 0.0, "include_hidden": False, "exclude": ["kitchen:fry-eggs"]},
    ],
)
def test_what_is_left_out_is_left_out_alike(cooks, options):
    remote, local = cooks[True]
    for query in QUERIES:
        ours, theirs = (index.search(query, **options) for index in (remote, local))
        assert facts(ours) == facts(theirs)


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {}),
        ("x" * 70_000, {}),
        ("tea", {"n": 0}),
        ("tea", {"n": 10**9}),
        ("tea", {"threshold": 1.5}),
        ("tea", {"system": "magic"}),
    ],
)
def test_what_cannot_be_searched_is_refused_in_the_same_words(cooks, query, options):
    remote, local = cooks[True]
    remote._server.requested.clear()
    refusal = outcome(remote.search, query, **options)
    assert refusal == outcome(local.search, query, **options)
    assert isinstance(refusal, tuple)
    assert remote._server.requested == []


@pytest.mark.parametrize(
    "name",
    [
        "brew-coffee", "BREW coffee", "brew_coffee", "kitchen:brew-coffee", "cafe:brew-coffee",
        "cafe:BREW COFFEE", "brew-coffee@1.4", "brew-coffee@>=1.2", "brew-coffee@<1",
        "brew-coffee@>=9", "brew-coffee@nonsense", "cafe:brew-coffee@1.4", "twice", "kitchen:twice",
        "nowhere:brew-coffee", "me@home", "me@home@2", "kitchen:", ":", "@",
    ],
)  # fmt: skip
def test_a_name_means_the_same_skill_or_the_same_error(crowded, name):
    remote, local = crowded
    ours, theirs = outcome(remote.find, name), outcome(local.find, name)
    if isinstance(theirs, tuple):
        assert ours[0] == theirs[0]
        assert ours[1].split(" Did you mean")[0] == theirs[1].split(" Did you mean")[0]
    else:
        assert (ours.doc_id, ours.description) == (theirs.doc_id, theirs.description)


def test_hostile_names_are_values_and_no_conditions(index_twice, tmp_path):
    for number, name in enumerate(HOSTILE):
        write_skill(tmp_path / "odd" / f"skill-{number}", f"'{name}'", f"Number {number}.")
    remote, local = index_twice(tmp_path / "odd")
    assert len(remote) == len(local) == len(HOSTILE)
    for number, name in enumerate(HOSTILE):
        assert remote.find(name).doc_id == local.find(name).doc_id == f"odd:skill-{number}"
        assert remote.get(name).description == f"Number {number}."
        assert facts(remote.search(name, threshold=0.0)) == facts(local.search(name, threshold=0.0))
    for name in ('nobody" or "" == "', "'] or true or key in ['"):
        assert outcome(remote.find, name)[0] == outcome(local.find, name)[0]


def test_hostile_ids_delete_nothing_but_what_they_name(index_in, root):
    remote, _ = index_in(root)
    assert remote.delete(['x"] or key != "', "kitchen:*", "", "kitchen:brew-coffee\0"]) == 0
    assert remote.delete(["kitchen:brew-coffee"] * 3) == 1
    assert len(remote) == 4


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=40), st.sampled_from(["hybrid", "bm25", "dense", "rrf"]))
def test_any_query_is_answered_or_refused_alike(shared, query, system):
    remote, local = shared
    options = {"threshold": 0.0, "system": system}
    ours, theirs = (outcome(index.search, query, **options) for index in (remote, local))
    assert ours == theirs if isinstance(theirs, tuple) else facts(ours) == facts(theirs)


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30))
def test_any_name_is_looked_up_without_a_failure(shared, name):
    remote, local = shared
    ours, theirs = outcome(remote.find, name), outcome(local.find, name)
    assert type(ours) is type(theirs)
    if isinstance(theirs, tuple):
        assert ours[0] == theirs[0]
