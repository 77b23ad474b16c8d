"""Families of near-copies follow from the documents alone, whatever the order of events."""

import hashlib
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillsearch.index.dense.vectors import DenseFields, DenseIndex
from skillsearch.index.documents import families
from skillsearch.index.documents.document import SKETCH_SIZE, Document, field_texts
from skillsearch.index.documents.families import Likeness, group, overlaps, regroup
from skillsearch.index.documents.relatives import copies, family_of
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.index.storage.family_table import FamilyTable
from skillsearch.types.answers import Relative
from skillsearch.types.skills import Skill, SkillMetadata

LONG = "A body that is long enough to tell skills apart. " * 8
OTHER = "Cut the film at each scene, and join what is left with short fades. " * 8
NOTHING = np.zeros(0, np.int64)


def document(number, name="", body="", sketch="", language="en", root="a", about="", outline=""):
    """Return a document; its description is all its own if none is given."""
    digest = hashlib.sha256(body.encode()).hexdigest()[:32] if body else ""
    return Document(
        f"{root}:{number:04}", name or f"n{number}", about or f"Does {number}.", "", root, "",
        body_hash=digest, hidden=False, language=language, sketch=sketch,
        outline=outline,
    )  # fmt: skip


def likeness(documents, rows, limits=(0.9, 0.7)):
    dense = DenseIndex((DenseFields((np.asarray(rows, np.float32),)),))
    return Likeness(DocumentStore.build(documents), dense, limits, ["a", "b"])


@pytest.fixture
def compared(monkeypatch):
    """Return a list that takes how many pairs were compared by their sketches, call by call."""
    pairs, compare = [], Likeness._are_copies

    def counted(self, some, *rest):
        pairs.append(len(some))
        return compare(self, some, *rest)

    monkeypatch.setattr(Likeness, "_are_copies", counted)
    return pairs


def around(middle, cosine, seed):
    other = np.random.default_rng(seed).standard_normal(len(middle))
    other -= (other @ middle) * middle
    return cosine * middle + np.sqrt(1 - cosine**2) * other / np.linalg.norm(other)


def expected(like, order):
    leaders = {}
    for number in order:
        leading = [leader for leader, lead in leaders.items() if lead == leader]
        levels = [level_of(like, number, leader) for leader in leading]
        best = max(levels, default=0)
        leaders[number] = leading[levels.index(best)] if best else number
    return list(leaders.values())


def level_of(like, first, second):
    """Return 2 for copies, 1 for clones in two roots, else 0."""
    store = like.documents
    vectors = like.dense.vectors_of(np.array([first, second])).astype(np.float64)
    cosine, has_all = vectors[0] @ vectors[1], share(store, first, second, 4, SKETCH_SIZE) >= 0.9
    is_maybe, is_apart = cosine >= like.limits[1], store[first].alias != store[second].alias
    is_close = cosine >= like.limits[0] or (is_maybe and has_all)
    equal = store[first].description == store[second].description
    same = is_close or equal
    named = store.names[first] == store.names[second]
    bodies = store.bodies[first], store.bodies[second]
    is_one_body = bodies[0] == bodies[1] > 0
    if equal and not any(bodies) and (named or is_apart):
        return 2
    if (same or named) and (share(store, first, second, 4) >= 0.5 or is_one_body):
        return 2
    is_clone = share(store, first, second, 4) >= 0.8 or is_one_body
    return int(is_apart and (is_maybe or equal or named) and is_clone)


def share(store, first, second, least, begin=0):
    """Compare two sketches as sets; 0 if the smaller shows too few."""
    sketches = [
        set(store.sketches[number, begin : begin + SKETCH_SIZE].tolist()) - {0}
        for number in (first, second)
    ]
    ends = [max(sketch) for sketch in sketches if len(sketch) == SKETCH_SIZE]
    shown = [{hash_ for hash_ in sketch if not ends or hash_ <= min(ends)} for sketch in sketches]
    smaller = min(map(len, shown))
    return len(shown[0] & shown[1]) / smaller if smaller >= least else 0


