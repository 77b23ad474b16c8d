"""What a selection leaves: nothing else is found or listed, and what is left ranks as before."""

import random
from fnmatch import fnmatchcase

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillsearch.errors import SelectionError
from skillsearch.index.documents import selecting
from skillsearch.index.documents.document import Document
from skillsearch.index.documents.shadowing import find_shadowed
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.document_store import DocumentSegment, DocumentStore
from skillsearch.library.skill_library import SkillLibrary

WORDS = "pdf form field video clip cut key secret rotate tea kettle steep query table plan".split()
QUERIES = ("fill the pdf form", "rotate the secret key", "steep tea", "plan", "cut", "pdf-form-1")
TAGS = ("Web", "data science", "home", "büro")
LONG = "A body that is long enough to tell it from others. " * 8


def describe(number):
    return " ".join(random.Random(number).sample(WORDS, 6))


@pytest.fixture(scope="module")
def distinct(tmp_path_factory, add_skill):
    """Index 30 skills that neither shadow nor copy each other, in three roots."""
    folder = tmp_path_factory.mktemp("distinct")
    roots = [folder / name for name in ("work", "home", "old")]
    for number in range(30):
        name = f"{WORDS[number % 15]}-{WORDS[number * 2 % 15]}-{number}"
        tags = ", ".join([TAGS[number % 4], TAGS[number % 3]][: number % 3])
        about = f"{describe(number)}. Number {number}."
        path = roots[number % 3] / f"g{number % 2}/{name}"
        add_skill(path, name, about, f"# {number}", tags=f"[{tags}]")
    return SkillIndex.from_roots(roots, index_dir=folder / "index", model="hashing")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory, add_skill):
    """Index skills of which some shadow and some copy others, in three roots."""
    folder = tmp_path_factory.mktemp("crowded")
    roots = [folder / name for name in ("work", "home", "old")]
    for position, root in enumerate(roots):
        for number in range(6):
            name = WORDS[number] if number % 2 else f"{WORDS[number]}-{root.name}"
            about = describe(number if number < 4 else number + 9 * position)
            tags = ", ".join(TAGS[position : position + 2])
            add_skill(root / name, name, about, f"{LONG}{number}", tags=f"[{tags}]")
    return SkillIndex.from_roots(roots, index_dir=folder / "index", model="hashing")


patterns = st.sampled_from(
    ["*", "pdf*", "*-1?", "tea", "KEY*", "work:*", "Home:*e*", "old:g0/*", "[a-f]*", "none", "*_1?"]
)
tests = st.one_of(
    st.tuples(st.sampled_from(["include", "exclude"]), st.lists(patterns, min_size=1, max_size=3)),
    st.tuples(
        st.just("tags"), st.lists(st.sampled_from([*TAGS, "WEB", "data_science"]), min_size=1)
    ),
    st.tuples(st.just("in_roots"), st.lists(st.sampled_from(["work", "home"]), min_size=1)),
)
selections = st.lists(tests.map(lambda test: (test[0], tuple(test[1]))), max_size=3).map(tuple)


def is_selected(document, selection):
    def folded(text):
        return text.lower().replace("_", "-").replace(" ", "-")

    def fits(pattern):
        pattern = folded(pattern)
        names = [f"{document.alias}:{document.name}", document.doc_id]
        bare = [name.partition(":")[2] for name in names]
        return any(fnmatchcase(folded(n), pattern) for n in (names if ":" in pattern else bare))

    for condition, values in selection:
        tags = set(map(folded, document.tags))
        passed = {
            "include": any(map(fits, values)),
            "exclude": not any(map(fits, values)),
            "tags": not tags.isdisjoint(map(folded, values)),
            "in_roots": document.alias in values,
        }
        if not passed[condition]:
            return False
    return True


def chosen(index, selection):
    return [document.doc_id for document in index.documents() if is_selected(document, selection)]


@given(selections)
def test_a_selection_leaves_what_its_definition_says(distinct, selection):
    expected = chosen(distinct, selection)
    if expected:
        assert [document.doc_id for document in distinct.documents(selection)] == expected
    else:
        with pytest.raises(SelectionError, match="No skill is selected by"):
            distinct.documents(selection)


@given(selections, st.sampled_from(QUERIES), st.sampled_from(["hybrid", "bm25", "dense"]))
@example((("include", ("*-1?",)), ("include", ("work:*",))), "fill the pdf form", "hybrid")
@pytest.mark.slow
def test_what_is_left_ranks_as_it_does_among_all(distinct, selection, query, system):
    expected = chosen(distinct, selection)
    if not expected:
        return
    options = {"n": 100, "threshold": 0.0, "system": system, "reader": "off"}
    every = [hit for hit in distinct.search(query, **options) if hit.doc_id in expected]
    hits = distinct.search(query, **options, selection=selection)
    assert [hit.doc_id for hit in hits] == [hit.doc_id for hit in every]
    if system != "hybrid":
        # The last bit of a cosine follows from how many vectors are multiplied at once.
        expected_scores = pytest.approx([hit.score for hit in every], rel=1e-6)
        assert [hit.score for hit in hits] == expected_scores


