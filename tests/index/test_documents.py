"""The fields that an index keeps of each skill."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import CacheError
from skillsearch.index.documents.document import SKETCH_SIZE, Document, name_hash
from skillsearch.index.storage import document_store
from skillsearch.index.storage.document_store import (
    Column,
    DocumentSegment,
    DocumentStore,
    DocumentWriter,
)

DOCUMENT = Document(
    doc_id="team:pdf/forms",
    name="PDF Forms",
    description="Fill in forms: 数据 é \ud800 \0",
    path="/skills/pdf/forms/SKILL.md",
    root="/skills",
    content_hash="ab" * 32,
    body_hash="",
    hidden=False,
    key="cd" * 16,
    hubness=0.75,
)
DOCUMENTS = [
    DOCUMENT,
    replace(DOCUMENT, doc_id="team:pdf_forms", name="pdf_forms", hidden=True, hubness=0.0),
    replace(
        DOCUMENT,
        doc_id="user:tea",
        name="tea",
        hubness=1.0,
        version="1.10",
        requires=("pot", "water@>=2"),
        chunks=(("brew", "How to brew", "ef" * 16), ("serve", "", "01" * 16)),
    ),
]


def load(folder):
    return DocumentStore([DocumentSegment.load(folder)])


def test_documents_come_back_as_they_were(tmp_path):
    store = DocumentStore.build(DOCUMENTS)
    store.segments[0].save(tmp_path)
    for form in (store, load(tmp_path)):
        assert list(form) == DOCUMENTS
        assert [form[2], form[0]] == [DOCUMENTS[2], DOCUMENTS[0]]
        assert form.hubness.tolist() == [0.75, 0.0, 1.0]
        assert form.hidden.tolist() == [False, True, False]
        assert (len(form), form.size) == (3, 3)
        assert form.living.tolist() == [0, 1, 2]


def test_documents_written_one_by_one_are_those_saved_at_once(tmp_path, files_of):
    for folder, documents in (("none", []), ("three", DOCUMENTS)):
        once, single = tmp_path / folder / "once", tmp_path / folder / "single"
        once.mkdir(parents=True)
        single.mkdir()
        DocumentSegment.build(documents).save(once)
        writer = DocumentWriter(single)
        for document in documents:
            writer.add(document)
        writer.finish()
        assert files_of(single) == files_of(once)


def test_one_line_adds_a_column(tmp_path, monkeypatch, add_skill, build, files_of):
    column = Column(np.uint16, lambda document: (len(document.name), len(document.tags)), width=2)
    column.__set_name__(DocumentStore, "lengths")
    monkeypatch.setattr(DocumentStore, "lengths", column, raising=False)
    monkeypatch.setitem(document_store.COLUMNS, "lengths", column)
    root = tmp_path / "skills"
    for name in ("tea", "coffee", "milk"):
        add_skill(root / name, name, f"Make {name}.")
    build(root)
    add_skill(root / "milk", "whole-milk", "Boil milk.")
    updated = build(root).opened
    anew = build(root, index_dir="new").opened
    assert updated.corpus.documents.lengths.tolist() == [[6, 0], [10, 0], [3, 0]]
    assert files_of(updated.folder) == files_of(anew.folder)
    np.save(updated.folder / "documents-lengths.npy", np.zeros(3, np.uint16))
    with pytest.raises(CacheError):
        load(updated.folder)


@pytest.mark.parametrize("number", [-1, 3, 10**9])
def test_a_number_out_of_range_is_an_index_error(number):
    """Negative ones too: they would only hide a mistake."""
    with pytest.raises(IndexError):
        DocumentStore.build(DOCUMENTS)[number]


def test_the_alias_is_the_first_half_of_the_id():
    assert DOCUMENT.alias == "team"
    assert replace(DOCUMENT, doc_id="a/b:c:d").alias == "a/b"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pdf-forms", [0, 1]),
        ("PDF_Forms", [0, 1]),
        ("  pdf   forms ", [0, 1]),
        ("\uff30\uff24\uff26 forms", [0, 1]),
        ("TEA", [2]),
        ("pdfforms", []),
        ("", []),
    ],
)
def test_names_are_found_in_any_spelling_of_case_and_separators(name, expected):
    assert DocumentStore.build(DOCUMENTS).named(name) == expected


IDS = st.text(alphabet="ab:-/é\ud800\0", max_size=3)


@given(st.lists(IDS, unique=True, max_size=12), IDS)
def test_a_document_is_found_by_its_id(ids, other):
    ids = sorted(ids)
    store = DocumentStore.build([replace(DOCUMENT, doc_id=doc_id) for doc_id in ids])
    assert [store.number_of(doc_id) for doc_id in ids] == list(range(len(ids)))
    assert store.number_of(other) == (ids.index(other) if other in ids else None)


def test_a_hostile_name_is_hashed_in_time():
    """64 KiB of unsorted combining marks would take seconds to normalise."""
    assert name_hash("a" + "\u0301" * 16_000 + "\u0327" * 16_000) != name_hash("a")


ARRAYS = list(DocumentSegment.forms())


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((ARRAYS[0], damage) for damage in ("torn", "empty")),
        *((name, damage) for name in ARRAYS for damage in ("missing", "dtype", "ndim", "length")),
        *(("starts", starts) for starts in ([0], [], [3, 2, 1, 0])),
    ],
)
def test_an_array_that_does_not_fit_is_a_cache_error(tmp_path, name, damage):
    DocumentSegment.build(DOCUMENTS).save(tmp_path)
    path = tmp_path / f"documents-{name}.npy"
    array = np.load(path)
    if damage == "missing":
        path.unlink()
    elif damage in ("torn", "empty"):
        path.write_bytes(path.read_bytes()[: -3 if damage == "torn" else 0])
    elif damage == "dtype":
        np.save(path, array.astype(np.complex128))
    elif damage == "ndim":
        np.save(path, array[np.newaxis])
    else:
        np.save(path, array[:-1] if damage == "length" else np.array(damage, np.int64))
    with pytest.raises(CacheError):
        list(load(tmp_path))


@pytest.mark.parametrize("record", [b"not json", b"[1, 2]", b"{}", b"3", b"\xff"])
def test_a_record_of_another_form_is_a_cache_error(record):
    segment = DocumentSegment.build(DOCUMENTS[:1])
    records, starts = np.frombuffer(record, np.uint8), np.array([0, len(record)], np.int64)
    damaged = DocumentStore([replace(segment, records=records, starts=starts)])
    with pytest.raises(CacheError, match="document 0"):
        damaged[0]


def test_columns_tell_documents_of_one_text_or_one_body():
    digests = ("f" * 32, "f" * 32, "", "0" * 15 + "1" * 17)
    large, small = (
        [replace(DOCUMENT, doc_id=doc_id, body_hash=digests[body]) for doc_id, body in pairs]
        for pairs in ((("a", 0), ("b", 1), ("c", 2)), (("bb", 0), ("d", 3)))
    )
    small[0] = replace(small[0], description="Another.", sketch="01000000" + "ff000000")
    segments = [DocumentSegment.build(large), DocumentSegment.build(small)]
    store = DocumentStore(segments, np.array([0]), np.array([2, 3]))
    assert store.bodies.tolist() == [2**64 - 1, 2**64 - 1, 0, 2**64 - 1, 1]
    assert len(set(store.abouts.tolist())) == 2
    assert store.abouts[3] != store.abouts[4] == store.abouts[0]
    assert store.sketches[3].tolist() == [1, 255] + [0] * (2 * SKETCH_SIZE - 2)
    assert not store.sketches[0].any()


@given(st.sets(IDS, max_size=8), st.sets(IDS, max_size=5), st.sets(st.integers(0, 7), max_size=5))
def test_two_segments_are_one_corpus_in_order_of_ids(first, second, gone):
    large = [
        replace(DOCUMENT, doc_id=doc_id, name=f"n {doc_id}", hubness=0.5)
        for doc_id in sorted(first)
    ]
    gone = sorted({number for number in gone if number < len(large)})
    gone += [n for n, document in enumerate(large) if document.doc_id in second and n not in gone]
    small = [
        replace(DOCUMENT, doc_id=doc_id, name=f"n {doc_id}", hubness=1.0)
        for doc_id in sorted(second)
    ]
    segments = [DocumentSegment.build(large), DocumentSegment.build(small)]
    positions = np.array([segments[0].position_of(document.doc_id) for document in small], np.int64)
    store = DocumentStore(segments, np.array(sorted(gone), np.int64), positions)
    expected = [document for n, document in enumerate(large) if n not in gone] + small
    expected.sort(key=lambda document: document.doc_id)
    assert list(store) == expected
    assert len(store) == len(expected)
    numbers = [store.number_of(document.doc_id) for document in expected]
    assert numbers == store.living.tolist()
    assert all(
        store.number_of(large[n].doc_id) is None
        for n in gone
        if large[n] not in expected and large[n].doc_id not in second
    )
    keys = store.in_order(np.array(numbers, np.int64))
    assert (np.diff(keys) > 0).all()
    for document, number in zip(expected, numbers, strict=True):
        assert number in store.named(document.name)
        assert store.hubness[number] == np.float32(document.hubness)