@st.composite
def corpora(draw, most=24):
    """Draw documents in a few clouds of vectors, of few names and bodies."""
    size = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    middles = np.linalg.qr(rng.standard_normal((16, 4)))[0].T
    clouds, names, bodies, abouts = (rng.integers(0, limit, size) for limit in (4, 6, 5, 12))
    cosines = rng.choice([0.75, 0.85, 0.9, 0.94, 0.99], size)
    rows = [around(middles[c], k, s) for s, (c, k) in enumerate(zip(clouds, cosines, strict=True))]
    sketches = [rng.integers(1, 30, 30).astype("<u4") for _ in range(3)]
    documents = [
        document(
            number,
            f"name-{names[number]}" if names[number] < 3 else "",
            f"body {bodies[number]}" if bodies[number] < 2 else "",
            np.unique(sketches[number % 3])[:SKETCH_SIZE].tobytes().hex(),
            "en",
            "a" if number < size // 2 else "b",
            f"Do {abouts[number]}." if abouts[number] < 3 else "",
            np.unique(sketches[(number + abouts[number]) % 3][:18])[:SKETCH_SIZE].tobytes().hex(),
        )
        for number in range(size)
    ]
    return likeness(documents, rows), rng.permutation(size).astype(np.int64)


@given(corpora(40), st.sampled_from([7, families._BLOCK]))
def test_each_document_joins_the_first_leader_that_it_is_a_near_copy_of(corpus, block):
    like, order = corpus
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families, "_BLOCK", block)
        assert group(like, order).tolist() == expected(like, order)


@settings(max_examples=60)
@given(corpora(), st.data())
def test_an_update_gives_the_families_of_a_new_index(corpus, data):
    like, order = corpus
    numbers_before = data.draw(st.lists(st.sampled_from(order.tolist()), unique=True))
    before_order = np.array([number for number in order if number in numbers_before], np.int64)
    before = np.full(like.documents.size, -1)
    before[before_order] = group(like, before_order)
    now = np.array([number for number in order if data.draw(st.booleans())], np.int64)
    gone = np.setdiff1d(before_order, now)
    before[np.isin(before, before[gone])] = -1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families, "_REGROUPED_SHARE", 1)
        assert regroup(like, now, before).tolist() == group(like, now).tolist()


def test_what_a_cosine_right_at_the_limit_says_does_not_depend_on_the_matrix():
    rng = np.random.default_rng(3)
    middle = rng.standard_normal(384)
    middle /= np.linalg.norm(middle)
    rows = [middle, *(around(middle, 0.9, seed) for seed in range(1, 300))]
    rows = [rows[0], *rng.permutation(rows[1:])]
    like = likeness([document(number, body="a body") for number in range(300)], rows)
    order = np.arange(300)
    whole = group(like, order)
    alone = [group(like, np.array([0, number]))[1] for number in range(1, 300)]
    assert [lead == 0 for lead in whole[1:]] == [lead == 0 for lead in alone]
    near, levels = like.near(0, order)
    assert 0 < len(near) < 299
    assert set(levels.tolist()) == {families.COPY}
    assert near.tolist() == np.flatnonzero(whole == 0)[1:].tolist()


def test_a_member_is_near_its_leader_and_chains_do_not_form():
    turn = np.arccos(0.95)
    rows = [[np.cos(turn * n), np.sin(turn * n)] for n in range(6)]
    like = likeness([document(n, body="a body") for n in range(6)], rows)
    assert group(like, np.arange(6)).tolist() == [0, 0, 2, 2, 4, 4]


def test_near_copies_among_many_are_found_if_they_share_a_cell(monkeypatch):
    """Of vectors in no clouds at all, which is the worst case, nearly all that are close."""
    rng = np.random.default_rng(5)
    originals = rng.standard_normal((800, 64))
    originals /= np.linalg.norm(originals, axis=1)[:, None]
    close = [around(row, 0.95 if n % 2 else 0.99, n) for n, row in enumerate(originals)]
    like = likeness([document(n, body="one") for n in range(1_600)], [*originals, *close])
    order = np.arange(1_600)
    exact = group(like, order)
    assert (exact[800:] == order[:800]).all()
    monkeypatch.setattr(families, "EXACT", 400)
    monkeypatch.setattr(families, "_CELL_SIZE", 400)
    by_cells = group(like, order)
    assert (by_cells == exact)[800::2].mean() > 0.99
    assert (by_cells == exact)[801::2].mean() > 0.95
    assert (by_cells[by_cells] == by_cells).all()


def test_many_documents_without_vectors_are_compared_by_name_and_description(monkeypatch):
    """As those of an index of words; each joins the first of all that it is a copy of."""
    monkeypatch.setattr(families, "EXACT", 100)
    same = {number: "It is said with equal words." for number in (5, 598)}
    documents = [document(n, body="a body", about=same.get(n, "")) for n in range(599)]
    documents.append(document(599, name="n7", body="a body"))
    like = Likeness(DocumentStore.build(documents), DenseIndex(()), (1.0, 1.0), ["s"])
    progress = []
    leaders = group(like, np.arange(600), lambda *step: progress.append(step))
    assert np.flatnonzero(leaders != np.arange(600)).tolist() == [598, 599]
    assert progress[0] == ("compare", 0, 600)
    assert progress == sorted(progress)
    assert leaders[[598, 599]].tolist() == [5, 7]


