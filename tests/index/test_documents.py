"""What an index keeps of each skill."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import CacheError
from skillsearch.index.documents import Document, DocumentStore, name_hash

DOCUMENT = Document(
    doc_id="team:pdf/forms",
    name="PDF Forms",
    description="Fill in forms: 数据 é \ud800 \0",
    path="/skills/pdf/forms/SKILL.md",
    root="/skills",
    content_hash="ab" * 32,
    body_hash="",
    hidden=False,
    keys=(("cd" * 16, ""),),
    trust=0.75,
)
DOCUMENTS = [
    DOCUMENT,
    replace(DOCUMENT, doc_id="team:pdf_forms", name="pdf_forms", hidden=True, trust=0.0),
    replace(
        DOCUMENT,
        doc_id="user:tea",
        name="tea",
        trust=1.0,
        version="1.10",
        requires=("pot", "water@>=2"),
        chunks=(("brew", "How to brew", "ef" * 16), ("serve", "", "01" * 16)),
    ),
]


def test_documents_come_back_as_they_were(tmp_path):
    """Saved and loaded, one by one and all together, odd characters included."""
    store = DocumentStore.build(DOCUMENTS)
    store.save(tmp_path)
    for form in (store, DocumentStore.load(tmp_path)):
        assert list(form) == DOCUMENTS
        assert [form[2], form[0]] == [DOCUMENTS[2], DOCUMENTS[0]]
        assert form.trust.tolist() == [0.75, 0.0, 1.0]
        assert form.hidden.tolist() == [False, True, False]
        assert len(form) == 3


@pytest.mark.parametrize(
    ("skills", "expected"),
    [
        ([], 0.0),
        ([("en", 1.0), ("", 1.0)], 0.0),
        ([("en", 0.5), ("en", 0.49)], 0.5),
        ([("es", 1.0), ("zh", 0.2), ("en", 1.0), ("", 0.9)], 0.5),
    ],
)
def test_the_share_of_skills_in_other_languages(skills, expected):
    """By language where it can be told, else by the letters that the first channel reads."""
    documents = [
        replace(DOCUMENT, doc_id=f"a:{n}", language=language, trust=trust)
        for n, (language, trust) in enumerate(skills)
    ]
    assert DocumentStore.build(documents).other_share == expected


def test_a_store_may_be_empty(tmp_path):
    """It holds no document, and finds none by name."""
    DocumentStore.build([]).save(tmp_path)
    store = DocumentStore.load(tmp_path)
    assert (list(store), store.named("tea")) == ([], [])
    assert store.number_of("a:tea") is None


@pytest.mark.parametrize("number", [-1, 3, 10**9])
def test_a_number_out_of_range_is_an_index_error(number):
    """Negative ones too: they would only hide a mistake."""
    with pytest.raises(IndexError):
        DocumentStore.build(DOCUMENTS)[number]


def test_the_alias_is_the_first_half_of_the_id():
    """Up to the first colon."""
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
    """All that have the name, in order."""
    assert DocumentStore.build(DOCUMENTS).named(name) == expected


IDS = st.text(alphabet="ab:-/é\ud800\0", max_size=3)


@given(st.lists(IDS, unique=True, max_size=12), IDS)
def test_a_document_is_found_by_its_id(ids, other):
    """As by looking at every one; an id that none has is found nowhere."""
    ids = sorted(ids)
    store = DocumentStore.build([replace(DOCUMENT, doc_id=doc_id) for doc_id in ids])
    assert [store.number_of(doc_id) for doc_id in ids] == list(range(len(ids)))
    assert store.number_of(other) == (ids.index(other) if other in ids else None)


@given(st.text(alphabet="abÉßç- _", max_size=12))
def test_equal_names_have_equal_hashes(name):
    """Case, hyphens and blanks make no difference."""
    assert name_hash(name) == name_hash(name.replace("-", " ").replace(" ", "_").casefold())
    assert name_hash(name) == name_hash(f" {name} ")


def test_a_hostile_name_is_hashed_in_time():
    """64 KiB of unsorted combining marks would take seconds to normalise."""
    assert name_hash("a" + "\u0301" * 16_000 + "\u0327" * 16_000) != name_hash("a")


ARRAYS = ["records", "starts", "trust", "hidden", "names"]


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("damage", ["missing", "torn", "empty", "dtype", "ndim", "length"])
def test_an_array_that_does_not_fit_is_a_cache_error(tmp_path, name, damage):
    """Whichever it is and whatever is wrong with it."""
    DocumentStore.build(DOCUMENTS).save(tmp_path)
    path = tmp_path / f"documents-{name}.npy"
    array = np.load(path)
    if damage == "missing":
        path.unlink()
    elif damage in ("torn", "empty"):
        path.write_bytes(path.read_bytes()[: -3 if damage == "torn" else 0])
    elif damage == "dtype":
        np.save(path, array.astype(np.float64))
    elif damage == "ndim":
        np.save(path, array[np.newaxis])
    else:
        np.save(path, array[:-1])
    with pytest.raises(CacheError):
        list(DocumentStore.load(tmp_path))


@pytest.mark.parametrize("starts", [[0], [], [3, 2, 1, 0]])
def test_starts_that_do_not_fit_are_a_cache_error(tmp_path, starts):
    """A store of no length, or records that end before they begin."""
    DocumentStore.build(DOCUMENTS).save(tmp_path)
    np.save(tmp_path / "documents-starts.npy", np.array(starts, np.int64))
    with pytest.raises(CacheError):
        list(DocumentStore.load(tmp_path))


@pytest.mark.parametrize("record", [b"not json", b"[1, 2]", b"{}", b"3", b"\xff"])
def test_a_record_of_another_form_is_a_cache_error(record):
    """Found when it is read."""
    store = DocumentStore.build(DOCUMENTS[:1])
    starts = np.array([0, len(record)], np.int64)
    damaged = DocumentStore(
        np.frombuffer(record, np.uint8),
        starts,
        trust=store.trust,
        fluency=store.fluency,
        hidden=store.hidden,
        names=store.names,
    )
    with pytest.raises(CacheError, match="document 0"):
        damaged[0]