@given(selections, st.sampled_from(QUERIES), st.booleans(), st.sampled_from([0.0, 0.9]))
@pytest.mark.slow
def test_what_is_left_out_shows_nowhere(crowded, selection, query, vetted_only, threshold):
    expected = set(chosen(crowded, selection))
    if not expected:
        return
    options = {"n": 50, "threshold": threshold, "selection": selection, "vetted_only": vetted_only}
    result = crowded.search(query, **options)
    paths = {document.path for document in crowded.documents() if document.doc_id in expected}
    library = SkillLibrary.of_index(crowded, selection)
    for hit in (*result.hits, *result.perhaps):
        members = hit.family.members if hit.family else ()
        assert {hit.path, *hit.duplicates, *(member.path for member in members)} <= paths
        assert crowded.find(hit.handle or hit.name).doc_id == hit.doc_id
        assert library.find(library.handle(hit)).doc_id == hit.doc_id
    listed = [skill.doc_id for skill in library.list(include_hidden=True)]
    hidden = {skill.document.doc_id for skill in library.shadowed()}
    assert {*listed, *hidden} == expected
    assert len(library) == len(expected)


@given(selections)
@pytest.mark.slow
def test_every_name_that_is_left_is_found(crowded, selection):
    expected = chosen(crowded, selection)
    if not expected:
        return
    store = selecting.selected(
        crowded.opened.corpus.documents, selection, crowded.opened.settings.roots
    )
    roots = crowded.opened.settings.roots
    shadowed = {skill.document.doc_id for skill in find_shadowed(store, roots)}
    for doc_id in set(expected) - shadowed:
        name = crowded.find(doc_id).name
        hits = crowded.search(name, 50, 0.0, selection=selection, reader="off")
        paths = {path for hit in hits for path in (hit.path, *hit.duplicates)}
        assert crowded.find(doc_id).path in paths


def test_a_skill_is_found_where_what_shadows_it_is_left_out(crowded):
    """Under a name that means it alone, while `find` without a selection takes the first root's."""
    assert crowded.find("form").doc_id == "work:form"
    before = crowded.search("form", 50, 0.0)
    assert "home:form" not in [hit.doc_id for hit in before]
    (hit,) = [
        hit
        for hit in crowded.search("form", 50, 0.0, selection=(("in_roots", ("home",)),))
        if hit.name == "form"
    ]
    assert (hit.doc_id, hit.handle) == ("home:form", "home:form")
    assert hit.to_dict()["handle"] == "home:form"
    assert all("handle" not in hit.to_dict() for hit in before)


def test_of_a_family_the_best_that_is_left_is_shown(crowded):
    first = crowded.search("pdf-work", 1, 0.0, reader="off")[0]
    assert (first.doc_id, first.family.size, first.family.roots) == ("work:pdf-work", 2, 3)
    rest = crowded.search("pdf-work", 1, 0.0, reader="off", selection=(("exclude", ("work:*",)),))
    assert rest[0].doc_id in ("home:pdf-home", "old:pdf-old")
    assert (rest[0].family.size, rest[0].family.roots) == (1, 2)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ((("in_roots", ("nope",)),), "There is no root 'nope'; there are: work, home, old."),
        ((("tags", ("nope",)),), "Tags there are: Web, büro, data science, home."),
        ((("tag", ("web",)),), "'tag' selects nothing; use one of include, exclude, tags, in_ro"),
        ((("include", ("x",)), ("exclude", ("y",))), "selected by include: x; exclude: y. Change"),
    ],
)
def test_a_selection_that_cannot_be_used_says_why(crowded, selection, message):
    with pytest.raises(SelectionError) as caught:
        crowded.search("tea", selection=selection)
    assert message in str(caught.value)


def test_roots_are_named_by_alias_or_path(crowded, monkeypatch):
    home = next(root.path for root in crowded.opened.settings.roots if root.alias == "home")
    monkeypatch.chdir(home.parent)
    for name in ("home", str(home), f"{home}/../home", "./home"):
        aliases = {document.alias for document in crowded.documents((("in_roots", (name,)),))}
        assert aliases == {"home"}


@pytest.mark.parametrize(
    "name", ["tea\u200b-timer", "TEA_timer", "tea timer", "\uff34\uff25\uff21-timer"]
)
def test_no_spelling_of_a_name_escapes_a_pattern(tmp_path, add_skill, build, name):
    add_skill(tmp_path / "r" / "x", f'"{name}"', "Steep tea.")
    add_skill(tmp_path / "r" / "y", "pdf", "Fill forms.")
    index = build(tmp_path / "r")
    assert [document.name for document in index.documents((("exclude", ("tea-*",)),))] == ["pdf"]


def test_a_selection_is_made_once_and_few_are_kept(crowded):
    store, roots = crowded.opened.corpus.documents, crowded.opened.settings.roots
    first = selecting.selected(store, (("exclude", ("tea",)),), roots)
    assert selecting.selected(store, [["exclude", ["tea"]]], roots) is first
    for number in range(30):
        selecting.selected(store, (("exclude", (str(number),)),), roots)
        assert len(store.selections) <= 8
    assert selecting.selected(store, (), roots) is store


def test_labels_are_read_through_both_segments():
    more = {"root": "/r", "content_hash": "", "body_hash": ""}
    more |= {"path": '/"]', "description": 'ü"]', "hidden": False}
    documents = [
        Document(doc_id=f"r:{n}", name=f'"n[{n}', tags=tags, **more)
        for n, tags in enumerate([(), ("a]", 'b"'), ("ü",), ("c",), ()])
    ]
    segments = [DocumentSegment.build(documents[:3]), DocumentSegment.build(documents[3:])]
    store = DocumentStore(segments, np.array([1]), np.array([3, 3]))
    labels = [
        (doc_id, name, tuple(tags)) for doc_id, name, tags, *_ in store.labels(np.array([0, 2, 4]))
    ]
    assert labels == [
        (documents[n].doc_id, documents[n].name, documents[n].tags) for n in (0, 2, 4)
    ]
    assert [store[number] for number in range(5)] == documents
    rest = selecting.selected(store, (("include", ("*[24]",)),), ())
    assert [document.doc_id for document in rest] == ["r:2", "r:4"]
