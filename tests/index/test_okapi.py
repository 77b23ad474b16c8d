"""BM25Okapi's statistics over counted terms."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from skillsearch.index.okapi import EPSILON, K1, NO_MEAN, B, impacts, inverse_document_frequencies

CORPORA = st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8), min_size=3)


def test_the_parameters_are_the_defaults_of_rank_bm25():
    """Whoever compares with BM25Okapi need not set anything."""
    okapi = BM25Okapi([["a"], ["b"]])
    assert (okapi.k1, okapi.b, okapi.epsilon) == (K1, B, EPSILON)


@given(CORPORA)
def test_weights_are_those_of_bm25okapi(corpus):
    """Term by term, its floor for frequent terms included."""
    okapi = BM25Okapi(corpus)
    assume(okapi.average_idf > NO_MEAN)
    names = list(okapi.idf)
    frequencies = np.array([sum(term in text for text in corpus) for term in names])
    weights = inverse_document_frequencies(frequencies, len(corpus))
    assert weights.tolist() == pytest.approx([okapi.idf[name] for name in names], rel=1e-12)


def test_weights_by_hand():
    """One of four documents: log(3.5 / 1.5); all four: a quarter of the mean."""
    rare, frequent = math.log(3.5 / 1.5), math.log(0.5 / 4.5)
    found = inverse_document_frequencies(np.array([1, 1, 1, 1, 1, 4]), 4)
    mean = (5 * rare + frequent) / 6
    assert found.tolist() == pytest.approx([rare] * 5 + [0.25 * mean])


@pytest.mark.parametrize(
    ("frequencies", "documents"), [([1], 1), ([1, 2], 2), ([1, 1], 2), ([3, 3, 1], 3)]
)
def test_where_bm25okapi_has_no_positive_mean_every_term_weighs_one(frequencies, documents):
    """It would score every match zero or below."""
    weights = inverse_document_frequencies(np.array(frequencies), documents)
    assert weights.tolist() == [1.0] * len(frequencies)


def test_no_terms_have_no_weights():
    """An empty corpus divides by nothing."""
    assert inverse_document_frequencies(np.zeros(0, np.int64), 0).tolist() == []


WEIGHTS = st.just(0.0) | st.floats(0.001, 20)
"""As idf are: none is so small that float32 knows it only as 0."""


@given(st.lists(st.tuples(st.integers(1, 65535), WEIGHTS, st.floats(0.01, 50)), max_size=20))
def test_impacts_are_the_formula_and_stay_below_its_limit(rows):
    """The weight by tf * (k1 + 1) / (tf + k1 * (1 - b + b * length)), below (k1 + 1) times it."""
    frequencies = np.array([row[0] for row in rows], np.uint16)
    idf, lengths = (np.array([row[i] for row in rows], np.float64) for i in (1, 2))
    found = impacts(frequencies, idf, lengths)
    expected = [w * tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * size)) for tf, w, size in rows]
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-30)
    assert (found <= 2.5 * idf * (1 + 1e-6)).all()


@given(CORPORA)
def test_impacts_add_up_to_the_scores_of_bm25okapi(corpus):
    """For a query of one term, the impact is the score."""
    okapi = BM25Okapi(corpus)
    assume(okapi.average_idf > NO_MEAN)
    frequencies = [Counter(text)["a"] for text in corpus]
    lengths = np.array([len(text) for text in corpus]) / okapi.avgdl
    idf = np.full(len(corpus), okapi.idf.get("a", 0.0))
    found = impacts(np.array(frequencies, np.uint16), idf, lengths)
    np.testing.assert_allclose(found, okapi.get_scores(["a"]), rtol=1e-5, atol=1e-7)
