"""Generations of an index in Milvus: their heads, who may write them, what is left over."""

import json
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import CacheError, ConfigError, LockTimeoutError, RemoteError
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.dense.query_embedder import ModelSettings
from skillsearch.remote import generations
from skillsearch.remote.generations import FieldTotals, Head, WriteClaim, are_compatible
from skillsearch.remote.rows import CLAIM, HEAD, RemoteGeneration, note_row, pack, unpack

MODEL = ModelSettings("hashing", "identity", "abc", 512)
SETTINGS = IndexSettings((), MODEL, True, (1, 1))
TOTALS = {"metadata": FieldTotals(12, 0.5), "full": FieldTotals(30, -0.25)}
COUNTED = Head(3, 1, SETTINGS, 7, 2, 1, TOTALS)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("skills_g000001_terms", 1),
        ("skills_g000001", None),
        ("skills_g1_terms", None),
        ("others_g000001_terms", None),
        ("skills_g000001_terms_terms", None),
    ],
)
def test_collections_of_an_index_are_known_by_their_names(name, number):
    generation = RemoteGeneration.of(name, "skills")
    assert (generation.number if generation else None) == number
    if generation:
        assert generation.terms == name
        assert generation.documents == name.removesuffix("_terms")


@given(
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 40),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
)
def test_a_head_comes_back_as_it_was(version, count, idf):
    totals = {"metadata": FieldTotals(count, idf[0]), "full": FieldTotals(0, idf[1])}
    head = Head(version, count, SETTINGS, count, 0, count, totals)
    assert Head.from_row(head.to_row()) == head


def test_statistics_are_of_what_searches_find():
    """Shadowed documents have no share in the mean length."""
    field = COUNTED.statistics("metadata")
    assert (field.documents, field.mean_length, field.average_idf) == (5, 12 / 5, 0.5)
    assert COUNTED.condition == "since <= 3 and until > 3"
    empty = replace(COUNTED, documents=0, shadowed=0, totals={"full": FieldTotals(0, 0.0)})
    assert empty.statistics("full").mean_length == 0


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"settings": None},
        {"documents": "many"},
        {"totals": {"metadata": {"length": 1, "average_idf": 0.0}}},
        {"skipped": None},
    ],
)
def test_a_head_of_another_form_is_refused(change):
    row = COUNTED.to_row()
    record = json.loads(unpack(row["note"])) | change
    with pytest.raises(CacheError):
        Head.from_row({**row, "note": pack(json.dumps(record).encode())})


@pytest.mark.parametrize("note", [[], ["%%%"], pack(b"[]"), pack(b"{"), pack(b"[" * 9_999), None])
def test_a_damaged_head_is_none(memory, note):
    """It cannot be read, so that a reader is told and a writer replaces it."""
    generation = RemoteGeneration("skills", 1)
    memory.create(generation.terms, None, None)
    assert generations.read_head(memory, generation.terms) is None
    memory.upsert(generation.terms, [{**COUNTED.to_row(), "note": note}])
    assert generations.read_head(memory, generation.terms) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"roots": ("other",), "pending": ("other",)}, True),
        ({"with_body": False}, False),
        ({"analysis": (1, 2)}, False),
        ({"model": replace(MODEL, fingerprint="other")}, False),
        ({"model": replace(MODEL, dimensions=256)}, False),
        ({"model": replace(MODEL, spec="elsewhere", identity="x")}, True),
    ],
)
def test_rows_are_shared_by_settings_that_make_the_same_rows(changes, expected):
    """Roots and the names of models do not matter."""
    assert are_compatible(SETTINGS, replace(SETTINGS, **changes)) is expected


def test_an_interrupted_generation_is_gone_on_with_and_another_one_dropped(memory):
    first = generations.prepare_next(memory, "skills", 0, SETTINGS)
    assert generations.prepare_next(memory, "skills", 0, SETTINGS) == first
    memory.create("skills_g000007", None, None)
    memory.create("skillset_g000001_terms", None, None)
    other = generations.prepare_next(memory, "skills", 0, replace(SETTINGS, with_body=False))
    assert other[0] == first[0]
    assert other[1].settings.with_body is False
    names = {"skills_g000001", "skills_g000001_terms", "skillset_g000001_terms"}
    assert set(memory.tables) == names
    generations.drop_before(memory, "skills", 2)
    assert set(memory.tables) == {"skillset_g000001_terms"}


def test_an_interrupted_generation_that_is_being_written_is_not_dropped(memory):
    generation, _ = generations.prepare_next(memory, "skills", 0, SETTINGS)
    other = replace(SETTINGS, with_body=False)
    with WriteClaim(memory, generation), pytest.raises(LockTimeoutError):
        generations.prepare_next(memory, "skills", 0, other)
    assert generations.prepare_next(memory, "skills", 0, other)[1].settings == other


def test_only_an_alias_of_ours_is_an_index(memory):
    assert generations.find_current(memory, "skills") is None
    memory.create("theirs", None, None)
    memory.point("skills", "theirs", is_new=True)
    for name in ("theirs", "skills"):
        with pytest.raises(ConfigError, match=f"'{name}' at http://memory does not belong"):
            generations.find_current(memory, name)


def test_of_two_claims_at_most_one_is_held(memory):
    generation, _ = generations.prepare_next(memory, "skills", 0, SETTINGS)
    with WriteClaim(memory, generation) as claim:
        with pytest.raises(LockTimeoutError, match="Another process is writing to skills_g000001"):
            WriteClaim(memory, generation).__enter__()
        claim.check()
        claim.renew()
        assert len(memory.query(generation.terms, f"kind == {CLAIM}", [], 9)) == 1
    assert memory.query(generation.terms, f"kind == {CLAIM}", [], 9) == []


def test_a_claim_of_the_past_is_removed_and_one_of_the_future_is_not(memory):
    """Clocks of writers may differ, so a claim from ahead counts as fresh."""
    generation, _ = generations.prepare_next(memory, "skills", 0, SETTINGS)
    old = int(time.time()) - generations.EXPIRES_S - 5
    memory.upsert(generation.terms, [note_row("claim-old", CLAIM, old)])
    with WriteClaim(memory, generation):
        assert "claim-old" not in memory.tables[generation.terms]
    memory.upsert(generation.terms, [note_row("claim-new", CLAIM, old + 900)])
    with pytest.raises(LockTimeoutError):
        WriteClaim(memory, generation).__enter__()
    assert {HEAD, "claim-new"} == memory.tables[generation.terms].keys()


def test_a_claim_that_another_process_took_over_is_lost(memory):
    generation, _ = generations.prepare_next(memory, "skills", 0, SETTINGS)
    with WriteClaim(memory, generation) as claim:
        rows = memory.query(generation.terms, f"kind == {CLAIM}", [], 9)
        memory.delete(generation.terms, [row["id"] for row in rows])
        with pytest.raises(LockTimeoutError, match="silent for too long"):
            claim.check()


def test_a_claim_that_cannot_be_given_up_is_left_to_expire(memory):
    """The error of a server that went away does not hide what happened before."""
    generation, _ = generations.prepare_next(memory, "skills", 0, SETTINGS)

    def refuse(*_args):
        raise RemoteError("gone")

    with pytest.raises(ValueError, match="the first"), WriteClaim(memory, generation):  # noqa: PT012
        memory.delete = refuse
        raise ValueError("the first")
