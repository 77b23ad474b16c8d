"""BM25Okapi's statistics over counted terms."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from skillsearch.index.lexical.postings import (
    EPSILON,
    K1,
    NO_MEAN,
    B,
    average_idf,
    idf,
    length_norms,
    saturation,
)

CORPORA = st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8), min_size=3)


def test_the_parameters_are_the_defaults_of_rank_bm25():
    theirs = BM25Okapi([["a"], ["b"]])
    assert (theirs.k1, theirs.b, theirs.epsilon) == (K1, B, EPSILON)


@given(CORPORA)
def test_the_mean_and_the_weights_are_those_of_bm25okapi(corpus):
    theirs = BM25Okapi(corpus)
    assume(theirs.average_idf > NO_MEAN)
    counts = Counter(term for text in corpus for term in set(text))
    mean = average_idf(np.array(list(counts.values())), len(corpus))
    assert mean == pytest.approx(theirs.average_idf, rel=1e-12)
    for term, count in counts.items():
        assert idf(count, len(corpus), mean) == pytest.approx(theirs.idf[term], rel=1e-12)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=50), st.randoms())
def test_the_mean_of_many_terms_is_that_of_bm25okapi(frequencies, random):
    """The mean of its weights, bit for bit the same in any order of the terms."""
    counts = np.array(frequencies, np.float64)
    mean = np.mean(np.log(500 - counts + 0.5) - np.log(counts + 0.5))
    own = average_idf(np.array(frequencies), 500)
    assert own == pytest.approx(float(mean), rel=1e-12, abs=1e-15)
    random.shuffle(frequencies)
    assert average_idf(np.array(frequencies), 500) == own


@pytest.mark.parametrize(
    ("frequencies", "documents"), [([1], 1), ([1, 2], 2), ([1, 1], 2), ([3, 3, 1], 3)]
)
def test_where_bm25okapi_has_no_positive_mean_every_term_weighs_one(frequencies, documents):
    mean = average_idf(np.array(frequencies), documents)
    assert [idf(count, documents, mean) for count in frequencies] == [1.0] * len(frequencies)


def test_no_terms_have_no_mean():
    assert average_idf(np.zeros(0, np.int64), 0) == 0


@given(
    st.lists(st.tuples(st.integers(1, 65535), st.integers(0, 10**6)), max_size=20),
    st.floats(0.5, 5000),
)
def test_saturations_are_the_formula_and_stay_below_its_limit(rows, mean_length):
    """Tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean)), below k1 + 1."""
    frequencies = np.array([row[0] for row in rows], np.uint16)
    lengths = np.array([row[1] for row in rows], np.int32)
    saturations = saturation(frequencies, length_norms(lengths, mean_length))
    expected = [tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * size / mean_length)) for tf, size in rows]
    assert saturations.dtype == np.float32
    assert saturations.tolist() == pytest.approx(expected, rel=1e-6)
    assert (saturations <= 2.5 * (1 + 1e-6)).all()
