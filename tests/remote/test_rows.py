"""Tests of what is put into the fields of Milvus, and read from them."""

import zlib
from base64 import b64encode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import CacheError
from skillsearch.remote.row_writer import Histograms, TermTallies
from skillsearch.remote.rows import (
    MAX_PIECES,
    MAX_TOKENS,
    PIECE_CHARS,
    CountedTerms,
    counts_of,
    key_of,
    name_key,
    pack,
    token,
    unpack,
)
from skillsearch.text.tokenizer import term_hash


@given(st.binary(max_size=300))
def test_packed_bytes_come_back(data):
    assert unpack(pack(data)) == data


def test_the_largest_skill_fits_a_field():
    data = np.random.default_rng(1).bytes(1 << 20)
    pieces = pack(data)
    assert unpack(pieces) == data
    assert len(pieces) < MAX_PIECES
    assert max(map(len, pieces)) <= PIECE_CHARS < 65_535


@pytest.mark.parametrize(
    "pieces",
    [
        ["äö"],
        ["AAA"],
        [b64encode(b"nothing compressed").decode()],
        [b64encode(zlib.compress(b"cut off" * 99)[:-9]).decode()],
        [b64encode(zlib.compress(bytes(17 << 20))).decode()],
        [1, 2],
    ],
)
def test_what_was_not_packed_is_refused(pieces):
    with pytest.raises(CacheError):
        unpack(pieces)


@given(st.lists(st.sampled_from("abcdefgh")), st.lists(st.sampled_from("efghijkl")))
def test_counted_terms_come_back(metadata, body):
    counted = CountedTerms.of(metadata, metadata + body)
    again = counts_of({"counts": pack(counted.to_bytes())})
    assert again.lengths == (len(metadata), len(metadata) + len(body))
    for term in "abcdefghijkl":
        columns = np.flatnonzero(again.hashes == term_hash(term))
        frequencies = tuple(again.frequencies[:, columns].sum(axis=1))
        assert frequencies == (metadata.count(term), (metadata + body).count(term))


def test_a_text_for_milvus_has_a_token_for_each_occurrence():
    counted = CountedTerms.of(["c++", "c++", "작업"], [])
    tokens = counted.text("metadata").split()
    assert sorted(tokens) == sorted([token(term_hash(term)) for term in ("c++", "c++", "작업")])
    assert all(word.isalnum() and word.isascii() and len(word) == 8 for word in tokens)
    assert counted.text("full") == ""


def test_a_text_that_is_too_long_loses_repeats_first():
    terms = [f"term{number}" for number in range(5_000)]
    counted = CountedTerms.of([], terms + ["often"] * 40_000)
    tokens = counted.text("full").split()
    assert len(tokens) <= MAX_TOKENS
    assert len(" ".join(tokens)) <= 65_535
    assert set(tokens) == {token(term_hash(term)) for term in [*terms, "often"]}
    assert tokens.count(token(term_hash("often"))) > 1_000


def test_ids_are_short_whatever_they_are_made_of():
    """Ids of documents may be long, and hold what UTF-8 cannot."""
    assert len(key_of("kitchen:" + "x" * 9_000)) == 32
    assert key_of("a:\udce9") != key_of("a:\udcea")


@given(st.text(max_size=20))
def test_the_key_of_a_name_is_a_signed_number(name):
    assert -(1 << 63) <= name_key(name) < 1 << 63
    assert name_key(name.upper()) == name_key(name.upper())


def test_tallies_add_up_what_comes_and_goes():
    tallies = TermTallies(compact_at=3)
    for metadata, full, sign in ((["a"], ["a", "b"], 1), (["a"], ["a", "c"], 1), ([], ["b"], -1)):
        tallies.add(CountedTerms.of(metadata, full), sign)
    hashes, changes = tallies.total()
    tallied = dict(zip(hashes.tolist(), changes.tolist(), strict=True))
    assert tallied == {term_hash("a"): [2, 2], term_hash("b"): [0, 0], term_hash("c"): [0, 1]}


def test_histograms_follow_changes_and_come_back():
    histograms = Histograms()
    histograms.change(np.array([[0, 0], [0, 0]]), np.array([[1, 2], [0, 2]]))
    histograms.change(np.array([[1, 2]]), np.array([[0, 3]]))
    again = Histograms.from_row(histograms.to_row(3))
    assert again.average_idf("metadata", 9) == 0.0
    mean = (np.log(9 - 3 + 0.5) - np.log(3.5) + np.log(9 - 2 + 0.5) - np.log(2.5)) / 2
    assert again.average_idf("full", 9) == pytest.approx(mean, abs=1e-15)


def test_a_document_cannot_go_that_never_came():
    """The numbers would be wrong from then on."""
    with pytest.raises(CacheError, match="fewer documents"):
        Histograms().change(np.array([[0, 0]]), np.array([[-1, 0]]))


@pytest.mark.parametrize("data", [b"", b"[]", b'{"metadata": [[1]]}', b'{"metadata": 3}'])
def test_damaged_histograms_are_told(data):
    with pytest.raises(CacheError):
        Histograms.from_row({"note": pack(data)})