def test_a_few_new_ones_among_many_are_compared_with_their_neighbours(monkeypatch):
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((600, 64))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    rows[-3] = around(rows[7], 0.95, 1)
    same = {number: "It is said with equal words." for number in (5, 598)}
    documents = [document(n, body="a body", about=same.get(n, "")) for n in range(600)]
    like = likeness(documents, rows)
    before = np.append(np.arange(597), [-1, -1, -1])
    monkeypatch.setattr(families, "EXACT", 100)
    progress = []
    leaders = regroup(like, np.arange(600), before, lambda *step: progress.append(step))
    assert leaders[-3:].tolist() == [7, 5, 599]
    assert progress == [("compare", at, 600) for at in (597, 598, 599)]


@pytest.mark.parametrize(
    ("hashes", "other_hashes", "share"),
    [
        (range(1, 9), range(1, 9), 1.0),
        (range(1, 9), range(5, 13), 0.5),
        (range(1, 5), range(1, 17), 1.0),  # all of the small one is in the large one
        (range(1, 17), range(1, 33, 2), 1.0),  # up to 16 both show all, the odd ones
        (range(1, 17), (1, 2, 3, 4, 41, 42, 43, 44), 1.0),
        (range(1, 13), (1, 2, 3, 4, 41, 42, 43, 44), 0.5),  # nothing was cut off
        (range(20, 36), range(1, 17), 0.0),  # full, and the second ends before the first begins
    ],
)
def test_sketches_tell_how_much_of_the_smaller_body_the_larger_one_has(hashes, other_hashes, share):
    sketches = np.zeros((2, SKETCH_SIZE), np.uint32)
    for row, sketch in zip(sketches, (hashes, other_hashes), strict=True):
        row[: len(sketch)] = list(sketch)
    shared, smaller = overlaps(sketches, sketches[::-1])
    assert shared[0] == shared[1] == share * smaller[0]
    assert smaller[0] == smaller[1]


def test_a_padded_body_has_all_of_the_body():
    words = [f"w{n}" for n in range(400)]
    body, padding = " ".join(words), " ".join(f"x{n}" for n in range(400))
    sketches = []
    for text in (body, f"{body} {padding}", padding):
        skill = Skill("a:b", SkillMetadata("pdf", "Fill in."), text, Path("f"), Path("r"), "")
        sketch = field_texts(skill).document.sketch
        sketches.append(np.frombuffer(bytes.fromhex(sketch), "<u4"))
        assert (np.diff(sketches[-1].astype(np.int64)) > 0).all()
    padded, other = (np.stack([sketches[0], sketches[number]]) for number in (1, 2))
    shared, smaller = overlaps(padded[:1], padded[1:])
    assert 4 <= shared[0] == smaller[0]
    assert overlaps(other[:1], other[1:])[0] == [0]


@pytest.fixture
def corpus_of(tmp_path, add_skill, build):
    def corpus_of(*skills, **options):
        for number, (name, description, body) in enumerate(skills):
            add_skill(tmp_path / "skills" / f"folder-{number}", name, description, body)
        return build(tmp_path / "skills", **options).opened.corpus

    return corpus_of


FORMS = ("pdf", "Fill in PDF forms and flatten them", LONG)


@pytest.mark.parametrize(
    ("other", "is_copy"),
    [
        (FORMS, True),
        (("PDF", FORMS[1], LONG + "x"), True),
        (("filler", FORMS[1], LONG), True),
        (("PDF", "Trim video clips with care", LONG + "More. " * 40), True),
        (("pdf", "Trim video clips with care", OTHER), False),
        (("filler", "Trim video clips with care", LONG), False),  # boilerplate
        (("filler", FORMS[1], OTHER), False),  # the description of one, the body of another
        (("filler", FORMS[1], ""), False),
        (("tea", "Make tea", ""), False),
    ],
)
def test_metadata_and_body_make_a_copy_or_a_name_and_most_of_a_body(corpus_of, other, is_copy):
    store = corpus_of(FORMS, other).documents
    assert store.families.members.tolist() == ([1] if is_copy else [])
    same_name = other[0].casefold() == "pdf"
    for number in (0, 1):
        assert copies(store, [number]) == ({0, 1} if is_copy or same_name else {number})


@pytest.mark.parametrize("bridge", [("a", *FORMS[1:2], "OTHER"), ("a", "Trim video clips", LONG)])
@pytest.mark.parametrize("first", [True, False])
def test_a_bridge_joins_no_two_skills(corpus_of, bridge, first):
    name, about, body = bridge
    skills = [FORMS, ("video", "Trim video clips", OTHER)]
    skills.insert(0 if first else 2, (name, about, OTHER if body == "OTHER" else body))
    assert len(corpus_of(*skills).documents.families) == 0


def test_bodies_that_say_next_to_nothing_need_equal_names_and_descriptions(corpus_of):
    store = corpus_of(
        ("pdf-to-word", "Convert PDF files to Word documents", "Soon."),
        ("word-to-pdf", "Convert Word documents to PDF files", "Soon."),
        ("to-word", "Convert PDF files to Word documents", "Later."),
        ("PDF-to-Word", "Convert PDF files to Word documents", "Later."),
    ).documents
    assert (store.families.members.tolist(), store.families.leaders.tolist()) == ([3], [0])


def test_the_first_root_leads_whatever_its_name(tmp_path, add_skill, build):
    mine, theirs = tmp_path / "z-mine", tmp_path / "a-theirs"
    add_skill(mine / "b", "pdf", FORMS[1], LONG)
    add_skill(mine / "a", "pdf-2", FORMS[1], LONG)
    add_skill(theirs / "a", "pdf-3", FORMS[1], LONG)
    store = build(mine, theirs).opened.corpus.documents
    assert [store[n].doc_id for n in range(3)] == ["a-theirs:a", "z-mine:a", "z-mine:b"]
    table = store.families
    assert (table.members.tolist(), table.leaders.tolist()) == ([0, 2], [1, 1])
    assert table.peers.tolist() == [False, True]


def test_a_family_is_shown_by_its_size_roots_and_members(corpus_of):
    store = corpus_of(
        FORMS, ("pdf", FORMS[1], LONG + "x"), ("forms", FORMS[1], LONG), ("tea", "Make tea", "")
    ).documents
    family = family_of(store, 0, NOTHING, {2: 0})
    assert (family.size, family.roots, str(family)) == (2, 1, "2 near-copies")
    paths = [store[number].path for number in (2, 1)]
    assert family.members == (
        Relative("forms", paths[0], store[0].root, ("name",), store[2].doc_id),
        Relative("pdf", paths[1], store[0].root, ("body",), store[1].doc_id),
    )
    assert family_of(store, 1, np.array([0, 2])) is None
    assert family_of(store, 3, NOTHING) is None


def test_a_table_answers_for_leaders_members_and_others():
    table = FamilyTable(np.array([2, 5, 7]), np.array([4, 1, 4]), np.array([True, False, False]))
    assert table.leaders_of(np.array([7, 0, 5, 2])).tolist() == [4, 0, 1, 4]
    assert table.are_leading(np.array([4, 5, 1, 0])).tolist() == [True, False, True, False]
    assert [part.tolist() for part in table.followers(4)] == [[2, 7], [True, False]]
    assert table.relatives(7).tolist() == [2, 4]
    assert table.relatives(0).tolist() == []
    assert table.is_consistent(8)
    assert not table.is_consistent(7)


@pytest.mark.parametrize("model", ["hashing", "onnx"])
def test_clones_with_words_exchanged_are_copies_in_a_later_root(model, tmp_path, make_skill, build):
    """In the root of the original they are other skills, as of one template."""
    about = "Fills in PDF forms, such as tax forms, and checks each field against the instructions."
    steps = " ".join(
        f"Step {n}: read field {n * 7 % 41} and write it to row {n}." for n in range(60)
    )
    rng = np.random.default_rng(0)

    def exchanged(text):
        parts = text.split()
        for at in rng.choice(len(parts), 3, replace=False):
            parts[at] = str(rng.choice(["harbour", "violin", "granite", "saddle", "lantern"]))
        return " ".join(parts)

    make_skill(tmp_path / "mine", "pdf-forms", about, body=steps)
    make_skill(tmp_path / "theirs", "scene-cut", "Cuts films.", body=exchanged(steps))
    for number in range(8):
        clone = f"pdf-{number}", exchanged(about)
        make_skill(tmp_path / "theirs", *clone, body=exchanged(steps))
    index = build(tmp_path / "mine", tmp_path / "theirs", model=model)
    (family,) = index.families()
    assert [skill.name for skill in family] == ["pdf-forms", *(f"pdf-{n}" for n in range(8))]
    shutil.copytree(tmp_path / "theirs", tmp_path / "mine" / "theirs")
    together = build(tmp_path / "mine", index_dir="together", model=model)
    assert all(
        "pdf-forms" not in [skill.name for skill in family] for family in together.families()
    )


def test_a_copy_among_many_is_of_its_original_whatever_cell_it_shares_with_a_sibling(monkeypatch):
    for name, value in (("EXACT", 1), ("_CELL_SIZE", 2), ("_CELLS_OF_ONE", 2)):
        monkeypatch.setattr(families, name, value)
    sibling, original = np.eye(8)[:2]
    copied = around(sibling, 0.8, 1), around(original, 0.8, 2)
    documents = [
        *(document(number, f"n{number}", "a body") for number in range(2)),
        document(2, "n1", "a body", root="b"),
        document(3, "n3", "another body", root="b"),
    ]
    like, order = likeness(documents, [sibling, original, *copied]), np.arange(4)
    assert group(like, order).tolist() == [0, 1, 1, 3]
    assert regroup(like, order, np.array([0, 1, -1, 3])).tolist() == [0, 1, 1, 3]


def test_a_copy_in_a_later_root_is_of_its_original_not_of_a_sibling(tmp_path, make_skill, build):
    """Skills of one template are no copies, and each has its own."""
    for root in ("mine", "theirs"):
        for city in ("Bergen", "Cadiz", "Dublin"):
            about = f"Books a seat on the city bus of {city} by its web page and sends the ticket."
            make_skill(tmp_path / root, f"bus-{city.lower()}", about, body=LONG)
    index = build(tmp_path / "mine", tmp_path / "theirs")
    members = [[f"{skill.alias}:{skill.name}" for skill in family] for family in index.families()]
    assert sorted(members) == [
        [f"mine:bus-{city}", f"theirs:bus-{city}"] for city in ("bergen", "cadiz", "dublin")
    ]


@pytest.mark.parametrize("model", ["hashing", "onnx"])
def test_a_copy_that_says_more_is_of_the_family_with_each_packaged_model(
    model, tmp_path, make_skill, build
):
    """Sentences that a request may hold push it away from the original, not out of the family."""
    about = "Fills in PDF forms, such as tax forms. Use when the user wants to fill in a form."
    more = f"{about} Trigger on fill in a form, fill out a PDF, form filling, AcroForm."
    make_skill(tmp_path / "s", "pdf-forms", about, body=LONG)
    make_skill(tmp_path / "s", "pdf-pro", more, body=LONG)
    make_skill(tmp_path / "s", "scene-cut", about, body=OTHER)
    index = build(tmp_path / "s", model=model)
    assert [[skill.name for skill in family] for family in index.families()] == [
        ["pdf-forms", "pdf-pro"]
    ]


def test_many_documents_of_one_name_are_hardly_compared_unless_bodies_are_alike(compared):
    """Of all pairs, whose sketches took 2 µs each; the leaders are the same."""
    rng = np.random.default_rng(4)
    sketches = rng.integers(1, 2**32, (700, SKETCH_SIZE), np.uint32)
    sketches[500:] = sketches[:200]
    texts = [np.sort(row).astype("<u4").tobytes().hex() for row in sketches]
    documents = [document(n, "same", f"body {n}", text) for n, text in enumerate(texts)]
    like = Likeness(DocumentStore.build(documents), DenseIndex(()), (1.0, 1.0), ["a"])
    leaders = group(like, np.arange(700))
    assert leaders.tolist() == [*range(500), *range(200)]
    assert sum(compared) < 5_000


def test_many_documents_of_one_name_without_bodies_are_not_compared(compared):
    documents = [document(n, "same", about=f"Does {n % 500}.") for n in range(700)]
    like = Likeness(DocumentStore.build(documents), DenseIndex(()), (1.0, 1.0), ["a"])
    assert group(like, np.arange(700)).tolist() == [*range(500), *range(200)]
    assert sum(compared) < 5_000


def test_the_memory_for_the_cells_grows_with_the_documents_alone(monkeypatch):
    """A view of the nearest middles kept the ranks of all: 24 GB for a million documents."""
    monkeypatch.setattr(families, "_CELL_SIZE", 3)  # so that each document is a middle
    count, dimensions = 6_000, 4
    rows = np.random.default_rng(1).standard_normal((count, dimensions))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    like = likeness([document(number) for number in range(count)], rows)
    of_all_ranks = count * count * np.dtype(np.int64).itemsize
    tracemalloc.start()
    try:
        families._cells(like, np.arange(count))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < of_all_ranks / 2
